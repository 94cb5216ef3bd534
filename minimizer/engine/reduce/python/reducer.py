"""The passes over a script, and their order: threads, then whole statements, then their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from minimizer.engine.reduce.graph import Reduced
from minimizer.engine.reduce.problem import OnStep, Problem
from minimizer.engine.reduce.python import edits, forms, inline, modules, shorter, threads
from minimizer.engine.reduce.python.side_by_side import AHEAD
from minimizer.engine.reduce.python.source import Source, changed_lines, number_of
from minimizer.report.model import Reduction

Check = Callable[[Sequence[Source]], Sequence[bool | None]]
Pass = Callable[[Problem[Source]], None]
WIDTH = 88
"""Most characters of a line after inlining into a definition: a longer one is wrapped, and saves nothing."""


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

    ``source`` must fail: it is not tried again. If ``check`` or ``watch`` raises BudgetExceeded or Cancelled, the best
    script so far is returned; ``watch`` is called for every batch. ``further`` passes run in each round after those
    over whole statements.
    """
    problem = Problem(
        source,
        check=check,
        key=lambda s: s.key,
        on_step=on_step,
        jobs=jobs,
        ahead=AHEAD,
        watch=watch,
        change=changed_lines,
    )
    return Reduced.by(lambda: _run(problem, (*WHOLE, *further, *PARTS)), problem)


def reduction_of(reduced: Reduced[Source], *, lines_before: int, nodes_before: int) -> Reduction:
    """The report's figures of a reduced script; its nodes are the operators that its compiled functions call."""
    return Reduction(
        level="python",
        nodes_before=nodes_before,
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
    """Reduce the bodies of functions and classes, statement by statement, and inline; their signatures and uses stay.

    ``source`` must fail: it is not tried again. If ``check`` or ``watch`` raises BudgetExceeded or Cancelled, the best
    so far is returned.
    """
    problem = Problem(source, check=check, key=lambda s: s.key, on_step=lambda step, best: None, jobs=jobs, watch=watch)

    def inner() -> None:
        _statements(problem, depth=1)
        before = problem.best
        _blocks(problem)
        if problem.best is not before:  # an early return may have made later statements unreachable
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
    """Run the passes until none makes progress; finally retry edits that were refused for earlier, larger scripts."""
    while True:
        _to_rest(problem, passes)
        problem.recheck()
        before = problem.best
        for reduce_by in (*passes, *LAST):
            reduce_by(problem)
        if problem.best is before:
            return


def _to_rest(problem: Problem[Source], passes: Sequence[Pass]) -> None:
    while True:
        before = problem.best
        for reduce_by in passes:
            reduce_by(problem)
        if problem.best is before:
            for reduce_by in LAST:
                reduce_by(problem)
            if problem.best is before:
                return


def _statements(problem: Problem[Source], depth: int = 0) -> None:
    """Drop statements, outer ones before inner ones (hierarchical delta debugging, Misherghi and Su 2006)."""
    while level := problem.best.level(depth):
        problem.shrink([number_of(s) for s in level], Source.without, "statements", whole=False)
        depth += 1


def _blocks(problem: Problem[Source]) -> None:
    """Replace loops, branches and contexts by their bodies."""
    problem.shrink(edits.blocks(problem.best), edits.unwrapped, "blocks")


def _annotations(problem: Problem[Source]) -> None:
    """Drop annotations, all at once if possible, so that the names in them need no import."""
    problem.shrink(edits.annotated(problem.best), edits.without_annotations, "annotations")


def _rounds(problem: Problem[Source]) -> None:
    """Write loops out, and drop parts of single rounds, if that is shorter in the end."""

    def drop(written_out: Problem[Source]) -> None:
        for reduce_by in (_statements, _blocks, _statements, _variables):
            reduce_by(written_out)

    for loop in shorter.loops(problem.best):
        written_out = shorter.unrolled(problem.best, loop)
        if written_out is not None:
            problem.detour(written_out, drop, "rounds")


def _functions(problem: Problem[Source]) -> None:
    """Inline functions that are called once."""
    _each(problem, inline.called_once(problem.best), inline.spliced, "functions")


def _classes(problem: Problem[Source]) -> None:
    """Replace modules with a single instance by their layers and a function that calls them."""
    _each(problem, modules.made_once(problem.best), modules.without_class, "classes")


def _variables(problem: Problem[Source]) -> None:
    """Inline variables, and drop names that are never read."""
    problem.exhaust(inline.without_names, "names")
    problem.exhaust(modules.with_plain_names, "names")
    _each(problem, inline.variables(problem.best), inline.with_inlined, "variables")


def _items(problem: Problem[Source]) -> None:
    """Drop arguments, elements, entries, decorators, imported names, parameters."""
    problem.shrink(list(edits.items(problem.best)), Source.without, "items", whole=False)
    problem.shrink(edits.empty_calls(problem.best), edits.uncalled, "items")
    _sweep(problem, edits.parameters, edits.without_parameter, "items")
    _sweep(problem, edits.positions, edits.without_position, "items")


def _expressions(problem: Problem[Source]) -> None:
    """Replace expressions by a part of them."""
    _sweep(problem, edits.stand_ins, edits.with_part, "expressions")


def _numbers(problem: Problem[Source]) -> None:
    """Make numbers smaller: all occurrences of each together, then single ones."""
    for number in edits.numbers_in(problem.best):
        _shrink(problem, number)
    for place in edits.literals(problem.best):
        problem.first([edits.with_literal(problem.best, place, to) for to in (1, 2)], "numbers")


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
    """Try an edit at each site, once; after an accepted one, go on with the sites of the new best script."""
    place = 0
    while batch := list(islice(sites(problem.best), place, place + problem.batch)):
        base = problem.best
        candidates = [edit(base, *site) for site in batch]
        problem.judge(candidates, by)
        place += len(batch) if problem.best is base else candidates.index(problem.best)


def _each(
    problem: Problem[Source], names: Sequence[str], edit: Callable[[Source, str], Source | None], by: str
) -> None:
    """Try an edit for each name on the best script at that time, a batch at a time."""
    pending = list(names)
    while pending:
        before = problem.best
        batch, pending = pending[: problem.batch], pending[problem.batch :]
        verdicts = problem.judge([edit(before, name) for name in batch], by)
        if problem.best is not before:
            won = [name for name, fails in zip(batch, verdicts, strict=True) if fails]
            left = [name for name, fails in zip(batch, verdicts, strict=True) if fails is None]
            pending = (won if len(won) > 1 else []) + left + pending


WHOLE: tuple[Pass, ...] = (threads.calls, _statements, _annotations, _blocks)
PARTS: tuple[Pass, ...] = (forms.simpler, _functions, _classes, _variables, _expressions, _items, _numbers)
LAST: tuple[Pass, ...] = (shorter.statements, _rounds)
"""Passes tried once nothing single can go any more: most of these edits cost a trial and save a line at best."""
