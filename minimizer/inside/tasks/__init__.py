"""The tasks of the child, each in a fork of its own: survey, trial, layers, plain runs and settings."""
