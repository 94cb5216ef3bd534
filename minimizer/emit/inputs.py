"""The lines that make a repro's inputs: inline where they can be, else read from ``data.pt`` beside it."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass

from minimizer.emit.layout import LINE
from minimizer.emit.prose import shortened
from minimizer.program import Input, Program, contiguous

DATA_FILE = "data.pt"
INDENT = 8
"""The deepest that an input is bound: inside a function or a loop, and ``try``."""

_RANDOM = re.compile(
    r"torch\.(rand|randn|randint|randperm|normal|bernoulli|multinomial|poisson)(_like)?\b|\.(normal|uniform|random|bernoulli|exponential)_\("
)
_FACTORIES = {
    f"torch.{name}" for name in ("tensor", "rand", "randn", "ones", "zeros", "full", "arange", "linspace", "eye")
}


@dataclass(frozen=True)
class DataKey:
    """One tensor that ``data.pt`` must hold: under ``key``, the value that the capture child knows as ``golden``."""

    key: str
    golden: str
    shape: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None


def data_keys(program: Program) -> tuple[DataKey, ...]:
    """What ``data.pt`` must hold; empty if every input is inline."""
    return tuple(
        DataKey(i.name, i.golden, i.meta.shape if i.meta else None, i.meta.stride if i.meta else None)
        for i in program.inputs
        if i.golden is not None
    )


def lines(program: Program) -> list[str]:
    """Statements that bind all inputs, in the order in which the random ones were drawn when the program was judged."""
    result = ["torch.manual_seed(0)"] if is_random(program) else []
    if data_keys(program):
        result.append(f'data = torch.load(Path(__file__).with_name("{DATA_FILE}"), weights_only=True)')
    values = [(i.name, shortened(_value(i, grad=program.grad))) for i in program.inputs]
    result += [_fitted(statement) for statement in _packed(values)]
    for item in program.inputs:
        if marks := program.marks(item):
            result.append(f"torch._dynamo.mark_dynamic({item.name}, {marks[0] if len(marks) == 1 else marks})")
    return result


def is_random(program: Program) -> bool:
    """Whether an input is drawn at random, or the function itself draws."""
    drawn = any(_RANDOM.search(i.code or "") for i in program.inputs)
    return drawn or draws(program)


def draws(program: Program) -> bool:
    """Whether the function draws random numbers."""
    return any(
        re.search(r"(^|\.)(rand|bernoulli|dropout|normal_|uniform_|multinomial|rrelu)", n.target) for n in program.nodes
    )


def _value(item: Input, *, grad: bool) -> str:
    wants_grad = grad and item.meta is not None and item.meta.requires_grad
    if item.code is None:
        code = f'data["{item.name}"]'
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
    """Keep a long literal from being spread over one line an element: wrap it by hand."""
    if len(statement) + INDENT <= LINE or "[" not in statement:
        return statement
    wrapped = textwrap.wrap(
        statement, LINE - 12, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(wrapped) + "  # fmt: skip"
