"""The verdict in the light of plain runs: each rule once where nothing before it decides, the runs that it asks, and its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from canned_surveys import Strong

from minimizer.engine.child.environment import Place
from minimizer.engine.child.protocol import Checked
from minimizer.engine.child.tracebacks import last_traceback
from minimizer.engine.survey.cases import Settled
from minimizer.engine.survey.plain_pair import PlainPair
from minimizer.engine.survey.plain_runs import End, PlainRuns
from minimizer.engine.survey.rules import decide
from minimizer.engine.survey.verdict_rules import PLAIN
from minimizer.engine.survey.ways import COMPILED, DISABLED, FORCED, SETTINGS, Way
from minimizer.vocabulary import Status

CLOCK = "assert time.perf_counter() - begun < 1"
SCRIPT = f"import time\nbegun = time.perf_counter()\nf()\n{CLOCK}\n"
HEALTHY = Settled(Status.HEALTHY, None, "Healthy.", Checked(frames=1, calls=2))
PASSES, ABORTS, LOST = (
    End(COMPILED, 0, None, "", 1.0),
    End(COMPILED, 128 + 6, None, "", 1.0),
    End(COMPILED, None, None, "no room", 1.0),
)
OVERRAN = End(COMPILED, None, None, "it did not end", 5000.0, overran=True)  # fmt: skip


PLACE = Place(python=Path("python"), sandbox=Strong(), scratch=Path("scratch"))


def raises(error: str, line: str = "f()") -> End:
    number = SCRIPT.splitlines().index(line) + 1
    said = f'Traceback (most recent call last):\n  File "script.py", line {number}, in <module>\n    {line}\n{error}'
    return End(COMPILED, 1, last_traceback(said), "", 1.0)


BAD, OFF, SLOW = raises("ValueError: bad"), raises("AssertionError: off"), raises("AssertionError: slow", CLOCK)
DENIED = raises("PermissionError: [Errno 13] Permission denied: '/data'")
STANCE, AGAIN = [FORCED.name], [COMPILED.name, FORCED.name]
EACH = [f"plain run, compiled, with {way.name}" for way in SETTINGS]
# The rule that decides, ends with the compiler and without (the last stays), the further runs, and what the verdict or a note says.
VERDICTS: list[tuple[str, Sequence[End], Sequence[End], list[str], str]] = [
    ("it ends soon in eager, and twice not with the compiler", [OVERRAN], [PASSES], [COMPILED.name], "in 2 of 2 runs, and ends well after 1 s"),
    ("a run says nothing", [OVERRAN, PASSES], [PASSES], [COMPILED.name], "says nothing: it did not end."),
    ("a run says nothing", [BAD], [LOST], [], "The plain run, TORCHDYNAMO_DISABLE=1, says nothing: no room."),
    ("it passes with the compiler and without", [PASSES], [PASSES], [], "Healthy."),
    ("it passes with the compiler and by the stance", [PASSES], [BAD, PASSES], STANCE, "The script looks at the compiler"),
    ("a check of the compiler fails in eager", [PASSES], [OFF], STANCE, "it is about the compiler"),
    ("a second pair ends otherwise", [BAD, PASSES], [PASSES], STANCE + AGAIN, "with the compiler ValueError: bad, then it ends well"),
    ("the sandbox denies it something in eager", [BAD], [DENIED], STANCE + AGAIN, "With the compiler: ValueError: bad. The sandbox keeps it"),
    ("it fails in eager too", [BAD], [BAD], STANCE + AGAIN, "fails without the compiler too: ValueError: bad. Fix that first."),
    ("its check reads a clock or a counter of the compiler", [SLOW], [PASSES], STANCE + AGAIN, "a clock or a counter"),
    ("it fails in eager only", [PASSES], [BAD], STANCE + AGAIN, "missing when compiled (ValueError: bad)"),
    ("it fails with the compiler only", [ABORTS], [PASSES], STANCE + AGAIN + EACH, "(SIGABRT), and in none of 2 without it. Our own runs"),
]  # fmt: skip


class CannedRuns:
    """Plain runs with known ends: of those with the compiler, and of those without."""

    def __init__(self, compiled: Sequence[End], eager: Sequence[End]) -> None:
        self._ends = {True: list(compiled), False: list(eager)}
        self.text, self.place = SCRIPT, PLACE
        self.asked: list[str] = []
        self.notes: list[str] = []
        self.note = self.notes.append

    def pair(self) -> tuple[End, End]:
        return self._next(COMPILED), self._next(DISABLED)

    def ask(self, ways: Sequence[Way], *earlier: End) -> list[End]:
        self.asked += [way.name for way in ways]
        return [self._next(way) for way in ways]

    def _next(self, way: Way) -> End:
        ends = self._ends[way not in (DISABLED, FORCED)]
        end = ends.pop(0) if len(ends) > 1 else ends[0]
        return replace(end, way=way)


@pytest.mark.parametrize(("name", "compiled", "eager", "asked", "says"), VERDICTS, ids=[row[0] for row in VERDICTS])
def test_the_first_rule_that_decides_counts(
    name: str, compiled: Sequence[End], eager: Sequence[End], asked: list[str], says: str
) -> None:
    runs = CannedRuns(compiled, eager)
    rule, found = decide(PLAIN, PlainPair(HEALTHY, cast(PlainRuns, runs), *runs.pair()))
    assert (rule.name, runs.asked) == (name, asked)
    assert says in " ".join([found.summary, *runs.notes])


def test_each_rule_is_reached() -> None:
    assert [rule.name for rule in PLAIN] == list(dict.fromkeys(name for name, *_ in VERDICTS))
