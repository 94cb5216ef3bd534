"""The boundaries of an exact run: entry and exit of each outermost compiled call and of each backward, and the script's
end.

In other threads, and for compiled calls inside a backward, only a call's arguments and results are looked at: other
threads may be changing the rest, and a backward is half done.

`_TorchDynamoContext.enter_exit_hooks` run at entry and exit of the wrapper that ``torch.compile`` returns, outside the
traced code, and also if the call raises. The wrapper exists under the stance ``force_eager`` too, so that a run without
the compiler has the same boundaries.
"""

from __future__ import annotations

import functools
import gc
import linecache
import random
import sys
import threading
import time
import types
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch._dynamo
import torch.utils.checkpoint

from ..compiler.entries import at_entries
from ..failures import raised_by_dynamo
from ..places import place_of
from ..values.backwards import around_backwards
from ..wire import Message
from .lanes import Lane, Lanes
from .leaves import Entry
from .observe import Look
from .process import modes, state
from .reach import locals_of
from .roots import Roots
from .stances import Forced
from .tensors import TensorWords
from .translations import Translations
from .unseen import IN_THREADS, LOOKS, RECOMPUTED, Unseen
from .walk import DENSE_ITEMS, ITEMS
from .written import Written

LIGHT_UNITS = 4096
"""Calls and backwards with at least their result recorded; later ones are recorded by full looks only."""
MOST_LOOKS = 400
"""Most full looks in one run, to bound its time; the one at the end is always taken."""
MOST_WORK = 2_000_000
"""Objects that the full looks of one run may visit in total; after that only the final look is taken."""
NOWHERE = 10**17
"""The number of calls in threads that the script did not start."""
WAITING_LANES, LONGEST_WAIT = 64, 0.3
"""Most threads whose first call waits in a run with changed timing, and the longest wait in seconds."""


