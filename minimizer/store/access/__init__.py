"""Users and projects: who may come in, whose a job is, and who changed what."""
