"""The report: what a job answers, as data, and the forms in which people and programs read it."""
