"""The survey: runs of the whole script, compiled and eager, and what they show."""
