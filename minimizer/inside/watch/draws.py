"""The random operators of a script's graphs, and which of them Inductor's own generator draws from another distribution.

Each is noted while the script runs, and compiled alone behind its end, where nothing of the script can see that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_map

from ..graph.names import dotted_name
from ..messages import OtherDraws
from ..referee import distributions
from ..referee.call import Call
from ..values import snapshot
from ..values.rounding import generator_states, tensors
from . import own_random

MOST_OPERATORS = 3
"""Operators of a script that are looked at."""
Key = tuple[Any, ...]
OnDraw = Callable[[fx.Node, tuple[Any, ...], dict[str, Any]], None]
"""Gets a node that has drawn random numbers, with its arguments."""


@dataclass
class Drawn:
    """An operator of a graph that draws, with the arguments of a call. ``graph``: the index of that graph."""

    graph: int
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
    """The random operators of a script."""

    def __init__(self) -> None:
        self._noted: dict[Key, Drawn] = {}

    def note(self, graph: int, module: fx.GraphModule, call: Call) -> None:
        """Note the operators that draw in a call of the graph with this index, with the arguments that they are given."""

        def note(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._note(Drawn(graph, node, args, kwargs))

        if len(self._noted) < MOST_OPERATORS and len(module.graph.nodes) <= own_random.MOST_NODES:
            with torch.no_grad():
                _Watching(module, note).watch(call)

    def _note(self, drawn: Drawn) -> None:
        is_small = all(value.numel() < distributions.MOST_ELEMENTS for value in tensors((drawn.args, drawn.kwargs)))
        if is_small and len(self._noted) < MOST_OPERATORS and drawn.key not in self._noted:
            args, kwargs = snapshot.clone((drawn.args, drawn.kwargs))
            self._noted[drawn.key] = replace(drawn, args=args, kwargs=kwargs)

    def differing(self) -> OtherDraws | None:
        """The first operator that draws otherwise when compiled alone; None if none is seen to."""
        state = snapshot.rng_state()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = ((drawn, _compared(drawn)) for drawn in self._noted.values())
                return next((_said(drawn, apart) for drawn, apart in found if apart is not None), None)
        finally:
            snapshot.set_rng_state(state)


class _Watching(fx.Interpreter):
    """Runs a graph, and follows the values that depend on random numbers. ``on_draw``: called with each operator that has drawn some."""

    def __init__(self, module: fx.GraphModule, on_draw: OnDraw = lambda node, args, kwargs: None) -> None:
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
            self._on_draw(n, tuple(args), dict(kwargs))
        return result


def raises_on_draws(module: fx.GraphModule, call: Call) -> bool:
    """Whether the error of a call in eager may depend on the random numbers that were drawn: other ones may raise none."""
    watching = _Watching(module)
    try:
        watching.watch(call)
    except Exception:
        return watching.ended_on_draws
    return True  # it does not even raise again


def _said(drawn: Drawn, apart: distributions.Apart) -> OtherDraws:
    return OtherDraws(graph=drawn.graph, node=drawn.node.name, what=f"{drawn.name} draws {apart}")


def _compared(drawn: Drawn) -> distributions.Apart | None:
    """How the draws of an operator differ from eager's; None if they do not, or there is no answer.

    There is none if it cannot be compiled alone, or if the time is over.
    """
    try:
        graph, inputs = _alone(drawn)
        with torch.no_grad(), own_random.in_use():
            compiled = torch._inductor.compile(fx.GraphModule({}, graph), list(snapshot.clone(inputs)))
        return distributions.compared(fx.GraphModule({}, graph), compiled, inputs)
    except Exception:  # an operator that cannot be compiled alone says nothing of its draws in the graph
        return None


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


def _described(value: Any) -> Any:
    return (value.dtype, tuple(value.shape), value.device.type) if isinstance(value, Tensor) else value
