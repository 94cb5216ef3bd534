"""What is left of a difference after further runs, one of which shows that a part of it moves by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from minimizer.engine.between.exact_runs import ALL, ExactRuns
from minimizer.engine.child.exact_log import ExactLog, Look
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome


class Runs:
    """A script whose compiled call loses an item, and whose ``id`` is another number in some runs: here, after the first two."""

    def __init__(self) -> None:
        self.eager_runs = 0

    def judge(self, requests: Sequence[dict[str, Any]], **_: object) -> list[Outcome]:
        return [Outcome(ending=Ending.SAME, exact=self._log(request)) for request in requests]

    def _log(self, request: dict[str, Any]) -> ExactLog:
        is_eager = request.get("eager") == ALL
        self.eager_runs += is_eager
        number = self.eager_runs if is_eager and self.eager_runs > 2 else 1 if is_eager else 2
        state = {
            "id": {"type": "int", "value": str(number)},
            "items": {"type": "list", "length": "1" if "eager" in request else "0"},
        }
        looks = [
            Look(event=event, unit=1, number=1, full=True, changed=changed)
            for event, changed in (("call entry", {}), ("call exit", state), ("end", {}))
        ]
        return ExactLog(looks=looks, calls=1)


def test_an_id_that_two_eager_runs_share_by_chance_does_not_hide_what_is_lost() -> None:
    found = ExactRuns(cast(Executor, Runs()), Path("script.py"), timeout=1).compare("").found
    assert found is not None and found.call == 1
    assert found.difference.paths == {"items"}
