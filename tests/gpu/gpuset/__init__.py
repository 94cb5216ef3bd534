"""The harness of the GPU set: short failing and healthy scripts, what each must give, and one command that runs them all.

It imports the standard library only: it runs in the interpreter that has the torch for the card, where nothing is installed.
"""
