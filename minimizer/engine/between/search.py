"""The steps of a job between graphs: reduce the script by exact runs → write it with an assertion of what a reader can see."""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from minimizer.engine import fold
from minimizer.engine.between import passes, words
from minimizer.engine.between.answer import Answer, Found, unanswered
from minimizer.engine.between.assertion import OUT, Claim, claims, draw_from
from minimizer.engine.between.culprit import broken_promise, culprit_line
from minimizer.engine.between.difference import Change, difference_at_end
from minimizer.engine.between.drawn import CHECK, run_twice
from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.between.mechanism import mechanism_of
from minimizer.engine.between.oracle import ExactOracle
from minimizer.engine.between.public import named_entries, with_backend
from minimizer.engine.between.workaround import find_workaround
from minimizer.engine.between.wrapper_effect import told, wrapper_effect
from minimizer.engine.checkpoint import keep_draft, recorder
from minimizer.engine.child.exact_log import Glance, Look
from minimizer.engine.child.executor import Executor
from minimizer.engine.emit import Repro, header, layout
from minimizer.engine.journal import Journal
from minimizer.engine.patience import BLAME_SHARE, WRITE_SECONDS
from minimizer.engine.reduce.python import Rerun, Source, reduce_script, reduction_of, shorter
from minimizer.engine.reduce.python.seeds import seeded
from minimizer.engine.reserve import to_finish, to_verify
from minimizer.engine.survey.cases import Settled
from minimizer.engine.user_script.bundle import Bundle, bundle
from minimizer.engine.user_script.constructs import construct_of
from minimizer.engine.user_script.own_checks import without_checks
from minimizer.engine.user_script.syntax import UNPARSED
from minimizer.errors import BudgetExceeded
from minimizer.report import culprit
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Mechanism, Reduction, Reproducibility, Workaround
from minimizer.vocabulary import Reason, Status, Step

DECLARATIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
PASSES = (passes.operations, passes.objects, shorter.statements)
BY_CONSTRUCT: tuple[Mechanism, ...] = ("wrong_constant", "skipped_handler")
"""Mechanisms that say how a value came about, and not by what: there the construct that is left says more."""
MOST_CALLS = 3
"""Most calls of a last statement that are tried for an assertion of what they return."""
EVIDENCE = "AssertionError"
CANNOT_RUN = "except Exception:\n    raise SystemExit(125)  # it cannot run here\n"


