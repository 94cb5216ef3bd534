"""The engine: from a script that fails under ``torch.compile`` to a verified repro and its diagnosis, without torch.

`pipeline` is the whole story; each package is a step of it, or something that several steps share.
"""
