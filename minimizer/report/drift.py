"""The losses of a script that trains: compiled, in eager, and in eager with every rounding redrawn, which is the floor of noise."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from minimizer.report.culprit import Source
from minimizer.report.part import Part

DriftVerdict = Literal["equal", "within", "chaos", "bias", "apart", "untold"]


class Parting(Part):
    """From which step on a figure of the compiled run is otherwise than in eager; null where it never is."""

    what: Literal["loss", "gradient norm", "parameter norm"]
    differs: int | None = Field(None, description="The first step at which it is not equal to the bit.")
    parts: int | None = Field(None, description="The first step at which it is 1 % away.")


class Drift(Part):
    """How the loss of a script that trains goes with the compiler and without; a step is a backward that the script calls."""

    verdict: DriftVerdict = Field(
        description="`equal`: to the bit. `within`: no further apart than roundings carry eager. `chaos`: roundings alone part the curves. "
        "`bias`: results of compiled code are off to one side. `apart`: further than roundings explain, and no reason is known. "
        "`untold`: nothing can be said."
    )
    what: str = Field(description="The same in a sentence or two.")
    steps: int = 0
    source: Source | None = Field(None, description="The line that calls the backward of the loss that is drawn.")
    partings: list[Parting] = Field(default_factory=list)
    at: list[int] = Field(
        default_factory=list, description="The steps of the curves below: at most 200, evenly spaced."
    )
    eager: list[float | None] = Field(default_factory=list)
    compiled: list[float | None] = Field(default_factory=list)
    redrawn: list[list[float | None]] = Field(
        default_factory=list, description="A curve for each run of eager whose roundings were redrawn."
    )
