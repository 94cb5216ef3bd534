"""The Dynamo backend ``minimizer``: checks graphs on their first calls in the user's own process, and saves failing
ones.
"""

from .backend import minimizer

__all__ = ["minimizer"]
