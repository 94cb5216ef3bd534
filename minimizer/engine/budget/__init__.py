"""Time: what a job has used of its budget, how long things take in it, and how long each may."""
