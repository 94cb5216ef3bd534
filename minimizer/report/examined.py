"""What was looked at beside the failure: calls that were compared, routes and plain runs, health, other versions of torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from minimizer.report.excused import Excused
from minimizer.report.part import Part


class Largest(Part):
    """The largest difference in any value that was compared; ``None`` for what no number says."""

    module: str = ""
    op: str = Field(
        "", description="The operator whose result it is, by the graph's own notes: nothing was searched for."
    )
    absolute: float | None = None
    relative: float | None = None
    reason: str = Field("", description="Why it is legal, or that it is the fault.")
    right: Literal["", "eager", "compiled"] = Field(
        "",
        description="The side that agrees with float64 where the other does not; empty where both do, or neither, or nobody knows.",
    )

    @property
    def words(self) -> str:
        """The same in a sentence."""
        if not self.absolute:
            return "none: all values that were compared are equal to the bit"
        return f"{self.absolute:.3g}{self.place}; {self.reason}"

    @property
    def place(self) -> str:
        """Where it is, as the end of a sentence."""
        made_by = f" ({self.op})" if self.op else ""
        return f" in {'the output of ' if self.op else ''}{self.module}{made_by}" if self.module else made_by

    @property
    def who_is_right(self) -> str:
        """A sentence on the side that float64 supports; empty if neither."""
        if not self.right or not self.absolute:
            return ""
        sides = ("eager", "compiled code") if self.right == "eager" else ("compiled code", "eager")
        return f"The largest difference is {self.absolute:.3g}{self.place}: there {sides[0]} agrees with float64, and {sides[1]} does not."


class Between(Part):
    """Whether all that the script can see of itself was compared, by exact runs."""

    compared: bool = False
    looks: int = Field(0, description="Moments of the script at which both runs were looked at.")
    why_not: str = Field(
        "", description="Why the comparison decides nothing, or where it ended; empty if it was whole."
    )


class Checked(Part):
    """How much of what ran was compared."""

    frames: int = Field(0, description="Frames that Dynamo compiled a graph of.")
    graphs: int = 0
    calls: int = Field(0, description="Calls of graphs that were compared with eager.")
    planned: int = Field(
        0, description="Those that were to be: all, or as many of each module and size as `steps` says."
    )
    calls_made: int = Field(0, description="Calls of graphs until the script ended, or was stopped.")
    instances: int | None = Field(None, description="Module instances that graphs were called for.")
    backward: int = Field(0, description="Backward passes that were replayed and compared.")
    largest: Largest | None = None
    not_compared: list[str] = Field(default_factory=list, description="What was left out, and why.")
    between: Between = Field(default_factory=Between)
    excused: list[Excused] = Field(
        default_factory=list,
        description="Every rule by which something was not looked at, or was seen and not called a fault, with how often.",
    )


class Attempt(Part):
    """A way to a repro that was tried, or a plain run of the script."""

    what: str
    outcome: str
    seconds: float


class Observed(Part):
    """What a script sees at a moment, without the compiler and with it."""

    when: str
    line: int = Field(0, description="The line of the script that is being run; 0 if none is.")
    eager: str
    compiled: str


class Health(Part):
    graph_breaks: list[str] = Field(default_factory=list)
    recompiles: list[str] = Field(default_factory=list)
    frames: list[str] = Field(default_factory=list, description="Compile time by frame.")
    compile_seconds: float | None = Field(None, description="Null where nothing was compiled.")
    is_crowded: bool = Field(
        False, description="More processes than cores wanted to run meanwhile: the compile times are too long."
    )
    untimed: str = Field("", description="Why no call was timed, as the end of a sentence; empty if some were.")
    eager_seconds: float | None = None
    compiled_seconds: float | None = None


class Version(Part):
    """How the repro ends in another interpreter with another torch."""

    name: str
    torch: str = ""
    outcome: Literal["fails", "passes", "cannot_run"]
    note: str = ""
