"""A program: the torch-free form of a graph, from which source text is rendered.

A trial judges the same calls that the repro will contain: the child captures an FX graph into a `Program` (as JSON),
the reducer works on `Program` values, and `render.function` writes the plain Python function that a trial compiles.

    Program(inputs=(Input("x", ...),), nodes=(Node("y", "torch.relu", (Ref("x"),)),), outputs=("y",))

    def f(x):
        return torch.relu(x)

Arguments of nodes are in `arguments`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from minimizer.engine.program.arguments import Arg, Code, Ref, encode, leaves_in, map_leaves, substitution

SIZES = (".size", "torch.ops.aten.sym_size.int")
"""Targets that read a size of a tensor."""
BOUND = "functools.partial"
"""The target that binds captured tensors to a function of flex_attention."""
LAUNCH = "operator.call"
"""The target that launches a Triton kernel: the first argument is the kernel, indexed by its grid, and may write to all
others.
"""
HIGHER_ORDER = "torch.ops.higher_order."
"""Prefix of the operators that take functions."""
FLEX_ATTENTION = f"{HIGHER_ORDER}flex_attention"
"""An operator whose results are defined only if requested."""
TAKEN_APART = "torch._functorch."
"""Prefix of the calls into which Dynamo splits ``torch.func.jvp``, ``grad`` and ``vmap``: first and last steps."""


@dataclass(frozen=True)
class TensorMeta:
    """A tensor's metadata. ``shape`` and ``stride`` count elements; ``dtype`` is a name such as ``torch.float32``."""

    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...] | None = None
    device: str = "cpu"
    requires_grad: bool = False
    symbolic: tuple[int, ...] = ()
    """Dimensions with a symbolic size at compile time; used in a program that is ``marked``."""

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the strides are those of a contiguous tensor; steps over dimensions of size one do not matter."""
        if self.stride is None or 0 in self.shape:
            return True
        pairs = zip(self.shape, self.stride, contiguous(self.shape), strict=True)
        return all(size == 1 or have == want for size, have, want in pairs)

    def reshaped(self, shape: tuple[int, ...], stride: tuple[int, ...] | None = None) -> TensorMeta:
        """A copy with another shape; if that has fewer dimensions, the leading ones are dropped."""
        lost = len(self.shape) - len(shape)
        symbolic = tuple(dim - lost for dim in self.symbolic if dim >= lost)
        return replace(self, shape=shape, stride=stride, symbolic=symbolic)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous tensor of this shape."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True)
class View:
    """How one input is a view of another.

    ``of``: the name of its base according to autograd (``_base``). ``steps``: the operations that derive the view, each
    a node without a name, and without the tensor that it is called on.
    """

    of: str
    steps: tuple[Node, ...]


@dataclass(frozen=True)
class Input:
    """A parameter of the function, and its argument.

    ``golden``: the name of a golden value, eager's own, which the held child has. ``code``: an expression that makes
    the value (``torch.randn(2, 3)``). Exactly one of the two is set. ``view``: it is made from another input instead, as a view of that.
    ``frozen``: compiled code reads it from a module, as a constant (``torch._inductor.config.freezing``).
    """

    name: str
    meta: TensorMeta | None = None
    golden: str | None = None
    code: str | None = None
    view: View | None = None
    frozen: bool = False

    @property
    def stored(self) -> str | None:
        """The name of the golden value that it is created from."""
        return self.golden if self.view is None else None


def related(inputs: Iterable[Input]) -> tuple[Input, ...]:
    """The inputs; only those whose base is among them stay views, the others use their golden values."""
    given = tuple(inputs)
    names = {item.name for item in given}
    return tuple(replace(i, view=None) if i.view is not None and i.view.of not in names else i for i in given)


@dataclass(frozen=True)
class Node:
    """One statement ``name = target(*args, **kwargs)``.

    ``target``: a dotted path (``torch.relu``, ``operator.add``, ``torch.ops.aten.add.Tensor``) or a method (``.view``).
    ``module``: the path of the nn.Module it came from. ``source``: (file, line, code) in the user's code; ``library``:
    the same in the library code that it calls, if any.
    """

    name: str
    target: str
    args: tuple[Arg, ...] = ()
    kwargs: tuple[tuple[str, Arg], ...] = ()
    meta: TensorMeta | None = None
    module: str = ""
    module_class: str = ""
    source: tuple[str, int, str] | None = None
    library: tuple[str, int, str] | None = None
    number: bool | int | float | None = None
    """Its value on eager's own inputs if that is a plain number: a size, or computed from sizes."""

    @property
    def counts(self) -> bool:
        """Whether reports count it as a node: not getitem, reads of a size, or bindings of a function."""
        return self.target not in ("operator.getitem", BOUND, *SIZES)

    def refs(self) -> Iterator[str]:
        """Names of the values it uses, with repeats."""
        yield from (leaf.name for leaf in self.leaves() if isinstance(leaf, Ref))

    def leaves(self) -> Iterator[Arg]:
        """All leaves of its arguments, at any depth."""
        yield from leaves_in(self.args)
        yield from leaves_in(dict(self.kwargs))

    def mapped(self, change: Callable[[Arg], Arg]) -> Node:
        """A copy with ``change`` applied to every leaf of its arguments."""
        return replace(
            self,
            args=tuple(map_leaves(a, change) for a in self.args),
            kwargs=tuple((k, map_leaves(v, change)) for k, v in self.kwargs),
        )


