"""What is done to the service, as data: the set-ups, the troubles, the steps at which they strike, and the seeded plan of all rounds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from minimizer.vocabulary import Kind, Stage, Status, Step

SEED = 20261125
STEPS = (
    Step.PREPARE, Step.EXACT, Step.SURVEY, Step.LOCALIZE, Step.REDUCE, Step.BLAME, Step.EMIT, Step.VERIFY, Step.FURTHER,
)  # fmt: skip
"""All that a job takes without diagnosis and witness."""
SETUPS = ("embedded", "servers")
"""SQLite with messages in a folder and `minimizer serve`; PostgreSQL with Redis, a web server and two workers."""
IN_A_ROUND = 3
"""Troubles that one job goes through, in the order of their steps."""

KILLS = {
    "worker": "a worker",
    "web": "the web server; on the embedded default `minimizer serve`, and its worker ends with it",
    "sandbox": "bwrap, as the worker has started it",
    "child": "the first process in the sandbox that is not bwrap's: the warm child, or a clean process of a repro",
    "trial": "a process below that one: a run of the script, a trial, a compiler",
}
"""By SIGKILL."""
TRIALS = (Step.EXACT, Step.SURVEY, Step.LOCALIZE, Step.REDUCE, Step.BLAME)
"""Where the warm child has forks for long enough to be hit."""
STORMS = {
    "stopped": "a worker stands still (SIGSTOP) for longer than its lease",
    "doubled": "the doorbell of the job rings twenty times",
    "disk full": "the disk of database, queue and scratch has no byte left for ten seconds",
    "restart": "all processes are told to end (SIGTERM) and started again",
    "upgrade": "the same, and what ran until then is another version of minimizer (`earlier.py`)",
    "clock forth": "to all processes it is an hour later than it was (`clock.c`)",
    "clock back": "to all processes it is an hour earlier than it was",
    "redis flushed": "FLUSHALL",
    "redis paused": "CLIENT PAUSE for eight seconds",
    "redis gone": "SIGKILL, and started again after six seconds",
    "postgres ended": "pg_terminate_backend of all, five times in two seconds",
}
_ON_SERVERS_ONLY = ("redis flushed", "redis paused", "redis gone", "postgres ended")
_ON_EMBEDDED_ONLY = ("disk full",)  # the disk of a PostgreSQL that others use is not ours to fill

SCRIPT = """\
import torch


def forgetful(graph, inputs):
    for node in list(graph.graph.nodes):
        if node.target is torch.relu:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    graph.recompile()
    return graph


torch.compile(lambda x: torch.relu(x.sin() - 1).cos(), backend=forgetful)(torch.ones(4))
"""
"""Is captured, reduced and verified, by a backend that needs no C++ compiler: a kill costs seconds."""
VERDICT = (Status.MINIMIZED, None, Kind.WRONG_OUTPUT, Stage.CUSTOM_BACKEND, ("aten.relu",))
"""What it is of itself: status, reason, kind, stage, operators to blame."""


@dataclass(frozen=True)
class Trouble:
    """Strikes once, when the job is at the step."""

    kind: str
    step: Step
    delay: float
    """Seconds behind the first moment at which it could strike."""

    @property
    def is_kill(self) -> bool:
        return self.kind in KILLS


@dataclass(frozen=True)
class Round:
    """One job, on a service of its own, and what happens meanwhile."""

    name: str
    setup: str
    troubles: tuple[Trouble, ...]


def plan() -> Iterator[Round]:
    """All rounds, without an end: in each cycle every kill strikes once at every step, on both set-ups, and every storm twice."""
    for cycle in count(1):
        by_setup = [list(_cycle(setup, cycle)) for setup in SETUPS]
        for pair in zip(*by_setup, strict=False):
            yield from pair
        shortest = min(map(len, by_setup))
        for rounds in by_setup:
            yield from islice(rounds, shortest, None)


def _cycle(setup: str, cycle: int) -> Iterator[Round]:
    draw = random.Random(f"{SEED} {setup} {cycle}")
    not_here = _ON_SERVERS_ONLY if setup == "embedded" else _ON_EMBEDDED_ONLY
    places = [(kind, step) for kind in KILLS for step in (TRIALS if kind == "trial" else STEPS)]
    places += [(kind, step) for kind in STORMS if kind not in not_here for step in draw.sample(STEPS, 2)]
    draw.shuffle(places)
    for number, first in enumerate(range(0, len(places), IN_A_ROUND), 1):
        some = places[first : first + IN_A_ROUND]
        troubles = (
            Trouble(kind, step, 0.0 if step in (Step.EMIT, Step.LOCALIZE) else round(draw.uniform(0, 0.5), 2))
            for kind, step in sorted(some, key=lambda place: STEPS.index(place[1]))
        )
        yield Round(f"{setup} {cycle}.{number}", setup, tuple(troubles))
