"""The boundaries of an exact run: entry and exit of each outermost compiled call and of each backward, and the script's end.

`_TorchDynamoContext.enter_exit_hooks` run at entry and exit of the wrapper that ``torch.compile`` returns, outside the traced code,
and also if the call raises. The wrapper exists under the stance ``force_eager`` too, so that a run without the compiler has the
same boundaries.
"""

from __future__ import annotations

import functools
import linecache
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
from torch._dynamo import eval_frame

from ..places import place_of
from ..wire import Message
from .observe import Entry, Look
from .process import state
from .reach import locals_of, user_frames
from .redrawn import RedrawnInside
from .tensors import TensorWords

LIGHT_UNITS = 4096
"""Calls and backwards of which at least the result is recorded; later ones are recorded by full looks only."""
MOST_LOOKS = 400
"""Full looks in one run, to bound its time."""


class Boundaries:
    """Hooks compiled calls and backwards for the rest of this process, and takes a look at each boundary.

    Args:
        is_own: whether a file is the script's own.
        is_eager: whether a call, by its number from 1, should run without the compiler.
        is_full: whether a call or backward, by its number among both, gets full looks.
        before: called with the number of each call before it runs.
        on_look: called with each look: a description of the boundary, and the entries by path.
        redrawn: redraws the roundings of each outermost call and each backward; None: they are left as they are.
    """

    def __init__(
        self,
        *,
        is_own: Callable[[str], bool],
        is_eager: Callable[[int], bool],
        is_full: Callable[[int], bool],
        before: Callable[[int], None],
        on_look: Callable[[Message, dict[str, Entry]], None],
        redrawn: RedrawnInside | None = None,
    ) -> None:
        self._is_own, self._is_eager, self._is_full, self._before, self._on_look = (
            is_own, is_eager, is_full, before, on_look,
        )  # fmt: skip
        self._redrawn = redrawn
        self._words = TensorWords()
        self._depth = 0
        self._thread = threading.get_ident()
        self._looks = 0
        self._known_modules: set[str] = set()
        self._own_modules: list[str] = []
        self.units = self.calls = self.backwards = 0
        self.seconds: list[float] = []
        """Duration of each call."""
        self.truncated = ""
        self.in_threads = False
        """Whether compiled code was called in another thread than the main one; such calls are not observed."""
        self._watch_calls()
        self._watch_backwards()

    @property
    def sampled(self) -> bool:
        """Whether a large tensor was hashed by a sample only."""
        return self._words.sampled

    def end(self) -> None:
        """Take the last look, at the end of the script."""
        self._look({"event": "end", "unit": self.units + 1, "number": 0, "line": 0}, [], None, is_full=True)

    # calls ---------------------------------------------------------------------------------------------------------------

    def _watch_calls(self) -> None:
        context: Any = eval_frame._TorchDynamoContext
        original = context.__init__

        @functools.wraps(original)
        def init(this: Any, *args: Any, **kwargs: Any) -> None:
            original(this, *args, **kwargs)
            this.enter_exit_hooks.insert(0, self._enter)

        context.__init__ = init

    def _enter(self) -> Callable[[], None]:
        """Entry hook of the wrapper; returns its exit hook."""
        if threading.get_ident() != self._thread:
            self.in_threads = True
            return _nothing
        if self._depth:
            self._depth += 1
            return self._leave_inner
        frame = _wrapper(sys._getframe(1))
        self.units += 1
        self.calls += 1
        self._before(self.calls)
        unit, number = self.units, self.calls
        self._boundary("call", "entry", unit, number, frame, self._arguments(frame))
        prior = eval_frame._stance
        if self._is_eager(number):
            eval_frame._set_stance(eval_frame.DynamoStance("force_eager"))
        begun, frames = time.perf_counter(), _frames()
        self._go_in()

        def leave() -> None:
            self._come_out()
            self.seconds.append(time.perf_counter() - begun)
            eval_frame._set_stance(prior)
            frame = _wrapper(sys._getframe(1))
            held = locals_of(frame) if frame is not None else {}
            error = sys.exc_info()[1]
            raised = "result" not in held and error is not None
            roots = [*self._arguments(frame), *([("result", held["result"])] if "result" in held else [])]
            said = {"compiled": _frames() - frames, "raised": type(error) if raised else None}
            del held, error
            self._boundary("call", "exit", unit, number, frame, roots, said)

        return leave

    def _go_in(self) -> None:
        self._depth = 1
        if self._redrawn is not None:
            self._redrawn.act()

    def _come_out(self) -> None:
        self._depth = 0
        if self._redrawn is not None:
            self._redrawn.rest()

    def _leave_inner(self) -> None:
        self._depth -= 1

    def _arguments(self, frame: types.FrameType | None) -> list[tuple[str, Any]]:
        held = locals_of(frame) if frame is not None else {}
        roots = [(f"args[{place}]", value) for place, value in enumerate(held.get("args", ()))]
        roots += [(f"kwargs[{name!r}]", value) for name, value in held.get("kwargs", {}).items()]
        function = held.get("fn")
        return [*roots, ("compiled", function)] if function is not None else roots

    # backwards -----------------------------------------------------------------------------------------------------------

    def _watch_backwards(self) -> None:
        for module in (torch.autograd, torch.autograd.graph):
            original = getattr(module, "_engine_run_backward", None)
            if original is not None:
                module._engine_run_backward = self._backward(original)  # type: ignore[attr-defined]

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            if self._depth or threading.get_ident() != self._thread:
                return original(*args, **kwargs)
            self.units += 1
            self.backwards += 1
            unit, number = self.units, self.backwards
            frame = sys._getframe(1)
            self._boundary("backward", "entry", unit, number, frame, [])
            self._go_in()
            result: Any = None
            raised: type | None = None
            try:
                result = original(*args, **kwargs)
                return result
            except BaseException as error:
                raised = type(error)
                raise
            finally:
                self._come_out()
                self._boundary("backward", "exit", unit, number, frame, [("result", result)], {"raised": raised})

        return run

    # looks ---------------------------------------------------------------------------------------------------------------

    def _boundary(
        self,
        what: str,
        side: str,
        unit: int,
        number: int,
        frame: types.FrameType | None,
        roots: list[tuple[str, Any]],
        said: Message | None = None,
    ) -> None:
        is_full = self._is_full(unit) and self._looks < MOST_LOOKS
        if not is_full and (unit > LIGHT_UNITS or side == "entry"):
            return
        event = {
            "event": f"{what} {side}",
            "unit": unit,
            "number": number,
            **_line(frame, self._is_own),
            **(said or {}),
        }
        self._look(event, roots, frame, is_full=is_full)

    def _look(
        self, event: Message, roots: list[tuple[str, Any]], frame: types.FrameType | None, *, is_full: bool
    ) -> None:
        look = Look(self._is_own, self._words)
        if is_full:
            self._looks += 1
            look.add(self._globals())
            for user in user_frames(frame, self._is_own):
                look.add((f"{user.f_code.co_qualname if sys.version_info >= (3, 11) else user.f_code.co_name}.<locals>.{name}", value)
                         for name, value in locals_of(user).items())  # fmt: skip
            look.add(roots)
        else:
            look.add((name, value) for name, value in roots if name == "result")
        if "raised" in event:
            look.put("raised", _exception(event.pop("raised")))
        for name, entry in state():
            look.put(name, entry)
        look.close()
        self.truncated = self.truncated or look.truncated
        self._on_look({**event, "full": is_full}, look.entries)

    def _globals(self) -> list[tuple[str, Any]]:
        """Globals of the script, then of its own modules, as (path, value)."""
        for name in sys.modules.keys() - self._known_modules:
            self._known_modules.add(name)
            if self._is_own(str(vars(sys.modules[name]).get("__file__") or "") if _is_module(name) else ""):
                self._own_modules.append(name)
        roots: list[tuple[str, Any]] = []
        for name in ["__main__", *(name for name in self._own_modules if name in sys.modules and name != "__main__")]:
            front = "" if name == "__main__" else f"{name}."
            scope = vars(sys.modules[name])
            roots += [
                (front + key, value)
                for key, value in list(scope.items())
                if not (key.startswith("__") or isinstance(value, types.ModuleType) or (id(scope), key) in INSTALLED)
            ]
        return roots


