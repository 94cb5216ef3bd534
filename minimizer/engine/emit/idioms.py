"""The idioms: one way of writing a repro for each kind of failure.

All keep the same promise: exit status 1 while the bug is there, 0 once it is gone, 125 if this machine cannot tell (no
such device, no compiler, eager itself fails). With the compiler switched off they exit 0.

An idiom gets what to run (`Subject`), and returns the statements below the function. Code that may fail for reasons of
the machine, configuration included, goes inside ``try``.
"""

from __future__ import annotations

import ast
import builtins
import math
import signal
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from minimizer.engine.budget.patience import REPRO_SECONDS
from minimizer.engine.child.clean_process import UNABLE
from minimizer.engine.emit import cost_idioms, distribution_idiom
from minimizer.engine.emit.details import Details
from minimizer.engine.emit.inputs import given
from minimizer.engine.emit.layout import LINE
from minimizer.engine.emit.subject import Subject
from minimizer.engine.program.tensor_attributes import SUFFIXES
from minimizer.report.model import Reproducibility
from minimizer.vocabulary import Kind

CANNOT_RUN = f"""\
except Exception as error:
    print(f"{UNABLE}{{error}}")
    raise SystemExit(125)
"""
MAX_ATTEMPTS = 50
STORAGE = ".untyped_storage().data_ptr()"
SHARED = {"aliasing": "shared memory: ", "identity": "one object: "}
"""The prefix of both sides' descriptions, for each aspect that concerns two tensors."""
BOTH = "{expected=}, {actual=}"
"""The message of an assertion."""


def attempts_for(rate: Reproducibility) -> int:
    """Compilations that a flaky failure needs to show in all but one of 10,000 runs; 1 for a steady one."""
    if rate.failed >= rate.runs:
        return 1
    share = (rate.failed + 0.5) / (rate.runs + 1)
    return min(MAX_ATTEMPTS, math.ceil(math.log(1e-4) / math.log(1 - share)))


def write(kind: Kind, subject: Subject) -> str:
    """The statements below the function."""
    if kind is Kind.WRONG_GRADIENT and not subject.program.grad:
        kind = Kind.WRONG_OUTPUT  # a joint graph: the gradients are among its outputs
    if "figure" in subject.details:
        return distribution_idiom.write(subject, _try)
    once = ""
    is_repeated = kind is Kind.MISSING_ERROR or (subject.attempts > 1 and kind is not Kind.CRASH)
    if is_repeated and not all(map(_may_repeat, subject.settings)):
        once, subject = f"{_try(*subject.settings)}\n", replace(subject, settings=())
    return once + _IDIOMS[kind](subject)


def _may_repeat(setting: str) -> bool:
    """Whether a statement is idempotent: it sets attributes to values that do not depend on them."""
    (statement,) = ast.parse(setting).body
    return (
        isinstance(statement, ast.Assign)
        and all(isinstance(target, ast.Attribute) for target in statement.targets)
        and not any(ast.unparse(target) in ast.unparse(statement.value) for target in statement.targets)
    )


def hang_after(subject: Subject) -> float:
    """Seconds of compilation that a repro counts as a hang."""
    return subject.details.get("hang_after", REPRO_SECONDS)


def evidence(kind: Kind, subject: Subject) -> str:
    """Text that the output contains when the script ends with status 1 because of this failure."""
    details = subject.details
    if kind is Kind.CRASH:
        if "overwrites" in details:
            return "expected exit status 0, actual -"
        return f"expected exit status 0, actual -{signal.Signals[_signal(subject)].value}\n"
    if kind is Kind.HANG:  # a line of the stack that faulthandler writes
        return f" in {details['stuck_in']}\n" if "stuck_in" in details else "Timeout ("
    if kind is Kind.MISSING_ERROR:
        return f"AssertionError: expected={_short(details)!r}, actual=None\n"
    if kind in (Kind.COMPILE_ERROR, Kind.RUNTIME_ERROR):
        return "actual   "  # the handler has already searched the message for the telltale words
    if kind.is_of_metadata:
        return f"AssertionError: {_shared(details)}expected="
    if kind.is_figure or "figure" in details:
        return "AssertionError: expected="
    return "AssertionError: expected=" if BOTH in _assertion(details) else "AssertionError: "


