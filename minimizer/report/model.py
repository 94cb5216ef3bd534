"""The report: what a job answers, as data (a public contract). ``report.json`` is this model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, PrivateAttr

from minimizer.report.generated_code import GeneratedCode
from minimizer.report.instances import Instances, compared, others, places
from minimizer.report.part import Part
from minimizer.vocabulary import Kind, Reason, Stage, Status


class Reproducibility(Part):
    failed: int
    runs: int


Mechanism = Literal[
    "lost_mutation", "stale_guard", "leaked_state", "wrong_order", "skipped_handler", "missed_hook", "late_read", "wrong_constant"
]  # fmt: skip
"""How a fault that no graph shows came about."""


Line = tuple[str, int, str]
"""File, number and text."""


class SourceLine(Part):
    file: str
    line: int
    code: str = ""


class Source(SourceLine):
    """A line of the user's own code; ``file`` is its path in the project."""

    library: SourceLine | None = Field(None, description="The line of a library that is at fault, called from there.")

    @classmethod
    def of(cls, line: Line | None, library: Line | None = None) -> Source | None:
        """A line of the user's, and the one of a library that it calls."""
        if line is None:
            return None
        called = SourceLine(file=library[0], line=library[1], code=library[2]) if library is not None else None
        return cls(file=line[0], line=line[1], code=line[2], library=called)

    @property
    def words(self) -> str:
        """The same for a reader, see `line_of`."""
        return line_of(self.model_dump())


class Failure(Part):
    kind: Kind
    stage: Stage = Stage.UNKNOWN
    exception_type: str | None = None
    message: str = ""
    traceback: str = Field(
        "",
        description="The stack of the failing run: the script's own frames, then the compiler's, down to the one that raised; of a crash "
        "or a hang the stacks of all threads. At most about 60 lines; `traceback.txt` has all where there are more.",
    )
    signature: str = ""
    mechanism: Mechanism | None = Field(None, description="How a fault between graphs came about.")
    object: str = Field("", description="What is otherwise with the compiler, where that lies between graphs.")
    source: Source | None = Field(None, description="The call after which that is seen.")
    layout_only: bool = Field(False, description="All values are equal, and only strides differ.")
    reproducibility: Reproducibility = Reproducibility(failed=1, runs=1)


class ScriptError(Part):
    """The exception that ends a script for which the compiler is not to blame, as where eager raises it too."""

    exception_type: str
    message: str = ""
    traceback: str = Field("", description="As `failure.traceback`.")
    source: Source | None = Field(None, description="The innermost line of the user's own code.")


class Error(Part):
    """How far compiled is from eager; ``None`` where no number says it (discrete values, metadata)."""

    max_abs: float | None = None
    max_rel: float | None = None
    compiled_vs_fp64: float | None = None
    eager_vs_fp64: float | None = None
    required_atol: float | None = None
    required_rtol: float | None = None
    mismatched: int | None = None
    elements: int | None = None


class Culprit(Part):
    module: str = ""
    module_class: str = Field("", description="Its class.")
    instances: Instances | None = Field(None, description="Equal modules; null where none is known.")
    nodes: list[str] = Field(default_factory=list)
    ops: list[str] = Field(default_factory=list, description="aten packet names, such as aten.relu")
    what: str = ""
    source: Source | None = None
    local_error: Error | None = None
    propagated_error: Error | None = None
    root: bool = True

    @property
    def operators(self) -> list[str]:
        """The operators at fault, see `operators_of`."""
        return operators_of(vars(self))

    @property
    def module_name(self) -> str:
        """The module for a reader, see `module_of`."""
        return module_of(self.model_dump())

    @property
    def others(self) -> str:
        """Equal modules, see `instances.others`."""
        return others(self.model_dump())

    @property
    def compared(self) -> str:
        """How that is known, see `instances.compared`; empty where nothing is."""
        return compared(self.model_dump()) if self.instances else ""


def module_of(culprit: Mapping[str, Any]) -> str:
    """The path of a culprit's module, with its class where the path ends with a number: ``1 (ReLU)``; empty outside of any.

    Of an entry for equal modules that is known by nothing else all of them.
    """
    if listed := places(culprit):
        return listed
    path, kind = str(culprit.get("module") or ""), str(culprit.get("module_class") or "")
    return f"{path} ({kind})" if kind and path.rpartition(".")[2].isdigit() else path


