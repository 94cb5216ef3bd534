"""What Dynamo's metrics say of a run: graph breaks and recompiles, with the user's lines (see ``inside/watch/compilations.py``)."""

from __future__ import annotations

from pydantic import Field

from minimizer.engine.child.bounded import Count, Loose, Name, Seconds, Text


class StackLine(Loose):
    """A line of the user's own code on a stack, and the function that it is in."""

    file: Name
    line: Count
    code: Name = ""
    function: Name = ""


class Break(Loose):
    """A place at which Dynamo ended a graph; ``stack``: the user's lines from the function that is split down to it.

    ``is_whole``: Dynamo gave the function up as a whole. ``passes``: how often the place was passed, 0 if that is unknown.
    """

    reason: Text
    stack: list[StackLine] = Field(default_factory=list, max_length=50)
    function: Name = ""
    is_whole: bool = False
    passes: Count = 0


class Recompile(Loose):
    """A compilation of a function for which there was compiled code, or one that the recompile limit refused.

    ``line``: of its ``def``. ``frame`` is equal for all compilations of one function, or of a part of it behind a graph break. ``guard``: the one that failed; ``made_by``: the user's lines that made it.
    ``stack``: the user's lines from the script down to the function.
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