def _signal(subject: Subject) -> str:
    return subject.details.get("signal", "SIGSEGV")


def _signals(subject: Subject) -> Sequence[str]:
    """The signals that may kill the process: several for overwritten memory, whose old content decides."""
    return ("SIGABRT", "SIGSEGV") if "overwrites" in subject.details else (_signal(subject),)


def _short(details: Details) -> str:
    """The name of eager's exception."""
    return details.get("eager_error", "Exception").rpartition(".")[2]


def _block(*lines: str) -> str:
    return textwrap.indent("\n".join(line.rstrip("\n") for line in lines), "    ") + "\n"


def _try(*lines: str) -> str:
    return f"try:\n{_block(*lines)}{CANNOT_RUN}"


def _repeated(subject: Subject, body: str) -> str:
    """Statements that compile again and again until a flaky failure shows; for a steady one, ``body`` alone."""
    if subject.attempts == 1:
        return body
    return f"for _ in range({subject.attempts}):\n{_block('torch._dynamo.reset()', body)}"


# Both sides return, with different results -------------------------------------------------------------------------


def _compared(
    subject: Subject, measure: Callable[[str], str], first: Callable[[str], Sequence[str]] = lambda side: ()
) -> str:
    """Statements that bind ``expected`` and ``actual``, or exit with 125.

    ``measure``: the expression to compare, given a side. ``first``: statements to run before it where each side has a
    function of its own.
    """
    if not subject.fresh_inputs:
        sides = _bound(subject, measure(subject.eager), measure(subject.compiled))
        return _try(*subject.settings, *subject.inputs, *sides)
    run, fn = subject.helpers["run"], subject.helpers["fn"]
    body = _block(*given(subject.inputs, *first(fn), f"return {measure(fn)}"))
    sides = _bound(subject, f"{run}({subject.eager})", f"{run}({subject.compiled})")
    return f"def {run}({fn}):\n{body}\n\n{_try(*subject.settings, *sides)}"


def _bound(subject: Subject, expected: str, actual: str) -> list[str]:
    together = f"expected, actual = {expected}, {actual}"
    indent = 4 if subject.attempts == 1 else 8
    if len(together) + indent <= LINE:
        return [together]
    return [f"expected = {expected}", f"actual = {actual}"]


def _values(subject: Subject) -> str:
    changed = [name for name in subject.details.get("mutated", []) if name not in subject.program.outputs]
    if changed:  # the returned values are right
        return _close(
            replace(subject, fresh_inputs=True), lambda _: ", ".join(changed), lambda side: [subject.call(side)]
        )
    return _close(subject, subject.call)


def _gradients(subject: Subject) -> str:
    if not subject.program.around:
        return _close(subject, subject.backward)
    out, fn = subject.helpers["out"], subject.helpers["fn"]
    call = f"with {', '.join(subject.program.around)}:\n    {out} = {subject.call(fn)}"
    return _close(replace(subject, fresh_inputs=True), lambda side: subject.gradients(out), lambda side: [call])


def _close(
    subject: Subject, measure: Callable[[str], str], first: Callable[[str], Sequence[str]] = lambda side: ()
) -> str:
    return _repeated(subject, f"{_compared(subject, measure, first)}\n{_assertion(subject.details)}\n")


def _assertion(details: Details) -> str:
    """The assertion on values, whose message shows both; a single statement unless NaN or a tolerance is involved."""
    tolerance = {key: details[key] for key in ("rtol", "atol") if key in details}
    if "comparable" in details and not tolerance:
        return f'torch.testing.assert_close(actual, expected, msg=f"{BOTH}")'
    if details.get("comparable") == "tensor" and not any(tolerance.values()):
        return f'assert torch.equal(actual, expected), f"{BOTH}"'
    given = "".join(f", {key}={value:g}" for key, value in tolerance.items())
    return (
        'print(f"expected {expected}\\nactual   {actual}")\n'
        f"torch.testing.assert_close(actual, expected{given}, equal_nan=True)"
    )


