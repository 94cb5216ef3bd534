"""The graph as data, without torch: programs, the arguments of their nodes, their source text, and their regions."""
