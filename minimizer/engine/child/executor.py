"""Runs tasks in the sandboxed child: trials, a few in parallel, and runs of the user's script.

The executor does not interpret outcomes; `oracle` does. All messages of the child are validated by `protocol`.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from minimizer.engine.budget.pace import Pace
from minimizer.engine.budget.patience import CHILD_LATE_SECONDS
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.connection import Connection, Task, Watch, refusal
from minimizer.engine.child.environment import Place
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.child.protocol import End, Finished, Held, Phase, Ready
from minimizer.engine.child.survey import Survey
from minimizer.engine.child.transcript import Transcript
from minimizer.engine.child.trouble import Again, Death, rule_for
from minimizer.engine.child.watchdog import Watchdog, crowding
from minimizer.inside.questions import (
    ExactRequest,
    Request,
    ScriptRequest,
    SurveyRequest,
    Switched,
    TraceRequest,
    TrainingRequest,
    TrialRequest,
)

RUNS_OF_SCRIPTS = (ScriptRequest, ExactRequest, TraceRequest, TrainingRequest)
"""Requests that run the user's script, each in a room of its own."""
GateWay = Callable[[Callable[[], None]], AbstractContextManager[None]]


class Executor:
    """The warm child and its tasks; thread-safe. Call `start` first; as a context manager, kills the child on exit.

    ``pace`` records the times of the start and of the trials.
    """

    def __init__(self, place: Place, *, jobs: int, watch: Watch, pace: Pace | None = None) -> None:
        self.place = place
        self.jobs = jobs
        self.watch = watch
        self._pace = pace or Pace()
        self._connection = Connection(place, watch)
        self._starting_run = threading.Lock()
        self._runs = 0
        """Number of runs of a script in progress, without held ones."""
        self.ran_out = 0
        """Number of trials that ran out of GPU memory with no other trial on the GPU."""
        self.cache = place.folder("cache")

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Ready:
        """Start the child and wait until torch is imported.

        Raises:
            ChildFailed: torch cannot be imported there, or the sandbox does not start.
            MissingTool: that torch lacks what we observe it by.
        """
        began = time.monotonic()
        ready = self._connection.start()
        self._pace.start, self._pace.crowding = time.monotonic() - began, crowding()
        return ready

    def close(self) -> None:
        """Kill the child and everything in it, for good: later tasks are refused."""
        self._connection.close()

    def judge(
        self,
        requests: Sequence[Request],
        *,
        timeout: float,
        watchdog: Callable[[], Watchdog] | None = None,
    ) -> list[Outcome]:
        """Run trials, at most ``jobs`` in parallel, and return their outcomes in order.

        ``watchdog`` creates one per trial.
        """
        return [outcomes[-1] for outcomes in self.repeat(requests, timeout=timeout, watchdog=watchdog)]

    def repeat(
        self,
        requests: Sequence[Request],
        *,
        timeout: float,
        watchdog: Callable[[], Watchdog] | None = None,
    ) -> list[list[Outcome]]:
        """Run trials that may compile several times; for each, return the outcomes of all its compilations, at least
        one.

        ``timeout``: seconds for a whole trial. The last outcome of a trial that ends early says how. A trial that runs
        out of GPU memory is repeated alone on the GPU, and is ``lost`` if it runs out again. A killed trial is repeated
        too: one that kills itself does so again, one killed from outside most likely completes.
        """

        def once(request: Request, gate: GateWay) -> list[Outcome]:
            with gate(self.watch), suppress(_Killed):
                return self._trial(request, timeout, watchdog, is_last=False)
            with gate(self.watch):
                return self._trial(request, timeout, watchdog, is_last=True)

        def trial(request: Request) -> list[Outcome]:
            # Two scripts that serve would want one port.
            is_script = isinstance(request, RUNS_OF_SCRIPTS)
            is_driven = bool(self.place.plan) and is_script
            is_measured = isinstance(request, ExactRequest)
            beside = functools.partial(self.place.gate.beside, is_script=is_script, is_measured=is_measured)
            outcomes = once(request, self.place.gate.alone if is_driven else beside)
            if not any(outcome.rule.again is Again.ALONE for outcome in outcomes):
                return outcomes
            outcomes = once(request, self.place.gate.alone)
            self.ran_out += any(outcome.rule.again is Again.ALONE for outcome in outcomes)
            return [outcome.judged if outcome.rule.again is Again.ALONE else outcome for outcome in outcomes]

        if len(requests) == 1:
            (alone,) = requests
            if isinstance(alone, Switched) and alone.threads is None:
                alone = replace(alone, threads=self.jobs)
            return [trial(alone)]
        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(trial, requests))

    def survey(
        self,
        request: SurveyRequest,
        *,
        timeout: float,
        watchdog: Watchdog | None = None,
        over: threading.Event | None = None,
    ) -> Survey:
        """Run the user's script; returns when it is held, has finished, has died, or was ended by the watchdog.

        Raises:
            Cancelled: ``over`` was set meanwhile; the run was ended.
            WorkerTrouble: the child was killed, usually by the OOM killer; or it does not report how the run ended.
            ChildFailed: the child exited during the run.
        """
        phase = Phase()
        beside = self.place.gate.beside(self.watch, is_script=True)
        with beside, self._run_of_script(request, timeout) as task, self._ending(task):
            if watchdog is not None:
                watchdog.begin()
            while (message := self._connection.next(task, timeout + CHILD_LATE_SECONDS, watchdog, over)) is not None:
                if "end" in message:
                    silence = watchdog.verdict if watchdog is not None else None
                    return Survey(self._connection, task, phase=phase, end=message["end"], silence=silence)
                body = message["message"]
                if body.get("type") == "phase":
                    phase = parse(Phase, body)
                elif body.get("type") == "held":
                    return Survey(self._connection, task, phase=phase, held=parse(Held, body))
                elif body.get("type") == "finished":
                    return Survey(self._connection, task, phase=phase, finished=parse(Finished, body))
            who = "the child that ran the script"
            if task.life.death is not None:
                raise refusal(who, task.life.death)
            late = f"has not said within {timeout + CHILD_LATE_SECONDS:.0f} s how the script ended"
            raise refusal(who, Death(is_untold=True), late)

    def fresh_cache(self) -> Path:
        """A new, empty cache folder, for a run that must not reuse compiled code of earlier ones."""
        return self.place.folder(f"cache-{self._connection.number()}")

    def _trial(
        self, request: Request, timeout: float, watchdog: Callable[[], Watchdog] | None, *, is_last: bool
    ) -> list[Outcome]:
        """Run one trial; raises `_Killed` if it was killed and is not the ``is_last`` attempt."""
        transcript, watching = Transcript(), watchdog() if watchdog is not None else None
        start = self._run_of_script if isinstance(request, RUNS_OF_SCRIPTS) else self._task
        began = time.monotonic()
        with start(request, timeout) as task, self._ending(task):
            while (message := self._connection.next(task, timeout + CHILD_LATE_SECONDS, watching)) is not None:
                if "end" in message:
                    end = parse(End, message["end"])
                    if isinstance(request, ExactRequest):
                        self.place.gate.ended(end.taken)
                    is_by_us = end.timed_out or (watching is not None and watching.verdict is not None)
                    if not is_last and rule_for(Death(end.signal, is_by_us=is_by_us)).again is Again.SAME:
                        raise _Killed
                    if not end.timed_out:
                        self._pace.ended(time.monotonic() - began, compiles=request.task == TrialRequest.task)
                    return transcript.outcomes(message["end"], watching.seen() if watching is not None else None)
                transcript.hear(message["message"], task.taken)
            if not is_last and task.life.death is not None and rule_for(task.life.death).again is Again.SAME:
                raise _Killed
            return [Outcome(ending=Ending.LOST, phase=transcript.phase)]

    @contextmanager
    def _ending(self, task: Task) -> Iterator[None]:
        """Kill the task if the block raises: its result is not needed, and it must not compete with the next one."""
        try:
            yield
        except BaseException:
            self._connection.kill(task)
            raise

    @contextmanager
    def _task(self, request: Request, timeout: float) -> Iterator[Task]:
        yield self._connection.send(request, timeout)

    @contextmanager
    def _run_of_script(self, request: Request, timeout: float) -> Iterator[Task]:
        """Start a task that runs the user's script in a room of its own; it counts as in progress inside the block.

        If no other run is in progress, it starts by clearing the files of earlier ones from the sandbox's own ``/tmp``.
        """
        room = {"rooms": str(self.place.scratch / "rooms"), "origin": str(self.place.origin)}
        with self._starting_run:
            clear = self.place.emptied() if self._runs == 0 else ()
            task = self._connection.send(request, timeout, room={**room, "clear": clear})
            self._runs += 1
        try:
            yield task
        finally:
            with self._starting_run:
                self._runs -= 1


class _Killed(Exception):
    """A trial was killed by SIGKILL, or the whole child was."""