def _metadata(subject: Subject) -> str:
    details, describe = subject.details, subject.helpers["describe"]
    aspect, place = details.get("aspect", ""), details.get("output", "")
    shared = details.get("alias_of", "") if aspect == "aliasing" else ""

    def looked_at(side: str) -> str:
        if "input" in details:
            return details["input"]
        if "output" not in details and details.get("gradients"):
            return f"{subject.backward(side)}[0]"
        return subject.call(side) + place

    def measure(side: str) -> str:
        if aspect in SUFFIXES:
            return looked_at(side) + SUFFIXES[aspect]
        if aspect == "class":
            return f"type({looked_at(side)})"
        if shared and subject.fresh_inputs:  # only there the inputs have no name for a function
            return f"{looked_at(side)}{STORAGE} == {shared}{STORAGE}"
        if aspect in SHARED and "alias_of_output" in details:
            return f"{describe}({subject.call(side)})"
        return f"{describe}({looked_at(side)})"

    text = (
        _compared(subject, measure, lambda side: [subject.call(side)] if "input" in details else [])
        + f'\nassert actual == expected, f"{_shared(details)}{BOTH}"\n'
    )
    if f"{describe}(" in text:
        seen = (
            f"out{STORAGE} == {shared}{STORAGE}" if shared else "out.dtype, out.shape, out.stride(), out.requires_grad"
        )
        if "alias_of_output" in details:
            other = f"out{details['alias_of_output']}"
            seen = f"out{place} is {other}" if aspect == "identity" else f"out{place}{STORAGE} == {other}{STORAGE}"
        text = f"def {describe}(out):\n{_block(f'return {seen}')}\n{text}"
    return _repeated(subject, text)


def _shared(details: Details) -> str:
    return SHARED.get(details.get("aspect", ""), "")


# One side raises ---------------------------------------------------------------------------------------------------


def judged(telltale: str, said: str = "", *, message: str = "") -> str:
    """The handler for an error that is the bug if it contains the ``telltale`` words; any other exits with 125.

    It re-raises the bug to show its stack, behind a line that has the error's first line, or its type after ``said``.
    ``message``: the error's message without its type, as far as known.
    """
    typed = 'f"{type(error).__name__}: {error}"'
    where = "str(error)" if telltale in message else "message"
    lines = [f"message = {typed}"] if where == "message" else []
    if said:
        lines.append(f'print("{said}", type(error).__name__)')
    else:
        lines.append(f'print("actual  ", {"message" if lines else typed}.partition("\\n")[0])')
    lines.append(f"raise error if {telltale!r} in {where} else SystemExit(125)")
    return f"except Exception as error:\n{_block(*lines)}"


def _judged(subject: Subject) -> str:
    return judged(subject.telltale, message=subject.details.get("said", "").partition(": ")[2])


def _compile_error(subject: Subject) -> str:
    lines = [*subject.settings, *subject.inputs, f'print("expected", {subject.run(subject.eager)})']
    again = subject.inputs if subject.fresh_inputs else ()
    return _repeated(subject, f"try:\n{_block(*lines, *again, subject.run(subject.compiled))}{_judged(subject)}")


def _runtime_error(subject: Subject) -> str:
    """The idiom of an error when compiled; eager has its own ``try``, since it could raise such an error too."""
    first = _try(*subject.settings, *subject.inputs, f'print("expected", {subject.run(subject.eager)})')
    again = subject.inputs if subject.fresh_inputs else ()
    body = _block(*again, subject.run(subject.compiled), *subject.waits)
    return _repeated(subject, f"{first}try:\n{body}{_judged(subject)}")


