"""The dynamo backend ``minimizer``: inductor, with every compiled graph checked against eager on its first calls.

``torch.compile(model, backend="minimizer")`` finds it by its entry point. ``options={"minimizer.on_failure": ...}`` or
``MINIMIZER_BACKEND_ON_FAILURE`` decides what happens with a failing graph:

- ``minimize``: save the graph with its inputs, and reduce it in a separate process at low priority while the program runs;
- ``report``: print a message only;
- ``raise``: save it, and raise `CompiledDiffers`, or the compiler's exception;
- ``off``: check nothing.

The program continues with that graph in eager in any case. docs/backend.md describes the other choices and their cost.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import fx

from .checked import Bounds, CheckedGraph, Fault, Spent
from .saved import save

PREFIX, VARIABLE = "minimizer.", "MINIMIZER_BACKEND_"
UNCHECKED = "MINIMIZER_UNCHECKED"
"""Environment variable that sends every graph straight to inductor, whatever the options; set in runs that we already
observe.
"""
ON_FAILURE = ("minimize", "report", "raise", "off")
REDUCED = 3
"""Most graphs of one process to reduce; for further ones only the command is printed."""
START_SECONDS = 60
"""Timeout for writing a script from a saved graph, which takes about a second."""


class CompiledDiffers(RuntimeError):
    """A compiled graph differs from eager; the message says where it was saved."""


@dataclass(frozen=True)
class Choices:
    """The user's choices, from ``options=`` of ``torch.compile`` or from environment variables."""

    on_failure: str = "minimize"
    calls: int = Bounds.calls
    seconds: float = Bounds.seconds
    megabytes: int = Bounds.nbytes >> 20
    budget: int = 900
    out: str = "minimizer-out"
    wait: bool = False

    @classmethod
    def read(cls, options: dict[str, Any]) -> Choices:
        """Read the choices from ``options`` (names ``minimizer.*``), which take precedence over the environment.

        Raises:
            ValueError: there is no such choice, or a value cannot be used.
        """
        named = {option.removeprefix(PREFIX): value for option, value in options.items()}
        known: dict[str, type] = {field.name: type(getattr(cls, field.name)) for field in fields(cls)}
        if unknown := sorted(named.keys() - known.keys()):
            raise ValueError(f"no option {PREFIX}{unknown[0]}; there are {', '.join(PREFIX + name for name in known)}")
        values: dict[str, Any] = {}
        for name, kind in known.items():
            value = named.get(name, os.environ.get(VARIABLE + name.upper()))
            if value is not None:
                try:
                    values[name] = value in (True, "1", "true", "yes", "on") if kind is bool else kind(value)
                except (TypeError, ValueError):
                    raise ValueError(f"{PREFIX}{name}: {value!r} is not a {kind.__name__}") from None
        choices = cls(**values)
        if choices.on_failure not in ON_FAILURE:
            raise ValueError(f"{PREFIX}on_failure: {choices.on_failure!r} is none of {', '.join(ON_FAILURE)}")
        return choices

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.calls, self.seconds, self.megabytes << 20)


