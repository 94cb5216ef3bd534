"""`Recorder`: the events of a trace, in order, with what each reads, creates and changes.

It begins at the first call of compiled code, or at the script's first computation with a tensor that requires
gradients: earlier results are data. From there on a tensor not created by an event is an input, with its values at its
first use by an event.
"""

from __future__ import annotations

import linecache
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ..graph.literals import Opaque
from ..places import Place, is_ours, place_of
from .inputs import Draws, Inputs, flat, seed_of
from .names import Names
from .surroundings import Switches, contexts, has_hooks_of_saved_tensors
from .text import mark, value_text

MOST_FRAMES = 4
"""Number of the script's innermost functions to search for the name of a tensor."""
MOST_LOOKS = 20_000
"""Most recorded places at which the script reads values, such as prints in a loop."""
MOST_LEFT_OUT = 50
"""Most reported lines of what could not be recorded."""
PLAIN = (Tensor, torch.nn.Parameter, torch.nn.Buffer)
CALL, GRAPH, BACKWARD, STATE = "call", "graph", "backward", "state"
"""Types of events; ``state`` prepares the next one."""


@dataclass
class Event:
    """One statement of the program. Lists are numbers of values.

    ``makes``: what it binds; ``writes``: tensors that it changes in place; ``grads``: leaves whose gradient it changes;
    ``under``: the contexts that it runs in; ``raises``: the exception that ended it; ``source``: the script's line, as
    [file, number, text].
    """

    code: str
    kind: str = CALL
    makes: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    grads: list[int] = field(default_factory=list)
    under: tuple[str, ...] = ()
    raises: str = ""
    source: list[object] | None = None
    draws: bool = False


@dataclass(frozen=True)
class Look:
    """A place at which the script reads values: the number of earlier events, the numbers of the values, and its line
    as in `Event`.
    """

    after: int
    values: tuple[int, ...]
    source: list[object]


@dataclass(frozen=True)
class _Before:
    """A call before it is made: its event, its tensors, their versions, and the gradients and generators at that time."""

    event: Event
    given: list[Tensor]
    versions: list[tuple[Tensor, int]]
    grads: dict[int, tuple[int, int]]
    generators: list[tuple[int, torch.Generator, Tensor]]


@dataclass(frozen=True)
class Limits:
    """Bounds of a trace: numbers of events, bytes of inputs, seconds since it began."""

    events: int
    bytes: int
    seconds: float


