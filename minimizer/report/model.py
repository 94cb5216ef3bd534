"""The report: what a job answers, as data (a public contract). ``report.json`` is this model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from minimizer.report.culprit import Culprit, GraphNode, Layer, Source
from minimizer.report.drift import Drift
from minimizer.report.examined import Attempt, Checked, Health, Observed, Version
from minimizer.report.finding import Finding
from minimizer.report.generated_code import GeneratedCode
from minimizer.report.part import Part
from minimizer.vocabulary import UNJUDGED, Kind, Reason, Stage, Status


class Reproducibility(Part):
    failed: int
    runs: int


Mechanism = Literal[
    "lost_mutation", "stale_guard", "leaked_state", "wrong_order", "skipped_handler", "missed_hook", "late_read", "lost_gradient", "wrong_constant",
    "dropped_cast", "other_precision", "stale_cache", "overwritten_result",
]  # fmt: skip
"""How a fault that no graph shows came about; or one of graphs: of precision, which passes for rounding otherwise, of a cache, or of memory."""
OF_GRAPHS: Mapping[str, str] = {
    "dropped_cast": "drops a cast that the program asks for",
    "other_precision": "computes in a narrower dtype than eager",
    "stale_cache": "takes what it compiled for another call from a cache",
    "overwritten_result": "writes over a result that it has returned before",
}
"""The mechanisms of faults that a graph shows, and what compiled code does there."""


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
    mechanism: Mechanism | None = Field(
        None, description="How a fault between graphs, of precision, of a cache or of memory came about."
    )
    object: str = Field("", description="What is otherwise with the compiler, where the mechanism is known.")
    source: Source | None = Field(None, description="The call after which that is seen.")
    layout_only: bool = Field(False, description="All values are equal, and only strides differ.")
    extra_change: bool = Field(
        False, description="Of a `lost_mutation`: only compiled code has made the change when the call returns."
    )
    reproducibility: Reproducibility = Reproducibility(failed=1, runs=1)

    @property
    def of_graph(self) -> str:
        """The compiler's action, for a fault of a graph with a known mechanism; else empty."""
        return OF_GRAPHS.get(self.mechanism or "", "")

    @property
    def is_between_graphs(self) -> bool:
        """Whether it is one that no graph shows, and whose mechanism is known."""
        return self.mechanism is not None and not self.of_graph


class ScriptError(Part):
    """The exception that ends a script for which the compiler is not to blame, as where eager raises it too."""

    exception_type: str
    message: str = ""
    traceback: str = Field("", description="As `failure.traceback`.")
    source: Source | None = Field(None, description="The innermost line of the user's own code.")


