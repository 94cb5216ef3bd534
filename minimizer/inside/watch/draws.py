"""Whether Inductor's own random operators draw from the distributions that eager's do.

Its numbers are of another stream, so that no value can be compared with eager's. What can is how they are spread over many runs: each
operator of a graph that draws is compiled alone, and run under as many seeds as eager. Runs are independent, whatever the elements of
one run have to do with each other, so Welch's t of a figure of each run is a test that a dropout of whole channels does not mislead.
"""

from __future__ import annotations

import ctypes
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_map

from ..graph.names import dotted_name
from ..referee.call import Call
from ..values import snapshot
from ..values.rounding import generator_states, tensors
from . import own_random

RUNS = 48
"""Runs of each side, each under a seed of its own."""
LARGEST_T, LEAST_EFFECT = 7.0, 0.02
"""How many standard errors, and how much of a figure's range of about one, both sides have to be apart, in two rounds of runs."""
MOST_OPERATORS, SECONDS = 3, 10.0
"""Operators of a script that are looked at, and the seconds after which no further run of one begins."""
MOST_ELEMENTS = 1 << 18
"""Elements of a result; of more, the runs would take longer than all that is compared of most scripts."""
DRAWS_THE_SAME = "the same numbers in each run"
Key = tuple[Any, ...]
Figures = dict[str, Tensor]
"""For each figure its value in every run, in float64."""


class Runs(NamedTuple):
    """Runs of one side: their figures, and the number of different results."""

    figures: Figures
    distinct: int


@dataclass
class Drawn:
    """An operator of a graph that draws, with the arguments of a call."""

    node: fx.Node
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        """The operator as source text names it."""
        target = self.node.target
        return f".{target}" if isinstance(target, str) else dotted_name(target) or str(target)

    @property
    def key(self) -> Key:
        """Equal for calls that draw from the same distribution, as far as their arguments tell."""
        return self.name, *map(str, tree_map(_described, [*self.args, *self.kwargs.items()]))


class Draws:
    """The random operators of a script, noted while it runs and compiled after its end, where nothing of it can see that."""

    def __init__(self) -> None:
        self._noted: dict[Key, Drawn] = {}

    def note(self, module: fx.GraphModule, call: Call) -> None:
        """Note the operators of a graph that draw in a call, with the arguments that they are given."""
        if len(self._noted) < MOST_OPERATORS and len(module.graph.nodes) <= own_random.MOST_NODES:
            with torch.no_grad():
                _Watching(module, self._note).watch(call)

    def _note(self, drawn: Drawn) -> None:
        is_small = all(value.numel() < MOST_ELEMENTS for value in tensors((drawn.args, drawn.kwargs)))
        if is_small and len(self._noted) < MOST_OPERATORS and drawn.key not in self._noted:
            self._noted[drawn.key] = Drawn(drawn.node, *snapshot.clone((drawn.args, drawn.kwargs)))

    def differing(self) -> str:
        """The first operator that draws otherwise when compiled alone, in words; empty if none is seen to."""
        state = snapshot.rng_state()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = ((drawn.name, _compared(drawn)) for drawn in self._noted.values())
                return next((f"{name} draws {what}" for name, what in found if what), "")
        finally:
            snapshot.set_rng_state(state)


