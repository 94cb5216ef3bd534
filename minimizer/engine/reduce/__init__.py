"""Reduction: delta debugging of a graph (`graph`) or a script (`python`), with one accept point (`problem`)."""
