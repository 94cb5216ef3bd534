"""The Dynamo backend ``minimizer``: runs in the user's own process, checks graphs on their first calls, and saves those that fail."""

from .backend import minimizer

__all__ = ["minimizer"]
