"""The survey: runs of the whole script, compiled and eager, and the cases or verdicts that follow from them."""
