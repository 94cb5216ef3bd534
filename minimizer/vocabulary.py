"""The words everyone shares: failure kinds, compiler stages, job statuses.

This is the lowest layer. It imports nothing of ours, and everything else may import it.
"""

from __future__ import annotations

from enum import StrEnum

UNJUDGED = ("setup_error", "eager_error", "nondeterministic", "lost")
"""Outcomes of a trial, or of a rung of the ladder, that prove nothing about the compiler, however often it is compiled.
"""


class Kind(StrEnum):
    """How a script fails; the first that matches wins."""

    CRASH = "crash"
    HANG = "hang"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    MISSING_ERROR = "missing_error"
    WRONG_OUTPUT = "wrong_output"
    WRONG_GRADIENT = "wrong_gradient"
    WRONG_METADATA = "wrong_metadata"
    RECOMPILES = "recompiles"
    """No failure: a function is recompiled repeatedly; it counts as a failure only with ``--expect``."""
    GRAPH_BREAK = "graph_break"
    """No failure: compiled code is split; it counts as a failure only with ``--expect``."""
    COMPILE_TIME = "compile_time"
    """No failure: a graph takes long to compile; it counts as a failure only with ``--expect``."""
    MEMORY = "memory"
    """No failure: a graph saves more for backward than eager does; it counts as a failure only with ``--expect``."""
    SLOW = "slow"
    """No failure: a compiled graph is slower than eager; it counts as a failure only with ``--expect``."""

    @property
    def is_finding(self) -> bool:
        """Whether the script is right, and compiling it costs more than necessary."""
        return self in (Kind.RECOMPILES, Kind.GRAPH_BREAK) or self.is_figure

    @property
    def is_figure(self) -> bool:
        """Whether it is a finding of one graph, shown by a measurement."""
        return self in (Kind.COMPILE_TIME, Kind.MEMORY, Kind.SLOW)

    @property
    def is_of_metadata(self) -> bool:
        """Whether both sides ran to the end, and what differs is no value: a dtype, a shape, shared memory."""
        return self is Kind.WRONG_METADATA

    @property
    def is_numeric(self) -> bool:
        """Whether both sides ran to the end and only their results differ."""
        return self in (Kind.WRONG_OUTPUT, Kind.WRONG_GRADIENT) or self.is_of_metadata


class Stage(StrEnum):
    """The part of the compiler to blame, or what it was given to compile."""

    DYNAMO = "dynamo"
    AOT_AUTOGRAD = "aot_autograd"
    DECOMPOSITION = "decomposition"
    INDUCTOR = "inductor"
    CUDAGRAPHS = "cudagraphs"
    CUSTOM_BACKEND = "custom_backend"
    CUSTOM_OP = "custom_op"
    """An operator of the script's own, which breaks what ``torch.library.opcheck`` asks."""
    UNKNOWN = "unknown"


class Status(StrEnum):
    """Where a job stands. The last five are final."""

    QUEUED = "queued"
    RUNNING = "running"
    MINIMIZED = "minimized"
    HEALTHY = "healthy"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self not in (Status.QUEUED, Status.RUNNING)


class Reason(StrEnum):
    """Why a job did not end ``minimized``; beside that status, that the failure is ``disputed``."""

    FAILS_IN_EAGER = "fails_in_eager"
    NONDETERMINISTIC = "nondeterministic"
    DISPUTED = "disputed"
    UNEXPLAINED = "unexplained"
    NOTHING_COMPILED = "nothing_compiled"
    WRAPPER_EFFECT = "wrapper_effect"
    """All compiled code is right, but the script behaves differently because of what it sees of the compiler's
    wrappers.
    """
    SANDBOX_DENIED = "sandbox_denied"
    NOT_RUNNABLE = "not_runnable"
    NOT_VERIFIED = "not_verified"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    INTERNAL_ERROR = "internal_error"
    WORKER_TROUBLE = "worker_trouble"
    """The machine, not the script. Never an answer to others with the same question."""


class Step(StrEnum):
    """The steps of a job, in the order in which it takes them: the one place where that order stands.

    The engine, the ``timings`` of a report, the terminal, the page of a job and the documents follow it. A step may be taken again:
    a flaky failure is reduced twice, a repro that does not hold is written anew.
    """

    label: str
    """A word or two, for a row of steps."""
    doing: str
    """The activity, to follow "while"."""
    what: str
    """The same as a sentence for a watching person."""

    def __new__(cls, name: str, label: str = "", doing: str = "", what: str = "") -> Step:
        # The defaults are for type checkers, which mistake ``Step("reduce")`` for a call of this.
        step = str.__new__(cls, name)
        step._value_, step.label, step.doing, step.what = name, label, doing, what
        return step

    PREPARE = "prepare", "Prepare", "preparing the run", "Reading the script and starting its sandbox"
    EXACT = (
        "exact", "Between graphs", "comparing what the script sees between graphs",
        "Comparing what the script sees of itself, with and without the compiler",
    )  # fmt: skip
    SURVEY = "survey", "Survey", "running the script", "Running it with and without the compiler"
    LOCALIZE = (
        "localize", "Localize", "localizing the failure",
        "Finding the graph, the module and the node where it goes wrong",
    )  # fmt: skip
    REDUCE = "reduce", "Reduce", "reducing", "Taking away everything that the failure does not need"
    BLAME = (
        "blame", "Blame", "looking for the stage of the compiler to blame",
        "Finding the stage of the compiler that is at fault",
    )  # fmt: skip
    EMIT = "emit", "Write", "writing the repro", "Writing repro.py"
    VERIFY = "verify", "Verify", "verifying the repro", "Running repro.py alone, in clean processes"
    DIAGNOSE = (
        "diagnose", "Diagnose", "looking for the part of that stage to blame and a workaround",
        "Finding the part of that stage that is at fault, and a way around it",
    )  # fmt: skip
    CODE = (
        "code", "Code", "reading the code that the compiler generates",
        "Reading the code that the compiler generates for repro.py",
    )  # fmt: skip
    LAYERS = "layers", "Layers", "measuring layers", "Measuring every layer, and the graph around the culprit"
    HEALTH = "health", "Health", "measuring the compiled code", "Measuring the health of what was compiled"
    COMPARE = (
        "compare", "Versions", "running the repro in other torches", "Running repro.py in the other versions of torch",
    )  # fmt: skip
    FURTHER = (
        "further",
        "Further",
        "looking for the same fault in equal modules, and for others",
        "Looking for the same fault in equal modules, and for others",
    )
    WITNESS = "witness", "Witness", "hearing PyTorch's own minifier", "Asking PyTorch's own minifier for its view"


class Role(StrEnum):
    """What a user may do in the projects that he or she is a member of; an admin needs no membership."""

    VIEWER = "viewer"
    MEMBER = "member"
    ADMIN = "admin"


class Scope(StrEnum):
    """How far a token goes: it never opens more than its user's role does."""

    READ = "read"
    WRITE = "write"


def counted(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
