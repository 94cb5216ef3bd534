"""Lowers a captured graph to aten operators: for graphs that cannot be written as source text, and for faults in a backward.

With cotangents the joint graph is traced: forward and backward become one sequence of operators, so that a wrong gradient is
reduced in the same way as a wrong output.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

from ..values import snapshot
from ..values.rounding import tensors
from ..values.snapshot import GlobalState
from .graphs import FROZEN, MADE, copy_graph, is_symbolic, tensor_meta, to_json
from .launches import launches_in
from .literals import Opaque


def lower(
    module: fx.GraphModule,
    inputs: list[Any],
    cotangents: Sequence[torch.Tensor] | None = None,
    behind: GlobalState | None = None,
) -> tuple[fx.GraphModule, list[Any]]:
    """Trace ``module`` on copies of ``inputs`` into aten operators.

    Returns the graph and the values of its placeholders (``inputs``, then ``cotangents``). ``cotangents`` belong to the
    outputs that require grad, in order; gradients of the inputs that require grad are returned after the outputs. If
    the graph has symbols, so has the result, unless its control flow depends on values. ``behind``: the switches of the
    backward.
    """
    interpreter = _Flat(module)
    wanted = [value.requires_grad if isinstance(value, torch.Tensor) else False for value in inputs]

    def forward(*args: Any) -> list[torch.Tensor]:
        return tensors(interpreter.run(*args))

    def joint(*args: Any) -> list[torch.Tensor]:
        primals, tangents = args[: len(inputs)], args[len(inputs) :]
        leaves = [p.detach().requires_grad_() if want else p for p, want in zip(primals, wanted, strict=True)]
        with torch.enable_grad():
            outputs = tensors(interpreter.run(*leaves))
        roots = [output for output in outputs if output.requires_grad]
        _number_backward(roots)
        sources = [leaf for leaf, want in zip(leaves, wanted, strict=True) if want]
        with behind.casting() if behind is not None else contextlib.nullcontext():
            gradients = torch.autograd.grad(roots, sources, list(tangents), allow_unused=True)
        return [*outputs, *(gradient for gradient in gradients if gradient is not None)]

    values = snapshot.clone([*inputs, *(cotangents or ())])
    plain = [value.detach() if isinstance(value, torch.Tensor) else value for value in values]
    run = joint if cotangents else forward
    traced = _traced(run, plain if torch.is_grad_enabled() else _requiring(plain, wanted), is_symbolic(module.graph))
    traced.graph.eliminate_dead_code()
    traced.recompile()
    if cotangents:
        _name_backward(traced.graph)
    for old, new in zip(
        _placeholders(module), _placeholders(traced), strict=False
    ):  # cotangents come behind the inputs
        new.meta[FROZEN] = old.meta.get(FROZEN, False)
    annotate(traced, plain)
    return traced, plain


def _placeholders(module: fx.GraphModule) -> list[fx.Node]:
    return list(module.graph.find_nodes(op="placeholder"))


def _number_backward(roots: list[torch.Tensor]) -> None:
    """Make each backward operator traced next carry the sequence number of its forward operator.

    Uses AOTAutograd's hooks (``torch/_functorch/_aot_autograd/logging_utils.py``); without them backward nodes get no module (`hooks.WISHED`).
    """
    with contextlib.suppress(ImportError):
        from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks

        setup_stacktrace_preservation_hooks([root.grad_fn for root in roots if root.grad_fn is not None])


def _name_backward(graph: fx.Graph) -> None:
    """Copy module and source line from each forward operator to its backward operators."""
    forward: dict[int, fx.Node] = {}
    for node in graph.nodes:
        number = node.meta.get("seq_nr")
        if number is None:
            continue
        if node.meta.get("nn_module_stack"):
            forward.setdefault(number, node)
        elif number in forward:
            meta = forward[number].meta
            node.meta |= {key: meta[key] for key in ("nn_module_stack", "stack_trace") if key in meta}


class _Flat(fx.Interpreter):
    """Inlines nested compile regions (``invoke_subgraph``) at each call."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is torch.ops.higher_order.invoke_subgraph:
            region, _, *operands = args
            return _Flat(region).run(*operands)
        return super().call_function(target, args, kwargs)


