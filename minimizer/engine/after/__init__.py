"""What comes behind a repro or a verdict: verification, what is worth knowing beside it, other faults, the end."""
