"""Verification: the repro in clean processes, under this torch and under others."""
