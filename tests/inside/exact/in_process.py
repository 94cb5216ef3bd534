"""Exact runs in this process: of a function in the place of a script, whose compiled calls are two functions, eager and compiled."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
import torch
import torch._dynamo

from minimizer.engine.between.answer import Answer
from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.child.exact_log import ExactLog
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.inside.exact import boundaries
from minimizer.inside.exact.boundaries import Boundaries
from minimizer.inside.exact.redrawn import WholeTensors
from minimizer.inside.exact.translations import Translations
from minimizer.inside.exact.unseen import Unseen
from minimizer.inside.exact.written import Written
from minimizer.inside.questions import ExactRequest
from minimizer.inside.tasks.exact_run import Log

Call = Callable[..., Any]
"""``call(eager, compiled, *args)``: a compiled call of the script."""


class Forced:
    """Whether the call that is made now runs without the compiler."""

    is_on = False

    def begin(self) -> None:
        self.is_on = True

    def end(self) -> None:
        self.is_on = False


class InProcess:
    """Runs a script that is a function of ``module``, whose globals are the script's.

    ``state``: those of its globals that it changes. ``written``: whether its files and what it prints are looked at.
    """

    def __init__(
        self, module: ModuleType, script: Callable[[Call], None], state: dict[str, Any], *, written: bool
    ) -> None:
        self._file, self._script, self._state, self._written = module.__file__, script, state, written

    def judge(self, requests: Sequence[ExactRequest], **_: object) -> list[Outcome]:
        return [Outcome(ending=Ending.SAME, exact=self._run(request)) for request in requests]

    def _run(self, request: ExactRequest) -> ExactLog:
        self._state.clear()
        log, unseen, forced = Log(), Unseen(), Forced()
        first, last = request.eager or (1, 0)
        full = request.full
        written, words = Written() if self._written else None, WholeTensors(unseen, of=request.whole)
        with _threads_as_before():
            boundaries = Boundaries(
                is_own=lambda file: file == self._file,
                is_eager=lambda call: first <= call and (last is None or call <= last),
                is_full=lambda unit: unit & (unit - 1) == 0 if full is None else unit in full,
                before=lambda _: None,
                on_look=log.add,
                forced=cast(Any, forced),
                inside=lambda *_: contextlib.nullcontext(),
                words=words,
                unseen=unseen,
                translations=Translations(),
                is_dense=full is not None,
                written=written,
            )

            def compile_wrapper(fn: Any, compiled: Any, *args: Any) -> Any:
                leave = boundaries._enter()
                try:
                    result = (fn if forced.is_on else compiled)(*args)
                finally:
                    leave()
                return result

            self._script(compile_wrapper)
            boundaries.end()
        if written is not None:
            written.give_back()
        told = {
            "looks": log.ordered(),
            "calls": boundaries.calls,
            "unseen": unseen.told(),
            "stacks": unseen.stacks,
            "whole": words.kept,
        }
        return ExactLog.model_validate(told)


@contextlib.contextmanager
def _threads_as_before() -> Iterator[None]:
    """Undo at the end what a run does to the classes whose objects are its threads."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit
    try:
        yield
    finally:
        threading.Thread.start, ThreadPoolExecutor.submit = start, submit  # type: ignore[method-assign]


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave torch alone: calls and backwards of other tests are no boundaries, and there is nothing to be reset or collected."""
    monkeypatch.setattr(Boundaries, "_watch_calls", lambda _: None)
    monkeypatch.setattr(boundaries, "around_backwards", lambda _: None)
    monkeypatch.setattr(torch._dynamo, "reset", lambda: None)
    monkeypatch.setattr(gc, "collect", lambda: 0)


def compared(
    module: ModuleType, script: Callable[[Call], None], state: dict[str, Any], *, written: bool = False
) -> Answer:
    """What exact runs of a script come to."""
    runs = InProcess(module, script, state, written=written)
    return ExactRuns(cast(Executor, runs), Path("script.py"), timeout=1).compare("")
