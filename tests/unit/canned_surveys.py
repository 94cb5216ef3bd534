"""Canned runs of a script, in the shape in which an executor reports them, and a triage that is told them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any, cast

from minimizer.engine.child.bounded import parse
from minimizer.engine.child.connection import Connection
from minimizer.engine.child.environment import Place
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.protocol import Finished, Held, Phase
from minimizer.engine.child.stacks import Frame
from minimizer.engine.child.survey import Survey
from minimizer.engine.child.watchdog import Silence, Watchdog
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.triage import Triage
from minimizer.inside.questions import SurveyRequest
from minimizer.sandbox.limits import Unconfined

META = {"shape": [2], "dtype": "torch.float32", "stride": [1], "device": "cpu", "requires_grad": False}
PROGRAM: dict[str, Any] = {
    "inputs": [{"name": "x", "meta": META, "golden": "x"}],
    "nodes": [{"name": "y", "target": "torch.relu", "args": [{"ref": "x"}], "kwargs": {}, "meta": META}],
    "outputs": ["y"], "functions": [], "level": "dynamo", "setup": [], "compile_kwargs": {}, "grad": False,
}  # fmt: skip
WRONG = {"fault": True, "kind": "wrong_output", "differences": [{"where": "output[0]", "expected": "1", "actual": "2"}]}
CHECKED = {"frames": 2, "graphs": 2, "calls": 5, "planned": 5, "calls_made": 5, "backward": 1}


def calls_of(key: int, made: int, compared: int, backward: int = 0) -> dict[str, Any]:
    """The calls of a graph that all have one key, of which the first few were compared."""
    watched = [*range(compared)]
    return {"keys": [key] * made, "watched": watched, "compared": watched, "backward": watched[:backward]}


ALL_WELL: dict[str, Any] = {"checked": CHECKED, "calls": [calls_of(0, 4, 4, 1), calls_of(1, 1, 1)]}


def error(kind: str, message: str = "went wrong") -> dict[str, Any]:
    return {"type": kind, "message": message, "root_type": kind, "root_message": message, "frames": [["m.py", "f", ""]]}


class Strong(Unconfined):
    """A sandbox that claims to be one."""

    is_strong = True


class CannedExecutor:
    """Hands out canned surveys in order, with the compiler and without, each the last one again and again; keeps what was asked."""

    def __init__(self, surveys: Sequence[dict[str, Any]], eager: Sequence[dict[str, Any]] = ()) -> None:
        self._left = {True: list(surveys), False: list(eager)}
        self.asked: list[SurveyRequest] = []
        self.timeouts: list[float] = []
        self.watchdogs: list[Watchdog | None] = []
        self.killed = 0
        self.place = Place(Path("python"), Strong(), Path("/job"), [Path("/home/me/model")])

    def survey(
        self, request: SurveyRequest, *, timeout: float, watchdog: Watchdog | None = None, over: Event | None = None
    ) -> Survey:
        self.asked.append(request)
        self.watchdogs.append(watchdog)
        self.timeouts.append(timeout)
        left = self._left[request.compile]
        return Survey(
            cast(Connection, self), cast(Any, None), **{"phase": Phase(), **(left.pop(0) if len(left) > 1 else left[0])}
        )

    @property
    def compiled(self) -> list[SurveyRequest]:
        return [request for request in self.asked if request.compile]

    def kill(self, task: Any) -> None:
        self.killed += 1


def held(**failure: Any) -> dict[str, Any]:
    return {"held": parse(Held, {"failure": {"graph": 1, "call": 2, "phase": "run", **failure}, "program": PROGRAM})}


def finished(**fields: Any) -> dict[str, Any]:
    return {"finished": parse(Finished, {**ALL_WELL, **fields})}


def ended(**end: Any) -> dict[str, Any]:
    phase = end.pop("at", {})
    return {"end": end, "phase": parse(Phase, phase)}


AT = {"graph": 1, "call": 2}


def silent(at: dict[str, Any] = AT, *, hangs: bool = True, function: str = "fix") -> dict[str, Any]:
    """A run that the watchdog gave up."""
    chain = (Frame("torch/_inductor/compile_fx.py", "inner", 7, False), Frame("pass.py", function, 11, True))
    return {**ended(signal=9, at=at), "silence": Silence(chain, 71.0, hangs)}


def asked_of(executor: CannedExecutor, script: Path = Path("/nowhere/script.py"), **options: Any) -> Triage:
    """A triage whose runs are canned; options are those of `Surveys`, ``on_note`` and ``on_healthy``."""
    on_note, on_healthy = options.pop("on_note", lambda _: None), options.pop("on_healthy", lambda: None)
    settings: dict[str, Any] = {"args": [], "steps": None, "hang_after": 30.0, "values": True, **options}
    return Triage(Surveys(cast(Executor, executor), script, **settings), on_note=on_note, on_healthy=on_healthy)
