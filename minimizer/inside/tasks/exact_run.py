"""The exact run of a script, compiled or eager: records, at each boundary, the state that the script can observe.

Both sides run eager's own kernels; the compiled side uses Dynamo's backend ``eager``, which runs the graphs as
captured. So the two must be equal to the bit, and any difference comes from Dynamo. A further run also traces the
graphs with AOTAutograd, which may round otherwise; everything else must be equal there too.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.utils

from ..exact.as_dynamo import Optimizers
from ..exact.as_traced import eager_as_traced
from ..exact.boundaries import Boundaries, line_of
from ..exact.checkpointed import draw_again
from ..exact.compiler_writes import CompilerWrites
from ..exact.leaves import Entry
from ..exact.machine import Machine
from ..exact.moved import Moved
from ..exact.redrawn import RedrawnGraphs, WholeTensors
from ..exact.stances import Forced
from ..exact.translations import Translations
from ..exact.unseen import LOOKS, Unseen
from ..exact.wrappers import Glances, leave_out_compiler
from ..exact.written import Written
from ..messages import Phase
from ..outcome import Ending, Outcome
from ..questions import MOST_DELAYS, ExactRequest
from ..watch.attempts import Attempts
from ..wire import Channel, Message
from .random_start import RandomStart
from .script_run import use_backend, what_ends

MOST_SENT = 32 << 20
"""Most characters of the looks of one run, which are sent as one line of JSON."""
MOST_LOOKS = 5000
"""Most looks that one run reports."""
NAME, NAME_OF_AOT = "minimizer_exact", "minimizer_exact_aot"
"""Names under which we register our variants of Dynamo's backends ``eager`` and ``aot_eager``."""
WITH_AOT = (
    "inductor",
    "cudagraphs",
    "aot_eager",
    "aot_eager_decomp_partition",
    "aot_eager_default_partitioner",
    "aot_ts",
)
"""PyTorch's backends that include AOTAutograd."""


class Log:
    """The looks of a run, each stored as the changes since the previous look."""

    def __init__(self) -> None:
        self.looks: list[Message] = []
        self.truncated = ""
        """The boundary from which on looks are dropped; empty if none are."""
        self._characters = 0
        self._last: dict[tuple[int, bool], dict[str, Entry]] = {}
        """The last look of each thread and type."""

    def add(self, event: Message, seen: dict[str, Entry]) -> None:
        """Add a look, unless a limit is reached."""
        last = self._last.get((event["thread"], event["full"]), {})
        changed = {path: entry for path, entry in seen.items() if last.get(path) != entry}
        gone = [path for path in last if path not in seen]
        told = sum(len(path) + sum(map(len, [*entry, *entry.values()])) + 20 for path, entry in changed.items())
        self._characters += told + sum(map(len, gone))
        if self.truncated or self._characters > MOST_SENT or len(self.looks) == MOST_LOOKS:
            self.truncated = self.truncated or f"{event['event']} {event['number']}"
            return
        self.looks.append({**event, "changed": changed, "gone": gone})
        self._last[event["thread"], event["full"]] = seen

    def ordered(self) -> list[Message]:
        """The looks in an order independent of thread interleaving: each thread's looks follow its start."""
        looks = sorted(self.looks, key=lambda look: look["order"])
        return [{name: part for name, part in look.items() if name != "order"} for look in looks]


