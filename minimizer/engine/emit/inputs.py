"""The lines that create a repro's inputs: inline if possible, else read from ``data.pt`` in the same folder."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from minimizer.engine.emit.layout import LINE
from minimizer.engine.program import render, views
from minimizer.engine.program.arguments import Arg, refs_in
from minimizer.engine.program.model import Input, Node, Program, contiguous
from minimizer.engine.user_script.statements import assigned, with_values

DATA_FILE = "data.pt"
INDENT = 8
"""Columns of the deepest line that binds an input: inside a function or loop, and ``try``."""

_RANDOM = re.compile(
    r"torch\.(rand|randn|randint|randperm|normal|bernoulli|multinomial|poisson)(_like)?\b"
    r"|\.(normal|log_normal|uniform|random|bernoulli|exponential|geometric|cauchy)_\("
)
_DRAWING = re.compile(
    r"(^|\.)(rand|bernoulli|multinomial|rrelu|gumbel_softmax|fractional_max_pool|((native|alpha|feature|feature_alpha)_)?dropout"
    r"|(normal|log_normal|uniform|exponential|geometric|cauchy|poisson|binomial)(_|_functional)?(\.|$))"
)
_DROPPING = re.compile(r"(^|\.)(_?scaled_dot_product_|lstm(\.|$)|gru(\.|$)|rnn_(tanh|relu)(\.|$))")
"""Operators that draw only at a non-zero rate of dropout, the one float among their positional arguments."""
_OWN = re.compile(
    r"(empty|zeros|ones|full|new|rand)(_|n?$)|(clone|add|sub|mul|div|neg|pow|matmul|mm|bmm|sin|cos|exp|tanh|sigmoid|relu|sum|mean)$"
)
"""Names of common operators whose result never aliases an argument."""
_FACTORIES = {
    f"torch.{name}" for name in ("tensor", "rand", "randn", "ones", "zeros", "full", "arange", "linspace", "eye")
}


@dataclass(frozen=True)
class DataKey:
    """A tensor of ``data.pt``: under ``key``, the golden value that the held child knows as ``golden``."""

    key: str
    golden: str
    shape: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None


def data_keys(program: Program) -> tuple[DataKey, ...]:
    """The tensors of ``data.pt``; empty if every input is inline."""
    return tuple(
        DataKey(i.name, i.stored, i.meta.shape if i.meta else None, i.meta.stride if i.meta else None)
        for i in program.inputs
        if i.stored is not None
    )


def lines(program: Program, data: str = "data", constants: str = "constants") -> list[str]:
    """Statements that bind all inputs, in the order in which the trial drew the random ones; views come behind their bases.

    ``data``: the name to bind to the content of the data file. ``constants``: that of the module that has the frozen ones.
    """
    result = ["torch.manual_seed(0)"] if is_random(program) else []
    if data_keys(program):
        result.append(f'{data} = torch.load(Path(__file__).with_name("{DATA_FILE}"), weights_only=True)')
    values = [(i.name, _value(i, data, grad=program.grad)) for i in program.inputs if i.view is None]
    made = [(i.name, views.text(i.view)) for i in program.inputs if i.view is not None]
    result += [_fitted(statement) for statement in (*_packed(values), *_packed(made))]
    for item in program.inputs:
        if marks := program.marks(item):
            result.append(f"torch._dynamo.mark_dynamic({item.name}, {marks[0] if len(marks) == 1 else marks})")
    result += _packed([(f"{constants}.{item.name}", item.name) for item in program.inputs if item.frozen])
    return result


def given(inputs: Sequence[str], *statements: str) -> list[str]:
    """The statement with its inputs in place, if it uses each once and fits a line; else inputs, then statements."""
    apart = [*inputs, *statements]
    if len(inputs) != 1 or len(statements) != 1 or "\n" in inputs[0]:
        return apart
    (assignment,), (statement,) = ast.parse(inputs[0]).body, ast.parse(statements[0]).body
    values = assigned(assignment)
    if not values:  # a seed
        return apart
    used = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id in values]
    together = ast.unparse(with_values(statement, values))
    return [together] if sorted(used) == sorted(values) and len(together) + INDENT <= LINE else apart


def is_random(program: Program) -> bool:
    """Whether an input is drawn at random, or the function itself draws."""
    return any(map(is_drawn, program.inputs)) or draws(program)


def is_drawn(item: Input) -> bool:
    """Whether an input is drawn at random."""
    return item.view is None and is_random_code([item.code or ""])


def is_random_code(texts: Sequence[str]) -> bool:
    """Whether source text draws random numbers."""
    return any(_RANDOM.search(text) for text in texts)


def draws(program: Program) -> bool:
    """Whether the function draws random numbers."""
    return any(
        _DRAWING.search(node.target) or (_DROPPING.search(node.target) and any(_rates(node))) for node in program.nodes
    )


def changed(program: Program) -> bool:
    """Whether the function may mutate an input: judged by names, whether a node writes to a value that may alias one."""
    return _writes_to({i.name for i in program.inputs}, program.nodes)


def changes_operands(program: Program) -> bool:
    """Whether the body of a higher-order operator may mutate an operand."""
    return any(_writes_to({*body.parameters}, body.nodes) for body in program.called)


def _writes_to(shared: set[str], nodes: Sequence[Node]) -> bool:
    for node in nodes:
        target = list(refs_in(_written(node)))
        if shared & set(target):
            return True
        if not target and not _makes_its_own(node) and shared & set(node.refs()):
            shared.add(node.name)
    return False


def _written(node: Node) -> Arg:
    """The arguments that a node mutates, by PyTorch's naming convention."""
    known, name = dict(node.kwargs), _operator(node)
    if "out" in known:
        return known["out"]
    if node.target.startswith("operator."):  # and_ is no in-place operator
        writes = name in {"setitem", "delitem", *render.IN_PLACE}
    else:
        writes = (name.endswith("_") and not name.endswith("__")) or bool(known.get("inplace"))
    return (node.args[:1] or tuple(known.values())) if writes else ()