def minimizer(
    graph: fx.GraphModule, inputs: list[Any], *, options: dict[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """The backend. ``mode``, and ``options`` that do not begin with ``minimizer.``, are passed to inductor.

    Raises:
        ValueError: an option is wrong.
    """
    options = options or {}
    choices = Choices.read({name: value for name, value in options.items() if name.startswith(PREFIX)})
    for_inductor = {name: value for name, value in options.items() if not name.startswith(PREFIX)}
    inductor = torch._TorchCompileInductorWrapper(mode, for_inductor or None, None)
    if choices.on_failure == "off" or UNCHECKED in os.environ:
        return inductor(graph, inputs)
    handler = _Handler(choices, {"mode": mode, "options": for_inductor})
    checked = CheckedGraph(graph, choices.bounds, _process.spent, handler)
    return checked.compile(lambda: inductor(graph, inputs), inputs)


def collect(function: Callable[..., Any], inputs: tuple[Any, ...], folder: str, kwargs: dict[str, Any]) -> Spent:
    """Call a function compiled, check every graph, and save those that fail as ``folder/graph-0`` and so on.

    Args:
        function: anything ``torch.compile`` takes; an already compiled one is unwrapped first.
        inputs: arguments of the one call.
        folder: created if a graph fails.
        kwargs: further arguments of ``torch.compile``; ``mode`` and ``options`` go to inductor.
    """
    spent, faults = Spent(), list[Fault]()
    for_inductor: dict[str, Any] = {name: kwargs.pop(name, None) for name in ("mode", "options")}
    inductor = torch._TorchCompileInductorWrapper(for_inductor["mode"], for_inductor["options"], None)

    def backend(graph: fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        checked = CheckedGraph(graph, Bounds(), spent, faults.append)
        return checked.compile(lambda: inductor(graph, examples), examples)

    original = getattr(function, "_orig_mod", None) or getattr(function, "_torchdynamo_orig_callable", function)
    torch.compile(original, backend=backend, **kwargs)(*inputs)
    for index, fault in enumerate(faults):
        save(fault, os.path.join(folder, f"graph-{index}"), for_inductor)
    return spent


def fails_in_eager(function: Callable[..., Any], inputs: tuple[Any, ...]) -> bool:
    """Whether a function raises without the compiler; calls it once."""
    try:
        torch.compiler.disable(function)(*inputs)
    except Exception:
        return True
    return False


class _Process:
    """State shared by all graphs of this process: faults seen, cost of checking, reductions started."""

    def __init__(self) -> None:
        self.spent = Spent()
        self.seen: set[tuple[str, str]] = set()
        self.folder = ""
        self.saved = 0
        self.children: list[tuple[subprocess.Popen[bytes], str, Choices]] = []
        self._pid = os.getpid()

    def new_folder(self, out: str) -> str:
        """An unused folder name for the next fault."""
        if not self.folder:
            program = os.path.splitext(os.path.basename(sys.argv[0]))[0] or "python"
            self.folder = os.path.abspath(
                os.path.join(out, f"{program}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
            )
        self.saved += 1
        return os.path.join(self.folder, f"graph-{self.saved - 1}")

    def at_exit(self) -> None:
        """Print, once, the state of the reductions and what was left unchecked."""
        if os.getpid() != self._pid:  # in a fork of the user's process
            return
        for child, folder, choices in self.children:
            if choices.wait:
                _say(f"waiting for the reduction in {folder}")
                child.wait()
            ended = child.poll() is not None
            repro = os.path.join(folder, "repro.py")
            if ended and os.path.exists(repro):
                _say(f"reduced: {repro}")
            elif ended:
                _say(f"the reduction has ended without a repro; see {folder}/report.md or {folder}/minimizer.log")
            else:
                _say(f"still being reduced, also after the end of this program: {repro}")
        for note in self.spent.notes:
            _say(note)


class _Handler:
    """Handles the fault of a graph according to the user's choices."""

    def __init__(self, choices: Choices, for_inductor: Mapping[str, Any]) -> None:
        self._choices, self._for_inductor = choices, for_inductor

    def __call__(self, fault: Fault) -> None:
        raises = self._choices.on_failure == "raise"
        identity = (fault.kind, fault.module.code)
        is_new = identity not in _process.seen  # equal blocks of a model give equal graphs, which are reported once
        _process.seen.add(identity)
        folder = self._save(fault) if is_new and self._choices.on_failure != "report" else ""
        command = f"minimizer run {os.path.join(folder, 'graph.py')}" if folder else ""
        said = f"torch.compile: {fault.kind} {_moment(fault)}. {fault.what}"
        if raises:
            if fault.error is not None:
                note = f"To reduce this graph: {command}" if command else "The graph could not be saved."
                if sys.version_info >= (3, 11):
                    fault.error.add_note(note)
                else:
                    _say(note)
                raise fault.error
            raise CompiledDiffers(f"{said}\nTo reduce it: {command}" if command else said)
        if is_new:
            _say(f"{said}\nThis graph continues in eager.")
        if folder and len(_process.children) < REDUCED:
            self._reduce(folder)
        elif folder:
            _say(f"{REDUCED} graphs are being reduced already. For this one: {command}")

    def _save(self, fault: Fault) -> str:
        folder = _process.new_folder(self._choices.out)
        try:
            save(fault, folder, self._for_inductor)
            if self._choices.on_failure == "raise" or len(_process.children) >= REDUCED:
                subprocess.run(_command(folder), timeout=START_SECONDS, check=True, capture_output=True)
        except Exception as error:  # an error of ours must not stop the user's program
            _say(f"this graph cannot be saved, and is not reduced: {type(error).__name__}: {error}"[:500])
            return ""
        return folder

    def _reduce(self, folder: str) -> None:
        lock = os.path.join(os.path.dirname(folder), "lock")
        arguments = ["--budget", str(self._choices.budget), "--jobs", "1", "--no-witness"]
        with open(os.path.join(folder, "minimizer.log"), "wb") as log:
            child = subprocess.Popen(
                [*_command(folder), lock, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that Ctrl-C in the program's terminal does not reach it
            )
        if not _process.children:
            atexit.register(_process.at_exit)
        _process.children.append((child, folder, self._choices))
        _say(f"being reduced, at low priority: {os.path.join(folder, 'repro.py')}")


def _command(folder: str) -> list[str]:
    return [sys.executable, "-m", "minimizer.captured", folder]


def _moment(fault: Fault) -> str:
    return "while compiling" if fault.number < 0 else f"in call {fault.number} of a graph"


def _say(text: str) -> None:
    sys.stderr.write("".join(f"minimizer: {line}\n" for line in text.splitlines()))
    sys.stderr.flush()


_process = _Process()
