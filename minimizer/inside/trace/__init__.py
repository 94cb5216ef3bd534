"""The program around compiled graphs: records the calls of torch that a script makes outside of them."""
