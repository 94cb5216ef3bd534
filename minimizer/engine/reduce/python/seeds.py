"""Seeds in the text of a script: its random numbers must follow from its text, since a repro draws in a new process
each time.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Sequence

from minimizer.engine.reduce.python.source import Source
from minimizer.engine.user_script.statements import is_of_the_future
from minimizer.engine.user_script.syntax import full_name, imported

SETTERS = ("manual_seed", "manual_seed_all", "seed", "seed_everything", "set_rng_state", "setstate", "set_state")
"""The last names of calls that set the state of a global random generator."""
STREAMS = {"torch": "torch.manual_seed", "random": "random.seed", "numpy": "numpy.random.seed"}
"""Modules with a global random generator, and the function that seeds it."""
MOST_SEEDS = 4
"""Most seeds to try for a script without one."""
FURTHER_STATES = 2
"""Number of further states from which an unseeded drawing candidate must fail."""
FIRST_STATE = 610_000_000
"""Far from the seeds that scripts use."""


def states() -> Iterator[int]:
    """Numbers of random states, all different."""
    return itertools.count(FIRST_STATE)


def depends_on_state(tree: ast.Module) -> bool:
    """Whether no call in a script sets the state of a global random generator."""
    return next(setters(tree), None) is None


def setters(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls in a script that set the state of a global random generator."""
    names = imported(tree)
    packages = {path.partition(".")[0] for path in names.values()}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = full_name(call.func, names)
        if name.partition(".")[0] in packages and name.rpartition(".")[2] in SETTERS:
            yield call


def holds(candidate: Source, judge: Callable[[str], tuple[bool, bool]]) -> bool:
    """Whether a candidate fails; an unseeded drawing one must fail from several states.

    ``judge`` returns for a text, each time from another state, whether it fails, and whether it draws.
    """
    fails, draws = judge(candidate.text)
    if fails and draws and depends_on_state(candidate.tree):
        return all(judge(candidate.text)[0] for _ in range(FURTHER_STATES))
    return fails


def with_seed(source: Source, number: int = 0) -> Source:
    """The script with a seed, after its first imports, for torch and for each imported module that draws numbers."""
    names = imported(source.tree)
    packages = {"torch", *(path.partition(".")[0] for path in names.values())}
    lines: list[str] = []
    for module, seed in STREAMS.items():
        if module in packages:
            lines += [f"{seed}({number})"] if names.get(module) == module else [f"import {module}", f"{seed}({number})"]
    return source.with_lines(_place(source.tree), "\n".join(lines))


def seeded(source: Source, check: Callable[[Sequence[Source]], Sequence[bool | None]]) -> Source:
    """The script with an added seed with which it still fails; unchanged if it fails with none of the first seeds."""
    if not depends_on_state(source.tree):
        return source
    for number in range(MOST_SEEDS):
        candidate = with_seed(source, number)
        if check([candidate])[0]:
            return candidate
    return source


def _place(tree: ast.Module) -> int:
    """The index after a script's docstring and its first imports."""
    for place, statement in enumerate(tree.body):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not (is_text or is_of_the_future(statement) or isinstance(statement, ast.Import | ast.ImportFrom)):
            return place
    return len(tree.body)
