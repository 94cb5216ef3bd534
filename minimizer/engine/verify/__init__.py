"""Verification: runs the repro in clean processes, with this torch and with others."""
