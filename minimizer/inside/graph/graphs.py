"""FX graphs as data: the JSON form of a graph, which the torch-free side turns into a `Program`.

Shapes are concrete, with a list of the symbolic dimensions. A symbol that is a graph input becomes a size of the tensor
that has it (``s0 = x.size(0)``), so that a program has the same inputs as the user's function. The branches of a
``cond`` and the bodies of other higher-order operators become functions. A node whose target has no name in source
text, or that calls a submodule, makes the graph *opaque*: it is then lowered to aten operators, which always have names
(`lowering.py`).
"""

from __future__ import annotations

import inspect
import itertools
import keyword
import re
from typing import Any

import torch
from torch import fx

from ..places import sources
from ..values.views import base_of, steps
from .launches import is_launch, launch_of, modules_of
from .literals import SYMBOLS, Opaque, hint, literal, number
from .modules import module_of
from .names import dotted_name

Json = Any
MADE = "minimizer_tensor_meta"
"""Key of ``node.meta`` for a node's concrete result, as `annotate` recorded it: a tensor's meta, or a plain number."""
FROZEN = "minimizer_frozen"
"""Key of ``node.meta`` of a placeholder that stands for what compiled code takes for a constant."""
SIZES = {
    "torch.ops.aten.sym_size.int": ".size",
    "torch.ops.aten.sym_stride.int": ".stride",
    "torch.ops.aten.sym_numel.default": ".numel",
    "torch.ops.aten.sym_storage_offset.default": ".storage_offset",
}
HIGHER_ORDER = {
    f"torch.ops.higher_order.{name}"
    for name in ("cond", "while_loop", "scan", "associative_scan", "map_impl", "flex_attention")
}
"""Higher-order operators that a user's program may call directly: Dynamo supports these calls."""
NOTED = "mutated_arg_indices"
"""Keyword by which Dynamo tells a higher-order operator which operands a body changes."""
RESERVED = frozenset(["torch", "F", "functools", "math", "operator", "f"])
"""Names that the graph's source text uses for modules and for its function, and so must not be reused for values."""
OPERAND = re.compile(
    r"^[lL]_(self_)?((modules|parameters|buffers)_)*|_+(cond|body|true|false|combine)_(fn|branch)$|(_\d+)+$"
)
"""Matches Dynamo's additions to names of operands of a higher-order operator's body."""
CALL = "operator.call"
"""The target that calls its first argument: a Triton kernel, indexed by its grid."""
FLEX_ATTENTION = "torch.ops.higher_order.flex_attention"


def to_json(graph: fx.Graph, inputs: list[Any], *, called_from: list[Json] | None, level: str) -> dict[str, Json]:
    """The JSON form of a graph: ``inputs``, ``nodes``, ``outputs``, and the ``functions`` that its nodes take as
    arguments.

    ``inputs`` are the example values of its placeholders, in order; ``called_from`` is the user's line that calls it
    (`sources_of`). ``names`` of the result maps each name to its fx.Node and is not part of the JSON.

    Raises:
        Opaque: a node cannot be written as source text.
    """
    return _Writer(graph, inputs, called_from).write(level)


def tensor_meta(value: torch.Tensor) -> dict[str, Json]:
    """Shape, dtype, stride, device and requires_grad of a tensor; symbolic sizes are replaced by their hints, and listed."""
    strided = value.layout is torch.strided
    return {
        "shape": [hint(size) for size in value.shape],
        "dtype": str(value.dtype),
        "stride": [hint(step) for step in value.stride()] if strided else None,
        "device": value.device.type,
        "requires_grad": value.requires_grad,
        "symbolic": _symbolic(value),
    }


def is_symbolic(graph: fx.Graph) -> bool:
    """Whether any value of the graph is a symbol, or a tensor with a symbol among its sizes."""
    return any(isinstance(v, SYMBOLS) or _symbolic(v) for v in map(_example, graph.nodes))


def concrete(graph: fx.Graph, inputs: list[Any]) -> list[Any]:
    """The example values of the placeholders, with symbols replaced by numbers: their hints, or the sizes they stand for."""
    placeholders = graph.find_nodes(op="placeholder")
    values = dict(zip(placeholders, inputs, strict=True))
    owners = _owners(placeholders)

    def plain(value: Any) -> Any:
        owner = owners.get(value.node.expr) if isinstance(value, SYMBOLS) and not value.node.has_hint() else None
        return values[owner[0]].shape[owner[1]] if owner else hint(value)

    return [plain(value) for value in inputs]


