"""Runs a flat program side by side, in eager and compiled, and finds where the two part.

Three states advance together, event by event: eager's, the compiled side's own, and a compiled one that gets eager's
values after each event. A difference in the third is wrong on eager's own inputs; one only in the second is propagated.
The referee judges values: a call of a graph as in a survey, gradients by the part of the program that produces them. An
earlier result that a compiled event overwrites, and that is read later, needs no referee: eager leaves it unchanged.

Zeros of different sign are equal, and a fault only if something reads their sign. So a fourth state runs in eager,
except that the zeros of each compiled call keep the sign from compiled code: its differences from eager are due to
these signs alone.
"""

from __future__ import annotations

import ast
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch._inductor.config
from torch import Tensor

from ..failures import describe
from ..messages import Phase
from ..outcome import Ending, Outcome
from ..questions import SidesRequest, SidesStep
from ..referee import referee
from ..referee.call import Call, Side
from ..referee.distance import other_zeros
from ..referee.verdict import Verdict
from ..values import snapshot
from ..values.capturing import is_of_cuda_graphs
from ..values.elements import EXACT, diff_elements
from ..wire import Channel, Message
from .needed import needed
from .side_values import detached, distance, give, is_equal, parts, sort_of

EVENT = "event"
NOTHING: Mapping[str, Tensor] = {}
WRITES_OVER = "kept results: what an earlier call has returned stays as it is in eager"
READS_ZEROS = "zeros: eager's own operators make another value of the sign that compiled code gave to a zero"
EAGER, COMPILED, COMPARE = "eager", "compiled", "compare"
"""The subject of a phase: a side's event, or our comparison. Only a death of the compiled side is the compiler's."""


