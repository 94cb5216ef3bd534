"""The referee: which differences between compiled and eager are faults, and all that it runs again to tell."""
