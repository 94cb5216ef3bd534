"""The dynamo backend ``minimizer``, in the user's own process: it checks graphs on their first calls, and saves those that fail."""

from .backend import minimizer

__all__ = ["minimizer"]