class BetweenGraphs:
    """One script, by exact runs."""

    def __init__(
        self, executor: Executor, script: Path, args: Sequence[str], journal: Journal, *, jobs: int, timeout: float
    ) -> None:
        self._executor, self._script, self._args, self._journal, self._jobs = executor, script, args, journal, jobs
        self._runs = ExactRuns(executor, script, timeout=timeout, line_of=self._line_of)
        self._rerun = Rerun(executor, script)
        self._bundle = Bundle("", {})
        self._text = ""
        """What is run."""
        self._line: int | None = None
        """The line in it that is at fault."""
        self._raised = ("", "")
        """What the blamed call raises without the compiler and with it, where that differs."""

    def compare(self) -> Answer:
        """What the exact runs of the script say; where a check of its own ends the compiled run, those of the script without checks."""
        try:
            self._bundle = bundle(self._script, self._args)
        except (SyntaxError, UnicodeDecodeError):
            return unanswered(UNPARSED)
        self._text = self._bundle.text
        answer = self._runs.compare(self._text)
        unchecked = without_checks(self._text, answer.failed_check) if answer.failed_check else self._text
        if unchecked == self._text:
            return answer
        without = self._runs.compare(unchecked)
        if without.found is None:
            return replace(answer, runs=without.runs)
        self._text = unchecked
        return replace(without, failed_check=answer.failed_check)

    def repro(self, found: Found) -> Repro | None:
        """Reduce the script and write its repro; None where what is left cannot be asserted.

        The report speaks of the failure from the beginning: it is confirmed, however this ends.

        Raises:
            BudgetExceeded: the time is over.
            ChildFailed: the child went away.
        """
        self._announce(found)
        mechanism = mechanism_of(found, self._runs, self._text)
        self._explain(found, mechanism)
        reduced, oracle = self._reduce(found, mechanism)
        self._blame(reduced)
        clock, kind = self._journal.clock, words.kind_of(found.difference)
        with clock.undisturbed(WRITE_SECONDS), clock.reserving(partial(to_verify, clock.pace, kind), BLAME_SHARE):
            with self._journal.step(Step.EMIT):
                repro = self._emit(reduced, oracle)
            with suppress(BudgetExceeded):  # a repro is worth more than the number of operators that the script calls
                self._count(reduced)
            return repro

    def workaround(self, found: Found) -> Workaround | None:
        """A workaround for a failure that was announced by `repro`; None where its mechanism is not known.

        Raises:
            BudgetExceeded: the time is over.
            ChildFailed: the child went away.
        """
        failure = self._journal.fault.failure
        assert failure is not None
        if failure.mechanism is None:  # the child went away before it was known
            return None
        with suppress(SyntaxError):
            return find_workaround(
                self._runs, self._text, found, failure.mechanism, self._line, self._bundle, script=self._script
            )
        return None

    def past_wrappers(self, found: Settled) -> Settled:
        """A healthy verdict on a script that was compared, unless that does something else for what it sees of the compiler's wrappers.

        Raises:
            BudgetExceeded: the time is over.
            ChildFailed: the child went away.
        """
        effect = wrapper_effect(self._runs, self._text)
        if effect is None:
            return found
        source = self._source(effect.glance)
        code = source.code if source is not None else ""
        summary = told(effect, self._line_of(effect.glance), code)
        return replace(found, status=Status.FAILED, reason=Reason.WRAPPER_EFFECT, summary=summary)

    def _announce(self, found: Found) -> None:
        look, named = found.difference.look, found.difference.first
        self._line = look.line if look.line and not look.file else None
        raised = next((change for change in found.difference.changes if change.path == "raised"), None)
        self._raised = (raised.eager.get("value", ""), raised.compiled.get("value", "")) if raised else ("", "")
        failure = Failure(
            kind=words.kind_of(found.difference),
            stage=found.stage,
            message=words.message(found),
            signature=f"between graphs: {words.object_in(found.difference)} {named.field}",
            object=words.object_in(found.difference),
            source=self._source(look),
            reproducibility=Reproducibility(failed=2, runs=2),
        )
        observed = tuple(words.observed(found, self._number))
        self._journal.fault = replace(self._journal.fault, failure=failure, observed=observed)
        fold.on_device(self._journal.report, "cpu")

    def _explain(self, found: Found, mechanism: Mechanism) -> None:
        """How what was announced came about."""
        lost = words.object_in(found.difference)
        signature = f"between graphs: {mechanism} {lost} {found.difference.first.field}"
        known = self._journal.fault.stating(mechanism=mechanism, signature=signature)
        assert known.failure is not None
        first = Culprit(what=words.what(mechanism, lost), source=known.failure.source)
        self._journal.fault = replace(known, culprits=(first,))
        self._journal.event("failure", failure=known.failure.model_dump(mode="json"))

    def _blame(self, reduced: Source) -> None:
        """The line of the script that does what is lost, or reads what is stale, as far as the reduced script shows it."""
        fault = self._journal.fault
        failure, first = fault.failure, fault.culprits[0]
        assert failure is not None
        line = culprit_line(reduced.tree, failure.object)
        if (promise := broken_promise(reduced.tree)) is not None:
            what, line = f"{promise[0]}, a promise that the script does not keep", promise[1]
            first = first.model_copy(update={"what": what})
        elif failure.mechanism in BY_CONSTRUCT and (made := construct_of(reduced.tree, failure.message)) is not None:
            first, line = first.model_copy(update={"what": made.what}), made.line
        source = culprit.Source.of(self._bundle.lines.get(line or 0))
        if source is not None and failure.mechanism != "lost_gradient":  # the backward that should give that is known
            self._line, fault = line, fault.stating(source=source)
            first = first.model_copy(update={"source": source})
        self._journal.fault = fault.blaming(first)

    def _source(self, look: Look | Glance) -> culprit.Source | None:
        """The line of the user's that is being run at a look: of the script, or of a module of its own."""
        if look.file:
            return culprit.Source(file=look.file, line=look.line, code=look.code)
        return culprit.Source.of(self._bundle.lines.get(look.line))

    def _line_of(self, look: Look | Glance) -> str:
        source = self._source(look)
        if source is None:
            return "line unknown"
        return f"line {source.line}{'' if source.file == self._script.name else f' of {source.file}'}"

    def _number(self, look: Look) -> int:
        """The line of the script itself that is being run at a look; 0 if none is."""
        source = self._source(look)
        return source.line if source is not None and source.file == self._script.name else 0

    def _reduce(self, found: Found, mechanism: Mechanism) -> tuple[Source, ExactOracle]:
        oracle = ExactOracle(self._executor, self._script, found, mechanism)
        script, before = Source.parse(self._text), len(self._text.splitlines())
        if found.draws:
            script = seeded(script, oracle.check)
        journal, kind = self._journal, words.kind_of(found.difference)
        clock = journal.clock
        with journal.step(Step.REDUCE), clock.reserving(partial(to_finish, clock.pace, kind)):
            reduced = reduce_script(
                script,
                check=oracle.check,
                on_step=recorder(journal, script.size, Reduction(level="python", lines_before=before)),
                jobs=self._jobs,
                further=PASSES,
                watch=journal.watch,
            )
        reduction = reduction_of(reduced, lines_before=before, nodes_before=0)
        journal.fault = replace(journal.fault, reduction=reduction)
        return reduced.best, oracle

    def _count(self, reduced: Source) -> None:
        """Count the operators that the compiled functions call, of the script and of what is left of it."""
        before, after = (self._rerun.observed(text).calls for text in (self._text, reduced.text))
        self._journal.fault = known = self._journal.fault.counting(nodes_before=before)
        assert known.reduction is not None
        self._journal.fault = replace(known, reduction=known.reduction.counted(after))

    def _emit(self, reduced: Source, oracle: ExactOracle) -> Repro | None:
        plain = with_backend(reduced.text, oracle.backend)
        for script in dict.fromkeys((named_entries(plain), plain)):
            for text in self._asserted(script, oracle):
                repro = self._written(text)
                if self._keeps_its_promise(repro):
                    keep_draft(repro, None, self._journal)
                    return repro
        return None

    def _asserted(self, text: str, oracle: ExactOracle) -> Iterator[str]:
        """The script with an assertion at its end, the way that reads best first."""
        raising = _raising(text, *self._raised) if any(self._raised) else None
        if raising is not None:
            yield raising
        drawn: list[str] = []
        unsteady: list[tuple[str, Claim]] = []
        for shown in ways_to_show(text):
            end = self._end(shown, oracle)
            drawn += [f"{shown}{OUT} = {draw}\n" for draw in map(draw_from, end) if draw]
            steady = list(claims(tuple(oracle.steady_at_end(shown, end))))
            for claim in claims(end):
                needs_name = re.search(rf"\b{OUT}\b", claim.expression) is not None
                said = shown if needs_name else text
                if claim in steady:
                    yield asserted(said, claim)
                else:
                    unsteady.append((said, claim))
        for said, claim in unsteady[:MOST_CALLS]:
            for twice in run_twice(said, claim.expression):
                yield f"{_guarded(twice)}{CHECK}"
        for shown in drawn:
            yield from (asserted(shown, claim) for claim in claims(self._end(shown, oracle)))
        yield from (asserted(said, claim) for said, claim in unsteady)

    def _end(self, text: str, oracle: ExactOracle) -> tuple[Change, ...]:
        """What differs at the end of a script."""
        logs = oracle.logs(text)
        return difference_at_end(*logs) if logs is not None else ()

    def _written(self, text: str) -> Repro:
        fault, environment = self._journal.fault, self._journal.report.environment
        failure = fault.failure
        assert failure is not None
        comment = header.comment(failure, fault.culprits, environment, failure.reproducibility, 1, {})
        source = layout.assemble(comment, [text])
        return Repro(source=source, lines=layout.code_lines(source), kind=failure.kind, evidence=_evidence(text))

    def _keeps_its_promise(self, repro: Repro) -> bool:
        _, outcome = self._rerun.failure(repro.source)
        error = outcome.exception
        is_shown = error is not None and (
            error.type == "AssertionError" or (error.type == "SystemExit" and error.message != "125")
        )
        return is_shown and self._rerun.ends_well(repro.source)


