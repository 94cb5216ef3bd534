"""Faults of Dynamo between graphs: a script is run with the compiler and without, on eager's own kernels, and must see the same.

Side effects lost, stale guards, leaked modes, another order, hooks that do not run: no graph shows them, and no tolerance is in question.
"""
