"""The compiler and the machine: switches for its parts, the processor, and which operators run."""
