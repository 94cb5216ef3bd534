"""The levels of a search for a repro, one per type of candidate: a graph, a script's text, a script judged by exact
runs.
"""
