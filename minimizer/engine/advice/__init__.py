"""Advice on a healthy script, or one with a verified repro: the costs of its compiled code, and tested remedies."""