class _Watching(fx.Interpreter):
    """Runs a graph, and follows the values that depend on random numbers. ``on_draw``: called with each operator that has drawn some."""

    def __init__(self, module: fx.GraphModule, on_draw: Callable[[Drawn], None] = lambda drawn: None) -> None:
        super().__init__(module)
        self._on_draw = on_draw
        self._random = set[fx.Node]()
        self._last: fx.Node | None = None

    def watch(self, call: Call) -> None:
        """Run a call, on copies of its inputs.

        Raises:
            Exception: whatever the graph raises.
        """
        with call.started(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the script's own run has them
            self.run(*snapshot.clone(list(call.inputs)))

    @property
    def ended_on_draws(self) -> bool:
        """Whether the last node that was run depends on random numbers."""
        return self._last in self._random

    def run_node(self, n: fx.Node) -> Any:
        self._last, before = n, generator_states()
        try:
            result = super().run_node(n)
        finally:
            has_drawn = any(not torch.equal(*pair) for pair in zip(before, generator_states(), strict=True))
            if has_drawn or not self._random.isdisjoint(n.all_input_nodes):
                self._random.add(n)
        if has_drawn and n.op in ("call_function", "call_method"):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            self._on_draw(Drawn(n, tuple(args), dict(kwargs)))
        return result


def raises_on_draws(module: fx.GraphModule, call: Call) -> bool:
    """Whether the error of a call in eager may depend on the random numbers that were drawn: other ones may raise none."""
    watching = _Watching(module)
    try:
        watching.watch(call)
    except Exception:
        return watching.ended_on_draws
    return True  # it does not even raise again


def figures_of(values: Tensor) -> dict[str, Tensor]:
    """Figures of how the elements of a run are spread: bounded ones, so that a heavy tail does not decide.

    Args:
        values: a vector of float64 with at least one element.
    """
    squashed = values.nan_to_num().atan()
    return {
        "zeros": (values == 0).double().mean(),
        "NaN": values.isnan().double().mean(),
        "mean": squashed.mean(),
        "square": squashed.square().mean(),
        "least": squashed.min(),
        "largest": squashed.max(),
        "neighbours": (squashed[1:] * squashed[:-1]).mean() if len(values) > 1 else squashed[0],
    }


def other_figures(expected: Figures, actual: Figures) -> dict[str, tuple[float, float]]:
    """The means of figures over the runs of both sides, where these are too far apart to be chance."""
    apart = {}
    for name, one in expected.items():
        other = actual[name]
        difference = (one.mean() - other.mean()).abs().item()
        error = ((one.var() + other.var()) / len(one)).sqrt().item()
        if difference >= LEAST_EFFECT and difference > LARGEST_T * error:
            apart[name] = (one.mean().item(), other.mean().item())
    return apart


def _compared(drawn: Drawn) -> str:
    """How the draws of an operator differ from eager's, in words; empty if they do not, or there is no answer.

    There is none if it cannot be compiled alone, or if the time is over.
    """
    try:
        graph, inputs = _alone(drawn)
        with torch.no_grad(), own_random.in_use():
            compiled = torch._inductor.compile(fx.GraphModule({}, graph), list(snapshot.clone(inputs)))
        eager = fx.GraphModule({}, graph)
        if _elements(eager(*snapshot.clone(inputs))).numel() not in range(1, MOST_ELEMENTS):
            return ""
        deadline = time.monotonic() + SECONDS
        rounds = [[_runs(side, inputs, first, deadline) for side in (eager, compiled)] for first in (1, 1 + RUNS)]
    except Exception:  # an operator that cannot be compiled alone says nothing of its draws in the graph
        return ""
    return difference(*((one, other) for one, other in rounds))


def difference(*rounds: tuple[Runs, Runs]) -> str:
    """How the runs of eager and of compiled code differ in every round, in words; empty if they do not."""
    if all(one.distinct == RUNS and 2 * other.distinct <= RUNS for one, other in rounds):
        return DRAWS_THE_SAME
    first, *others = (other_figures(one.figures, other.figures) for one, other in rounds)
    for name, (expected, actual) in first.items():
        if all(name in more and (more[name][0] < more[name][1]) == (expected < actual) for more in others):
            return f"from another distribution than eager ({name}: {expected:.3g} in eager, {actual:.3g} compiled, in each of two rounds of {RUNS} runs)"
    return ""


def _alone(drawn: Drawn) -> tuple[fx.Graph, list[Tensor]]:
    """A graph of the operator alone, and its inputs."""
    graph, inputs = fx.Graph(), list[Tensor]()

    def placed(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        inputs.append(value.detach())
        return graph.placeholder(f"x{len(inputs)}")

    args, kwargs = tree_map(placed, (drawn.args, drawn.kwargs))
    graph.output((graph.create_node(drawn.node.op, drawn.node.target, args, kwargs),))
    return graph, inputs


def _runs(function: Callable[..., Any], inputs: list[Tensor], first: int, deadline: float) -> Runs:
    """What a function returns from one seed after another.

    Raises:
        TimeoutError: the time is over.
    """
    found: dict[str, list[Tensor]] = {}
    seen = set[int]()
    for seed in range(first, first + RUNS):
        if time.monotonic() > deadline:
            raise TimeoutError
        torch.manual_seed(seed)
        with torch.no_grad():
            values = _elements(function(*snapshot.clone(inputs)))
        seen.add(hash(ctypes.string_at(values.data_ptr(), values.nbytes)))
        for name, value in figures_of(values).items():
            found.setdefault(name, []).append(value)
    return Runs({name: torch.stack(each) for name, each in found.items()}, len(seen))


def _elements(result: Any) -> Tensor:
    """All elements of a result, as a vector of float64 on the CPU.

    Raises:
        ValueError: a tensor has no plain storage.
    """
    if not all(map(snapshot.has_plain_storage, tensors(result))):
        raise ValueError("a result has no plain storage")
    values = [torch.view_as_real(one) if one.is_complex() else one for one in tensors(result)]
    return torch.cat([one.detach().double().cpu().flatten() for one in values])


def _described(value: Any) -> Any:
    return (value.dtype, tuple(value.shape), value.device.type) if isinstance(value, Tensor) else value
