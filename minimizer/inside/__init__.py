"""The far side of the sandbox: the only place with torch.

It runs in the user's Python (3.10 or later, torch 2.11 or later), is loaded by path (`__main__.py`) and therefore imports
nothing but the standard library, torch and itself. Whatever it answers is untrusted data for everybody else.
"""