def write_down(
    module: fx.GraphModule,
    inputs: list[Any],
    rng: Any,
    *,
    level: str,
    called_from: list[Any] | None,
    cotangents: Sequence[torch.Tensor] | None,
    behind: GlobalState | None = None,
) -> tuple[fx.GraphModule, list[Any], dict[str, Any]]:
    """A captured graph as data (`graphs.to_json`), with the graph and the inputs that this data describes.

    Args:
        module: the graph as Dynamo captured it.
        inputs: those of the call; not changed.
        rng: the random state before the call.
        level: ``dynamo`` or ``aot``; ``auto`` takes the Dynamo graph if source text can name all of it. ``weighted``: the Dynamo graph
            with its cotangents in it (`weighted`).
        called_from: the user's line that calls it; see `graphs.to_json`.
        cotangents: of a call whose backward is part of the graph, at AOT level.
        behind: the switches of that backward; None: those of the call.

    Raises:
        Opaque: ``level`` is ``dynamo`` or ``weighted``, and source text cannot name all of it.
    """
    if level == "weighted":
        snapshot.set_rng_state(rng)
        module, inputs = weighted(module, inputs, cotangents or ())
        level = "dynamo"
    try:
        if level == "aot":
            raise Opaque("asked for")
        if is_symbolic(module.graph):  # its metadata may come from a call with other sizes
            with contextlib.suppress(Exception):
                snapshot.set_rng_state(rng)
                annotate(module, inputs)
        return module, inputs, to_json(module.graph, inputs, called_from=called_from, level="dynamo")
    except Opaque:
        if level == "dynamo":
            raise
        if any(launches_in(module)):
            raise Opaque("kernels that the script launches are no aten operators") from None
        snapshot.set_rng_state(rng)
        module, inputs = lower(module, inputs, cotangents, behind)
        return module, inputs, to_json(module.graph, inputs, called_from=called_from, level="aot")


def weighted(
    module: fx.GraphModule, inputs: list[Any], cotangents: Sequence[torch.Tensor]
) -> tuple[fx.GraphModule, list[Any]]:
    """A graph whose sum of outputs has ``module``'s gradients for these cotangents, and its inputs.

    Each output that requires a gradient is multiplied by its cotangent, which becomes an input; other outputs are
    dropped. So a fault that depends on the cotangents, such as an overflow, shows in a program that does not name them.

    Raises:
        Opaque: an output of the graph is no node's value, or the cotangents belong to other outputs.
    """
    graph = copy_graph(module.graph)
    result = fx.GraphModule(module, graph)
    annotate(result, inputs)
    (output,) = graph.find_nodes(op="output")
    leaves = [leaf for leaf in tree_leaves(output.args[0]) if isinstance(leaf, fx.Node)]
    made = [(leaf, leaf.meta.get(MADE)) for leaf in leaves]
    roots = [leaf for leaf, meta in made if isinstance(meta, dict) and meta["requires_grad"]]
    if len(roots) != len(cotangents) or not roots:
        raise Opaque("outputs without a node")
    products = []
    for number, root in enumerate(roots):
        with graph.inserting_before(next(iter(graph.nodes))):
            weight = graph.placeholder(f"weight_{number}")
        with graph.inserting_before(output):
            products.append(graph.call_function(torch.mul, (root, weight)))
        products[-1].meta = {key: root.meta[key] for key in ("nn_module_stack", "stack_trace") if key in root.meta}
    output.args = (tuple(products),)
    # Each placeholder was put before the earlier ones.
    values = [*reversed([cotangent.detach() for cotangent in cotangents]), *inputs]
    result.recompile()
    annotate(result, values)
    return result, values


def _requiring(values: list[Any], wanted: list[bool]) -> list[Any]:
    """The values with ``requires_grad`` restored: compiled autograd accumulates no gradient for a tensor without it."""
    wanted = [*wanted, *[False] * (len(values) - len(wanted))]
    return [value.detach().requires_grad_() if want else value for value, want in zip(values, wanted, strict=True)]


def _traced(run: Any, values: list[Any], is_symbolic: bool) -> fx.GraphModule:
    """Trace ``run`` on copies of the values, since a graph may write to its inputs."""
    traced = _trace_symbols(run, values) if is_symbolic else None
    if traced is not None:
        return traced
    with fx.traceback.preserve_node_meta():
        module: fx.GraphModule = make_fx(run)(*snapshot.clone(values))
    return module


def _trace_symbols(run: Any, values: list[Any]) -> fx.GraphModule | None:
    """Trace with all sizes symbolic.

    None if that fails, for instance because of a branch on a value, which fake tensors lack.
    """
    try:
        with fx.traceback.preserve_node_meta():
            return make_fx(run, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*snapshot.clone(values))
    except Exception:
        return None


def annotate(module: fx.GraphModule, inputs: list[Any]) -> None:
    """Run the graph on copies of ``inputs`` and record at every node its result's metadata, under `MADE`."""
    _Annotate(module).run(*snapshot.clone(inputs))


class _Annotate(fx.Interpreter):
    """Records at every node the metadata of the tensor it returns, or the number."""

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor):
            n.meta[MADE] = tensor_meta(result)
        elif isinstance(result, (bool, int, float)):
            n.meta[MADE] = result
        return result
