"""Dynamo's metrics of a run: graph breaks and recompiles, with the user's lines (see ``inside/watch/compilations.py``)."""

from __future__ import annotations

from pydantic import Field

from minimizer.engine.child.bounded import Count, Loose, Name, Seconds, Text


class StackLine(Loose):
    """A line of the user's own code on a stack, and the function around it."""

    file: Name
    line: Count
    code: Name = ""
    function: Name = ""


class Break(Loose):
    """A graph break; ``stack``: the user's lines from the split function down to it.

    ``is_whole``: Dynamo gave up the function as a whole. ``passes``: how often the place was executed, 0 if unknown.
    """

    reason: Text
    stack: list[StackLine] = Field(default_factory=list, max_length=50)
    function: Name = ""
    is_whole: bool = False
    passes: Count = 0


class Recompile(Loose):
    """A compilation of a function that already has compiled code, or one that the recompile limit refused.

    ``line``: of its ``def``. ``frame`` is equal for all compilations of one function, or of its continuation after a
    graph break. ``guard``: the one that failed; ``made_by``: the user's lines that created it. ``stack``: the user's
    lines from the script down to the function.
    """

    function: Name = ""
    file: Name = ""
    line: Count = 0
    frame: Name = ""
    guard: Text = ""
    made_by: list[StackLine] = Field(default_factory=list, max_length=50)
    stack: list[StackLine] = Field(default_factory=list, max_length=50)
    seconds: Seconds = 0.0
    refused: bool = False