def _missing_error(subject: Subject) -> str:
    raised, fn = subject.helpers["raised"], subject.helpers["fn"]
    body = _block(*subject.settings, *given(subject.inputs, subject.run(fn)))
    return (
        f"def {raised}({fn}):\n    try:\n{textwrap.indent(body, '    ')}"
        "    except Exception as error:\n        return type(error).__name__\n\n\n"
    ) + _repeated(
        subject,
        f"expected, actual = {raised}({subject.eager}), {raised}({subject.compiled})\n"
        f"if expected != {_short(subject.details)!r} or actual not in (expected, None):\n"
        "    raise SystemExit(125)\n"
        f'assert actual == expected, f"{BOTH}"\n',
    )


# One side does not come back ---------------------------------------------------------------------------------------


def _crash(subject: Subject) -> str:
    parent = (
        'eager = subprocess.call([sys.executable, __file__, "eager"])\n'
        'actual = subprocess.call([sys.executable, "-X", "faulthandler", __file__, "compiled"])\n'
        f"if eager or actual not in (0, {', '.join(f'-signal.{name}' for name in _signals(subject))}):\n"
        "    raise SystemExit(125)\n"
    )
    verdict = 'f"expected exit status 0, actual {actual}"'
    if subject.attempts == 1:
        parent += f"raise SystemExit(actual and {verdict})\n"
    else:
        again = f"if actual:\n    raise SystemExit({verdict})\n"
        parent = f"for _ in range({subject.attempts}):\n{_block(parent, again)}raise SystemExit\n"
    fn = subject.helpers["fn"]
    chosen = f'{fn} = {subject.eager} if "eager" in sys.argv else {subject.compiled}'
    child = [*subject.settings, *subject.inputs, chosen]
    call = f'print("eager returns" if {fn} is {subject.eager} else "compiled returns", {subject.run(fn)})'
    raised = subject.details.get("eager_error")
    if raised is not None:  # compiled code may raise it too: only the signal is the bug
        call = f"try:\n{_block(call)}except {_raised(raised)} as error:\n    print(type(error).__name__, error)"
    return f"if len(sys.argv) == 1:\n{_block(parent)}\n" + "\n".join([*child, call]) + "\n"


def _raised(name: str) -> str:
    """The class by which an exception of this name is caught: its own if it is built in."""
    known = getattr(builtins, name, None)
    return name if isinstance(known, type) and issubclass(known, Exception) else "Exception"


def _hang(subject: Subject) -> str:
    again = subject.inputs if subject.fresh_inputs else ()
    return _repeated(
        subject,
        _try(
            *subject.settings,
            *subject.inputs,
            f'print("expected", {subject.run(subject.eager)}, "at once; actual: see below", flush=True)',
            f"faulthandler.dump_traceback_later({hang_after(subject):g}, exit=True)  # exits with status 1",
            *again,
            *_returns(subject),
            *(["faulthandler.cancel_dump_traceback_later()"] if subject.attempts > 1 else []),
        ),
    )


def _returns(subject: Subject) -> Sequence[str]:
    """Statements that run the compiled side and print what it returns, once the GPU has computed it."""
    if not subject.waits:
        return [f'print("actual  ", {subject.run(subject.compiled)})']
    return [f"actual = {subject.run(subject.compiled)}", *subject.waits, 'print("actual  ", actual)']


_IDIOMS: dict[Kind, Callable[[Subject], str]] = {
    Kind.CRASH: _crash,
    Kind.HANG: _hang,
    Kind.COMPILE_ERROR: _compile_error,
    Kind.RUNTIME_ERROR: _runtime_error,
    Kind.MISSING_ERROR: _missing_error,
    Kind.WRONG_OUTPUT: _values,
    Kind.WRONG_GRADIENT: _gradients,
    Kind.WRONG_METADATA: _metadata,
    **{kind: partial(cost_idioms.write, kind, guard=_try) for kind in cost_idioms.COSTS},
}
