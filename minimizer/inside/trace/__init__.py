"""The program around compiled graphs: notes the calls of torch that a script makes outside of them."""