def _makes_its_own(node: Node) -> bool:
    """Whether a node's result is known not to alias its arguments."""
    name = _operator(node)
    if node.target.startswith("operator."):
        return name != "pos" and (name in render.INFIX or name in render.PREFIX)
    is_torch = not node.target.startswith("torch.ops.") or node.target.startswith("torch.ops.aten.")
    return is_torch and _OWN.match(name) is not None


def _operator(node: Node) -> str:
    """The last name of a target, without its overload."""
    parts = node.target.split(".")
    return parts[3] if parts[:2] == ["torch", "ops"] and len(parts) > 3 else parts[-1]


def _rates(node: Node) -> list[Arg]:
    return [
        *(arg for arg in node.args if isinstance(arg, float)),
        *(v for k, v in node.kwargs if k.startswith("dropout")),
    ]


def _value(item: Input, data: str, *, grad: bool) -> str:
    wants_grad = grad and item.meta is not None and item.meta.requires_grad
    if item.code is None:
        code = f'{data}["{item.name}"]'
        if item.meta is not None and item.meta.stride not in (None, contiguous(item.meta.shape)):
            code += f".as_strided({item.meta.shape}, {item.meta.stride})"
        return code + ".requires_grad_()" * wants_grad
    if not wants_grad or "requires_grad=" in item.code:
        return item.code
    plain = item.code.removesuffix(".requires_grad_()")
    call = ast.parse(plain, mode="eval").body
    if isinstance(call, ast.Call) and ast.unparse(call.func) in _FACTORIES:
        call.keywords.append(ast.keyword("requires_grad", ast.Constant(value=True)))
        return ast.unparse(call)
    return f"{plain}.requires_grad_()"


def _packed(values: list[tuple[str, str]]) -> list[str]:
    """Assignments, several inputs to a line where they are short."""
    groups: list[list[tuple[str, str]]] = []
    for name, value in values:
        group = groups[-1] if groups else []
        if group and len(_assignment([*group, (name, value)])) + INDENT <= LINE:
            group.append((name, value))
        else:
            groups.append([(name, value)])
    return [_assignment(group) for group in groups]


def _assignment(group: list[tuple[str, str]]) -> str:
    return f"{', '.join(name for name, _ in group)} = {', '.join(value for _, value in group)}"


def _fitted(statement: str) -> str:
    """Wrap a long literal by hand, which ruff would spread over one line for each element."""
    if len(statement) + INDENT <= LINE or "[" not in statement:
        return statement
    wrapped = textwrap.wrap(
        statement, LINE - 12, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(wrapped) + "  # fmt: skip"
