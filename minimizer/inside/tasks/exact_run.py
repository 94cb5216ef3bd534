"""The exact run of a script, compiled or eager: records, at each boundary, the state that the script can observe.

Both sides run eager's own kernels; the compiled side uses Dynamo's backend ``eager``, which runs the graphs as captured. So the two
must be equal to the bit, and any difference comes from Dynamo.
"""

from __future__ import annotations

import collections
import functools
import os
import random
import sys
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.utils
from torch import overrides
from torch.utils._device import DeviceContext

from ..exact.boundaries import Boundaries, watch_dynamo
from ..exact.observe import Entry
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
MOST_GRAPHS, MOST_CALLS = 10_000, 1000
"""Most graphs, and most calls of each, for which the number of the outermost call is reported."""
LONGEST_DELAY = 5.0
"""Seconds; the most that an eager call is delayed to last as long as the compiled one did."""
NAME = "minimizer_exact"
"""Name under which we register our variant of Dynamo's backend ``eager``."""
OTHERWISE = ("tag_activation_checkpoint", "wrap_activation_checkpoint")
"""Operators on which this backend, and no other, differs from eager: it recomputes a checkpointed region without restoring the
forward's random state, and so draws other random numbers."""
BUILTINS = {name: part for name, part in vars(torch).items() if isinstance(part, types.BuiltinFunctionType)}
"""The functions of the module `torch` that are written in C++, before a script replaces any."""
IS_COMPILING = ("is_compiling", "is_dynamo_compiling")


class Log:
    """The looks of a run, each stored as the changes since the previous look."""

    def __init__(self) -> None:
        self.looks: list[Message] = []
        self.truncated = ""
        """The boundary from which on looks are dropped; empty if none are."""
        self._characters = 0
        self._last: dict[str, Entry] = {}
        self._light: dict[str, Entry] = {}

    def add(self, event: Message, seen: dict[str, Entry]) -> None:
        """Add a look, unless a limit is reached."""
        last = self._last if event["full"] else self._light
        changed = {path: entry for path, entry in seen.items() if last.get(path) != entry}
        gone = [path for path in last if path not in seen]
        told = sum(len(path) + sum(map(len, [*entry, *entry.values()])) + 20 for path, entry in changed.items())
        self._characters += told + sum(map(len, gone))
        if self.truncated or self._characters > MOST_SENT or len(self.looks) == MOST_LOOKS:
            self.truncated = self.truncated or f"{event['event']} {event['number']}"
            return
        self.looks.append({**event, "changed": changed, "gone": gone})
        if event["full"]:
            self._last = seen
        else:
            self._light = seen


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
    torch._dynamo.register_backend(_backend(otherwise, graph_calls, lambda: boundaries.calls), name=NAME)
    use_backend(NAME)
    first, last = request.eager or (1, 0)
    if first == 1 and last is None:
        _pretend_to_compile()
    boundaries = Boundaries(
        is_own=_ownership(request.script),
        is_eager=lambda call: first <= call and (last is None or call <= last),
        is_full=(lambda unit: unit & (unit - 1) == 0) if request.full is None else set(request.full).__contains__,
        before=_resetting(request.reset, request.delays),
        on_look=log.add,
    )
    attempts = Attempts(lambda: None)
    channel.send(Phase(phase="exact"))
    error = what_ends(request.script, request.args, request.text)
    if error is None:
        boundaries.end()
    del ballast
    exact = {
        "looks": log.looks,
        "calls": boundaries.calls,
        "backwards": boundaries.backwards,
        "seconds": [round(s, 4) for s in boundaries.seconds[:MOST_DELAYS]],
        "truncated": boundaries.truncated or log.truncated,
        "sampled": boundaries.sampled,
        "in_threads": boundaries.in_threads,
        "otherwise": sorted(otherwise),
        "graph_calls": graph_calls,
    }
    outcome = Outcome(Ending.SAME) if error is None else Outcome.of_error(Ending.RUNTIME_ERROR, error)
    channel.send(replace(outcome, attempted=attempts.any, exact=exact))