def side_by_side(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer a `SidesRequest` with one `Outcome`, whose ``sides`` have the parting."""
    request = SidesRequest.read(message)
    torch._inductor.config.compile_threads = 1
    torch._inductor.config.fallback_random = True  # both sides draw the same numbers
    try:
        sides = SideBySide(request, lambda index, side: channel.send(Phase(phase=f"{EVENT} {index} {side}")))
    except Exception as error:
        channel.send(Outcome.of_error(Ending.SETUP_ERROR, error))
        return
    try:
        sides.run()
    except Exception as error:  # our own: what was found before it counts
        sides.note(f"the comparison came to an end by {type(error).__name__}: {error}")
    channel.send(Outcome(Ending.SAME if sides.first is None else Ending.DIFFERENT, sides=sides.told()))


class State:
    """One state of the program: the values of its names. ``calls``: those of graphs in the current event, in order."""

    def __init__(self, request: SidesRequest, data: Any) -> None:
        self.values: dict[str, Any] = {"data": snapshot.clone(data)}
        exec(compile(request.setup, "<setup>", "exec"), self.values)
        self.functions = {name: self.values[name] for name in request.graphs}
        exec(compile(request.inputs, "<inputs>", "exec"), self.values)
        self.calls: list[tuple[Call, Side]] = []

    def take(self, code: Any) -> BaseException | None:
        """Run an event; returns the exception that it raises, if any."""
        self.calls.clear()
        try:
            exec(code, self.values)
        except Exception as error:
            return error
        return None

    def value(self, path: str) -> Any:
        """The value of a name, or of an attribute of it; None if missing."""
        name, _, attribute = path.partition(".")
        value = self.values.get(name)
        return getattr(value, attribute, None) if attribute else value

    def compiled(self, graphs: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
        """The functions of the graphs, compiled with these arguments, for this state alone."""
        return {
            name: torch.compile(self.functions[name], **eval(f"dict({options})", self.values))
            for name, options in graphs.items()
        }

    def call_by(self, functions: dict[str, Callable[..., Any]], *, keeping: bool) -> None:
        """Call these functions for the graphs; ``keeping``: keep each call's inputs and results."""
        for name, function in functions.items():
            self.values[name] = self._kept(self.functions[name], function) if keeping else function

    def _kept(self, eager: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            call = Call.now(eager, snapshot.clone(list(args)), random=True)
            result = function(*args)
            # Copies, since a later event may change them.
            seen = snapshot.clone((detached(result), detached(list(args))))
            self.calls.append((call, Side(*seen)))
            return result

        return run


class SideBySide:
    """The run of one program. ``first``: where the two sides part first; None if they do not.

    ``checked``: the first parting among the events that a failing check reads, if it is another one.
    """

    def __init__(self, request: SidesRequest, on_event: Callable[[int, str], None]) -> None:
        data = torch.load(request.file, weights_only=True) if request.file is not None else {}
        self._request, self._on_event, self._data = request, on_event, data
        self._eager, self._given, self._own = (State(request, data) for _ in range(3))
        self._signed: State | None = State(request, data)
        """Eager's state with the zeros of compiled calls; None once it proves nothing more."""
        self._signs: list[int] = []
        """The calls so far with zeros of flipped sign."""
        self._eager.call_by(self._eager.functions, keeping=True)
        # Each state compiles separately: a fault of only the third call must show in the third event, and not in the
        # second.
        self._given.call_by(self._given.compiled(request.graphs), keeping=True)
        self._own.call_by(self._own.compiled(request.graphs), keeping=False)
        self._codes = [compile(step.code, f"<event {index}>", "exec") for index, step in enumerate(request.steps)]
        self._inputs = _bound(request.inputs)
        self._start = {name: self._eager.values[name] for name in self._inputs}
        self._start = snapshot.clone(self._start)
        self.first: Message | None = None
        self.checked: Message | None = None
        self._is_over = False
        """Whether no later event is judged: the first wrong one is known, and the first that the check reads."""
        self._distances: list[Message] = []
        self._has_check = any(step.is_checked for step in request.steps)
        self._ran = 0
        self._stopped = ""

    def run(self) -> None:
        """Run the events until both sides raise or the time is over; records the first parting, and propagates later
        ones.
        """
        begun = time.monotonic()
        for index, step in enumerate(self._request.steps):
            if time.monotonic() - begun > self._request.seconds:
                self.note(f"the time was over after {index} events")
                return
            kept = self._kept(step)
            errors = self._take(index)
            self._ran = index + 1
            if step.raises and all(error is not None for error in errors):
                continue
            if any(error is not None for error in errors):
                self._tell_errors(index, *errors)
                return
            if step.values:
                self._on_event(index, COMPARE)
                if not self._compare(index, step):
                    return
            if self._is_written_over(index, kept) or self._reads_zeros(index, step):
                return

    def note(self, what: str) -> None:
        """Record why no more is run, or what could not be compared; the first reason counts."""
        self._stopped = self._stopped or what[:500]

    def told(self) -> Message:
        """The answer: see ``engine/child/traced.py``."""
        return {
            "first": self.first,
            "checked": self.checked,
            "distances": self._distances,
            "ran": self._ran,
            "stopped": self._stopped,
        }

    def _take(self, index: int) -> list[BaseException | None]:
        """Run an event in each state from the same random state; in eager first, so that a death in eager is not blamed
        on the compiler.
        """
        step, start = self._request.steps[index], snapshot.rng_state()
        self._on_event(index, EAGER)
        eager = self._eager.take(self._codes[index])
        end = snapshot.rng_state()
        if step.graph is not None or step.is_backward:
            self._on_event(index, COMPILED)
        snapshot.set_rng_state(start)
        given = self._given.take(self._codes[index])
        snapshot.set_rng_state(start)
        own = self._own.take(self._codes[index])
        snapshot.set_rng_state(start)
        if self._signed is not None and self._signed.take(self._codes[index]) is not None and eager is None:
            self._signed = None  # the sign may decide about an error, which leaves no value to assert
        snapshot.set_rng_state(end)
        return [own, given, eager]

    def _kept(self, step: SidesStep) -> Mapping[str, tuple[Tensor, Tensor]]:
        """Copies, before an event, of earlier results that are read later: eager's, and those returned by compiled
        code.
        """
        if step.graph is None and not step.is_backward:
            return {}
        found: dict[str, tuple[Tensor, Tensor]] = {}
        for path in step.alive:
            pair = self._eager.value(path), self._given.value(path)
            if all(isinstance(one, Tensor) and snapshot.has_plain_storage(one) for one in pair):
                found[path] = pair[0].detach().clone(), pair[1].detach().clone()
        return found

    def _is_written_over(self, index: int, kept: Mapping[str, tuple[Tensor, Tensor]]) -> bool:
        """Whether a compiled event has changed an earlier result that eager leaves unchanged; recorded if so.

        Nothing later is judged: the result may be in the event's own memory.
        """
        for path, (expected, given) in kept.items():
            now = self._given.value(path)
            if diff_elements(expected, detached(self._eager.value(path)), EXACT) is not None:
                continue  # the program itself writes there
            if diff_elements(given, detached(now), EXACT) is None:
                continue
            if isinstance(now, Tensor) and is_of_cuda_graphs(now):
                continue  # which document that they reuse memory
            if self.first is None:
                what = f"{path} is no longer what an earlier call has returned"
                self.first = _parting(index, path, what, given, now, WRITES_OVER) | {"overwrites": True}
            self.note(f"event {index} writes over {path}")
            return True
        return False

    def _take_zeros(self, index: int, paths: Sequence[str]) -> None:
        """Copy the signs of compiled code's zeros of a call into the state for them."""
        self._signs.append(index)
        for path in paths:
            value = self._signed.value(path) if self._signed is not None else None
            if isinstance(value, Tensor):
                with torch.no_grad(), torch.inference_mode(value.is_inference()):
                    given, ours = parts(detached(self._given.value(path))), parts(value.data)
                    signed = torch.where((given == 0) & (ours == 0), given, ours)
                    value.data.copy_(torch.view_as_complex(signed.contiguous()) if value.is_complex() else signed)

    def _reads_zeros(self, index: int, step: SidesStep) -> bool:
        """Whether a value of an event differs from eager's only through the sign of zeros; recorded if so."""
        if self._signed is None or not self._signs:
            return False
        for path in step.values:
            expected, signed = self._eager.value(path), self._signed.value(path)
            if not isinstance(expected, Tensor) or not isinstance(signed, Tensor):
                continue
            if diff_elements(detached(expected), detached(signed), EXACT) is None:
                continue
            before = {*needed(self._request.steps, index)}
            calls = [call for call in self._signs if call in before]
            if not calls or not self._repeats(index, path):
                continue
            if self.first is None:
                what = f"{path} depends on the sign of a zero"
                self.first = _parting(index, path, what, expected, signed, READS_ZEROS) | {"zeros_of": calls[-1]}
            self.note(f"event {index} reads the sign of a zero")
            return True
        return False

    def _repeats(self, index: int, path: str) -> bool:
        """Whether eager reproduces its value: uninitialised memory and noise depend on no sign."""
        try:
            call = self._from_the_start(index, [path])
            (again,) = call.run(call.function).result
        except Exception as error:
            self.note(f"event {index} could not be repeated: {type(error).__name__}: {error}")
            return False
        return diff_elements(detached(self._eager.value(path)), again, EXACT) is None

    def _tell_errors(
        self, index: int, own: BaseException | None, given: BaseException | None, eager: BaseException | None
    ) -> None:
        if eager is not None and given is not None:
            self.note(f"event {index} raises in eager too: {type(eager).__name__}: {eager}")
            return
        error = given or eager or own
        assert error is not None
        side = "in eager only" if eager is not None else "compiled only"
        what = f"raises {side}: {describe(error).root_type}: {describe(error).root_message}"[:2000]
        if self.first is None:
            self.first = {"event": index, "own": given is not None or eager is not None, "what": what}
        else:
            self.note(f"event {index} {what}")

    def _compare(self, index: int, step: SidesStep) -> bool:
        """Compare the values of an event; returns whether the states can go on, with eager's values where they differ."""
        own: dict[str, float] = {}
        carried = [0.0]
        unknown: list[str] = []
        signed: list[str] = []
        for path in step.values:
            expected = self._eager.value(path)
            if not isinstance(expected, Tensor):
                continue
            given = self._given.value(path)
            try:
                if not is_equal(expected, given):
                    own[path] = distance(expected, given)
                if step.graph is not None and other_zeros(expected, given):
                    signed.append(path)
                carried.append(distance(expected, self._own.value(path)))
            except Exception as error:  # values that torch cannot compare, such as sparse or quantized ones
                self.note(f"event {index}: {path} could not be compared: {type(error).__name__}: {error}")
                unknown.append(path)
        if own and not self._is_over and (self.first is None or step.is_checked):
            self._tell_difference(index, step, own)
        if step.graph is not None or step.is_backward:
            self._distances.append({"event": index, "own": max(own.values(), default=0.0), "carried": max(carried)})
        if signed:
            self._take_zeros(index, signed)
        for path in dict.fromkeys([*own, *unknown, *signed]):
            try:
                give(self._eager.value(path), self._given.value(path))
            except Exception as error:  # from here on a difference may be an earlier one's, and proves nothing
                self.note(f"event {index}: {path} could not be given eager's values: {type(error).__name__}: {error}")
                return False
        return True

    def _tell_difference(self, index: int, step: SidesStep, own: Mapping[str, float]) -> None:
        """Have the referee judge an event whose values differ by these distances."""
        verdict = self._judged(index, step, list(own))
        if verdict is not None and verdict.nondeterministic:
            self.note(f"event {index} could not be judged: eager does not agree with itself ({verdict.rule.value})")
        if verdict is not None and verdict.fault:
            path = max(own, key=own.__getitem__)
            what = str(verdict.differences[0]) if verdict.differences else verdict.rule.value
            parting = _parting(index, path, what, self._eager.value(path), self._given.value(path), verdict.rule.value)
            if self.first is None:
                self.first = parting
            else:
                self.checked = parting
            self._is_over = step.is_checked or not self._has_check

    def _judged(self, index: int, step: SidesStep, differing: Sequence[str]) -> Verdict | None:
        """The referee's verdict on an event; None without compiled code in it, or if the referee cannot judge it."""
        if step.graph is None and not step.is_backward:
            return None
        state = snapshot.rng_state()  # reruns draw, and a program may set its own random state
        try:
            if step.graph is not None and len(self._eager.calls) == len(self._given.calls) == 1:
                (call, expected), (_, actual) = *self._eager.calls, *self._given.calls
                return referee.judge(call, expected, actual)
            expected, actual = (
                Side([detached(state.value(path)) for path in differing]) for state in (self._eager, self._given)
            )
            return referee.judge(self._from_the_start(index, differing, self._shared(index)), expected, actual)
        except Exception as error:
            self.note(f"event {index} could not be judged: {type(error).__name__}: {error}")
            return None
        finally:
            snapshot.set_rng_state(state)

    def _shared(self, index: int) -> dict[str, Tensor]:
        """Values that both sides have taken from eager and kept unchanged, before an event: no gradient comes from
        before them.

        Nothing upstream of them explains a difference, such as a jump on rounded values.
        """
        times = Counter(path for step in self._request.steps[: index + 1] for path in step.values)
        made = {path: self._eager.value(path) for path, number in times.items() if number == 1}
        named = {path: value for path, value in made.items() if "." not in path}
        return {path: value for path, value in named.items() if isinstance(value, Tensor) and _is_untouched(value)}

    def _from_the_start(self, index: int, paths: Sequence[str], shared: Mapping[str, Tensor] = NOTHING) -> Call:
        """The call that computes values of an event from the inputs of the program, through the events that produce
        them.

        ``shared``: values used unchanged, like inputs.
        """
        steps, codes, functions = self._request.steps, self._codes, self._eager.functions
        places = [*needed(steps, index), index]
        names = [path for place in places[:-1] for path in steps[place].values if path in shared]
        given = [*self._inputs, *names]

        def program(*inputs: Any) -> list[Any]:
            values = dict(zip(given, inputs, strict=True))
            state = State.__new__(State)
            state.values = {**self._eager.values, **functions, **{name: values[name] for name in self._inputs}}
            for place in places:
                known = {path: values[path] for path in steps[place].values if path in names}
                if place == index or steps[place].draws or len(known) < len(steps[place].values) or not known:
                    exec(codes[place], state.values)
                state.values.update(known)
            return [detached(state.value(path)) for path in paths]

        inputs = [*(self._start[name] for name in self._inputs), *(shared[name].detach() for name in names)]
        return replace(Call.now(program, inputs, random=True), rng=snapshot.rng_state())


def _parting(index: int, path: str, what: str, expected: Tensor, actual: Any, rule: str) -> Message:
    """An event that gives a name another value than eager, in the form of the engine's `Sides`."""
    sort, error = sort_of(expected, actual), distance(expected, actual)
    return {"event": index, "own": True, "what": what, "value": path, "sort": sort, "rule": rule, "error": error}


def _is_untouched(value: Tensor) -> bool:
    """Whether a tensor is unmodified, and no gradient passes through it."""
    return not value.is_inference() and not value.requires_grad and value._version == 0


def _bound(statements: str) -> list[str]:
    """The names that statements bind, in order."""
    found = [
        node.id
        for node in ast.walk(ast.parse(statements))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    return list(dict.fromkeys(found))