def _is_module(name: str) -> bool:
    return isinstance(sys.modules.get(name), types.ModuleType)


def _exception(kind: type | None) -> Entry:
    """The entry for a raised exception: its type name. A compiler's exception is given by its first base class outside the compiler,
    which is what a handler can catch, and marked."""
    if kind is None:
        return {"type": "exception", "value": ""}
    own = ("torch._dynamo", "torch._inductor", "torch._functorch")
    name = next(base.__qualname__ for base in kind.__mro__ if not str(base.__module__).startswith(own))
    entry = {"type": "exception", "value": name}
    return {**entry, "of": "compiler"} if kind.__qualname__ != name else entry


def _wrapper(frame: types.FrameType | None) -> types.FrameType | None:
    """The wrapper's frame, at most three frames up: until Python 3.11 the comprehension that runs the hooks has a frame too."""
    for _ in range(3):
        if frame is None or frame.f_code.co_name in ("compile_wrapper", "_fn"):
            return frame
        frame = frame.f_back
    return None


def _line(frame: types.FrameType | None, is_own: Callable[[str], bool]) -> Message:
    """``line``: current line number of the innermost frame of the script, or of its own modules; 0 if there is none.

    For a module's ``file`` and ``code`` too: our text of the script does not have that line.
    """
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return {"line": 0}
    path, number = frame.f_code.co_filename, frame.f_lineno
    if path == getattr(sys.modules["__main__"], "__file__", None):
        return {"line": number}
    return {"line": number, "file": place_of(path).name, "code": linecache.getline(path, number).strip()[:300]}


def _frames() -> int:
    """Number of frames that Dynamo was given so far."""
    return COMPILED[0]


COMPILED = [0]
"""Number of frames that Dynamo was given; counted here, since Dynamo's own counters are off in these runs."""


INSTALLED: set[tuple[int, str]] = set()
"""Globals that Dynamo put into a script's modules for its own code: identity of the scope, and name. Not all have a name that tells:
the constant result of ``f`` is ``f_0``."""


def watch_dynamo() -> None:
    """Start counting the frames that Dynamo is given, and noting the globals that it installs while it translates one."""
    from torch._dynamo import convert_frame

    original = convert_frame._compile

    @functools.wraps(original)
    def compile_(code: types.CodeType, globals: dict[str, object], *args: Any, **kwargs: Any) -> Any:
        COMPILED[0] += 1
        before = set(globals)
        try:
            return original(code, globals, *args, **kwargs)
        finally:
            INSTALLED.update((id(globals), name) for name in globals.keys() - before)

    convert_frame._compile = compile_


def _nothing() -> None:
    """Exit hook of a call that is not observed."""
