"""The code that runs inside the sandbox: the only package that imports torch.

It runs in the user's Python (3.10 or later, torch 2.11 or later), is loaded by path (`__main__.py`) and therefore imports
nothing but the standard library, torch and itself. All other packages treat its answers as untrusted data.
"""