def _unmarked(fn: Any = None, **_: Any) -> Any:
    """A ``nested_compile_region`` that returns the function unmarked."""
    return fn if fn is not None else lambda function: function


def _backend(otherwise: set[str], graph_calls: list[list[int]], outermost: Callable[[], int]) -> Callable[..., Any]:
    """A variant of Dynamo's backend ``eager`` that fills ``otherwise`` and ``graph_calls``; see `ExactLog` on the torch-free side."""

    def eager(graph: torch.fx.GraphModule, inputs: Any, **_: Any) -> Callable[..., Any]:
        targets = [
            node.target
            for part in graph.modules()
            if isinstance(part, torch.fx.GraphModule)
            for node in part.graph.nodes
        ]
        names = {str(target) for target in targets}
        otherwise.update(name for name in OTHERWISE if name in names)
        builtins = {name for t in targets if BUILTINS.get(name := getattr(t, "__name__", "")) is t}
        if len(graph_calls) == MOST_GRAPHS:
            return _as_traced(graph.forward, builtins)
        calls: list[int] = []
        graph_calls.append(calls)

        def forward(*args: Any) -> Any:
            if len(calls) < MOST_CALLS:
                calls.append(outermost())
            return graph.forward(*args)

        return _as_traced(forward, builtins)

    return eager


def _as_traced(forward: Callable[..., Any], builtins: set[str]) -> Callable[..., Any]:
    """Run a graph without what the script does to torch's functions: Dynamo has traced that into the graph.

    Inductor's code calls none of them. The graph itself would apply the script's modes of torch functions twice, and so would it a
    function by which the script replaces one of ``builtins``, since its code finds those by name. A mode that sets the default device
    stays: Dynamo leaves that to the run, and it changes nothing if applied twice.
    """

    @functools.wraps(forward)
    def run(*args: Any) -> Any:
        replaced = {name: vars(torch).get(name) for name in builtins if vars(torch).get(name) is not BUILTINS[name]}
        modes = _popped()
        kept = [mode for mode in modes if isinstance(mode, DeviceContext)]
        _push(kept)
        vars(torch).update({name: BUILTINS[name] for name in replaced})
        try:
            return forward(*args)
        finally:
            vars(torch).update(replaced)
            left = _popped()
            _push(modes if left == kept else [*(mode for mode in modes if not isinstance(mode, DeviceContext)), *left])

    return run


def _popped() -> list[Any]:
    """Leave all modes of torch functions; the innermost comes first."""
    return [overrides._pop_mode() for _ in range(torch._C._len_torch_function_stack())]


def _push(modes: Sequence[Any]) -> None:
    """Enter modes of torch functions, the innermost of which comes first."""
    for mode in reversed(modes):
        overrides._push_mode(mode)


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


def _pretend_to_compile() -> None:
    """Make ``is_compiling()`` true for the script in an eager run, so that a branch on it goes the same way on both sides."""
    inside = os.path.dirname(torch.__file__)
    for module in (torch.compiler, torch._dynamo.external_utils, torch._utils):
        for name in IS_COMPILING:
            original = getattr(module, name, None)
            if original is not None:
                setattr(module, name, _pretending(original, inside))


def _pretending(original: Callable[[], bool], inside: str) -> Callable[[], bool]:
    def is_compiling() -> bool:
        if sys._getframe(1).f_code.co_filename.startswith(inside):
            return original()
        return torch._dynamo.eval_frame._stance.stance == "force_eager"

    return is_compiling


def _ballast() -> list[Any]:
    """Allocate objects of many sizes, so that the script's objects get other addresses than in the previous run."""
    sizes = random.Random(time.monotonic_ns())
    return [bytearray(sizes.randrange(1, 512)) for _ in range(100_000)] + [
        [None] * sizes.randrange(8) for _ in range(50_000)
    ]
