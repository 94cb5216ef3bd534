"""The report: what a job answers, as data (contract, DESIGN section 9). ``report.json`` is this model."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from minimizer.types import Kind, Reason, Stage, Status


class Part(BaseModel):
    """Base of every part: unknown fields are an error, so that the contract cannot drift unseen."""

    model_config = ConfigDict(extra="forbid")


class Reproducibility(Part):
    failed: int
    runs: int


class Failure(Part):
    kind: Kind
    stage: Stage = Stage.UNKNOWN
    exception_type: str | None = None
    message: str = ""
    signature: str = ""
    reproducibility: Reproducibility = Reproducibility(failed=1, runs=1)


class Source(Part):
    file: str
    line: int
    code: str = ""


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
    nodes: list[str] = Field(default_factory=list)
    ops: list[str] = Field(default_factory=list, description="aten packet names, such as aten.relu")
    what: str = ""
    source: Source | None = None
    local_error: Error | None = None
    propagated_error: Error | None = None
    root: bool = True


class Layer(Part):
    path: str
    cls: str = Field("", alias="class")
    order: int
    local_error: float | None = None
    propagated_error: float | None = None
    required_atol: float | None = None
    required_rtol: float | None = None
    verdict: Literal["good", "bad", "propagated", "unknown"] = "unknown"

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Rung(Part):
    backend: str
    outcome: str
    seconds: float


class Flag(Part):
    name: str
    value: str
    outcome: str


class Workaround(Part):
    code: str
    verified: bool


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

    @property
    def holds(self) -> bool:
        return self.runs > 0 and self.failed_same == self.runs and self.clean_process and self.passes_with_compiler_off


class Witness(Part):
    after: Literal["dynamo", "aot"]
    level: int
    outcome: str
    agrees: bool | None = None


class Checked(Part):
    frames: int = 0
    calls: int = 0
    backward: int = 0


class Health(Part):
    graph_breaks: list[str] = Field(default_factory=list)
    recompiles: list[str] = Field(default_factory=list)
    compile_seconds: float | None = None
    eager_seconds: float | None = None
    compiled_seconds: float | None = None


class AlsoSeen(Part):
    kind: Kind
    signature: str
    message: str = ""
    times: int = 1


class Report(Part):
    """All that one job answers. Filled step by step; any prefix of the pipeline leaves a valid report."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_: int = Field(1, alias="schema")
    status: Status = Status.RUNNING
    reason: Reason | None = None
    summary: str = Field("", description="The verdict in a sentence or two of plain English.")
    failure: Failure | None = None
    culprits: list[Culprit] = Field(default_factory=list)
    layers: list[Layer] = Field(default_factory=list)
    ladder: list[Rung] = Field(default_factory=list)
    flags: list[Flag] = Field(default_factory=list)
    workaround: Workaround | None = None
    reduction: Reduction | None = None
    verification: Verification | None = None
    witnesses: list[Witness] = Field(default_factory=list)
    checked: Checked = Field(default_factory=Checked)
    health: Health = Field(default_factory=Health)
    environment: dict[str, str] = Field(default_factory=dict)
    also_seen: list[AlsoSeen] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    timings: dict[str, float] = Field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The contract form, ready for ``json.dumps``."""
        return self.model_dump(mode="json", by_alias=True)
