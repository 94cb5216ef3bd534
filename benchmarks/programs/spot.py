"""The place of a fault, where there is none: ``coverage.py`` puts a fault's own text where the programs import this."""

import torch


def bend(x, level):
    """A step of the computation; with a fault it is wrong, and only compiled, where ``level`` is 1."""
    return x + torch.sin(x + 6 * level)


def level(path):
    """The level of the module at a path, a buffer: 1 at the place of the fault, 0 elsewhere."""
    return torch.tensor(0.0)


def moment(**now):
    """What a module's level is multiplied with: 1 at the moment of the fault, 0 before and after it."""
    return torch.tensor(0.0)
