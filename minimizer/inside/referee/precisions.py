"""Dtypes compared as structure: operators that compiled code computes in a narrower dtype than eager does.

A product of matrices in bfloat16 where eager's is in float32 is a fault whatever the values are, and drowns in legal rounding where
its neighbours are in bfloat16 too. Eager's operators are those that it dispatches; the compiler's are those of the graphs that
AOTAutograd makes, forward and backward, where nothing is fused or decomposed yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..values import bodies
from ..values.rounding import operator_name, sums
from .call import Call

OTHER_PRECISION = "other_precision"
"""`Verdict.mechanism` of a region that compiled code computes in another dtype than eager."""


class _Place(NamedTuple):
    """An operator that sums, by what has to be the same on both sides."""

    phase: str
    operator: str
    shapes: tuple[tuple[int, ...], ...]


_Seen = dict[_Place, Counter[tuple[torch.dtype, ...]]]
"""How often each place computes in which dtypes of its operands."""


def narrowed(call: Call) -> str:
    """The first operator that compiled code computes in a narrower dtype than eager does, in words; empty if there is none.

    Only what autocast touches is looked at: nothing else chooses a dtype by itself.
    """
    if not _knows_autocast(call):
        return ""
    eager, compiled = _Dispatched(), _Graphs(call.function)
    with eager:
        call.run(call.function)
    call.run(compiled)
    return next(_narrower(eager.seen, compiled.seen), "")


def _knows_autocast(call: Call) -> bool:
    switches = [call.switches, *([call.backward] if call.backward is not None else [])]
    if any(cast.enabled for each in switches for cast in each.autocast):
        return True
    if isinstance(call.function, fx.GraphModule):
        return any("autocast" in str(node.target) for node in bodies.nodes_of(call.function))
    return any("autocast" in name for name in getattr(getattr(call.function, "__code__", None), "co_names", ()))


def _narrower(eager: _Seen, compiled: _Seen) -> Iterator[str]:
    for place, counts in compiled.items():
        before = eager.get(place, Counter())
        for dtypes in counts - before:
            for other in before - counts:
                if len(other) == len(dtypes) and _eps(other) < _eps(dtypes):
                    names = [str(max(each, key=_of_one)).removeprefix("torch.") for each in (dtypes, other)]
                    yield f"aten.{place.operator} in the {place.phase} computes in {names[0]}, and in eager in {names[1]}"


def _eps(dtypes: tuple[torch.dtype, ...]) -> float:
    return max(map(_of_one, dtypes), default=0.0)


def _of_one(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0


def _note(seen: _Seen, phase: str, func: Any, operands: list[Any]) -> None:
    if not isinstance(func, torch._ops.OpOverload) or not sums(operator_name(func)):
        return
    shapes = tuple(tuple(int(size) for size in operand.shape) for operand in operands)
    dtypes = tuple(operand.dtype for operand in operands)
    seen.setdefault(_Place(phase, operator_name(func), shapes), Counter())[dtypes] += 1


class _Dispatched(TorchDispatchMode):
    """Records what eager dispatches."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.seen: _Seen = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not isinstance(func, torch._ops.OpOverload):
            return bodies.call(self, func, args, kwargs or {})
        phase = "forward" if torch._C._current_graph_task_id() == -1 else "backward"
        _note(self.seen, phase, func, [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)])
        return func(*args, **(kwargs or {}))


class _Graphs:
    """A function that AOTAutograd compiles at its first call; records the operators of the graphs that it makes."""

    def __init__(self, function: Any) -> None:
        self.seen: _Seen = {}
        backend = aot_autograd(fw_compiler=self._noting("forward"), bw_compiler=self._noting("backward"))
        if isinstance(function, fx.GraphModule):
            self._compiled = lambda *inputs: backend(function, list(inputs))(*inputs)
        else:
            self._compiled = torch.compile(function, backend=backend, dynamic=False)

    def __call__(self, *inputs: Any) -> Any:
        return self._compiled(*inputs)

    def _noting(self, phase: str) -> Any:
        def compile_(module: fx.GraphModule, inputs: list[Any]) -> Any:
            for node in bodies.nodes_of(module):
                leaves = tree_leaves(fx.map_arg((node.args, node.kwargs), lambda leaf: leaf.meta.get("val")))
                _note(self.seen, phase, node.target, [leaf for leaf in leaves if isinstance(leaf, Tensor)])
            return make_boxed_func(module.forward)

        return compile_
