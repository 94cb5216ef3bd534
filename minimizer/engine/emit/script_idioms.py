"""Writes ``repro.py`` from a reduced script: the idioms of the script level.

All keep the promise of `idioms`: exit status 1 while the bug is there, 0 once it is gone, 125 if this machine cannot
tell. Which of them works depends on the script, so they come in order of preference, to be tried.
"""

from __future__ import annotations

import ast
import itertools
import re
import signal
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from minimizer.engine.budget.patience import REPRO_SECONDS
from minimizer.engine.emit import Repro, header, layout
from minimizer.engine.emit.idioms import BOTH, CANNOT_RUN, judged
from minimizer.engine.emit.subject import WAIT_FOR_GPU
from minimizer.engine.user_script.statements import bound_name
from minimizer.engine.user_script.syntax import DECLARATIONS
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure
from minimizer.vocabulary import Kind

SAID = "expected no error, actual"
CHECK_FAILED = """\
except AssertionError as error:
    raise SystemExit(f"expected no error, actual AssertionError: {error}")
"""
"""The handler of the script's own check; its SystemExit passes through the surrounding handler."""
BOUND = "actual", "expected"
"""Names for the results of both sides."""
NAMES_GPU, BINDS_TORCH = re.compile(r"\bcuda\b"), re.compile(r"^import torch(?!\w| as\b)", re.MULTILINE)
NAMES = ("check", "run", "program")
"""Names for the last statement of a script as a function."""


def emit_script(
    text: str,
    failure: Failure,
    culprits: Sequence[Culprit],
    *,
    environment: Mapping[str, str],
    crash: int | None = None,
    stuck_in: str = "",
) -> Iterator[Repro]:
    """Forms of the repro of a reduced script, the most readable first.

    ``crash``: the signal that it dies by, if it crashes. ``stuck_in``: the function that it hangs in, if it hangs.

    Raises:
        SyntaxError: ``text`` is not Python.
    """

    def repro(body: str, evidence: str) -> Repro:
        return of_text(in_lines(body), failure, culprits, environment, evidence)

    if failure.kind.is_numeric and (both := _both_sides(text)) is not None:
        yield repro(both, "AssertionError: expected=")

    if failure.kind is Kind.HANG:
        evidence = f" in {stuck_in}\n" if stuck_in else "Timeout ("
        forms = _in_one_process(text, failure, partial(repro, evidence=evidence))
        yield from (replace(form, hang_after=REPRO_SECONDS) for form in forms)
        return
    if crash is None:
        evidence = "actual AssertionError" if failure.kind.is_numeric else "actual "
        yield from _in_one_process(text, failure, partial(repro, evidence=evidence))
    status = f"-signal.{signal.Signals(crash).name}" if crash is not None else "1"
    evidence = f"expected exit status 0, actual {-crash if crash is not None else 1}\n"
    yield repro(_in_children(text, status, _last_words(failure, crash)), evidence)


def _in_one_process(text: str, failure: Failure, repro: Callable[[str], Repro]) -> Iterator[Repro]:
    """The forms that run the last statement without the compiler, then with it; as a function if that is shorter.

    Finally, the whole script as a function: the operands of its last statement may be usable only once, such as an
    autograd graph.
    """
    twice = repro(_twice(text, failure))
    named = repro(_twice(_named(text, 1), failure))
    if named.lines < twice.lines:
        yield named
    yield twice
    doing = sum(not isinstance(statement, DECLARATIONS) for statement in ast.parse(text).body)
    if doing > 1 and failure.kind is not Kind.HANG:
        yield repro(_twice(_named(text, doing), failure))


def of_text(
    text: str, failure: Failure, culprits: Sequence[Culprit], environment: Mapping[str, str], evidence: str
) -> Repro:
    """The repro that consists of this text, under the header of its failure."""
    comment = header.comment(failure, culprits, environment, failure.reproducibility, 1, {})
    source = layout.assemble(comment, [text])
    return Repro(source=source, lines=layout.code_lines(source), kind=failure.kind, evidence=evidence)


