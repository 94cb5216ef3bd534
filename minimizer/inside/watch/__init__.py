"""Observation of a running script: its compiled calls, exceptions and child processes, and what of it was compared."""
