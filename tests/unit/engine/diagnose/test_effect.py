"""What a workaround is said to do to the program."""

from __future__ import annotations

from typing import Any

from minimizer.engine.child.bounded import parse
from minimizer.engine.child.protocol import Finished
from minimizer.engine.diagnose.effect import effect_of
from minimizer.report.model import Workaround

LAYERS = [f"layers.{n}.{part}" for n in range(3) for part in ("norm", "act")]


def run(
    graphs: int,
    breaks: int,
    modules: list[str],
    *,
    eager: float | None = 0.004,
    compiled: float | None = 0.001,
    untimed: str = "",
) -> Finished:
    health: dict[str, Any] = {
        "breaks": breaks, "eager_seconds": eager, "compiled_seconds": compiled, "untimed": untimed
    }  # fmt: skip
    checked = {"graphs": graphs, "calls_made": graphs}
    return parse(Finished, {"health": health, "checked": checked, "modules": modules})


def test_a_graph_break_that_sends_other_layers_to_eager_is_said() -> None:
    found = effect_of(run(1, 0, LAYERS), run(2, 1, ["layers.0.norm"], eager=0.001, compiled=0.0005))
    change = Workaround(code="x", verified=True, what="the module layers.0.act runs in eager")
    workaround = found.told(change, "layers.0.act")
    assert workaround.what == (
        "the module layers.0.act runs in eager; 2 graphs in place of 1, 1 graph break in place of 0; "
        "layers 1 and 2 (norm) and layers 1 and 2 (act) run in eager as well; "
        "one call of what is compiled takes 3.50 ms with it and 1.00 ms without"
    )
    assert (workaround.graphs_before, workaround.graphs_with, workaround.breaks_before, workaround.breaks_with) == (
        1,
        2,
        0,
        1,
    )
    assert workaround.eager_modules[0] == "layers.0.act"
    assert (workaround.seconds_before, workaround.seconds_with) == (0.001, 0.0035)


def test_a_change_that_breaks_no_graph_sends_nothing_to_eager() -> None:
    found = effect_of(run(1, 0, LAYERS), run(1, 0, LAYERS))
    assert found.eager == ()
    assert found.sentences("layers.0.act")[0] == "as before 1 graph and 0 graph breaks"


def test_a_module_of_which_all_is_gone_stands_for_those_in_it() -> None:
    found = effect_of(run(1, 0, ["a", "a.act", "a.norm", "b", "b.act"]), run(1, 1, ["b"]))
    assert found.eager == ("a", "b.act")


def test_why_nothing_could_be_timed_is_said() -> None:
    why = "no call of a compiled graph returned"
    quiet, busy = run(1, 0, LAYERS), run(1, 0, LAYERS, eager=None, compiled=None, untimed=why)
    for found in (effect_of(busy, quiet), effect_of(quiet, busy)):
        assert found.seconds is None
        assert found.sentences("")[-1] == f"what it costs in time was not measured, since {why}"
