"""Finds faults of Dynamo between graphs: on eager's kernels, a script must see the same with and without the compiler.

Lost side effects, stale guards, leaked modes, reordered containers, skipped hooks: no graph shows these, and since both
runs use the same kernels, no tolerance is involved.
"""
