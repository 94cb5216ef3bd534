"""The compiler and the machine: switches for compiler parts, probes of the processor, operators that run, facts for a bug report."""