def in_lines(text: str) -> str:
    """The text with strings of several lines, such as a kernel's source, in triple quotes."""
    tree = ast.parse(text)
    in_f_strings = {part for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for part in ast.walk(n)}
    strings = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and n not in in_f_strings]
    lines = text.split("\n")
    for node in sorted(strings, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        if isinstance(node.value, str) and node.lineno == node.end_lineno and _reads_as_lines(node.value):
            value = re.sub(r'"""|"\Z', lambda quotes: quotes[0].replace('"', r"\""), node.value.replace("\\", r"\\"))
            line = lines[node.lineno - 1].encode()  # columns count bytes
            before, after = line[: node.col_offset].decode(), line[node.end_col_offset :].decode()
            lines[node.lineno - 1] = f'{before}"""{value}"""{after}'
    return "\n".join(lines)


def _reads_as_lines(text: str) -> bool:
    return text.strip().count("\n") > 1 and all(c.isprintable() or c in "\n\t" for c in text)


def _both_sides(text: str) -> str | None:
    """The form of a script that ends by comparing one expression with and without the compiler: it has run in eager by
    itself.

    None for other scripts: only running them shows whether their last statement passes without the compiler.
    """
    tree = ast.parse(text)
    *before, last = tree.body
    call = last.value if isinstance(last, ast.Expr) else None
    taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "torch.testing.assert_close" or len(call.args) != 2:
        return None
    sides = actual, expected = [ast.unparse(side) for side in call.args]
    if actual == expected or taken & {*BOUND} or ast.unparse(_Uncompiled(before).visit(call.args[0])) != expected:
        return None
    options = "".join(f", {ast.unparse(option)}" for option in call.keywords if option.arg != "msg")
    definitions = _text([s for s in before if isinstance(s, DECLARATIONS)])
    setting = _text([s for s in before if not isinstance(s, DECLARATIONS)])
    binding = f"{', '.join(BOUND)} = {', '.join(sides)}"
    check = f'torch.testing.assert_close(actual, expected{options}, msg=f"{BOTH}")'
    return f"{definitions}\ntry:\n{_indented(setting, binding)}\n{CANNOT_RUN}{check}\n"


class _Uncompiled(ast.NodeTransformer):
    """Replaces results of ``torch.compile`` by their functions; ``before``: statements that may bind them to names."""

    def __init__(self, before: Sequence[ast.stmt]) -> None:
        named = {name: s.value for s in before if isinstance(s, ast.Assign) and (name := bound_name(s)) is not None}
        self._functions = {name: plain for name, value in named.items() if (plain := _compiled_function(value))}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._functions.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return _compiled_function(node) or self.generic_visit(node)


def _compiled_function(value: ast.expr) -> ast.expr | None:
    """``f`` of ``torch.compile(f, ...)``."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "torch.compile" and len(value.args) == 1:
        return value.args[0]
    return None


def _twice(text: str, failure: Failure) -> str:
    """The form that runs the last statement without the compiler, then with it; both share the statements before it."""
    *before, last = ast.parse(text).body
    definitions = _text([s for s in before if isinstance(s, DECLARATIONS)])
    setting = _text([s for s in before if not isinstance(s, DECLARATIONS)])
    statement = ast.unparse(last)
    # GPU kernels fail, or never end, after the call that launches them; a script that names a GPU may run without one.
    if failure.kind in (Kind.RUNTIME_ERROR, Kind.HANG) and NAMES_GPU.search(text) and BINDS_TORCH.search(text):
        statement += f"\nif torch.cuda.is_available():\n    {WAIT_FOR_GPU}"
    raises = not failure.kind.is_numeric and failure.kind is not Kind.HANG
    eager = _uncompiled(before, last) if raises else None
    message = failure.message.removeprefix(f"{(failure.exception_type or '').rpartition('.')[2]}: ")
    handler = judged(header.telltale(failure), "" if eager else SAID, message=message)
    if eager is None:
        eager = f'with torch.compiler.set_stance("force_eager"):\n{textwrap.indent(statement, "    ")}'
    elif failure.kind is Kind.COMPILE_ERROR:  # eager raises no such error
        return f"{definitions}\ntry:\n{_indented(setting, eager, statement)}\n{handler}"
    if failure.kind.is_numeric:
        check = f"try:\n{_indented(statement)}\n{CHECK_FAILED}"
        return f"{definitions}\ntry:\n{_indented(setting, eager, check)}\n{CANNOT_RUN}"
    if failure.kind is Kind.HANG:
        timer = f"faulthandler.dump_traceback_later({REPRO_SECONDS:g}, exit=True)  # exits with status 1"
        return f"{definitions}\ntry:\n{_indented(setting, eager, timer, statement)}\n{CANNOT_RUN}"
    first = f"try:\n{_indented(setting, eager)}\n{CANNOT_RUN}"
    return f"{definitions}\n{first}\ntry:\n{_indented(statement)}\n{handler}"


def _named(text: str, count: int) -> str:
    """The script with its last ``count`` statements, without definitions, in a function, to avoid writing them twice."""
    tree = ast.parse(text)
    doing = [s for s in tree.body if not isinstance(s, DECLARATIONS)][-count:]
    taken = {getattr(n, "id", getattr(n, "name", "")) for n in ast.walk(tree)}
    numbered = (f"{NAMES[0]}_{number}" for number in itertools.count(2))
    name = next(name for name in itertools.chain(NAMES, numbered) if name not in taken)
    before = [statement for statement in tree.body if statement not in doing]
    return f"{_text(before)}def {name}():\n{_indented(_text(doing))}\n{name}()\n"


def _uncompiled(before: Sequence[ast.stmt], statement: ast.stmt) -> str | None:
    """A statement that prints ``f(x)`` in place of ``torch.compile(f, ...)(x)``; None for other statements.

    ``before``: earlier statements, which may bind the compiled function to a name.
    """
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return None
    function = _Uncompiled(before).visit(call.func)
    if function is call.func:
        return None
    plain = ast.Call(func=function, args=call.args, keywords=call.keywords)
    return f'print("expected", {ast.unparse(plain)})'


def _indented(*statements: str) -> str:
    return textwrap.indent("\n".join(s.rstrip("\n") for s in statements if s), "    ")


def _last_words(failure: Failure, crash: int | None) -> str:
    """The words on standard error of a child that fails in this way; empty if only its exit status shows it."""
    if crash is not None or failure.exception_type == "SystemExit":
        return ""
    return "\nAssertionError" if failure.kind.is_numeric else header.telltale(failure)


def _in_children(text: str, status: str, words: str) -> str:
    """The form that runs the script in two children, without and with the compiler, and compares exit statuses.

    Any exception ends a child with status 1, so if ``words`` are given the parent looks for them.
    """
    statements = ast.parse(text).body
    imports = [s for s in statements if isinstance(s, ast.Import | ast.ImportFrom)]
    comparison = [
        "actual = subprocess.call(child)",
        f"if eager or actual not in (0, {status}):",
        "    sys.exit(125)",
        'sys.exit(f"expected exit status 0, actual {actual}" if actual else 0)',
    ]
    if words:
        comparison = [
            "actual = subprocess.run(child, stderr=subprocess.PIPE, text=True)",
            "print(actual.stderr)",
            f"known = {words!r} in actual.stderr",
            "if eager or actual.returncode not in (0, int(known)):",
            "    sys.exit(125)",
            'sys.exit("expected exit status 0, actual 1" if actual.returncode else 0)',
        ]
    parent = _indented(
        'child = [sys.executable, __file__, "child"]',
        'eager = subprocess.call(child, env={**os.environ, "TORCHDYNAMO_DISABLE": "1"})',
        *comparison,
    )
    return f"{_text(imports)}\nif len(sys.argv) == 1:\n{parent}\n{_text([s for s in statements if s not in imports])}"


def _text(statements: Sequence[ast.stmt]) -> str:
    return "".join(f"{ast.unparse(statement)}\n" for statement in statements)
