"""Writes a repro's function as a person would: short names, nested short expressions, ``F.`` for functional calls.

The calls and their order stay those of the reduced program that a trial judged.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from minimizer.engine.emit.inputs import is_drawn
from minimizer.engine.emit.layout import LINE
from minimizer.engine.emit.with_blocks import with_blocks
from minimizer.engine.program import render
from minimizer.engine.program.arguments import Code, Ref
from minimizer.engine.program.model import Input, Node, Program
from minimizer.engine.user_script.statements import bound_name, with_values
from minimizer.engine.user_script.syntax import names_read, names_stored

FUNCTIONAL = "torch.nn.functional"
OPERATORS = "torch.ops."
BUILT_IN = {
    "adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear", "celu_", "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_similarity", "elu_", "gelu", "hardshrink", "hardtanh_", "leaky_relu_", "linear", "logsigmoid", "one_hot",
    "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "scaled_dot_product_attention", "selu_", "softplus", "softshrink",
    "threshold_",
}  # fmt: skip
"""Functions of ``torch.nn.functional`` that are not defined in Python."""
PACKAGES = ("torch", "torch.fft", "torch.linalg", "torch.special")
"""Packages whose functions, as far as graphs call them, are built in, except `IN_PYTHON`."""
IN_PYTHON = {f"torch.{name}" for name in (
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod", "cdist",
    "chain_matmul", "cond", "eig", "einsum", "lobpcg", "lstsq", "lu", "matrix_rank", "meshgrid", "norm", "pca_lowrank", "solve",
    "split", "stft", "svd_lowrank", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
    "symeig", "tensordot", "unique", "unique_consecutive", "unravel_index", "vmap", "while_loop",
)}  # fmt: skip
MAX_NESTED = 72
"""Most characters of a statement after nesting another one into it."""
MAX_RETURNED = LINE - 4
"""The same for ``return`` of a value by its name, which says nothing more than the value: what fits into an indented line."""

_INPUT_NAMES = "xyzabcdeghmnpqrstuvw"
_ROLES = re.compile(
    r"(?:^|_)(weight|bias|mask|query|key|value|scale|index|indices|target|ids|labels|running_mean|running_var)_*\d*_*$"
)
_USER_NAME = re.compile(r"^L_(?P<name>[a-z][a-z0-9]{0,11}(?:_[a-z0-9]{1,8})?)_$")
_NOUNS = {
    "sum": "total", "max": "largest", "min": "smallest", "abs": "magnitude", "pow": "power", "round": "rounded", "to": "cast",
    "float": "cast", "half": "cast", "type": "cast", "getitem": "item", "all": "every", "any": "some", "setitem": "h",
    "and": "both", "or": "either", "not": "inverted", "is": "same",
}  # fmt: skip
_CONSTANT = re.compile(r"torch\.\w+|float\(\"-?(nan|inf)\"\)")
_RESERVED = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins)}


def function(program: Program, name: str, *, short: bool = True) -> str:
    """Source text of ``program`` as one function; ``F`` means ``torch.nn.functional`` if ``short``."""
    tree = ast.parse(render.function(program, name))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    blocks = with_blocks(definition.body, has_grad=program.grad)
    definition.body = _used(_nested(blocks), names_read(node for statement in blocks for node in ast.walk(statement)))
    _renumber(definition)
    text = ast.unparse(ast.fix_missing_locations(tree))
    return re.sub(rf"\b{re.escape(FUNCTIONAL)}\.(?=\w)", "F.", text) if short else text


def alone(program: Program, *, short: bool = True) -> str | None:
    """The function that the program calls, if it is a single call that uses each input once; else None.

    Only for built-in functions: some versions of ``torch.compile`` do not compile a function that torch defines in
    Python.
    """
    if len(program.nodes) != 1 or program.outputs != (program.nodes[0].name,):
        return None
    (node,) = program.nodes
    has_each_once = bool(program.inputs) and sorted(node.refs()) == sorted(item.name for item in program.inputs)
    if not (has_each_once and _is_built_in(node.target) and _stays_constant(program)):
        return None
    return node.target.replace(f"{FUNCTIONAL}.", "F.") if short else node.target


def _is_built_in(target: str) -> bool:
    package, _, name = target.rpartition(".")
    if name.startswith("_"):
        return False
    if target.startswith(OPERATORS):
        return not target.startswith(f"{OPERATORS}higher_order.")
    return name in BUILT_IN if package == FUNCTIONAL else package in PACKAGES and target not in IN_PYTHON


def _stays_constant(program: Program) -> bool:
    """Whether the constants of the single call stay constants to the compiler when they are passed as arguments."""
    (node,) = program.nodes
    constants = [leaf for leaf in node.leaves() if not isinstance(leaf, Ref)]
    if not constants:
        return True
    is_symbolic = program.marked or "dynamic" in dict(program.compile_kwargs)
    is_plain = all(not isinstance(leaf, Code) or _CONSTANT.fullmatch(leaf.text) for leaf in constants)
    return is_plain and not is_symbolic and not any("_dynamo.config" in line for line in program.setup)


def in_order(program: Program) -> Program:
    """The program with its inputs in order of use; unchanged if several are random, since their draws have an order."""
    if sum(is_drawn(item) for item in program.inputs) > 1:
        return program
    uses = [name for node in program.nodes for name in node.refs()]
    return replace(program, inputs=tuple(sorted(program.inputs, key=lambda i: [*uses, i.name].index(i.name))))


def named(program: Program, taken: Iterable[str]) -> Program:
    """The program with readable names: roles such as ``weight``, letters for other inputs, nouns for results."""
    used = {*taken, *_RESERVED, "torch", "F", *_globals(program)}
    names: dict[str, str] = {}
    letters = iter(_INPUT_NAMES)
    for item in program.inputs:
        names[item.name] = fresh(_input_name(item) or next((c for c in letters if c not in used), "x"), used)
    for node in program.nodes:
        names[node.name] = fresh(_noun(node), used)
    return program.under(names)


def _globals(program: Program) -> set[str]:
    """Global names that the calls use, which a local of the same name would shadow."""
    found = {node.target.partition(".")[0] for node in program.nodes}
    for leaf in (leaf for node in program.nodes for leaf in node.leaves() if isinstance(leaf, Code)):
        found.update(re.findall(r"[^\W\d]\w*", leaf.text))
    return found


def _input_name(item: Input) -> str | None:
    if role := _ROLES.search(item.name):
        return role[1]
    if user := _USER_NAME.match(item.name):
        return user["name"]
    # Longer names come from the calls that made the value: an input named `sub` or `matmul` would read like a function.
    return item.name if re.fullmatch(r"[a-km-z]", item.name) else None


def _noun(node: Node) -> str:
    parts = [part for part in node.target.split(".") if part and part != "default"]
    if node.target.startswith("torch.ops.") and len(parts) > 3:
        parts = parts[:4]  # torch.ops.aten.add.Tensor: the packet names it, not the overload
    word = re.sub(r"\W|_+$|^_+", "", parts[-1].lower()) or "h"
    word = _NOUNS.get(word, word)
    return "h" if len(word) > 16 or word in _RESERVED or not word.isidentifier() else word


def fresh(name: str, used: set[str]) -> str:
    """The name, with a number if it is in ``used`` already; adds the result to ``used``."""
    candidate, count = name, 1
    while candidate in used:
        count += 1
        candidate = f"{name}_{count}"
    used.add(candidate)
    return candidate


def _nested(body: list[ast.stmt], outside: Sequence[ast.stmt] = ()) -> list[ast.stmt]:
    """Nest a value that only the next statement uses into it, if that keeps the order of evaluation.

    ``outside``: the statements around a block, which may use its values too.
    """
    result: list[ast.stmt] = []
    for position, statement in enumerate(body):
        around = [*outside, *result, *body[position + 1 :]]
        if isinstance(statement, ast.With):
            statement.body = _nested(statement.body, around)
        while result and _absorbs(statement, result[-1], [*outside, *result[:-1], *body[position + 1 :]]):
            first = result.pop()
            assert isinstance(first, ast.Assign) and isinstance(first.targets[0], ast.Name)
            statement = with_values(statement, {first.targets[0].id: first.value})
        result.append(statement)
    return result


def _used(body: list[ast.stmt], read: Collection[str]) -> list[ast.stmt]:
    """The statements without bindings of names that are not ``read``."""
    result: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.With):
            statement.body = _used(statement.body, read)
            if not statement.body:
                continue
        if isinstance(statement, ast.Assign) and bound_name(statement) not in {None, *read}:
            if isinstance(statement.value, ast.Name):
                continue
            statement = ast.Expr(statement.value)
        result.append(statement)
    return result


def _absorbs(statement: ast.stmt, before: ast.stmt, others: list[ast.stmt]) -> bool:
    name = bound_name(before)
    if not isinstance(before, ast.Assign) or name is None:
        return False
    if not isinstance(statement, ast.Assign | ast.Return | ast.Expr) or statement.value is None:
        return False
    uses = sum(_uses(name, node) for node in (statement, *others))
    most = MAX_RETURNED if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Name) else MAX_NESTED
    if uses != 1 or len(ast.unparse(statement)) + len(ast.unparse(before.value)) - len(name) > most:
        return False
    return _evaluated_first(name, statement.value)


def _uses(name: str, node: ast.AST) -> int:
    return sum(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))


def _evaluated_first(name: str, expression: ast.expr) -> bool:
    """Whether only names and constants are evaluated before ``name``, so that nesting its value reorders no calls."""
    if isinstance(expression, ast.Name):
        return expression.id == name
    for child in ast.iter_child_nodes(expression):
        value = child.value if isinstance(child, ast.keyword) else child
        if _uses(name, value):
            return isinstance(value, ast.expr) and _evaluated_first(name, value)
        if isinstance(value, ast.expr) and not _is_inert(value):
            return False
    return False


def _is_inert(node: ast.expr) -> bool:
    """Whether evaluating it calls nothing: a name, a constant, a dotted path, or a container of these."""
    if isinstance(node, ast.Attribute):
        return _is_inert(node.value)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.Tuple | ast.List):
        return all(_is_inert(item) for item in node.elts)
    return isinstance(node, ast.Name | ast.Constant)


def _renumber(definition: ast.FunctionDef) -> None:
    """Renumber local names after nesting: a function that binds only ``relu_2`` binds ``relu`` instead."""
    arguments = {a.arg for a in definition.args.args}
    bound = names_stored(ast.walk(definition))
    locals_ = [name for name in dict.fromkeys(bound) if name not in arguments]
    used = {n.id for n in ast.walk(definition) if isinstance(n, ast.Name)} - set(locals_) | arguments | _RESERVED
    names = {name: fresh(re.sub(r"_\d+$", "", name), used) for name in locals_}
    for node in ast.walk(definition):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
