"""The referee: decides which differences between compiled and eager are faults, and makes the reruns it needs for that."""