class Rung(Part):
    backend: str
    outcome: str
    seconds: float
    raised: str = Field(
        "", description="The error that it raises, in one line, where it fails otherwise than the script."
    )
    fails: bool | None = Field(
        None,
        description="Whether it fails, as the stage was found by: not where it shows other values below an error of the compiler; null where "
        "it could not be judged.",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_its_outcome(cls, data: Any) -> Any:
        """Accept a report of an earlier version, which has the outcome only."""
        if isinstance(data, dict) and "fails" not in data and "outcome" in data:
            outcome = data["outcome"]
            return {**data, "fails": None if outcome in UNJUDGED else outcome != "passes"}
        return data


class Flag(Part):
    name: str
    value: str
    outcome: str


class Ablated(Part):
    """What becomes of the failure without a part: all parts of a kind off in the small program, or a module of the script in eager."""

    what: str = Field(description="The kind of parts, as `post_grad_passes`, or the path of the module.")
    of: Literal["program", "script"] = Field(description="Whether the small program was asked or the whole script.")
    outcome: str = Field(
        description="`passes`, `fails` or `fails otherwise`; of the script `passes`: another end may have other causes."
    )


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

    @property
    def shown(self) -> str:
        """What the trials have shown about the repro, as a short statement; less for a script than for a graph.

        Empty if they did not end.
        """
        if not self.one_minimal:
            return ""
        return "no statement can be taken out" if self.level == "python" else "1-minimal"

    @property
    def fails_only_together(self) -> bool:
        """Whether it was shown that none of the operations that are left fails without the others."""
        return self.one_minimal and self.level != "python"

    def counted(self, nodes: int) -> Reduction:
        """The same with the number of nodes that are left.

        Those of a script are the calls observed in a run, a lower bound: calls in code that runs only where it was
        inlined, or in a run that was cut short, may be missed.
        """
        return self.model_copy(update={"nodes_after": nodes, "nodes_before": max(self.nodes_before, nodes)})


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

    @property
    def lacked_time(self) -> bool:
        """Whether it does not hold only because runs were stopped: no run that ended speaks against the repro."""
        missing = self.runs - self.failed_same + (not self.passes_with_compiler_off)
        return 0 < missing == self.stopped


class Witness(Part):
    after: Literal["dynamo", "aot"]
    level: int
    outcome: str
    agrees: bool | None = None


class AlsoSeen(Part):
    kind: Kind
    signature: str
    message: str = ""
    times: int = 1


def each_once(seen: Iterable[AlsoSeen]) -> list[AlsoSeen]:
    """The entries, each once: those that read alike, of one kind and with one message, are added up. The most frequent come first."""
    known: dict[tuple[Kind, str], AlsoSeen] = {}
    for one in seen:
        name = (one.kind, one.message or one.signature)
        times = known[name].times + one.times if name in known else one.times
        known[name] = known.get(name, one).model_copy(update={"times": times})
    return sorted(known.values(), key=lambda one: -one.times)


class Report(Part):
    """All that one job answers. Filled step by step; any prefix of the pipeline leaves a valid report."""

    model_config = ConfigDict(extra="forbid", frozen=False, populate_by_name=True)

    schema_: int = Field(1, alias="schema")
    status: Status = Status.RUNNING
    reason: Reason | None = None
    summary: str = Field("", description="The verdict in a sentence or two of plain English.")
    confidence: Literal["high", "medium", "low", "unknown"] | None = Field(
        None, description="How far the evidence for the verdict carries; null until the job has ended."
    )
    failure: Failure | None = None
    error: ScriptError | None = Field(None, description="Of a script that fails without the compiler: its exception.")
    culprits: list[Culprit] = Field(default_factory=list)
    layers: list[Layer] = Field(default_factory=list)
    graph: list[GraphNode] = Field(default_factory=list, description="The graph around the culprit.")
    ladder: list[Rung] = Field(default_factory=list)
    flags: list[Flag] = Field(default_factory=list)
    ablation: list[Ablated] = Field(
        default_factory=list,
        description="The failure with one kind of the compiler's parts off, or one module in eager.",
    )
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
    findings: list[Finding] = Field(
        default_factory=list,
        description="What the owner of the script may do better, the costliest first; empty where there is nothing to advise.",
    )
    look_first: str = Field("", description="Which log or trace tells more of what was found; empty where none does.")
    traces: list[str] = Field(
        default_factory=list,
        description="The files with the structured trace of one run, and with tlparse's pages of it.",
    )
    drift: Drift | None = Field(None, description="Of a healthy script that trains: its losses on both sides.")
    versions: list[Version] = Field(
        default_factory=list, description="The repro in every torch that is configured or asked for."
    )
    environment: dict[str, str] = Field(default_factory=dict)
    also_seen: list[AlsoSeen] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    timings: dict[str, float] = Field(default_factory=dict)
    _folder: Path | None = PrivateAttr(None)

    def __str__(self) -> str:
        """The verdict, and where the results are: a line or two, for `print`."""
        reason = f" ({self.reason})" if self.reason else ""
        where = f"\n{self._folder}" if self._folder else ""
        return f"{self.status}{reason}: {self.summary}{where}"

    def _repr_markdown_(self) -> str:
        """The output in a notebook: `report.md`, if it was written."""
        written = self._folder / "report.md" if self._folder else None
        return written.read_text("utf-8") if written is not None and written.is_file() else str(self)

    @property
    def roots(self) -> list[Culprit]:
        """The culprits of the fault that `repro.py` shows: not what only passes wrong values on, nor other faults."""
        return [culprit for culprit in self.culprits if culprit.root and not culprit.further]

    @property
    def may_shrink(self) -> bool:
        """Whether the time ended before nothing more could be taken out of a verified repro: a larger budget goes on from there."""
        return self.status is Status.MINIMIZED and self.reduction is not None and not self.reduction.one_minimal

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