def line_of(source: Mapping[str, Any] | None) -> str:
    """A line for a reader, ``model.py:41``, with the one of a library that it calls; empty where none is known."""
    if not source:
        return ""
    library = source.get("library")
    file, _, rest = str(library["file"]).partition("/") if library else ("", "", "")
    short = f"{file}/…/{rest.rpartition('/')[2]}" if "/" in rest else f"{file}/{rest}".rstrip("/")
    return f"{source['file']}:{source['line']}" + (f" → {short}:{library['line']}" if library else "")


def operators_of(culprit: Mapping[str, Any]) -> list[str]:
    """The operators that a culprit is to be called by; none where ``what`` names it, and they only ran beside it.

    That is so where the script itself was reduced: no node of a graph is at fault there.
    """
    return list(culprit.get("ops") or ()) if culprit.get("nodes") or not culprit.get("what") else []


class NonFinite(Part):
    """The first element that is NaN or infinite, and on which side."""

    side: Literal["eager", "compiled", "both"]
    what: Literal["nan", "inf"]
    index: list[int] = Field(default_factory=list)


LayerVerdict = Literal["good", "bad", "propagated", "unknown"]


class Layer(Part):
    """A module where it runs. Errors are absolute, those against float64 relative in the norm; ``None`` is unknown.

    *Local*: compiled alone, on eager's own inputs. *Propagated*: in the graph compiled as a whole. ``bad`` is a root: wrong on
    eager's inputs; ``propagated`` is right by itself, but made wrong values of what it was given. Rows of the ``backward`` are
    in the order in which it runs; their errors are those of gradients.
    """

    path: str
    cls: str = Field("", alias="class")
    order: int
    phase: Literal["forward", "backward"] = "forward"
    local_error: float | None = None
    propagated_error: float | None = None
    required_atol: float | None = None
    required_rtol: float | None = None
    compiled_vs_fp64: float | None = None
    eager_vs_fp64: float | None = None
    cosine: float | None = None
    nonfinite: NonFinite | None = None
    verdict: LayerVerdict = "unknown"

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class GraphNode(Part):
    """A node of the graph around the culprit, judged alone on eager's inputs; ``inputs`` are names of nodes shown with it."""

    name: str
    op: str
    module: str = ""
    shape: str = ""
    inputs: list[str] = Field(default_factory=list)
    local_error: float | None = None
    propagated_error: float | None = None
    verdict: LayerVerdict = "unknown"
    culprit: bool = False


class Rung(Part):
    backend: str
    outcome: str
    seconds: float


class Flag(Part):
    name: str
    value: str
    outcome: str


class Blame(Part):
    """The part of the failing stage that is to blame."""

    subsystem: str = Field(
        description="decomposition, lowerings, fusion, post_grad_passes and so on; unknown if not found."
    )
    items: list[str] = Field(default_factory=list, description="Parts as kind/name, lowerings/aten.relu.default.")
    any_of: bool = Field(False, description="Each item is enough by itself; otherwise they fail together.")
    confirmed: bool = Field(False, description="The failure goes without the items, and comes with only them on.")
    confirmed_on_script: bool | None = Field(None, description="The user's script passes without the items.")
    runs: int = 0
    what: str = Field("", description="The same in words.")


class Workaround(Part):
    """``code`` is empty where none was found; ``what`` then says so, else what the change costs."""

    code: str
    verified: bool
    where: str = ""
    diff: str = Field("", description="The same as a unified diff of the script.")
    what: str = ""
    seconds_before: float | None = Field(None, description="One call of what is compiled, without the change.")
    seconds_with: float | None = None
    graphs_before: int | None = Field(None, description="Graphs that the script compiles, without the change.")
    graphs_with: int | None = None
    breaks_before: int | None = Field(None, description="Graph breaks, without the change.")
    breaks_with: int | None = None
    eager_modules: list[str] = Field(
        default_factory=list, description="Modules of which nothing runs compiled any more, with the change."
    )


class HistoryStep(Part):
    trial: int
    seconds: float
    nodes: int
    by: str


class Reduction(Part):
    level: Literal["dynamo", "aot", "python"] = "dynamo"
    nodes_before: int = 0
    nodes_after: int = 0
    aot_nodes_after: int | None = None
    lines_before: int = 0
    lines_after: int = 0
    trials: int = 0
    cache_hits: int = 0
    seconds: float = 0.0
    one_minimal: bool = False
    history: list[HistoryStep] = Field(default_factory=list)


