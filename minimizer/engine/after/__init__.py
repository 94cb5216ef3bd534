"""The steps after a repro or a verdict: verification, diagnosis, further faults, the end of the job."""
