"""Exact runs: records the state a script can observe around its compiled calls, by a bounded walk over its objects."""