class Verification(Part):
    runs: int = 0
    failed_same: int = 0
    clean_process: bool = False
    public_api: bool = False
    passes_with_compiler_off: bool = False
    stopped: int = Field(
        0,
        description="Runs that were stopped for want of time, the one without the compiler included: they say nothing.",
    )
    output: str = Field("", description="The end of what a failing run printed.")

    @property
    def holds(self) -> bool:
        return self.runs > 0 and self.failed_same == self.runs and self.clean_process and self.passes_with_compiler_off


class Witness(Part):
    after: Literal["dynamo", "aot"]
    level: int
    outcome: str
    agrees: bool | None = None


class Largest(Part):
    """The largest difference in any value that was compared; ``None`` for what no number says."""

    module: str = ""
    op: str = Field(
        "", description="The operator whose result it is, by the graph's own notes: nothing was searched for."
    )
    absolute: float | None = None
    relative: float | None = None
    reason: str = Field("", description="Why it is legal.")

    @property
    def words(self) -> str:
        """The same in a sentence."""
        if not self.absolute:
            return "none: all values that were compared are equal to the bit"
        made_by = f" ({self.op})" if self.op else ""
        where = f" in {'the output of ' if self.op else ''}{self.module}{made_by}" if self.module else made_by
        return f"{self.absolute:.3g}{where}; {self.reason}"


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


class AlsoSeen(Part):
    kind: Kind
    signature: str
    message: str = ""
    times: int = 1


OF_THE_FAULT = (
    "failure", "culprits", "graph", "ladder", "flags", "blame", "workaround", "generated_code", "reduction", "verification",
    "observed", "versions", "status", "reason", "summary",
)  # fmt: skip
"""The fields of a report that speak of one fault; the others speak of the script, or of the work on it."""


class Report(Part):
    """All that one job answers. Filled step by step; any prefix of the pipeline leaves a valid report."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_: int = Field(1, alias="schema")
    status: Status = Status.RUNNING
    reason: Reason | None = None
    summary: str = Field("", description="The verdict in a sentence or two of plain English.")
    failure: Failure | None = None
    error: ScriptError | None = Field(None, description="Of a script that fails without the compiler: its exception.")
    culprits: list[Culprit] = Field(default_factory=list)
    layers: list[Layer] = Field(default_factory=list)
    graph: list[GraphNode] = Field(default_factory=list, description="The graph around the culprit.")
    ladder: list[Rung] = Field(default_factory=list)
    flags: list[Flag] = Field(default_factory=list)
    blame: Blame | None = None
    workaround: Workaround | None = None
    generated_code: GeneratedCode | None = Field(
        None, description="Of a repro that Inductor compiles: its code of the culprit."
    )
    reduction: Reduction | None = None
    verification: Verification | None = None
    witnesses: list[Witness] = Field(default_factory=list)
    checked: Checked = Field(default_factory=Checked)
    observed: list[Observed] = Field(
        default_factory=list, description="Of a fault between graphs: its object in both runs, up to where they part."
    )
    attempts: list[Attempt] = Field(
        default_factory=list, description="Ways to a repro and plain runs of the script, and how each ended."
    )
    health: Health = Field(default_factory=Health)
    versions: list[Version] = Field(default_factory=list, description="The repro in every torch that is configured.")
    environment: dict[str, str] = Field(default_factory=dict)
    also_seen: list[AlsoSeen] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    timings: dict[str, float] = Field(default_factory=dict)
    _folder: Path | None = PrivateAttr(None)

    def __str__(self) -> str:
        """The verdict, and where the results lie: a line or two, for `print`."""
        reason = f" ({self.reason})" if self.reason else ""
        where = f"\n{self._folder}" if self._folder else ""
        return f"{self.status}{reason}: {self.summary}{where}"

    def _repr_markdown_(self) -> str:
        """What a notebook shows: `report.md`, where it was written."""
        written = self._folder / "report.md" if self._folder else None
        return written.read_text("utf-8") if written is not None and written.is_file() else str(self)

    def take(self, other: Report, fields: Sequence[str] = OF_THE_FAULT) -> None:
        """Have these fields as another report has them."""
        for name in fields:
            setattr(self, name, getattr(other, name))

    @property
    def folder(self) -> Path | None:
        """Where the results of a run in this process lie; no part of the contract form."""
        return self._folder

    @folder.setter
    def folder(self, folder: Path) -> None:
        self._folder = folder

    def to_json(self) -> dict[str, Any]:
        """The contract form, ready for ``json.dumps``; a number that JSON does not have, such as infinity, is null."""
        return dict(json.loads(self.model_dump_json(by_alias=True)))
