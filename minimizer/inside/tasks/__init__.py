"""The tasks of the child, each run in its own fork: survey, exact run, trial, operator check, table of layers, script rerun, settings."""
