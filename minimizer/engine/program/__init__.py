"""The graph as data: programs, the arguments of their nodes, their source text, and regions of them."""
