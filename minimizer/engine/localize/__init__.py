"""Localization: which region of the captured graph is at fault, and which node of it."""
