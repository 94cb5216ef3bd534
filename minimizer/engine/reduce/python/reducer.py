"""The passes over a script, and their order: whole statements first, then what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from minimizer.engine.reduce.graph import Reduced
from minimizer.engine.reduce.problem import OnStep, Problem
from minimizer.engine.reduce.python import edits, inline, modules
from minimizer.engine.reduce.python.source import Source, number_of
from minimizer.report.model import Reduction

Check = Callable[[Sequence[Source]], Sequence[bool]]
Pass = Callable[[Problem[Source]], None]
WIDTH = 88
"""How long a line of a definition may become by inlining: a longer one is wrapped, and nothing is won."""


def reduce_script(
    source: Source,
    *,
    check: Check,
    on_step: OnStep[Source] = lambda step, best: None,
    jobs: int = 1,
    further: Sequence[Pass] = (),
    watch: Callable[[], None] = lambda: None,
) -> Reduced[Source]:
    """Reduce a failing script until no single statement, argument, element, name or number can go.

    ``source`` is taken to fail: it is not tried again. When ``check`` raises BudgetExceeded or Cancelled the best script so
    far is returned; so it is when ``watch`` does, which is asked where there is no trial to wait for. ``further`` passes come in each
    round behind those over whole statements.
    """
    problem = Problem(source, check=check, key=lambda s: s.key, on_step=on_step, jobs=jobs, watch=watch)
    return Reduced.by(lambda: _run(problem, (*WHOLE, *further, *PARTS)), problem)


def reduction_of(reduced: Reduced[Source], *, lines_before: int, nodes_before: int, nodes_after: int = 0) -> Reduction:
    """What the report says of a reduced script; its nodes are the operators that its compiled functions call."""
    return Reduction(
        level="python",
        nodes_before=nodes_before,
        nodes_after=nodes_after,
        lines_before=lines_before,
        trials=reduced.trials,
        cache_hits=reduced.cache_hits,
        seconds=round(reduced.seconds, 2),
        one_minimal=reduced.one_minimal,
        history=reduced.history,
    )


def reduce_definitions(
    source: Source, *, check: Check, jobs: int = 1, watch: Callable[[], None] = lambda: None
) -> Source:
    """Drop what functions and classes hold, statement by statement, and inline; they themselves, and how they are used, stay.

    ``source`` is taken to fail: it is not tried again. When ``check`` or ``watch`` raises BudgetExceeded or Cancelled the best so
    far is returned.
    """
    problem = Problem(source, check=check, key=lambda s: s.key, on_step=lambda step, best: None, jobs=jobs, watch=watch)

    def inner() -> None:
        _statements(problem, depth=1)
        before = problem.best
        _blocks(problem)
        if problem.best is not before:  # an early return may have made all that follows idle
            inner()

    def run() -> None:
        inner()
        _each(problem, inline.variables(problem.best), _if_it_fits(inline.with_inlined), "variables")
        _each(problem, inline.one_expression(problem.best), _if_it_fits(inline.with_lambda), "functions")

    return Reduced.by(run, problem).best


def _if_it_fits(edit: Callable[[Source, str], Source | None]) -> Callable[[Source, str], Source | None]:
    def shorter(source: Source, name: str) -> Source | None:
        edited = edit(source, name)
        return edited if edited is not None and max(map(len, edited.text.splitlines())) <= WIDTH else None

    return shorter


def _run(problem: Problem[Source], passes: Sequence[Pass]) -> None:
    while True:
        before = problem.best
        for reduce_by in passes:
            reduce_by(problem)
        if problem.best is before:
            return


def _statements(problem: Problem[Source], depth: int = 0) -> None:
    """Drop statements, outer ones before what is in them (hierarchical delta debugging, Misherghi and Su 2006)."""
    while level := problem.best.level(depth):
        problem.shrink([number_of(s) for s in level], Source.without, "statements", whole=False)
        depth += 1


def _blocks(problem: Problem[Source]) -> None:
    """Put the body of a loop, a branch, a context in its place."""
    problem.shrink(edits.blocks(problem.best), edits.unwrapped, "blocks")


def _annotations(problem: Problem[Source]) -> None:
    """Drop annotations, all at once if that can be: what they name need not be imported then."""
    problem.shrink(edits.annotated(problem.best), edits.without_annotations, "annotations")


def _functions(problem: Problem[Source]) -> None:
    """Write functions that are called once where they are called."""
    _each(problem, inline.called_once(problem.best), inline.spliced, "functions")


def _classes(problem: Problem[Source]) -> None:
    """Let modules of which one object is made give way to their layers and the function that calls them."""
    _each(problem, modules.made_once(problem.best), modules.without_class, "classes")


def _variables(problem: Problem[Source]) -> None:
    """Write values where they are used, and drop names that nobody reads."""
    while problem.first(inline.without_names(problem.best), "names"):
        pass
    _each(problem, inline.variables(problem.best), inline.with_inlined, "variables")


def _items(problem: Problem[Source]) -> None:
    """Drop arguments, elements, entries, decorators, imported names, parameters."""
    problem.shrink(list(edits.items(problem.best)), Source.without, "items", whole=False)
    problem.shrink(edits.empty_calls(problem.best), edits.uncalled, "items")
    _sweep(problem, edits.parameters, edits.without_parameter, "items")
    _sweep(problem, edits.positions, edits.without_position, "items")


def _expressions(problem: Problem[Source]) -> None:
    """Let a part of an expression stand for the whole."""
    _sweep(problem, edits.stand_ins, edits.with_part, "expressions")


def _numbers(problem: Problem[Source]) -> None:
    """Make numbers smaller: each wherever it is written, then each by itself."""
    for number in edits.numbers_in(problem.best):
        _shrink(problem, number)
    for place in edits.literals(problem.best):
        candidates = (edits.with_literal(problem.best, place, lambda _, to=to: to) for to in (1, 2))  # type: ignore[misc]
        problem.first(candidates, "numbers")


def _shrink(problem: Problem[Source], number: int | float) -> None:
    if isinstance(number, float):
        problem.first([edits.with_number(problem.best, number, to) for to in (1.0, 2.0) if to < number], "numbers")
        return
    if problem.first([edits.with_number(problem.best, number, to) for to in (1, 2, 3, 4) if to < number], "numbers"):
        return
    base = problem.best
    problem.largest(0, number - 4, lambda less: edits.with_number(base, number, number - less), "numbers")


def _sweep(
    problem: Problem[Source],
    sites: Callable[[Source], Iterable[tuple[int, int]]],
    edit: Callable[[Source, int, int], Source | None],
    by: str,
) -> None:
    """Try an edit at each site, once; behind one that was accepted go on with the sites of what is left."""
    place = 0
    while batch := list(islice(sites(problem.best), place, place + problem.jobs)):
        base = problem.best
        candidates = [edit(base, *site) for site in batch]
        problem.judge(candidates, by)
        place += len(batch) if problem.best is base else candidates.index(problem.best)


def _each(
    problem: Problem[Source], names: Sequence[str], edit: Callable[[Source, str], Source | None], by: str
) -> None:
    """Try an edit for each name on what is the best by then, a batch at a time."""
    pending = list(names)
    while pending:
        before = problem.best
        batch, pending = pending[: problem.jobs], pending[problem.jobs :]
        verdicts = problem.judge([edit(before, name) for name in batch], by)
        if problem.best is not before and sum(verdicts) > 1:
            pending = [name for name, fails in zip(batch, verdicts, strict=True) if fails] + pending


WHOLE: tuple[Pass, ...] = (_statements, _annotations, _blocks)
PARTS: tuple[Pass, ...] = (_functions, _classes, _variables, _items, _expressions, _numbers)