class Boundaries:
    """Hooks compiled calls and backwards for the rest of this process, and takes a look at each boundary.

    Args:
        is_own: whether a file is the script's own.
        is_eager: whether a call, by its number from 1, should run without the compiler.
        is_full: whether a call or backward, by its number among both, gets full looks.
        before: called with the number of each call before it runs.
        on_look: called with each look: a description of the boundary, and the entries by path.
        forced: runs calls without the compiler.
        inside: creates the context of a unit, given its number and type: a ``call``, an ``eager call``, a ``backward``,
            or a ``recomputation`` within one.
        words: describes tensors.
        unseen: counts what is not looked at.
        translations: Dynamo's translations in the meantime.
        is_dense: whether the looks show which item of a large container differs, and trust no tensor's version.
        waits: whether the first call of each thread waits briefly, so that threads interleave differently than in
            another run.
        modules: names of modules of packages whose globals and classes are looked at like the script's own.
        written: the script's printed output and written files; None: they are not looked at.
    """

    def __init__(
        self,
        *,
        is_own: Callable[[str], bool],
        is_eager: Callable[[int], bool],
        is_full: Callable[[int], bool],
        before: Callable[[int], None],
        on_look: Callable[[Message, dict[str, Entry]], None],
        forced: Forced,
        inside: Callable[[int, str], AbstractContextManager[object]],
        words: TensorWords,
        unseen: Unseen,
        translations: Translations,
        is_dense: bool = False,
        waits: bool = False,
        modules: Sequence[str] = (),
        written: Written | None = None,
    ) -> None:
        self._is_own, self._is_eager, self._is_full, self._before, self._on_look = (
            is_own, is_eager, is_full, before, on_look,
        )  # fmt: skip
        self._forced, self._inside, self._words, self.unseen = forced, inside, words, unseen
        self._translations = translations
        self._is_dense, self._waits, self._written = is_dense, waits, written
        self._lanes = Lanes()
        self._lock = threading.RLock()
        """Held while a look is taken and reported."""
        self._nested: set[int] = set()
        """Code identities of compiled functions that were called inside another compiled call."""
        self._looks = self._work = 0
        self._roots = Roots(is_own, modules, translations)
        self.calls = self.backwards = 0
        """Their numbers, in all threads."""
        self.seconds: list[float] = []
        """Duration of each call of the main thread."""
        self.is_aside = False
        """Whether calls made now are not the script's own."""
        self._watch_calls()
        around_backwards(self._backward)

    def call_now(self) -> int:
        """The number of the current thread's last call; 0 for a thread that the script did not start."""
        lane = self._lanes.current()
        return lane.numbered(lane.calls) if lane is not None else 0

    def end(self) -> None:
        """Take the last look, at the end of the script, after releasing all unreferenced objects, the compiler's
        included.
        """
        torch._dynamo.reset()
        gc.collect()
        lane = self._lanes.current()
        assert lane is not None
        event = {"event": "end", "unit": lane.units + 1, "number": 0, "line": 0}
        with self._lock:
            self._look(lane, event, [], None, is_full=True)

    # calls ---------------------------------------------------------------------------------------------------------------

    def _watch_calls(self) -> None:
        at_entries(self._enter)

    def _enter(self) -> Callable[[], None]:
        """Entry hook of the wrapper; returns its exit hook."""
        if self.is_aside:
            return _nothing
        lane, frame = self._lanes.current(), _wrapper(sys._getframe(1))
        if lane is None:
            self.calls += 1
            self.unseen.add(IN_THREADS, "calls in threads that were not started in Python, or among too many")
            return self._made_eager(NOWHERE)
        if lane.depth:
            self._nested.add(_function(frame))
            lane.depth += 1
            return lambda: self._leave_inner(lane)
        if lane.in_backward and (_function(frame) in self._nested or _is_recomputed(frame)):
            self.unseen.add(RECOMPUTED, f"call {lane.numbered(lane.calls)}")
            return self._enter_recomputed(lane)
        return self._enter_outermost(lane, frame)

    def _enter_outermost(self, lane: Lane, frame: types.FrameType | None) -> Callable[[], None]:
        lane.units += 1
        lane.calls += 1
        self.calls += 1
        unit, number = lane.numbered(lane.units), lane.numbered(lane.calls)
        self._wait(lane)
        self._before(number)
        self._boundary(lane, "call", "entry", unit, number, frame, self._arguments(frame))
        is_eager, again = self._is_eager(number), self._made_eager(number)
        begun, frames = time.perf_counter(), self._translations.frames
        lane.depth += 1
        surroundings = self._inside(unit, "eager call" if is_eager else "call")
        surroundings.__enter__()

        def leave() -> None:
            surroundings.__exit__(None, None, None)
            lane.depth = 0
            if lane.number == 0:
                self.seconds.append(time.perf_counter() - begun)
            again()
            frame = _wrapper(sys._getframe(1))
            held = locals_of(frame) if frame is not None else {}
            error = sys.exc_info()[1]
            raised = "result" not in held and error is not None
            roots = [*self._arguments(frame), *([("result", held["result"])] if "result" in held else [])]
            said = {"compiled": self._translations.frames - frames, "raised": _exception(error if raised else None)}
            del held, error
            self._boundary(lane, "call", "exit", unit, number, frame, roots, said)

        return leave

    def _enter_recomputed(self, lane: Lane) -> Callable[[], None]:
        """Enter a call as part of the one whose forward is recomputed: no boundary."""
        again = self._made_eager(lane.numbered(lane.calls))
        surroundings = self._inside(lane.numbered(lane.units), "recomputation")
        surroundings.__enter__()

        def leave() -> None:
            surroundings.__exit__(None, None, None)
            again()

        return leave

    def _made_eager(self, number: int) -> Callable[[], None]:
        """Make a call run without the compiler, if planned; returns a callback that ends this."""
        if not self._is_eager(number):
            return _nothing
        self._forced.begin()
        return self._forced.end

    def _wait(self, lane: Lane) -> None:
        if self._waits and 0 < lane.number <= WAITING_LANES and lane.calls == 1:
            time.sleep(random.Random(time.monotonic_ns()).uniform(0, LONGEST_WAIT))

    def _leave_inner(self, lane: Lane) -> None:
        lane.depth -= 1

    def _arguments(self, frame: types.FrameType | None) -> list[tuple[str, Any]]:
        held = locals_of(frame) if frame is not None else {}
        roots = [(f"args[{place}]", value) for place, value in enumerate(held.get("args", ()))]
        roots += [(f"kwargs[{name!r}]", value) for name, value in held.get("kwargs", {}).items()]
        function = held.get("fn")
        return [*roots, ("compiled", function)] if function is not None else roots

    # backwards -----------------------------------------------------------------------------------------------------------

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            lane = self._lanes.current()
            if lane is None or lane.depth or lane.in_backward:
                return original(*args, **kwargs)
            lane.units += 1
            lane.backwards += 1
            self.backwards += 1
            unit, number = lane.numbered(lane.units), lane.numbered(lane.backwards)
            frame = sys._getframe(1)
            self._boundary(lane, "backward", "entry", unit, number, frame, [])
            lane.in_backward += 1
            result: Any = None
            raised = _exception(None)
            try:
                with self._inside(unit, "backward"):
                    result = original(*args, **kwargs)
                return result
            except BaseException as error:
                raised = _exception(error)
                raise
            finally:
                lane.in_backward -= 1
                self._boundary(lane, "backward", "exit", unit, number, frame, [("result", result)], {"raised": raised})

        return run

    # looks ---------------------------------------------------------------------------------------------------------------

    def _boundary(
        self,
        lane: Lane,
        what: str,
        side: str,
        unit: int,
        number: int,
        frame: types.FrameType | None,
        roots: list[tuple[str, Any]],
        said: Message | None = None,
    ) -> None:
        """Take the look of a boundary, if it has one. An error of ours is counted, and never raised into the script."""
        try:
            with self._lock:
                is_full = self._has_full_look(lane, unit, f"{what} {side} {number}")
                if not is_full and (lane.units > LIGHT_UNITS or side == "entry"):
                    return
                event = {
                    "event": f"{what} {side}",
                    "unit": unit,
                    "number": number,
                    **line_of(frame, self._is_own),
                    **(said or {}),
                }
                self._look(lane, event, roots, frame, is_full=is_full)
        except Exception:
            self.unseen.error(f"{what} {side} {number}")

    def _has_full_look(self, lane: Lane, unit: int, moment: str) -> bool:
        if lane.number or lane.in_backward or not self._is_full(unit):
            return False
        if self._looks < MOST_LOOKS and self._work < MOST_WORK:
            return True
        self.unseen.add(LOOKS, moment)
        return False

    def _look(
        self, lane: Lane, event: Message, roots: list[tuple[str, Any]], frame: types.FrameType | None, *, is_full: bool
    ) -> None:
        is_last, is_apart = event["event"] == "end", lane.number > 0
        items = DENSE_ITEMS if self._is_dense else ITEMS
        look = Look(self._roots.is_entered, self._words, self.unseen, items=items, is_last=is_last, is_shared=is_apart)
        self._words.begin(is_exact=self._is_dense, is_last=is_last, unit=0 if is_last else event["unit"])
        if is_full:
            self._looks += 1
            for group in self._roots.groups(frame):
                look.add(group)
            look.add(roots)
        else:
            look.add((n, value) for n, value in roots if n == "result" or (is_apart and n != "compiled"))
        if "raised" in event:
            look.put("raised", event.pop("raised"))
        for name, entry in modes() if is_apart else state():
            look.put(name, entry)
        if is_last and self._written is not None:
            self._written.add_to(look, self.unseen)
        look.close()
        self._work += look.visits if is_full else 0
        told = {
            **event,
            "full": is_full or is_apart,
            "thread": lane.number,
            "finest": not is_full and (is_apart or lane.in_backward > 0),
        }
        self._on_look({**told, "order": lane.order()}, look.entries)

    def walk(self) -> dict[str, Entry]:
        """Everything reachable now from the script's globals and from the frames of its functions."""
        with self._lock:
            look = Look(
                self._roots.is_entered, self._words, self.unseen, items=DENSE_ITEMS, is_last=False, is_shared=False
            )
            self._words.begin(is_exact=True)
            for group in self._roots.groups(sys._getframe(1)):
                look.add(group)
            look.close()
            return look.entries


