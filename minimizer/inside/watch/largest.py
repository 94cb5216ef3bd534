"""Finds the largest difference between compiled and eager among all compared values, and the reason why it is legal, or that it is the fault."""

from __future__ import annotations

import math
import re
from typing import Any

import torch
from torch import Tensor, fx

from ..graph.modules import module_of
from ..graph.names import dotted_name
from ..graph.origins import owner_of
from ..messages import Largest as Found
from ..referee.comparison import Judged
from ..referee.distance import ELEMENTWISE, in_double
from ..referee.verdict import Verdict
from ..rulings import Ruling
from ..values.boundary import places
from ..values.elements import PIECE, plain, short
from ..values.snapshot import has_plain_storage

_REASONS = {
    Ruling.FP64: "eager is as far from float64",
    Ruling.ULPS: "no larger than eager's own roundings explain",
    Ruling.DISCRETE: "behind a jump: a fault only where a part of the graph is wrong on eager's inputs",
    Ruling.RANDOM_STREAM: "random values come from another stream",
    Ruling.UNDEFINED: "it depends on an undefined result",
    Ruling.NONDETERMINISTIC: "eager differs from eager as well",
}
"""Why a difference beyond the tolerance is legal, by the referee's rule."""


class Largest:
    """Keeps the largest difference seen so far, between finite numbers only."""

    def __init__(self) -> None:
        self._looked = False
        self._found = Found()

    @property
    def found(self) -> Found | None:
        """The largest difference; None if nothing was compared."""
        return self._found if self._looked else None

    def look(self, graph: fx.Graph, found: Judged) -> None:
        """Include the results of both sides of a call and its inputs afterwards, or the gradients of its inputs, in
        order.
        """
        leaves = [where for where, leaf in places(list(found.call.inputs)).items() if leaf.requires_grad]
        owners = {f"grad[{index}]": where for index, where in enumerate(leaves)}
        verdict, others = found.verdict, found.actual.places()
        for where, tensor in found.expected.places().items():
            other = others.get(where)
            if other is None or other.shape != tensor.shape or not has_plain_storage(tensor):
                continue  # reading a distributed tensor would wait for the other ranks
            self._looked = True
            absolute, relative = farthest(tensor, other)
            if absolute > self._found.absolute:
                is_gradient = where.startswith("grad")
                module, op = _of_input(graph, owners.get(where, "")) if is_gradient else maker_of(graph, where)
                reason = _reason(verdict, where, tensor.dtype)
                because = f"a gradient: {reason}" if is_gradient else reason
                self._found = Found(module, op, absolute, relative, because, verdict.right.get(where, ""))


def farthest(expected: Tensor, actual: Tensor) -> tuple[float, float | None]:
    """The largest absolute difference of two tensors of equal shape, and its ratio to eager's value there (None if not finite)."""
    worst, at = 0.0, 0.0
    with torch.no_grad():
        flat = [plain(tensor).reshape(-1).split(PIECE) for tensor in (expected, actual)]
        pieces = zip(*flat, strict=True)
        for e, a in ((in_double(e), in_double(a)) for e, a in pieces):
            error = (a - e).abs()
            error = torch.where(error.isfinite(), error, 0.0)
            if error.numel() and (largest := float(error.max())) > worst:
                worst, at = largest, float(e[error.argmax()].abs())
    relative = worst / at if at else (0.0 if not worst else None)
    return worst, relative if relative is None or math.isfinite(relative) else None


def _reason(verdict: Verdict, where: str, dtype: torch.dtype) -> str:
    if verdict.fault and any(each.where == where and each.what in ELEMENTWISE for each in verdict.differences):
        return "it is the fault"
    rule = verdict.rules.get(where)
    if rule is Ruling.FP64 and verdict.right.get(where) == "eager":
        rule = Ruling.ULPS
    return f"within the tolerance of {short(dtype)}" if rule is None else _REASONS.get(rule, rule.value)


def maker_of(graph: fx.Graph, where: str) -> tuple[str, str]:
    """Module path and operator of the node that computes a visible value; empty for a graph input that is returned."""
    if where.startswith("input"):
        return _of_input(graph, where)
    node: Any = graph.output_node().args[0]
    for index in re.findall(r"\[(\d+)\]", where):
        node = node[int(index)] if isinstance(node, (tuple, list)) and int(index) < len(node) else node
    while isinstance(node, fx.Node) and op_of(node) == "operator.getitem" and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    if not isinstance(node, fx.Node) or node.op == "placeholder":
        return "", ""
    return module_of(node)[0], op_of(node)


def _of_input(graph: fx.Graph, where: str) -> tuple[str, str]:
    """The path or name of a graph input, and no operator."""
    index = re.search(r"\[(\d+)\]", where)
    holders = graph.find_nodes(op="placeholder")
    if index is None or int(index[1]) >= len(holders):
        return "", ""
    return owner_of(holders[int(index[1])]), ""


def op_of(node: fx.Node) -> str:
    """The name of a node's target: the aten packet of that name if there is one, such as ``aten.relu``."""
    target = node.target
    if node.op == "call_method":
        dotted = f"torch.Tensor.{target}"
    else:
        dotted = (dotted_name(target) if callable(target) else None) or str(target)
    name = re.sub(r"^torch\.ops\.aten\.(\w+).*", r"\1", dotted).rpartition(".")[2].strip("_")
    is_torchs = dotted.startswith(("torch.", "operator."))
    return f"aten.{name}" if is_torchs and name != "getitem" and hasattr(torch.ops.aten, name) else dotted