def exact_run(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer an `ExactRequest` with one `Outcome`, whose ``exact`` holds the looks."""
    request = ExactRequest.read(message)
    _set_up(request)
    run = ExactRun(request)
    channel.send(Phase(phase="exact"))
    error = run.what_ends()
    outcome = Outcome(Ending.SAME) if error is None else Outcome.of_error(Ending.RUNTIME_ERROR, error)
    channel.send(replace(outcome, attempted=run.attempts.any, draws=run.start.is_left, exact=run.seen()))


class ExactRun:
    """The observers of a run, in place for the rest of this process, and what they have seen."""

    def __init__(self, request: ExactRequest) -> None:
        self._request = request
        self._log, self._graph_calls, self._is_own = Log(), list[list[int]](), _ownership(request.script)
        self.start = RandomStart(request.state)
        self._translations = Translations()
        is_compiling = self._translations.is_under_way
        self._machine = Machine(is_own=self._is_own, replay=request.replay, is_compiling=is_compiling)
        self._moved = (
            Moved(is_own=self._is_own, delays=request.delays, resident=request.resident) if request.moved else None
        )
        redrawn = request.redrawn
        self._redrawn = RedrawnGraphs(redrawn["seed"], set(redrawn["units"])) if redrawn else None
        self._optimizers = Optimizers() if request.library else None
        self._unseen = Unseen()
        self._glances = (
            Glances(self._is_own, lambda frame: line_of(frame, self._is_own), request.through)
            if request.through is not None
            else None
        )
        self._words = WholeTensors(self._unseen, of=request.whole)
        forced = Forced(library=request.library, glances=self._glances)
        self._printed = Written()
        draw_again(is_compiling)
        self._boundaries = self._hooked(forced)
        self._writes = CompilerWrites(self._boundaries.walk) if request.written else None
        self._translations.watch(self._writes.watching if self._writes is not None else contextlib.nullcontext)
        self._register_backends()
        _choose_backend(request)
        if self._glances is not None:
            self._glances.watch()
        _let_explain(self._boundaries)
        self.attempts = Attempts(lambda: None)

    def what_ends(self) -> BaseException | None:
        """Run the script, and look once more at its end; returns what it raised."""
        request, moved = self._request, self._moved
        on_start = moved.begin if moved is not None else lambda: None
        error = what_ends(request.script, request.args, request.text, on_start)
        if error is None:
            if moved is not None:
                moved.release()
            self._boundaries.end()
        self._printed.give_back()
        return error

    def seen(self) -> Message:
        """The looks, and what else the observers have noted."""
        if self._log.truncated:
            self._unseen.add(LOOKS, self._log.truncated)
        for stack in self._unseen.stacks:
            print(f"not observed, by an error of the observer's own: {stack}", file=sys.__stderr__)
        return {
            "looks": self._log.ordered(),
            "calls": self._boundaries.calls,
            "backwards": self._boundaries.backwards,
            "seconds": [round(s, 4) for s in self._boundaries.seconds[:MOST_DELAYS]],
            "unseen": self._unseen.told(),
            "stacks": self._unseen.stacks,
            "packages": self._translations.packages(self._is_own),
            "graph_calls": self._graph_calls,
            "reads": self._machine.text,
            "resident": _resident(),
            "written": self._writes.paths if self._writes is not None else {},
            "whole": self._words.kept,
            "wrappers": self._glances.wrappers if self._glances is not None else 0,
            "glances": list(self._glances.seen.values()) if self._glances is not None else [],
        }

    def _hooked(self, forced: Forced) -> Boundaries:
        request = self._request
        return Boundaries(
            is_own=self._is_own,
            is_eager=self._is_eager,
            is_full=self._is_full,
            before=self._before,
            on_look=self._log.add,
            forced=forced,
            inside=self._inside,
            words=self._words,
            unseen=self._unseen,
            translations=self._translations,
            is_dense=request.full is not None,
            waits=request.moved,
            modules=request.modules,
            written=self._printed,
        )

    def _register_backends(self) -> None:
        for name, aot in ((NAME, False), (NAME_OF_AOT, True)):
            backend = eager_as_traced(self._graph_calls, self._boundaries.call_now, self._of_graph, aot=aot)
            torch._dynamo.register_backend(backend, name=name)

    def _is_eager(self, call: int) -> bool:
        first, last = self._request.eager or (1, 0)
        return (first <= call and (last is None or call <= last)) or call in self._request.shown

    def _is_full(self, unit: int) -> bool:
        full = self._request.full
        return unit & (unit - 1) == 0 if full is None else unit in full

    def _before(self, call: int) -> None:
        if call == self._request.reset:
            torch._dynamo.reset()
        if self._request.in_order:
            torch._dynamo.config.reorderable_logging_functions = set()
        if self._moved is not None:
            self._moved.before(call)

    def _inside(self, unit: int, what: str) -> AbstractContextManager[object]:
        if self._redrawn is not None:
            return self._redrawn.inside(unit, what)
        if self._optimizers is not None and what == "eager call":
            return self._optimizers.as_dynamo()
        return contextlib.nullcontext()

    def _of_graph(self) -> AbstractContextManager[object]:
        return self._redrawn.of_graph() if self._redrawn is not None else contextlib.nullcontext()


def _set_up(request: ExactRequest) -> None:
    """Configure the compiler as the run requests."""
    torch._dynamo.utils.counters.default_factory = _Silent  # a script may read them, and runs differ
    torch._dynamo.utils.counters.clear()
    for name, value in request.config.items():
        setattr(torch._dynamo.config, name, value)
    if not request.regions:
        torch.compiler.nested_compile_region = _unmarked


def _choose_backend(request: ExactRequest) -> None:
    """Make the script compile with one of our backends, with its own, or not at all."""
    if not request.own_backend:
        use_backend(NAME, dict.fromkeys(WITH_AOT, NAME_OF_AOT) if request.aot else {})
    if request.bare:
        leave_out_compiler()


def _let_explain(boundaries: Boundaries) -> None:
    """Let ``torch._dynamo.explain`` compile on both sides: its answer is about the compiler, and its calls are not the
    script's.
    """
    original = torch._dynamo.explain

    @functools.wraps(original)
    def explain(*args: Any, **kwargs: Any) -> Any:
        result = _aside(original, boundaries)(*args, **kwargs)
        return _aside(result, boundaries) if callable(result) else result

    torch._dynamo.explain = explain


def _aside(function: Callable[..., Any], boundaries: Boundaries) -> Callable[..., Any]:
    @functools.wraps(function, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        boundaries.is_aside = True
        try:
            return function(*args, **kwargs)
        finally:
            boundaries.is_aside = False

    return run


def _resident() -> int:
    """Peak memory of this process, in bytes; 0 if unavailable."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _unmarked(fn: Any = None, **_: Any) -> Any:
    """A ``nested_compile_region`` that returns the function unmarked."""
    return fn if fn is not None else lambda function: function


class _Silent(collections.Counter[Any]):
    """A replacement for Dynamo's counters that stays empty."""

    def __setitem__(self, key: Any, value: int) -> None:
        """Ignore the count."""


def _ownership(script: str) -> Callable[[str], bool]:
    folder = os.path.dirname(os.path.abspath(script)) + os.sep
    installed = (os.path.dirname(torch.__file__), sys.prefix, sys.base_prefix, os.path.dirname(os.__file__))

    def is_own(file: str) -> bool:
        is_installed = "-packages" + os.sep in file or file.startswith(tuple(path + os.sep for path in installed))
        return file.startswith(folder) and not is_installed

    return is_own
