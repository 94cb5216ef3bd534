"""The side of the workers: who they are, which job is whose, and what they say about it."""
