"""Rewrites calls under public names, line by line, wherever the failure survives that.

``torch.ops.aten.log1p.default(x)`` becomes ``torch.log1p(x)``; a line whose public name hides the bug keeps the
operator. ``F.relu(x)`` becomes ``torch.relu(x)``, which needs no second import, and ``torch.ops.lib.scale.default(x)``
loses its overload. In a program of a single call, ``x + 1`` and ``x.argmax()`` become ``torch.add(x, 1)`` and
``torch.argmax(x)``: functions that can be compiled directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from minimizer.engine.program.arguments import Code, Ref
from minimizer.engine.program.model import HIGHER_ORDER, TAKEN_APART, Node, Program
from minimizer.engine.user_script.slice import namespaces_of

Check = Callable[[Sequence[Program]], Sequence[bool]]
ATEN = "torch.ops.aten."
DEFAULT = ".default"
"""The suffix of the overload that a call without one resolves to."""
CONDITIONAL = f"{HIGHER_ORDER}cond"
LOOPS = "torch._higher_order_ops."
"""The public module of loops that have no name in torch."""
FUNCTIONAL = "torch.nn.functional."
BUILTINS = "torch._C._nn."
WRAPPED = {
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "binary_cross_entropy", "elu", "glu", "hardsigmoid", "hardswish", "hardtanh", "huber_loss",
    "leaky_relu", "mish", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "nll_loss", "pad", "relu6", "silu", "smooth_l1_loss",
    "soft_margin_loss",
}  # fmt: skip
"""Builtins that functions of torch.nn.functional call under the same name."""
NAMESAKES = {
    "celu", "conv1d", "conv2d", "conv3d", "cosine_similarity", "group_norm", "layer_norm", "log_softmax", "prelu", "relu",
    "selu", "sigmoid", "softmax", "tanh",
}  # fmt: skip
"""Functions of torch.nn.functional that torch has under the same name and with the same arguments."""
FUNCTIONS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "pow": "pow",
    "matmul": "matmul", "and_": "bitwise_and", "or_": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "neg": "neg",
    "invert": "bitwise_not",
}  # fmt: skip
"""The functions of torch that Python's operators call for tensors."""
RENAMED = {
    "_unsafe_view": ".reshape",
    "_softmax": "torch.softmax",
    "_log_softmax": "torch.log_softmax",
    "_to_copy": ".to",
}
DROPPED_TAIL = {"_softmax": 1, "_log_softmax": 1}
"""Number of trailing arguments that the operator has and the public function lacks."""


def is_public(program: Program) -> bool:
    """Whether a program can be written in public names: it contains no calls of split transforms."""
    return not any(node.target.startswith(TAKEN_APART) for node in program.nodes)


def publish(program: Program, check: Check) -> Program:
    """Write as many nodes as possible under public names."""
    program = _named(program, check)
    for node in program.nodes:
        if (by_users := _loop(program, node)) is not None and check([by_users])[0]:
            program = by_users
    called = _function(program.nodes[0]) if len(program.nodes) == 1 else None
    if called is None:
        return program
    by_function = replace(program, nodes=(called,))
    return by_function if check([by_function])[0] else program


def _loop(program: Program, node: Node) -> Program | None:
    """The program with a loop in its public form; None for other nodes, and for a loop with additional operands.

    A scan over one tensor with one carry has the same two results under both names; more are nested in the public form.
    """
    match node.target.removeprefix(HIGHER_ORDER), node.args:
        case "while_loop", (condition, body, carried, [] | ()):
            return _calling(program, replace(node, target=f"{LOOPS}while_loop", args=(condition, body, carried)))
        case "scan", (Code(name), [carried], [scanned], [] | ()):
            bodies = tuple(
                replace(body, result=tuple(body.result))
                if body.name == name and isinstance(body.result, list)
                else body
                for body in program.bodies
            )
            call = replace(node, target=f"{LOOPS}scan", args=(Code(name), carried, scanned))
            return _calling(replace(program, bodies=bodies), call)
    return None


def _calling(program: Program, call: Node) -> Program:
    return replace(program, nodes=tuple(call if node.name == call.name else node for node in program.nodes))


def _named(program: Program, check: Check) -> Program:
    """The program with all nodes renamed at once if that fails in the same way, else one after the other."""
    tried = [program]
    for pick in range(3):
        everything = replace(program, nodes=tuple(_nth(node, pick) for node in program.nodes))
        if everything not in tried:
            if check([everything])[0]:
                return everything
            tried.append(everything)
    for index, node in enumerate(program.nodes):
        for candidate in candidates(node):
            nodes = (*program.nodes[:index], candidate, *program.nodes[index + 1 :])
            if check([replace(program, nodes=nodes)])[0]:
                program = replace(program, nodes=nodes)
                break
    return program


def candidates(node: Node) -> Iterator[Node]:
    """Plainer ways to write a node, best first."""
    if (namesake := node.target.removeprefix(FUNCTIONAL)) in NAMESAKES:
        yield replace(node, target=f"torch.{namesake}")
    if (builtin := node.target.removeprefix(BUILTINS)) in WRAPPED:
        yield replace(node, target=f"{FUNCTIONAL}{builtin}")
    if node.target == CONDITIONAL:
        yield replace(node, target="torch.cond")
    if namespaces_of([node.target]) and node.target.endswith(DEFAULT):
        yield replace(node, target=node.target.removesuffix(DEFAULT))
    if not node.target.startswith(ATEN):
        return
    name = node.target.removeprefix(ATEN).partition(".")[0]
    args = node.args[: len(node.args) - DROPPED_TAIL.get(name, 0)]
    if name in RENAMED:
        yield replace(node, target=RENAMED[name], args=args)
        return
    for target in (f"torch.{name}", f".{name}", f"torch.nn.functional.{name}"):
        yield replace(node, target=target)


def _function(node: Node) -> Node | None:
    """A method or Python operator as the equivalent function of torch, if there may be one."""
    package, _, name = node.target.rpartition(".")
    if not (node.args and isinstance(node.args[0], Ref)):
        return None
    if package == "operator":
        return replace(node, target=f"torch.{FUNCTIONS[name]}") if name in FUNCTIONS else None
    return replace(node, target=f"torch.{name}") if not package and not name.endswith("_") else None


def _nth(node: Node, index: int) -> Node:
    found = list(candidates(node))
    return found[min(index, len(found) - 1)] if found else node
