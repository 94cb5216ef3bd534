"""Advice on a script that runs well, or on one with a verified repro: what it costs to compile it as it is, and remedies that were tried."""
