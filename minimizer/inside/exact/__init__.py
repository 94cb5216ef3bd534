"""Exact runs: records the state that a script can observe around its compiled calls, by a bounded walk over its
objects.
"""
