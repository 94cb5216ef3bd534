"""Writes ``repro.py`` from a reduced script: the idioms of the Python level.

All keep the promise of `idioms`: exit status 1 while the bug is there, 0 once it is gone, 125 where this machine cannot tell.
The script decides which of them works, so they come in order of preference, to be tried.
"""

from __future__ import annotations

import ast
import signal
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from minimizer.emit import Repro, header, layout
from minimizer.emit.idioms import CANNOT_RUN, REPRO_SECONDS, judged
from minimizer.report import Culprit, Failure
from minimizer.types import Kind

SAID = "expected no error, as in eager; actual"
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def emit_script(
    text: str,
    failure: Failure,
    culprits: Sequence[Culprit],
    *,
    environment: Mapping[str, str],
    crash: int | None = None,
    stuck_in: str = "",
) -> Iterator[Repro]:
    """Ways of writing the repro of a reduced script, the most readable first.

    ``crash`` is the signal it dies by, ``stuck_in`` the function that it hangs in, where it does.

    Raises:
        SyntaxError: ``text`` is not Python.
    """
    comment = header.comment(failure, culprits, environment, failure.reproducibility, 1, {})
    if failure.kind is Kind.HANG:
        evidence = f" in {stuck_in}\n" if stuck_in else "Timeout ("
        yield replace(_repro(comment, _twice(text, failure), failure, evidence), hang_after=REPRO_SECONDS)
        return
    if crash is None:
        evidence = "AssertionError" if failure.kind.is_numeric else "actual "
        twice = _repro(comment, _twice(text, failure), failure, evidence)
        if failure.kind.is_numeric:
            named = _repro(comment, _twice(_named(text), failure), failure, evidence)
            if named.lines < twice.lines:
                yield named
        yield twice
    expected = -crash if crash is not None else 1
    evidence = f"expected exit status 0, actual {expected}\n"
    yield _repro(comment, _in_children(text, expected), failure, evidence)


def _repro(comment: str, body: str, failure: Failure, evidence: str) -> Repro:
    source = layout.assemble(comment, [body])
    return Repro(source=source, lines=layout.code_lines(source), kind=failure.kind, evidence=evidence)


def _twice(text: str, failure: Failure) -> str:
    """The last statement is run without the compiler, then with it; all that comes before it belongs to both."""
    *before, last = ast.parse(text).body
    definitions = _text([s for s in before if isinstance(s, DEFINITIONS)])
    setting = _text([s for s in before if not isinstance(s, DEFINITIONS)])
    statement = ast.unparse(last)
    raises = not failure.kind.is_numeric and failure.kind is not Kind.HANG
    eager = _uncompiled(before, last) if raises else None
    handler = judged(header.telltale(failure)) if eager else judged(header.telltale(failure), SAID)
    if eager is None:
        eager = f'with torch.compiler.set_stance("force_eager"):\n{textwrap.indent(statement, "    ")}'
    elif failure.kind is Kind.COMPILE_ERROR:  # nothing that eager raises could be taken for it
        return f"{definitions}\ntry:\n{_indented(setting, eager, statement)}\n{handler}"
    first = f"try:\n{_indented(setting, eager)}\n{CANNOT_RUN}"
    if failure.kind.is_numeric:
        return f"{definitions}\n{first}\n{statement}\n"
    if failure.kind is Kind.HANG:
        timer = f"faulthandler.dump_traceback_later({REPRO_SECONDS:g}, exit=True)  # exits with status 1"
        return f"{definitions}\n{first}\n{timer}\n{statement}\n"
    return f"{definitions}\n{first}\ntry:\n{_indented(statement)}\n{handler}"


def _named(text: str) -> str:
    """The script with its last statement in a function, so that what takes several lines is not written twice."""
    *before, last = ast.parse(text).body
    return f"{_text(before)}def check():\n{textwrap.indent(ast.unparse(last), '    ')}\ncheck()\n"


def _uncompiled(before: Sequence[ast.stmt], statement: ast.stmt) -> str | None:
    """A statement ``torch.compile(f, ...)(x)`` as one that prints ``f(x)``; None for any other.

    What is called may have got its name ``before``.
    """
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return None
    named = {
        s.targets[0].id: s.value for s in before if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)
    }
    compiled = named.get(call.func.id) if isinstance(call.func, ast.Name) else call.func
    if not isinstance(compiled, ast.Call):
        return None
    if ast.unparse(compiled.func) != "torch.compile" or len(compiled.args) != 1:
        return None
    plain = ast.Call(func=compiled.args[0], args=call.args, keywords=call.keywords)
    return f'print("expected", {ast.unparse(plain)})'


def _indented(*statements: str) -> str:
    return textwrap.indent("\n".join(s.rstrip("\n") for s in statements if s), "    ")


def _in_children(text: str, expected: int) -> str:
    """The script runs in children of its own, without the compiler and with it, and the parent compares how they end."""
    status = f"-signal.{signal.Signals(-expected).name}" if expected < 0 else str(expected)
    statements = ast.parse(text).body
    imports = [s for s in statements if isinstance(s, ast.Import | ast.ImportFrom)]
    parent = (
        "if len(sys.argv) == 1:\n"
        '    off = {**os.environ, "TORCHDYNAMO_DISABLE": "1"}\n'
        '    eager = subprocess.run([sys.executable, __file__, "child"], env=off).returncode\n'
        '    actual = subprocess.run([sys.executable, __file__, "child"]).returncode\n'
        f"    if eager or actual not in (0, {status}):\n"
        "        sys.exit(125)\n"
        '    sys.exit(f"expected exit status 0, actual {actual}" if actual else 0)\n'
    )
    return f"{_text(imports)}\n{parent}\n{_text([s for s in statements if s not in imports])}"


def _text(statements: Sequence[ast.stmt]) -> str:
    return "".join(f"{ast.unparse(statement)}\n" for statement in statements)