@dataclass(frozen=True)
class Body:
    """A function argument of a higher-order operator, such as a branch of ``torch.cond``. Nodes name it by a `Code`.

    ``parameters``: names only. ``result``: the argument it returns, in terms of these names and its nodes.
    """

    name: str
    parameters: tuple[str, ...]
    nodes: tuple[Node, ...]
    result: Arg


@dataclass(frozen=True)
class Program:
    """A straight-line function, the inputs of its call, and the setup it needs."""

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    level: str = "dynamo"
    setup: tuple[str, ...] = ()
    """Statements before the function: config lines, and definitions sliced from the script."""
    bodies: tuple[Body, ...] = ()
    """The bodies of its higher-order operators; a body that another uses comes before that one."""
    compile_kwargs: tuple[tuple[str, str], ...] = ()
    """Keyword arguments of ``torch.compile``, as source text."""
    around: tuple[str, ...] = ()
    """Contexts around its call, as source text; its backward runs outside of them, as after an autocast block."""
    grad: bool = False
    """Whether it runs with gradients enabled; if not, under ``torch.no_grad()``."""
    marked: bool = False
    """Whether the symbolic dimensions of its inputs are marked by ``torch._dynamo.mark_dynamic``."""
    name: str = field(default="f", compare=False)

    @property
    def size(self) -> int:
        """The number of nodes, as reports count them."""
        return sum(node.counts for node in self.nodes)

    @cached_property
    def called(self) -> tuple[Body, ...]:
        """The bodies that its nodes use, directly or through other bodies."""
        if not self.bodies:  # shortcut for the usual case: every candidate is sorted
            return ()
        wanted = _codes_in(self.nodes)
        kept: list[Body] = []
        for body in reversed(self.bodies):
            if body.name in wanted:
                kept.append(body)
                wanted |= _codes_in(body.nodes)
        return tuple(reversed(kept))

    @property
    def every_node(self) -> Iterator[Node]:
        """Its nodes, and those of the bodies in use."""
        yield from self.nodes
        for body in self.called:
            yield from body.nodes

    @property
    def freezes(self) -> bool:
        """Whether compiled code reads an input as a constant."""
        return any(item.frozen for item in self.inputs)

    def input(self, name: str) -> Input:
        return next(i for i in self.inputs if i.name == name)

    def node(self, name: str) -> Node:
        return next(n for n in self.nodes if n.name == name)

    @property
    def is_symbolic(self) -> bool:
        """Whether sizes or numbers were symbolic at compile time."""
        metas = [meta for meta in self.metas.values() if meta is not None]
        return any(meta.symbolic for meta in metas) or any(node.number is not None for node in self.nodes)

    def marks(self, item: Input) -> tuple[int, ...]:
        """The dimensions of an input to mark as dynamic."""
        return item.meta.symbolic if self.marked and item.meta is not None else ()

    def dynamic(self) -> Program:
        """The same program compiled with ``dynamic=True``; unchanged if it has a ``dynamic`` argument already."""
        if "dynamic" in dict(self.compile_kwargs):
            return self
        return replace(self, compile_kwargs=(*self.compile_kwargs, ("dynamic", "True")), marked=False)

    def as_compiled(self) -> Program:
        """`dynamic` if it is symbolic, else the program itself."""
        return self.dynamic() if self.is_symbolic else self

    @cached_property
    def metas(self) -> Mapping[str, TensorMeta | None]:
        """The metadata of every value, by name."""
        return {**{i.name: i.meta for i in self.inputs}, **{n.name: n.meta for n in self.nodes}}

    @property
    def kernels(self) -> frozenset[str]:
        """The names of the script's Triton kernels that it launches."""
        launched = (node.args[0] for node in self.every_node if node.target == LAUNCH)
        return frozenset(kernel.text.partition("[")[0] for kernel in launched if isinstance(kernel, Code))

    def without_dead_code(self, is_pure: Callable[[Node], bool] = lambda node: True) -> Program:
        """A copy without nodes and inputs that no output needs; nodes for which ``is_pure`` is false are kept."""
        live = set(self.outputs)
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if node.name in live or not is_pure(node):
                kept.append(node)
                live.update(node.refs())
        return replace(self, nodes=tuple(reversed(kept)), inputs=related(i for i in self.inputs if i.name in live))

    def without_grad(self) -> Program:
        """The same program under ``torch.no_grad()``, with inputs that do not require grad."""
        inputs = tuple(replace(i, meta=i.meta and replace(i.meta, requires_grad=False)) for i in self.inputs)
        return replace(self, inputs=inputs, grad=False)

    def renamed(self) -> Program:
        """The same program under canonical names: equal blocks of a model become equal programs."""
        return self._renamed

    @cached_property
    def _renamed(self) -> Program:
        # Cached: the order of programs, their fingerprint and the request for a trial all start from it.
        names = {
            **{value.name: f"x{index}" for index, value in enumerate(self.inputs)},
            **{value.name: f"v{index}" for index, value in enumerate(self.nodes)},
        }
        return self.under(names)

    def under(self, names: Mapping[str, str]) -> Program:
        """The same program under other names of its inputs and nodes."""
        lead = substitution({name: Ref(new) for name, new in names.items()})
        return replace(
            self,
            inputs=tuple(
                replace(i, name=names[i.name], view=i.view and replace(i.view, of=names[i.view.of]))
                for i in self.inputs
            ),
            nodes=tuple(replace(n.mapped(lead), name=names[n.name]) for n in self.nodes),
            outputs=tuple(names[o] for o in self.outputs),
        )

    def fingerprint(self, *, values: bool = True) -> str:
        """A content hash that ignores names and origins; with ``values=False`` also the inputs' values."""
        program = self.renamed()
        body = [
            [
                [i.name, _meta_key(i.meta), (i.stored, i.view is None and i.code) if values else None, i.frozen]
                for i in program.inputs
            ],
            [[i.name, i.view.of, _nodes_key(i.view.steps)] for i in program.inputs if i.view is not None],
            _nodes_key(program.nodes),
            program.outputs,
            program.setup,
            [[body.name, body.parameters, _nodes_key(body.nodes), encode(body.result)] for body in program.called],
            program.compile_kwargs,
            program.around,
            program.grad,
            [program.marks(i) for i in program.inputs],
        ]
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def as_json(program: Program) -> dict[str, Any]:
    """The JSON form of a program, the same as the child's; `parse_program` undoes it."""
    return {
        "inputs": [
            {"name": i.name, "meta": _meta_json(i.meta)}
            | ({"golden": i.golden} if i.golden is not None else {})
            | ({"code": i.code} if i.code is not None else {})
            | ({"frozen": True} if i.frozen else {})
            | ({"view": {"of": i.view.of, "steps": list(map(_step_json, i.view.steps))}} if i.view is not None else {})
            for i in program.inputs
        ],
        "nodes": [_node_json(node) for node in program.nodes],
        "outputs": program.outputs,
        "functions": [_body_json(body) for body in program.bodies],
        "level": program.level,
        "setup": program.setup,
        "compile_kwargs": dict(program.compile_kwargs),
        "around": program.around,
        "grad": program.grad,
        "marked": program.marked,
    }


