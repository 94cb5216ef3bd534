"""The worker: takes jobs from the store, runs the engine on them, and writes down what it finds.

It is woken by Celery messages but believes only the database. ``python -m worker`` starts one process, which is at one job at
a time; start as many as the machine bears.
"""
