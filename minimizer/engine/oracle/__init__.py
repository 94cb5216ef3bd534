"""The oracle: whether a candidate still fails in the same way, however often that takes."""