def copy_graph(graph: fx.Graph) -> fx.Graph:
    """A copy with the same node names and metadata; needed since compilers modify their input graph."""
    copy = fx.Graph(tracer_cls=getattr(graph, "_tracer_cls", None))
    mapping: dict[fx.Node, fx.Node] = {}
    result = copy.graph_copy(graph, mapping)
    output = graph.find_nodes(op="output")[0]
    copy.output(result)
    for old, new in mapping.items():
        new.meta = dict(old.meta)
        new.name = old.name
    copy.find_nodes(op="output")[0].meta = dict(output.meta)
    return copy


class _Writer:
    def __init__(
        self, graph: fx.Graph, inputs: list[Any], called_from: list[Json] | None, taken: frozenset[str] = RESERVED
    ) -> None:
        self._graph, self._inputs, self._called_from = graph, inputs, called_from
        self._names: dict[fx.Node, str] = {}
        self._numbers: dict[fx.Node, str] = {}
        self._functions: list[Json] = []
        self._bodies: set[fx.Node] = set()
        own = graph.owning_module
        imported = modules_of(own) if isinstance(own, fx.GraphModule) else ()
        self._taken = {*taken, *(module.partition(".")[0] for module in imported)}

    def write(self, level: str) -> dict[str, Json]:
        outputs: list[str] = []
        inputs, nodes = self._placeholders()
        for node in self._graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "get_attr":
                inputs += self._attribute(node)
            elif node.op == "call_method" and node.args[0] in self._numbers:
                self._names[node] = self._numbers[node.args[0]]
            elif node.op == "output":
                outputs = self._outputs(node)
            else:
                nodes += self._nodes(node)
        names = {name: node for node, name in self._names.items()}
        body = {"inputs": inputs, "nodes": nodes, "outputs": outputs, "functions": self._functions}
        return {**body, "level": level, "names": names}

    def body(self) -> dict[str, Json]:
        """The graph as the body of a function, with plain names as parameters and the graph's outputs as result."""
        # Dynamo numbers names across graphs, and adds an operand's origin; inside a separate function `h_2` can be `h`.
        placeholders = self._graph.find_nodes(op="placeholder")
        parameters = [self._name(node, OPERAND.sub("", node.name)) for node in placeholders]
        if any(map(self._attribute, self._graph.find_nodes(op="get_attr"))):
            raise Opaque("a tensor that belongs to the body of an operator")
        nodes = [n for node in self._graph.nodes if node.op.startswith("call") for n in self._nodes(node)]
        (result,) = self._graph.find_nodes(op="output")[0].args
        return {"parameters": parameters, "nodes": nodes, "result": self._arg(result)}

    def _placeholders(self) -> tuple[list[Json], list[Json]]:
        """The inputs, and a ``size`` node for each symbol that is a size of an input tensor."""
        placeholders = self._graph.find_nodes(op="placeholder")
        owners = _owners(placeholders)
        inputs: list[Json] = []
        tensors: list[tuple[Json, torch.Tensor]] = []
        sizes: list[tuple[fx.Node, Any]] = []
        for node, value in zip(placeholders, self._inputs, strict=True):
            symbol = _example(node)
            if isinstance(symbol, SYMBOLS) and symbol.node.expr in owners:
                sizes += [(node, value)] if node.users else []
            elif _is_wrapped_number(node, value):
                name = self._numbers[node] = self._name(node)
                inputs.append({"name": name, "code": number(value.item())})
            elif node.users or not isinstance(symbol, SYMBOLS):
                inputs.append(self._input(node, value))
                tensors += [(inputs[-1], value)] if isinstance(value, torch.Tensor) else []
        for item, value in tensors:
            item |= self._view(value, tensors)
        return inputs, [self._size(node, *owners[_example(node).node.expr], value) for node, value in sizes]

    def _size(self, node: fx.Node, owner: fx.Node, dim: int, value: Any) -> Json:
        args = [{"ref": self._names[owner]}, dim]
        return {"name": self._name(node), "target": ".size", "args": args, "kwargs": {}, "number": hint(value)}

    def _input(self, node: fx.Node, value: Any) -> Json:
        name = self._name(node)
        if isinstance(value, torch.Tensor):
            meta = {**tensor_meta(value), "symbolic": _symbolic(_example(node))}
            return {"name": name, "meta": meta, "golden": name} | ({"frozen": True} if node.meta.get(FROZEN) else {})
        if isinstance(value, (int, float, *SYMBOLS)):
            return {"name": name, "code": number(hint(value))}
        raise Opaque(f"input {node.name} is a {type(value).__name__}")

    def _view(self, value: torch.Tensor, others: list[tuple[Json, torch.Tensor]]) -> dict[str, Json]:
        """The ``view`` of an input: its base among the other inputs, and the operations from the base.

        Empty if it is no view.
        """
        base = base_of(value)
        names = [item["name"] for item, other in others if other is base]
        if base is None or not names or base.requires_grad or value.requires_grad:
            return {}
        found = steps(value, base)
        if any(step.target == ".as_strided" for step in found) and base.storage_offset():
            return {}  # the offset is relative to the memory, of which the base is only a part
        made = [{"target": step.target, "args": [self._arg(arg) for arg in step.args]} for step in found]
        return {"view": {"of": names[0], "steps": made}}

    def _attribute(self, node: fx.Node) -> list[Json]:
        """Encode a ``get_attr`` node: a tensor becomes an input, a subgraph becomes a function."""
        value: Any = self._graph.owning_module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        is_body = isinstance(value, fx.GraphModule)
        name = self._name(node, "inner" if is_body else "")  # Dynamo fails if a function has its own name for a body
        if is_body:
            functions = {name, *(function["name"] for function in self._functions)}
            inner = _Writer(value.graph, [], self._called_from, RESERVED | functions)
            body = inner.body()
            self._functions += [*inner._functions, {"name": name, **body}]
            self._taken.update(function["name"] for function in inner._functions)
            self._bodies.add(node)
            return []
        if not isinstance(value, torch.Tensor):
            raise Opaque(f"{node.target} is a {type(value).__name__}")
        return [{"name": name, "meta": tensor_meta(value), "golden": name}]

    def _nodes(self, node: fx.Node) -> list[Json]:
        """A call, preceded by the calls that build its arguments if Dynamo's own form of it cannot be called by hand."""
        encoded = self._node(node)
        if encoded["target"] != FLEX_ATTENTION or len(node.args) != 9:
            return [encoded]
        # The function's captured tensors are explicit arguments here, which a user cannot pass: bind them to the
        # functions.
        *args, _, _ = encoded["args"]
        masks = args[4]["tuple"]
        bound: list[Json] = []
        for holder, index, captured in ((args, 3, node.args[7]), (masks, -1, node.args[8])):
            if captured:
                bound.append(self._bound(holder[index], captured, encoded))
                holder[index] = {"ref": bound[-1]["name"]}
        return [*bound, {**encoded, "args": args}]

    def _bound(self, function: Json, captured: Any, call: Json) -> Json:
        """A ``functools.partial`` that binds the last parameters of a body's function."""
        parameters = next(body["parameters"] for body in self._functions if body["name"] == function["code"])
        given = zip(parameters[-len(captured) :], captured, strict=True)
        made = {"name": self._free("bound"), "target": "functools.partial", "meta": None, "number": None}
        return {**call, **made, "args": [function], "kwargs": {name: self._arg(value) for name, value in given}}

    def _node(self, node: fx.Node) -> Json:
        if node.op == "call_method":
            target: str | None = f".{node.target}"
        elif node.op == "call_function" and callable(node.target):
            if is_launch(node):
                return self._launch(node)
            target = dotted_name(node.target)
            if isinstance(node.target, torch._ops.HigherOrderOperator) and target not in HIGHER_ORDER:
                raise Opaque(f"{node.target} cannot be called directly")
        else:
            raise Opaque(f"{node.op} {node.target}")
        if target is None:
            raise Opaque(f"{node.target} has no name in source text")
        value = _example(node)
        made: Any = node.meta.get(MADE)
        if made is None and isinstance(value, torch.Tensor):
            made = tensor_meta(value)
        is_tensor = isinstance(made, dict)
        encoded: dict[str, Json] = {
            "target": SIZES.get(target, target),
            "args": [self._arg(arg) for arg in node.args],
            "kwargs": {key: self._arg(arg) for key, arg in _said(node).items()},
            "meta": {**made, "symbolic": _symbolic(value)} if is_tensor else None,
            "number": made if isinstance(value, SYMBOLS) else None,
            **self._place(node),
        }
        return {"name": self._name(node), **encoded}

    def _launch(self, node: fx.Node) -> dict[str, Json]:
        """The launch of a kernel, as a call of the kernel indexed by its grid."""
        launch = launch_of(node, lambda size: size.meta.get(MADE, hint(_example(size))))
        if launch is None:
            raise Opaque("the launch of a kernel has no source text")
        return {
            "name": self._name(node, "launch"),
            "target": CALL,
            "args": [{"code": launch.kernel}],
            "kwargs": {key: self._arg(value) for key, value in launch.arguments.items()},
            "meta": None,
            "number": None,
            **self._place(node),
        }

    def _place(self, node: fx.Node) -> dict[str, Json]:
        """The user's module and line of a node."""
        module, module_class = module_of(node)
        return {"module": module, "module_class": module_class, **sources_of(node, self._called_from)}

    def _outputs(self, node: fx.Node) -> list[str]:
        names: list[str] = []

        def visit(arg: fx.Node) -> fx.Node:
            names.append(self._names[arg])
            return arg

        fx.map_arg(node.args[0], visit)
        return list(dict.fromkeys(names))

    def _arg(self, arg: Any) -> Json:
        if isinstance(arg, fx.Node):
            return {"code" if arg in self._bodies else "ref": self._names[arg]}
        if isinstance(arg, tuple):
            items = [self._arg(item) for item in arg]
            return {"tuple": items}
        if isinstance(arg, list):
            return [self._arg(item) for item in arg]
        if isinstance(arg, slice):
            return {"slice": [self._arg(item) for item in (arg.start, arg.stop, arg.step)]}
        if isinstance(arg, dict):
            return {"dict": [[self._arg(key), self._arg(item)] for key, item in arg.items()]}
        return literal(arg)

    def _name(self, node: fx.Node, base: str = "") -> str:
        base = base or re.sub(r"\W", "_", re.sub(r"^[lL]_(self_)?(modules_)?", "", node.name)).strip("_") or "x"
        if base[0].isdigit() or keyword.iskeyword(base):
            base = f"v_{base}"
        name = self._names[node] = self._free(base)
        return name

    def _free(self, base: str) -> str:
        name, count = base, 1
        while name in self._taken:
            name, count = f"{base}_{count}", count + 1
        self._taken.add(name)
        return name


