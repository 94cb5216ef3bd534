"""Runs a script without our hooks and reports whether it fails: the trial of the script level."""

from __future__ import annotations

import concurrent.futures.thread
import contextlib
import functools
import linecache
import os
import sys
import threading
import types
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
import torch._dynamo.utils
import torch._inductor.config

from .. import driven
from ..backend import backend
from ..compiler import caches, subsystems
from ..compiler.operators import PlacedOperators, TorchCalls, unusual
from ..messages import Phase
from ..outcome import Ending, Outcome
from ..questions import CALLS_EAGER, WITHOUT_KERNELS, ScriptRequest
from ..values.saved import saved_bytes
from ..watch import compilations
from ..watch.attempts import Attempts
from ..watch.health import MOST_COMPILATIONS
from ..wire import Channel, Message
from .random_start import RandomStart

Compile = Callable[..., Any]


def rerun(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer a `ScriptRequest` with one `Outcome`.

    It is ``same`` if the script ended without an error, ``eager_error`` if it failed with the compiler off, else ``compile_error`` or
    ``runtime_error``.
    """
    request = ScriptRequest.read(message)
    torch._inductor.config.compile_threads = request.threads or 1
    subsystems.install(request.switches, channel)
    watch = _Watch(request.script)
    if not request.compile:
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
        # Fill uninitialised memory with NaN, so that a candidate that lost its ``zero_()`` does not pass by chance.
        torch.use_deterministic_algorithms(True, warn_only=True)
    if request.backend == WITHOUT_KERNELS:
        use_backend("inductor")
        for name, value in CALLS_EAGER.items():
            setattr(torch._inductor.config, name, value)
    elif request.backend is not None:
        use_backend(request.backend)
    if request.observe:
        watch.install()
    if request.measure:
        torch._dynamo.utils.set_compilation_metrics_limit(MOST_COMPILATIONS)
    if request.recompile_limit is not None:
        torch._dynamo.config.recompile_limit = request.recompile_limit
    # A failure before this message is not the compiler's.
    attempts = Attempts(lambda: channel.send(Phase("script", "compiled")))
    channel.send(Phase("script", "script" if request.compile else "eager"))
    start = RandomStart(request.state)
    counted: contextlib.AbstractContextManager[Mapping[Any, int]] = contextlib.nullcontext({})
    if request.count_saved:
        counted = saved_bytes()
    with caches.left_to_script() if request.caches else contextlib.nullcontext(), counted as saved:
        error = what_ends(request.script, request.args, request.text)
    breaks = list(torch._dynamo.utils.counters["graph_break"])[:20]
    outcome = _outcome(error, compiled=request.compile)
    told = replace(outcome, graph_breaks=breaks, attempted=attempts.any, draws=start.is_left, saved=sum(saved.values()))
    if request.measure:
        graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        told = replace(told, broken=compilations.breaks(()), recompiled=compilations.recompiles(), graphs=graphs)
    channel.send(watch.added_to(told))


def _outcome(error: BaseException | None, *, compiled: bool) -> Outcome:
    if error is None:
        return Outcome(Ending.SAME)
    return Outcome.raised(error) if compiled else Outcome.of_error(Ending.EAGER_ERROR, error)


def what_ends(
    path: str, args: Sequence[str], text: str | None = None, on_start: Callable[[], None] = lambda: None
) -> BaseException | None:
    """Run a script; returns the exception that ended it, or None for a good end, including an exit with status 0.

    Args:
        path: the script's file.
        args: the arguments of its command line.
        text: replaces the file's content.
        on_start: called just before the script's own code begins.
    """
    try:
        run_script(path, args, text, on_start)
    except SystemExit as stop:
        return stop if stop.code not in (None, 0) else None
    except BaseException as raised:
        return raised
    return None


def run_script(path: str, args: Sequence[str], text: str | None, on_start: Callable[[], None]) -> None:
    """Execute a script in this process as ``python path args`` would; ``text`` replaces the file's content.

    A script that asks for our own backend gets inductor, so that no check runs inside a check. As at interpreter exit,
    non-daemon threads are joined. A script that serves is driven and ended as the environment specifies (see `driven`).

    Raises:
        BaseException: whatever the script raises; a SystemExit after failed unit tests has the first failure as its
            cause.
    """
    let_nothing_check_itself()
    torch._dynamo.register_backend(backend.minimizer, name="minimizer")
    if text is None:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    else:
        code = compile(text, path, "exec", dont_inherit=True)
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    sys.argv = [path, *args]
    sys.path.insert(0, os.path.dirname(path))
    with _failed_tests() as failed, contextlib.ExitStack() as plan:
        plan.callback(driven.begin())
        on_start()
        try:
            exec(code, module.__dict__)
        except SystemExit as stop:
            if failed and stop.code not in (None, 0):
                raise stop from failed[0]
            if stop.code in (None, 0):
                _join_threads()
            raise
        _join_threads()


def let_nothing_check_itself() -> None:
    """Make our own backend plain inductor, in this process and in its child processes."""
    os.environ[backend.UNCHECKED] = "1"


def _join_threads() -> None:
    """Join the threads that Python joins at exit, except those of thread pools, which end only when the interpreter
    shuts down.
    """
    pools = concurrent.futures.thread._threads_queues
    others = (threading.main_thread(), threading.current_thread())
    while left := [t for t in threading.enumerate() if not t.daemon and t not in others and t not in pools]:
        left[0].join()


@contextlib.contextmanager
def _failed_tests() -> Iterator[list[BaseException]]:
    """Collect the exceptions of failing unit tests, since ``unittest.main`` only prints them and exits."""
    failed: list[BaseException] = []
    with contextlib.ExitStack() as stack:
        for name in ("addError", "addFailure"):
            original = getattr(unittest.TestResult, name)

            def add(result: Any, test: Any, error: Any, original: Callable[..., None] = original) -> None:
                failed.append(error[1])
                original(result, test, error)

            setattr(unittest.TestResult, name, add)
            stack.callback(setattr, unittest.TestResult, name, original)
        yield failed


def use_backend(name: str, instead_of: Mapping[str, str] = MappingProxyType({})) -> None:
    """Force this backend for all later compilations of this process, by any entry.

    ``instead_of`` overrides it for some.
    """

    ways = {
        **instead_of,
        **{other: other for other in instead_of.values()},
    }  # a decorator passes the chosen backend again

    def chosen(asked: Any) -> str:
        return ways.get(asked, name) if isinstance(asked, str) else name

    torch.compile = _with_backend(torch.compile, chosen)
    for entry in ("optimize", "optimize_assert"):
        setattr(torch._dynamo, entry, _optimize_with(getattr(torch._dynamo, entry), chosen))


def _with_backend(original: Compile, chosen: Callable[[Any], str]) -> Compile:
    """A ``torch.compile`` that replaces the script's backend."""

    def compile_(model: Any = None, **kwargs: Any) -> Any:
        rest = {key: value for key, value in kwargs.items() if key not in ("backend", "mode", "options")}
        return original(model, backend=chosen(kwargs.get("backend", "inductor")), **rest)

    return compile_


def _optimize_with(original: Compile, chosen: Callable[[Any], str]) -> Compile:
    """A ``torch._dynamo.optimize`` that replaces the backend, unless called by ``torch.compile`` with one already
    chosen.
    """

    def optimize(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else kwargs.pop("backend", None)
        is_chosen = isinstance(given, torch._TorchCompileWrapper | torch._TorchCompileInductorWrapper)
        return original(given if is_chosen else chosen(given), *args[1:], **kwargs)

    return optimize


class _Watch:
    """A ``torch.compile`` that compiles nothing, and records the operators and calls that run inside the functions."""

    def __init__(self, script: str) -> None:
        self._operators, self._calls = PlacedOperators(script), TorchCalls()
        self._unusual: dict[str, None] = {}

    def install(self) -> None:
        """Install this as ``torch.compile``."""
        torch.compile = self.compile
        self._operators.follow_modules()

    def added_to(self, outcome: Outcome) -> Outcome:
        return replace(
            outcome,
            ops=self._operators.seen,
            placed=list(self._operators.calls),
            calls=self._calls.count,
            unusual=list(self._unusual),
        )

    def compile(self, model: Any = None, **kwargs: Any) -> Any:
        """Replacement for ``torch.compile``."""
        if model is None:
            return self._watched
        if isinstance(model, torch.nn.Module):
            model.forward = self._watched(model.forward)
            return model
        return self._watched(model)

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            self._unusual.update(dict.fromkeys(unusual((args, kwargs))))
            with self._operators, self._calls:
                return function(*args, **kwargs)

        return run