def _codes_in(nodes: Iterable[Node]) -> set[str]:
    return {leaf.text for node in nodes for leaf in node.leaves() if isinstance(leaf, Code)}


def _node_json(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "target": node.target,
        "args": [encode(arg) for arg in node.args],
        "kwargs": {key: encode(value) for key, value in node.kwargs},
        "meta": _meta_json(node.meta),
        "module": node.module,
        "module_class": node.module_class,
        "source": node.source,
        "library": node.library,
        "number": node.number,
    }


def _step_json(step: Node) -> dict[str, Any]:
    return {"target": step.target, "args": [encode(arg) for arg in step.args]}


def _body_json(body: Body) -> dict[str, Any]:
    nodes = [_node_json(node) for node in body.nodes]
    return {"name": body.name, "parameters": body.parameters, "nodes": nodes, "result": encode(body.result)}


def _meta_json(meta: TensorMeta | None) -> dict[str, Any] | None:
    return None if meta is None else {f.name: getattr(meta, f.name) for f in fields(meta)}


def _nodes_key(nodes: Iterable[Node]) -> Any:
    return [[node.name, node.target, encode(node.args), encode(dict(node.kwargs))] for node in nodes]


def _meta_key(meta: TensorMeta | None) -> Any:
    return meta and [meta.shape, meta.dtype, meta.stride, meta.device, meta.requires_grad]