def _said(node: fx.Node) -> dict[str, Any]:
    """The keyword arguments that differ from their defaults: a person writes ``F.relu(x)``, not ``F.relu(x,
    inplace=False)``.

    Dynamo's annotation of a higher-order operator is left out: Dynamo adds it again, and does not accept it as an argument.
    """
    defaults = defaults_of(node.target) if node.op == "call_function" else {}
    return {
        key: value
        for key, value in node.kwargs.items()
        if key != NOTED and (key not in defaults or type(value) is not type(defaults[key]) or value != defaults[key])
    }


def defaults_of(target: Any) -> dict[str, Any]:
    """The defaults of a callable's parameters, by name; empty if unknown."""
    if isinstance(target, torch._ops.OpOverload):
        return {a.name: a.default_value for a in target._schema.arguments if a.has_default_value()}
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):
        return {}
    return {name: p.default for name, p in parameters.items() if p.default is not p.empty}


def sources_of(node: fx.Node, called_from: list[Json] | None) -> dict[str, list[Json]]:
    """The user's line behind a node, and the library line that it calls, each as ``[file, line, code]``.

    If only a library line is known, as for a library's model compiled as a whole, the user's line is the one that calls
    the graph.
    """
    frames = []
    lines = (node.stack_trace or "").splitlines()
    for line, code in itertools.zip_longest(lines, lines[1:], fillvalue=""):
        if match := re.match(r'\s*File "(.+)", line (\d+)', line):
            frames.append((match[1], int(match[2]), "" if code.lstrip().startswith('File "') else code.strip()))
    found: dict[str, list[Json]] = sources(frames)
    return found if "source" in found or called_from is None else {**found, "source": called_from}


def _example(node: fx.Node) -> Any:
    """The compiler's fake value of a node."""
    return node.meta.get("example_value", node.meta.get("val"))


def _symbolic(value: Any) -> list[int]:
    """The dimensions of a tensor with symbolic sizes."""
    if not isinstance(value, torch.Tensor):
        return []
    return [dim for dim, size in enumerate(value.shape) if isinstance(size, torch.SymInt)]


def _owners(placeholders: list[fx.Node]) -> dict[Any, tuple[fx.Node, int]]:
    """For each symbol, the first input tensor and dimension that have it as size."""
    owners: dict[Any, tuple[fx.Node, int]] = {}
    for node in placeholders:
        for dim in _symbolic(_example(node)):
            owners.setdefault(_example(node).shape[dim].node.expr, (node, dim))
    return owners


def _is_wrapped_number(node: fx.Node, value: Any) -> bool:
    """Whether a tensor input is only Dynamo's form of a float argument: 0-d, and used by nothing but ``item()``."""
    is_wrapped = getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False) and isinstance(value, torch.Tensor)
    return is_wrapped and value.dim() == 0 and all((u.op, u.target) == ("call_method", "item") for u in node.users)
