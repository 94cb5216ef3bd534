"""Reduction: delta debugging of a graph (`graph`) and of a script (`python`), with one accept point for both (`problem`)."""
