"""The exact run of a script, compiled or eager: records, at each boundary, the state that the script can observe.

Both sides run eager's own kernels; the compiled side uses Dynamo's backend ``eager``, which runs the graphs as captured. So the two
must be equal to the bit, and any difference comes from Dynamo.
"""

from __future__ import annotations

import collections
import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.utils

from ..exact.as_traced import eager_as_traced
from ..exact.boundaries import Boundaries, watch_dynamo
from ..exact.leaves import Entry
from ..exact.redrawn import RedrawnInside
from ..exact.unseen import LOOKS
from ..exact.written import Written
from ..messages import Phase
from ..outcome import Ending, Outcome
from ..watch.attempts import Attempts
from ..wire import Channel, Message
from .requests import ExactRequest
from .script_run import use_backend, what_ends

MOST_SENT = 32 << 20
"""Most characters of the looks of one run, which are sent as one line of JSON."""
MOST_LOOKS = 5000
"""Most looks that one run reports."""
MOST_DELAYS = 1000
"""Most calls whose duration is reported, for later runs to delay theirs by."""
LONGEST_DELAY = 5.0
"""Seconds; the most that an eager call is delayed to last as long as the compiled one did."""
NAME = "minimizer_exact"
"""Name under which we register our variant of Dynamo's backend ``eager``."""
IS_COMPILING = ("is_compiling", "is_dynamo_compiling")
LIBRARY = ("nn", "optim")
"""Packages of torch whose code chooses what to compute by whether it is compiled, as a script's may."""
OF_HOOKS = os.path.join("nn", "modules", "module.py")
"""What chooses there how hooks are run, which is the compiler's to do right."""


class Log:
    """The looks of a run, each stored as the changes since the previous look."""

    def __init__(self) -> None:
        self.looks: list[Message] = []
        self.truncated = ""
        """The boundary from which on looks are dropped; empty if none are."""
        self._characters = 0
        self._last: dict[tuple[int, bool], dict[str, Entry]] = {}
        """What the last look of each thread and sort saw."""

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
        """The looks in an order that does not depend on how threads interleave: those of a thread behind its start."""
        looks = sorted(self.looks, key=lambda look: look["order"])
        return [{name: part for name, part in look.items() if name != "order"} for look in looks]


def exact_run(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer an `ExactRequest` with one `Outcome`, whose ``exact`` holds the looks."""
    request = ExactRequest.read(message)
    log = Log()
    torch._dynamo.utils.counters.default_factory = _Silent  # a script may read them, and they differ between runs
    torch._dynamo.utils.counters.clear()
    watch_dynamo()
    for name, value in request.config.items():
        setattr(torch._dynamo.config, name, value)
    if not request.regions:
        torch.compiler.nested_compile_region = _unmarked
    random.seed(0)  # Python reseeds `random` in each fork
    ballast = _ballast() if request.moved else None
    otherwise: set[str] = set()
    graph_calls: list[list[int]] = []
    torch._dynamo.register_backend(eager_as_traced(otherwise, graph_calls, lambda: boundaries.call_now()), name=NAME)
    use_backend(NAME)
    first, last = request.eager or (1, 0)
    if first == 1 and last is None:
        _pretend_to_compile(library=request.library)
    redrawn = RedrawnInside(request.redrawn) if request.redrawn is not None else None
    written = Written()
    boundaries = Boundaries(
        is_own=_ownership(request.script),
        is_eager=lambda call: first <= call and (last is None or call <= last),
        is_full=(lambda unit: unit & (unit - 1) == 0) if request.full is None else set(request.full).__contains__,
        before=_resetting(request.reset, request.delays),
        on_look=log.add,
        redrawn=redrawn,
        is_dense=request.full is not None,
        waits=request.moved,
        written=written,
    )
    attempts = Attempts(lambda: None)
    channel.send(Phase(phase="exact"))
    with redrawn or contextlib.nullcontext():
        error = what_ends(request.script, request.args, request.text)
    if error is None:
        boundaries.end()
    written.give_back()
    if log.truncated:
        boundaries.unseen.add(LOOKS, log.truncated)
    for stack in boundaries.unseen.stacks:
        print(f"not observed, by an error of the observer's own: {stack}", file=sys.__stderr__)
    del ballast
    exact = {
        "looks": log.ordered(),
        "calls": boundaries.calls,
        "backwards": boundaries.backwards,
        "seconds": [round(s, 4) for s in boundaries.seconds[:MOST_DELAYS]],
        "unseen": boundaries.unseen.told(),
        "stacks": boundaries.unseen.stacks,
        "otherwise": sorted(otherwise),
        "graph_calls": graph_calls,
    }
    outcome = Outcome(Ending.SAME) if error is None else Outcome.of_error(Ending.RUNTIME_ERROR, error)
    channel.send(replace(outcome, attempted=attempts.any, exact=exact))


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


def _resetting(reset: int | None, delays: Sequence[float]) -> Callable[[int], None]:
    """The hook that runs before each call: resets Dynamo before call ``reset``, and delays calls by ``delays`` (seconds)."""

    def before(call: int) -> None:
        if call == reset:
            torch._dynamo.reset()
        if call <= len(delays):
            time.sleep(min(delays[call - 1], LONGEST_DELAY))

    return before


def _pretend_to_compile(*, library: bool) -> None:
    """Make ``is_compiling()`` true for the script in an eager run, so that a branch on it goes the same way on both sides.

    The rest of torch is told the truth: it would treat its tensors as traced ones. ``library``: but for `LIBRARY`.
    """
    inside = os.path.dirname(torch.__file__) + os.sep
    told = tuple(os.path.join(inside, package) + os.sep for package in LIBRARY) if library else ()

    def is_told(file: str) -> bool:
        return not file.startswith(inside) or (file.startswith(told) and file != os.path.join(inside, OF_HOOKS))

    for module in (torch.compiler, torch._dynamo.external_utils, torch._utils):
        for name in IS_COMPILING:
            original = getattr(module, name, None)
            if original is not None:
                setattr(module, name, _pretending(original, is_told))


def _pretending(original: Callable[[], bool], is_told: Callable[[str], bool]) -> Callable[[], bool]:
    def is_compiling() -> bool:
        if not is_told(sys._getframe(1).f_code.co_filename):
            return original()
        return torch._dynamo.eval_frame._stance.stance == "force_eager"

    return is_compiling


def _ballast() -> list[Any]:
    """Allocate objects of many sizes, so that the script's objects get other addresses than in the previous run."""
    sizes = random.Random(time.monotonic_ns())
    return [bytearray(sizes.randrange(1, 512)) for _ in range(100_000)] + [
        [None] * sizes.randrange(8) for _ in range(50_000)
    ]
