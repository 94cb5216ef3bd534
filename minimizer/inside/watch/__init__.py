"""Observation of a running script: its compiled calls, exceptions and child processes, and how much of it was compared."""
