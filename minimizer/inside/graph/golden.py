"""Golden values: eager's values at any point of a captured graph, computed on request.

Each value is copied at the requested point of the graph, so that a later in-place operator cannot change it (torch's own
``ConcreteProp`` keeps aliases: after ``a = x.sin(); a.mul_(100)`` its saved ``sin`` is a hundred times too large). Values
that are saved together keep the storages they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from ..failures import LOST, device_error
from ..values import snapshot, transforms
from .literals import complex_number

LITERAL_ELEMENTS = 64
"""Elements of the largest tensor for which `literal` writes source text."""


class GoldenGraph:
    """A graph with the inputs and the random state of one call, which can be rerun in eager for its values."""

    def __init__(self, module: fx.GraphModule, inputs: list[Any], rng: Any, names: dict[str, fx.Node]) -> None:
        self._module, self._inputs, self._rng = module, inputs, rng
        self.names = names
        """The graph's nodes by their names in the program made from it."""

    def values(self, keys: Sequence[str]) -> dict[str, torch.Tensor]:
        """Copies of the tensors named by ``keys``.

        A key is ``value`` (right after it was computed; inputs: at the start) or ``value@node`` (just before that node
        runs). Unknown keys, non-tensors, and values after the node at which eager raises are left out.
        """
        moments: dict[fx.Node, list[tuple[str, fx.Node]]] = {}
        after: dict[fx.Node, list[str]] = {}
        for key in keys:
            value, _, moment = key.partition("@")
            node = self.names.get(value)
            if node is None:
                continue
            if moment and moment in self.names:
                moments.setdefault(self.names[moment], []).append((key, node))
            else:
                after.setdefault(node, []).append(key)
        collector = _Collector(self._module, moments, after)
        snapshot.set_rng_state(self._rng)
        with transforms.left_again():  # a run that ends inside a transform leaves it open to the next
            try:
                collector.run(*snapshot.clone(self._inputs))
            except _AllFound:
                pass
            except Exception as error:  # expected of a missing_error: eager raises where compiled code does not
                if device_error(error) == LOST:
                    raise
        return collector.found

    def literal(self, key: str) -> str | None:
        """Source text for a value: exact for a small tensor, a substitute for a large one with NaN, infinities or negative zeros.

        None if neither applies.
        """
        value = self.values([key]).get(key)
        return None if value is None else literal(value) or nonfinite(value) or negative_zeros(value)


class _AllFound(Exception):
    """Ends a run: the remaining nodes produce nothing that was requested."""


class _Collector(fx.Interpreter):
    def __init__(
        self,
        module: fx.GraphModule,
        moments: dict[fx.Node, list[tuple[str, fx.Node]]],
        after: dict[fx.Node, list[str]],
    ) -> None:
        super().__init__(module, garbage_collect_values=True)
        self._moments, self._after = moments, after
        self.found: dict[str, torch.Tensor] = {}
        self._given: list[tuple[str, torch.Tensor]] = []
        self._ahead = {*moments, *after}
        """Nodes that the run must still reach."""
        wanted = {node for pairs in moments.values() for _, node in pairs}
        # A value needed at a later node must be kept beyond its last use.
        for dying in self.user_to_last_uses.values():
            dying[:] = [node for node in dying if node not in wanted]

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "placeholder" and self._given:  # inputs are copied together, with the storages they share
            self._keep(self._given)
            self._given = []
        early = [(key, self.env[node]) for key, node in self._moments.get(n, ())]
        self._keep([(key, value) for key, value in early if isinstance(value, torch.Tensor)])
        if n not in self._after:
            self._ahead.discard(n)
        if n.op != "placeholder" and not self._ahead:
            raise _AllFound
        result = super().run_node(n)
        self._ahead.discard(n)
        if isinstance(result, torch.Tensor):
            found = [(key, result) for key in self._after.get(n, ())]
            if n.op == "placeholder":
                self._given += found
            else:
                self._keep(found)
        return result

    def _keep(self, pairs: list[tuple[str, torch.Tensor]]) -> None:
        # Inside a torch.func transform a value is a wrapper, which is dead after the transform.
        pairs = [(key, value) for key, value in pairs if not _is_wrapper(value)]
        with temporarily_clear_interpreter_stack():  # otherwise the copies would be wrappers too
            copies = snapshot.clone([value.detach() for _, value in pairs])
        self.found.update(zip((key for key, _ in pairs), copies, strict=True))


def storable(values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The values, cloned if dtypes share a storage, which ``torch.save`` cannot express."""
    dtypes: dict[int, torch.dtype] = {}
    kept: dict[str, torch.Tensor] = {}
    for key, value in values.items():
        is_alone = not snapshot.has_plain_storage(value)
        is_same = is_alone or dtypes.setdefault(value.untyped_storage()._cdata, value.dtype) == value.dtype
        kept[key] = value if is_same else value.clone()
    return kept


def _is_wrapper(value: torch.Tensor) -> bool:
    functorch: Any = torch._C._functorch
    return bool(functorch.is_functorch_wrapped_tensor(value) or functorch.is_dead_tensor_wrapper(value))


def literal(value: torch.Tensor) -> str | None:
    """``torch.tensor([...])`` with the shortest numbers that give the same bits; None for more than 64 elements, or no plain layout."""
    if value.numel() > LITERAL_ELEMENTS or value.layout is not torch.strided or value.is_quantized:
        return None
    value = value.detach().cpu()
    suffix = "" if value.dtype in (torch.float32, torch.int64, torch.bool) else f", dtype={value.dtype}"
    if value.numel() == 0:
        return f"torch.empty({tuple(value.shape)}{suffix})"
    return f"torch.tensor({_nested(value.tolist(), value.dtype)}{suffix})"


def nonfinite(value: torch.Tensor) -> str | None:
    """Source text of a tensor filled with NaN, or with the first infinity, if the float ``value`` contains one; else None."""
    if not value.is_floating_point() or value.layout is not torch.strided:
        return None
    flat = value.detach().float().flatten()
    special = flat[~flat.isfinite()]
    if special.numel() == 0:
        return None
    number = float("nan") if bool(special.isnan().any()) else float(special[0])
    suffix = "" if value.dtype is torch.float32 else f", dtype={value.dtype}"
    return f"torch.full({tuple(value.shape)}, {_short(number, value.dtype)}{suffix})"


def negative_zeros(value: torch.Tensor) -> str | None:
    """Source text of a tensor filled with negative zeros, if the float ``value`` contains one; else None."""
    if not value.is_floating_point() or value.layout is not torch.strided:
        return None
    flat = value.detach().float().flatten()
    if not bool(((flat == 0) & flat.signbit()).any()):
        return None
    suffix = "" if value.dtype is torch.float32 else f", dtype={value.dtype}"
    return f"torch.full({tuple(value.shape)}, -0.0{suffix})"


def _nested(value: Any, dtype: torch.dtype) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_nested(item, dtype) for item in value)}]"
    if isinstance(value, complex):
        return complex_number(value)
    return _short(value, dtype) if isinstance(value, float) else repr(value)


def _short(number: float, dtype: torch.dtype) -> str:
    if number != number or number in (float("inf"), float("-inf")):
        return f'float("{number}")'
    exact = torch.tensor(number, dtype=dtype)
    for digits in range(1, 17):
        text = repr(float(f"{number:.{digits}g}"))
        if torch.equal(torch.tensor(float(text), dtype=dtype), exact):
            return text
    return repr(number)