def _evidence(text: str) -> str:
    return EVIDENCE if text.rstrip().splitlines()[-1].startswith("assert ") else ", actual "


def ways_to_show(text: str) -> Iterator[str]:
    """The script with what a call of its last statement returns under a name, where it has none, and as it is; last the items of that.

    A function of the script's own that the last statement calls may itself end with a call: then that is what it returns. What threads
    of a pool return comes as an iterator.
    """
    returning = _returning(text)
    calls = range(len(_last_calls(ast.parse(returning))))
    yield from (_named(returning, number) for number in calls)
    yield ast.unparse(ast.parse(text)) + "\n"
    yield from (_named(returning, number, of_items=True) for number in calls)


def _named(text: str, number: int, *, of_items: bool = False) -> str:
    """The script with a name for what one of the calls of its last statement returns, or for a list of that."""
    tree = ast.parse(text)
    body, call = _last_calls(tree)[number]
    value = ast.Call(func=ast.Name(id="list", ctx=ast.Load()), args=[call], keywords=[]) if of_items else call
    body[-1] = ast.Assign(targets=[ast.Name(id=OUT, ctx=ast.Store())], value=value)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _returning(text: str) -> str:
    """The script with what is called last in the functions of its last statement returned by them, where they return nothing."""
    tree = ast.parse(text)
    called = {call.func.id for _, call in _last_calls(tree) if isinstance(call.func, ast.Name)}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name not in called:
            continue
        last, returns = node.body[-1], (ast.Return, ast.Yield, ast.YieldFrom)
        if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
            continue
        if not any(isinstance(inner, returns) for inner in ast.walk(node)):
            node.body[-1] = ast.Return(value=last.value)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _last_calls(tree: ast.Module) -> list[tuple[list[ast.stmt], ast.Call]]:
    """Calls in the last statement whose results have no name, the outermost first, each with the block that the statement ends."""
    body, blocks = tree.body, list[tuple[list[ast.stmt], ast.expr]]()
    while body and isinstance(body[-1], ast.For | ast.While | ast.With | ast.Try):
        if isinstance(body[-1], ast.For):
            blocks.append((body, body[-1].iter))
        body = body[-1].body
    if body and isinstance(body[-1], ast.Expr):
        blocks.insert(0, (body, body[-1].value))
    calls = [(block, node) for block, value in blocks for node in ast.walk(value) if isinstance(node, ast.Call)]
    return [(block, call) for block, call in calls if ast.unparse(call.func) != "print"][:MOST_CALLS]


