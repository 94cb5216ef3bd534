"""The worker: takes jobs from the store, runs the engine on them, and writes down its findings.

Celery messages wake it, but it trusts only the database. ``python -m worker`` starts one process, which does one job at
a time; start as many as the machine can bear.
"""