def _function(frame: types.FrameType | None) -> int:
    """The identity of the code that a wrapper runs; 0 if unknown."""
    fn = locals_of(frame).get("fn") if frame is not None else None
    return id(getattr(getattr(fn, "__func__", fn), "__code__", fn))


def _is_recomputed(frame: types.FrameType | None) -> bool:
    """Whether a checkpoint recomputes its forward: such a call is no boundary, and its effect shows in the gradients."""
    while frame is not None:
        if frame.f_code.co_filename == torch.utils.checkpoint.__file__:
            return True
        frame = frame.f_back
    return False


def _exception(error: BaseException | None) -> Entry:
    """The entry for a raised exception: its type name.

    A compiler's exception is named by its first base class outside the compiler, which a handler can catch, and marked;
    so is a Python exception raised while Dynamo translates.
    """
    if error is None:
        return {"type": "exception", "value": ""}
    own = ("torch._dynamo", "torch._inductor", "torch._functorch")
    kind = type(error)
    name = next(base.__qualname__ for base in kind.__mro__ if not str(base.__module__).startswith(own))
    entry = {"type": "exception", "value": name}
    return {**entry, "of": "compiler"} if kind.__qualname__ != name or raised_by_dynamo(error) else entry


def _wrapper(frame: types.FrameType | None) -> types.FrameType | None:
    """The wrapper's frame, at most three frames up: until Python 3.11 the comprehension that runs the hooks has a frame
    too.
    """
    for _ in range(3):
        if frame is None or frame.f_code.co_name in ("compile_wrapper", "_fn"):
            return frame
        frame = frame.f_back
    return None


def line_of(frame: types.FrameType | None, is_own: Callable[[str], bool]) -> Message:
    """``line``: current line number of the innermost frame of the script, or of its own modules; 0 if there is none.

    For a module also ``file`` and ``code``: our text of the script does not contain that line.
    """
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return {"line": 0}
    path, number = frame.f_code.co_filename, frame.f_lineno
    if path == getattr(sys.modules["__main__"], "__file__", None):
        return {"line": number}
    return {"line": number, "file": place_of(path).name, "code": linecache.getline(path, number).strip()[:300]}


def _nothing() -> None:
    """Exit hook of a call that is not observed."""