def _raising(text: str, eager: str, compiled: str) -> str | None:
    """The script whose last ``try`` catches what only one side raises, as one that ends by it; None for others.

    ``eager`` and ``compiled`` are the exceptions that a call raises, empty for none.
    """
    tree = ast.parse(text)
    body = tree.body
    while body and isinstance(body[-1], ast.For | ast.While | ast.With):
        body = body[-1].body
    last = body[-1] if body else None
    if not isinstance(last, ast.Try) or not last.handlers:
        return None
    handler = last.handlers[0]
    named = eager or compiled
    if isinstance(getattr(builtins, named, None), type):
        handler.type = ast.Name(id=named, ctx=ast.Load())
    handler.name, handler.body, last.orelse = None, [ast.Pass()], []
    words = f"expected {eager or 'no error'}, actual {compiled or 'no error'}"
    said = ast.parse(f"raise SystemExit({words!r})").body
    if compiled:
        handler.body = said
    else:
        last.orelse = said
    last.handlers, last.finalbody = [handler], []
    return _guarded(ast.unparse(ast.fix_missing_locations(tree)))


def asserted(text: str, claim: Claim) -> str:
    """The script with a claim at its end; what comes before it and is no definition may fail for reasons of the machine."""
    return f"{_guarded(text)}{claim.statement}\n"


def _guarded(text: str) -> str:
    """The script, which ends with 125 where what it does, and not only defines, cannot run here."""
    given = ast.parse(text).body
    body = sorted(
        given,
        key=lambda s: 0 if isinstance(s, ast.Import | ast.ImportFrom) else 1 if _may_stand_first(s, given) else 2,
    )
    defined = 1 + max((i for i, s in enumerate(body) if isinstance(s, DECLARATIONS)), default=-1)
    first = next((i for i, s in enumerate(body[:defined]) if not isinstance(s, (*DECLARATIONS, ast.Assign))), defined)
    before, doing = body[:first], body[first:]
    if not doing:
        return _lines(before)
    last, handlers, otherwise = doing[-1], "", ""
    if isinstance(last, ast.Try) and not last.finalbody:  # one ``try`` then does for both
        doing = [*doing[:-1], *last.body]
        handlers = "".join(f"{ast.unparse(handler).lstrip()}\n" for handler in last.handlers)
        otherwise = f"else:\n{_lines(last.orelse, indent=4)}" if last.orelse else ""
    return f"{_lines(before)}try:\n{_lines(doing, indent=4)}{handlers}{CANNOT_RUN}{otherwise}"


def _may_stand_first(statement: ast.stmt, body: Sequence[ast.stmt]) -> bool:
    """Whether it may stand before all that is done: nothing runs where it is defined, and nothing before it has its name."""
    if not isinstance(statement, ast.FunctionDef) or statement.decorator_list:
        return False
    before = body[: body.index(statement)]
    names = {node.id for earlier in before for node in ast.walk(earlier) if isinstance(node, ast.Name)}
    names |= {s.name for s in before if isinstance(s, ast.FunctionDef | ast.ClassDef)}
    return statement.name not in names and not statement.args.defaults and not any(statement.args.kw_defaults)


def _lines(statements: Sequence[ast.stmt], indent: int = 0) -> str:
    return "".join(textwrap.indent(f"{ast.unparse(statement)}\n", " " * indent) for statement in statements)
