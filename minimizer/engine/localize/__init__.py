"""Localization: finds the region of the captured graph that is at fault, and the node in it."""
