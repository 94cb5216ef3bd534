"""Forms of the repro of a finding, the most readable first: an error that Dynamo is made to raise, or its counters.

All keep the exit status of other repros: 1 if the script has the finding, 0 if it no longer does, 125 if it cannot run.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from minimizer.engine.advice.guards import REPEATED
from minimizer.engine.advice.memory import TIMES_MORE
from minimizer.engine.between.public import with_fullgraph
from minimizer.engine.between.showing import guarded
from minimizer.engine.user_script.syntax import DECLARATIONS, imported
from minimizer.vocabulary import Kind

BREAK = "expected one graph, actual a graph break: "
COMPILED = f"expected at most {REPEATED} compilations of a function, actual one more"
LIMIT = f"""\
torch._dynamo.config.recompile_limit = {REPEATED}
torch._dynamo.config.fail_on_recompile_limit_hit = True
"""
COUNTING = """\
def saved_bytes():
    saved = {{}}

    def pack(value):
        saved[value.untyped_storage().data_ptr()] = value.untyped_storage()
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        {counted}
    return sum(storage.nbytes() for storage in saved.values())

with torch.compiler.set_stance("force_eager"):
    expected = saved_bytes()
actual = saved_bytes()
"""
"""Holds the storages, since a freed address would be reused."""
TAKEN = frozenset({"saved_bytes", "saved", "pack", "value", "storage", "expected", "actual"})
SAVED_MORE = "expected="
SAVED = f'assert actual <= {TIMES_MORE} * expected, f"{{expected=:,}}, {{actual=:,}}"\n'
COUNTS = "from torch._dynamo.utils import counters"
COUNTED = f"""\
reasons = [one for one in counters["graph_break"] if one.startswith({{reason!r}})]
assert not reasons, f"{BREAK}{{{{reasons[0]}}}}"
"""


@dataclass(frozen=True)
class Form:
    """The statements of a repro, and its message when it exits with 1."""

    text: str
    evidence: str


def forms(text: str, kind: Kind, reason: str) -> Iterator[Form]:
    """Forms of a reduced script; ``reason``: the first line of Dynamo's reason for a graph break."""
    if imported(ast.parse(text)).get("torch") != "torch":
        text = _importing(text, "import torch")
    if kind is Kind.MEMORY:
        yield from (Form(guarded(counting) + SAVED, SAVED_MORE) for counting in _counting(text))
        return
    if kind is Kind.RECOMPILES:
        handled = _handled(_limited(text), "torch._dynamo.exc.FailOnRecompileLimitHit", repr(COMPILED))
        yield Form(guarded(handled), COMPILED)
        return
    raised = _handled(with_fullgraph(text), "torch._dynamo.exc.Unsupported as error", f'f"{BREAK}{{error}}"')
    yield Form(guarded(raised), f"{BREAK}{reason}")
    # For breaks that ``fullgraph`` captures, such as numbers read out of tensors.
    yield Form(_importing(guarded(text), COUNTS) + COUNTED.format(reason=reason), f"{BREAK}{reason}")


def _importing(text: str, statement: str) -> str:
    """The script with an import, after its docstring and ``__future__`` imports."""
    tree = ast.parse(text)
    first = sum(
        (isinstance(one, ast.ImportFrom) and one.module == "__future__") or (not place and _is_text(one))
        for place, one in enumerate(tree.body)
    )
    return _text([*tree.body[:first], *ast.parse(statement).body, *tree.body[first:]])


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _counting(text: str) -> Iterator[str]:
    """The script with its end in a function that counts the bytes saved in it, called without the compiler and with it.

    The end is the last statement, or everything after the last definition or compilation. Nothing if a name is taken.
    """
    body = ast.parse(text).body
    if TAKEN & {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}:
        return
    compiles = max((i for i, one in enumerate(body) if "torch.compile" in ast.unparse(one)), default=0)
    declares = max((i for i, one in enumerate(body) if isinstance(one, DECLARATIONS)), default=0)
    for place in dict.fromkeys((len(body) - 1, max(compiles, declares) + 1)):
        *before, last = body[place:] or body[-1:]
        value = last.value if isinstance(last, ast.Assign | ast.AnnAssign) and not before else None
        lines = "\n".join(ast.unparse(one) for one in (*before, value or last))
        counted = ast.parse(COUNTING.format(counted=textwrap.indent(lines, " " * 8).lstrip())).body
        yield _text([*body[:place], *counted])


def _limited(text: str) -> str:
    """The script with settings, after its last definition, that make one more compilation of a function an error."""
    body = ast.parse(text).body
    place = 1 + max((i for i, statement in enumerate(body) if isinstance(statement, DECLARATIONS)), default=-1)
    return _text([*body[:place], *ast.parse(LIMIT).body, *body[place:]])


def _handled(text: str, error: str, message: str) -> str:
    """The script with a handler around its last statement that exits with this message."""
    *before, last = ast.parse(text).body
    (handled,) = ast.parse(f"try:\n    pass\nexcept {error}:\n    raise SystemExit({message})\n").body
    assert isinstance(handled, ast.Try)
    handled.body = [last]
    return _text([*before, handled])


def _text(body: list[ast.stmt]) -> str:
    return ast.unparse(ast.fix_missing_locations(ast.Module(body, []))) + "\n"