class Recorder:
    """Records the events of one thread. ``on_full`` is called once a limit is reached, and does not return."""

    def __init__(self, limits: Limits, on_full: Callable[[], None]) -> None:
        self._limits, self._on_full, self._begun = limits, on_full, time.monotonic()
        self.events: list[Event] = []
        self.names, self.inputs = Names(), Inputs(limits.bytes)
        self.looks: list[Look] = []
        self.left_out: list[list[object]] = []
        """What could not be recorded, as [what, file, number, text]."""
        self.cut = ""
        """The limit at which it stopped; empty if it reached the script's end."""
        self.is_on = False
        self.is_in_backward = False
        """Whether a backward is running: calls inside are part of that event."""
        self._process = os.getpid()
        self._histories = WeakTensorKeyDictionary()
        """Whether each tensor had an autograd history after its last event."""
        self._grads = WeakTensorKeyDictionary()
        """For gradients created by a backward: the number of the leaf."""
        self._generators: dict[int, int] = {}
        self._kept: list[object] = []
        self._draws, self._switches = Draws(), Switches()
        self.states: dict[int, Tensor] = {}
        """States of generators that go to the file, by number."""
        self._places: dict[str, Place] = {}
        self._callers: list[FrameType] | None = None
        """Inside a compiled region: the script's functions that called it."""

    @property
    def is_here(self) -> bool:
        """Whether this is the script's own process, and not a fork of it, such as a data loader worker."""
        return os.getpid() == self._process

    def enter_region(self) -> None:
        """Begin a compiled region: its events are those of the line that calls it."""
        self.is_on = True
        try:
            self._callers = list(self._own_frames())
        except Exception as error:
            self._leave_out_by(error)

    def leave_region(self) -> None:
        """End a compiled region."""
        self._callers = None

    # an event ------------------------------------------------------------------------------------------------------------

    def run(
        self,
        write: Callable[[Callable[[Any], str]], str],
        arguments: Sequence[Any],
        call: Callable[[], Any],
        *,
        kind: str = CALL,
        in_place: bool = False,
        outputs: Callable[[Any], Any] = lambda result: result,
    ) -> Any:
        """Make a call and record it.

        Args:
            write: the call's source text, given what marks a tensor.
            arguments: its arguments, nested.
            call: makes it.
            kind: that of the event.
            in_place: whether it changes its first tensor, and returns it or nothing.
            outputs: selects the values that the written call returns from the real result.

        Raises:
            Exception: whatever the call raises.
        """
        if not self.is_here:
            return call()
        self._bound()
        try:
            before = self._before(write, arguments, kind)
        except Exception as error:
            self._leave_out_by(error)
            return call()
        try:
            self.is_in_backward = kind == BACKWARD
            result = call()
        except Exception as error:
            before.event.raises = type(error).__name__
            self.events.append(before.event)
            raise
        finally:
            self.is_in_backward = False
        known = len(self.names)
        try:
            self._after(before, result, outputs, in_place=in_place)
        except Exception as error:
            self._leave_out_by(error)
            # No event creates them: if used later, they are inputs.
            for value in flat(result):
                if isinstance(value, Tensor) and (self.names.number(value) or 0) >= known:
                    self.names.forget(value)
        return result

    def _before(self, write: Callable[[Callable[[Any], str]], str], arguments: Sequence[Any], kind: str) -> _Before:
        """Record the state before a call.

        Raises:
            Opaque: it has no source text.
        """
        frames = list(self._own_frames())
        source = self._line(frames)
        given = [value for value in flat(arguments) if isinstance(value, Tensor)]
        self._meet(given, frames, source)
        code = write(lambda value: self._mark(value, frames, source))
        event = Event(code, kind, under=contexts(), source=source)
        self._add_state(source)
        if has_hooks_of_saved_tensors():
            self.leave_out("hooks of saved tensors, as a checkpoint sets them", source)
        return _Before(
            event,
            given,
            [(tensor, tensor._version) for tensor in given if not tensor.is_inference()],
            self._gradients() if kind == BACKWARD else {},
            self._states_of(arguments),
        )

    def _after(self, before: _Before, result: Any, outputs: Callable[[Any], Any], *, in_place: bool) -> None:
        """Record a call that was made."""
        event, given = before.event, before.given
        self._note_draws(event, before.generators, event.source)
        event.writes = [self._number(tensor) for tensor, version in before.versions if tensor._version != version]
        if in_place and given and self._number(given[0]) not in event.writes:  # an inference tensor has no version
            event.writes.insert(0, self._number(given[0]))
        if event.kind == BACKWARD:
            self._note_gradients(event, before.grads)
        made = outputs(result)
        event.makes = [self._made(value) for value in flat(made) if isinstance(value, Tensor)]
        if not (in_place and given and (made is given[0] or made is None)) and (target := self._target(made)):
            event.code = f"{target} = {event.code}"
        for tensor in given:
            self._histories[tensor] = tensor.grad_fn is not None
        if event.makes or event.writes or event.grads or event.kind != CALL:
            self.events.append(event)

    def look(self, values: Sequence[Any]) -> None:
        """Record that the script reads values, except of tensors that no event has used."""
        if not self.is_here or len(self.looks) >= MOST_LOOKS:
            return
        try:
            numbers = [self.names.number(value) for value in values if isinstance(value, Tensor)]
            source = self._line(list(self._own_frames()))
        except Exception:  # a frame of a file without a known place: the script goes on
            return
        if source is not None and any(number is not None for number in numbers):
            known = tuple(number for number in numbers if number is not None)
            self.looks.append(Look(len(self.events), known, source))

    def leave_out(self, what: str, source: list[object] | None = None) -> None:
        """Record what could not be traced, with its line, once per line."""
        try:
            place = source or self._line(list(self._own_frames())) or ["", 0, ""]
        except Exception:  # a frame of a file without a known place
            place = ["", 0, ""]
        told = [what, *place]
        if told not in self.left_out and len(self.left_out) < MOST_LEFT_OUT:
            self.left_out.append(told)

    def _leave_out_by(self, error: Exception) -> None:
        """Leave out what raised in our own code: such an exception must not reach the script, which would not raise by
        itself.
        """
        is_told = isinstance(error, (Opaque, RuntimeError, NotImplementedError))
        self.leave_out(str(error) if is_told else f"{type(error).__name__}: {error}")

    def find_state(self, tensors: list[Tensor]) -> None:
        """Find the script's names of the parameters and buffers among the inputs of a graph about to be called."""
        self.names.look_for_state(tensors, list(self._own_frames()))

    def attribute(self, tensor: Tensor, name: str, value: Any) -> None:
        """Record that an attribute was read whose ``value`` is a tensor: a gradient, or a view."""
        if self.names.number(value) is None or name != "grad":
            self.run(lambda text: f"{text(tensor)}.{name}", [tensor], lambda: value)
            made, of = self.names.number(value), self.names.number(tensor)
            if name == "grad" and made is not None and of is not None:
                self.names.call(made, of, name)

    def set_attribute(self, tensor: Tensor, name: str, value: Any, change: Callable[[], Any]) -> None:
        """Set an attribute (``grad``, ``data`` or ``requires_grad``) and record it."""
        if not self.is_here:
            change()
            return
        self._bound()
        try:
            event = self._setting(tensor, name, value)
        except Exception as error:
            self._leave_out_by(error)
            change()
            return
        try:
            change()
        except Exception as error:
            event.raises = type(error).__name__
            self.events.append(event)
            raise
        try:
            number = self._number(tensor)
            if name == "grad":
                event.grads = [number]
            else:
                self.names.add(tensor)  # its storage may be another one now
                event.writes = [number]
                self._histories[tensor] = tensor.grad_fn is not None
            self.events.append(event)
        except Exception as error:
            self._leave_out_by(error)

    def _setting(self, tensor: Tensor, name: str, value: Any) -> Event:
        """The statement that sets an attribute.

        Raises:
            Opaque: it has no source text.
        """
        frames = list(self._own_frames())
        source = self._line(frames)
        values = [tensor, value] if isinstance(value, Tensor) else [tensor]
        self._meet(values, frames, source)
        self._add_state(source)
        given = value_text(value, lambda one: self._mark(one, frames, source))
        return Event(f"{self._mark(tensor, frames, source)}.{name} = {given}", under=contexts(), source=source)

    # values --------------------------------------------------------------------------------------------------------------

    def _meet(self, tensors: Sequence[Tensor], frames: list[FrameType], source: list[object] | None) -> None:
        """Number the tensors used by an event. One not created by an event becomes an input, a view of a known storage
        or a gradient.

        Raises:
            Opaque: the program cannot represent such a tensor.
        """
        for tensor in tensors:
            if type(tensor) not in PLAIN:
                raise Opaque(f"a call with a tensor of type {type(tensor).__name__}")
            number = self.names.number(tensor)
            if number is None:
                self._meet_new(tensor, frames, source)
            elif tensor.grad_fn is not None and not self._histories.get(tensor, False):
                self._histories[tensor] = True
                self.leave_out(_unknown_history(tensor), source)
            self.names.look(tensor, frames)

    def _meet_new(self, tensor: Tensor, frames: list[FrameType], source: list[object] | None) -> None:
        known = len(self.names)
        try:
            self._meet_as_new(tensor, frames, source)
        except BaseException:
            # No event creates it; the next event that uses it numbers it anew.
            if (number := self.names.number(tensor)) is not None and number >= known:
                self.names.forget(tensor)
                self.inputs.forget(number)
            raise

    def _meet_as_new(self, tensor: Tensor, frames: list[FrameType], source: list[object] | None) -> None:
        leaf = self._grads.get(tensor)
        base = self._base(tensor) if leaf is None and self.names.sharing(tensor) else None
        number = self.names.add(tensor)
        self._histories[tensor] = tensor.grad_fn is not None
        if leaf is not None:
            self.names.call(number, leaf, "grad")
            self.events.append(Event(f"{mark(number)} = {mark(leaf)}.grad", makes=[number], source=source))
            return
        if tensor.grad_fn is not None:
            self.leave_out(_unknown_history(tensor), source)
        grad = ".requires_grad_()" if tensor.requires_grad else ""
        if base is not None:
            view = f"as_strided({tuple(tensor.shape)}, {tensor.stride()}, {tensor.storage_offset()})"
            code = f"{mark(number)} = {mark(base)}.detach().{view}{grad}"
            self.events.append(Event(code, kind=STATE, makes=[number], source=source))
            return
        self.inputs.take(number, tensor)
        if tensor.is_leaf and tensor.grad is not None:
            self._meet([tensor.grad], frames, source)
            code = f"{mark(number)}.grad = {mark(self._number(tensor.grad))}"
            self.events.append(Event(code, kind=STATE, grads=[number], source=source))

    def _base(self, tensor: Tensor) -> int | None:
        """A numbered tensor of the same dtype that shares the storage of a new one."""
        storage = self.names.storage_of(tensor)
        same = (
            number
            for one, number in self.names.living()
            if self.names.storages[number] == storage and one.dtype == tensor.dtype
        )
        return next(same, None)

    def _mark(self, value: Any, frames: list[FrameType], source: list[object] | None) -> str:
        if isinstance(value, torch.Generator):
            return mark(self._generator(value))
        self._meet([value], frames, source)
        return mark(self._number(value))

    def _number(self, tensor: Tensor) -> int:
        number = self.names.number(tensor)
        assert number is not None
        return number

    def _made(self, tensor: Tensor) -> int:
        number = self.names.add(tensor)
        self._histories[tensor] = tensor.grad_fn is not None
        return number

    def _target(self, made: Any) -> str:
        """The target of a result's assignment; empty if no part of it is a tensor."""
        if isinstance(made, Tensor):
            return mark(self._number(made))
        if isinstance(made, (tuple, list)) and any(isinstance(value, Tensor) for value in flat(made)):
            parts = [self._target(value) or "_" for value in made]
            nested = [f"({part})" if ", " in part else part for part in parts]
            return ", ".join(nested) + ("," if len(nested) == 1 else "")
        return ""

    # gradients, generators, switches -------------------------------------------------------------------------------------

    def _gradients(self) -> dict[int, tuple[int, int]]:
        """For each known leaf with a gradient: the identity and the version of the gradient."""
        found = {}
        for tensor, number in self.names.living():
            if tensor.is_leaf and tensor.requires_grad and (grad := tensor.grad) is not None:
                found[number] = (id(grad), grad._version)
        return found

    def _note_gradients(self, event: Event, before: dict[int, tuple[int, int]]) -> None:
        for tensor, number in self.names.living():
            grad = tensor.grad if tensor.is_leaf and tensor.requires_grad else None
            if grad is None or before.get(number) == (id(grad), grad._version):
                continue
            event.grads.append(number)
            known = self.names.number(grad)
            if known is not None:
                event.writes.append(known)
            else:
                self._grads[grad] = number

    def _generator(self, generator: torch.Generator) -> int:
        if id(generator) not in self._generators:
            self._kept.append(generator)  # so that its address is not reused
            number = self._generators[id(generator)] = self.names.reserve("generator")
            code = f'{mark(number)} = torch.Generator("{generator.device}")'
            self.events.append(Event(code, kind=STATE, makes=[number]))
        return self._generators[id(generator)]

    def _states_of(self, arguments: Sequence[Any]) -> list[tuple[int, torch.Generator, Tensor]]:
        own = [(self._generator(value), value) for value in flat(arguments) if isinstance(value, torch.Generator)]
        return [(number, one, one.get_state()) for number, one in [(-1, torch.default_generator), *own]]

    def _note_draws(
        self, event: Event, generators: list[tuple[int, torch.Generator, Tensor]], source: list[object] | None
    ) -> None:
        """Record that an event has drawn, and how to restore its generator's state, unless an earlier event left it so."""
        for number, generator, before in generators:
            if torch.equal(generator.get_state(), before):
                continue
            event.draws = True
            if self._draws.is_continued(number, generator, before):
                continue
            seed, is_default = seed_of(generator, before), number == -1
            if seed is not None:
                code = f"torch.manual_seed({seed})" if is_default else f"{mark(number)}.manual_seed({seed})"
            else:
                state = self.names.reserve("state")
                self.states[state] = before
                code = (
                    f"torch.set_rng_state({mark(state)})" if is_default else f"{mark(number)}.set_state({mark(state)})"
                )
            writes = [] if is_default else [number]
            self.events.append(Event(code, kind=STATE, writes=writes, source=source, draws=True))

    def _add_state(self, source: list[object] | None) -> None:
        for statement in self._switches.changes():
            self.events.append(Event(statement, kind=STATE, source=source))

    # places and bounds ---------------------------------------------------------------------------------------------------

    def _own_frames(self) -> Iterator[FrameType]:
        """The frames of the script's own functions, innermost first; inside a compiled region those around it."""
        if self._callers is not None:
            yield from self._callers
            return
        frame: FrameType | None = sys._getframe(1)
        count = 0
        while frame is not None and count < MOST_FRAMES:
            path = frame.f_code.co_filename
            if path not in self._places:
                self._places[path] = Place("", False) if is_ours(path) else place_of(path)
            if self._places[path].is_users:
                count += 1
                yield frame
            frame = frame.f_back

    def _line(self, frames: list[FrameType]) -> list[object] | None:
        if not frames:
            return None
        path, number = frames[0].f_code.co_filename, frames[0].f_lineno
        return [self._places[path].name, number, linecache.getline(path, number).strip()[:300]]

    def _bound(self) -> None:
        """Stop at a limit."""
        limits = self._limits
        if len(self.events) >= limits.events:
            self.cut = f"{limits.events:,} events"
        elif self.inputs.is_full:
            self.cut = f"{limits.bytes >> 20} MiB of inputs"
        elif time.monotonic() - self._begun > limits.seconds:
            self.cut = f"{limits.seconds:.0f} seconds"
        if self.cut:
            self._on_full()


def _unknown_history(tensor: Tensor) -> str:
    """What is unrecorded about a tensor whose history no event created, such as the backward of an
    ``autograd.Function``.
    """
    history: Any = tensor.grad_fn
    name = history.name() if hasattr(history, "name") else type(history).__name__
    return f"how gradients flow through {name}"
