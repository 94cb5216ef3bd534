"""The levels of a search for a repro, which differ in what a candidate is: a graph, the text of a script, or a script judged by exact runs."""
