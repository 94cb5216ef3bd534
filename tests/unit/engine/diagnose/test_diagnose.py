"""The diagnosis without torch: which finding counts, and what a lack of time leaves."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest
from sample_script import SCRIPT

from minimizer.engine import fold
from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.diagnose import Patient, diagnose
from minimizer.engine.diagnose.effect import Effect
from minimizer.engine.diagnose.knobs import KNOBS, groups, turned
from minimizer.engine.diagnose.original import RerunScript, passes_needed
from minimizer.engine.diagnose.paste import Pasted
from minimizer.engine.diagnose.sets import Answer, Seen, Setting
from minimizer.engine.diagnose.stages import find_part
from minimizer.engine.diagnose.workaround import Change, Tried, first_that_helps
from minimizer.engine.findings import Diagnosed
from minimizer.engine.journal import Journal
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.user_script.syntax import UNPARSED
from minimizer.errors import BudgetExceeded
from minimizer.report.culprit import Culprit, Source
from minimizer.report.instances import Instances
from minimizer.report.model import Failure, Report, Reproducibility, Rung
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Stage

RELU = "lowerings/aten.relu.default"
ANSWERS = {True: Answer.FAILS, False: Answer.PASSES, None: Answer.OTHER}


class Trials:
    """A compiler in which some parts act, and the failure shows by rule (None: another one does); it has all knobs, all off."""

    def __init__(
        self, fails: Callable[[Setting], bool | None], parts: Sequence[str] = (RELU,), setup: str = ""
    ) -> None:
        self._fails, self._parts, self.setup = fails, parts, setup
        self.backend: str | None = None
        self.asked: list[Setting] = []

    def __call__(self, settings: Sequence[Setting]) -> list[Seen]:
        self.asked += settings
        return [Seen(ANSWERS[self._fails(s)], {p: p not in s.off for p in self._parts}) for s in settings]

    def values(self, expressions: Sequence[str]) -> dict[str, str]:
        return dict.fromkeys(expressions, "False")

    def under(self, backend: str) -> Trials:
        self.backend = backend
        return self


class Original:
    """A script that passes by rule."""

    def __init__(self, passes: Callable[[str], Tried]) -> None:
        self._passes = passes
        self.tried: list[str] = []

    def run(self, text: str) -> Tried:
        ast.parse(text)
        self.tried.append(text)
        return self._passes(text)

    def effect(self, text: str) -> Effect | None:
        return Effect((0.001, 0.0025), (1, 2), (0, 1), ("act",)) if text in self.tried else None

    def passes_without(self, parts: list[str]) -> bool:
        return True


def folded(patient: Patient, report: Report, out: Path) -> None:
    """Diagnose the failure of a report, which takes what is found."""
    journal = Journal(FolderSink(out), report, Clock(900))

    def keep(found: Diagnosed) -> None:
        journal.record(fold.diagnosed(journal.fault, found))

    diagnose(patient, fold.failing(journal.fault, report.environment), journal, seconds=60, keep=keep)


@pytest.fixture
def diagnosed(tmp_path: Path) -> Callable[..., Report]:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)

    def run(trials: Trials, original: Original, **changes: object) -> Report:
        report = Report(
            failure=Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR),
            culprits=[
                Culprit(module="act", nodes=["relu"], ops=["aten.relu"], source=Source(file="script.py", line=6))
            ],
            ladder=[Rung(backend="aot_eager", outcome="passes", seconds=1.0)],
        ).model_copy(update=changes)
        folded(Patient(trials, original, path), report, tmp_path / "out")
        return report

    return run


def without(part: str) -> Callable[[Setting], bool]:
    """Fails as long as a part is on."""
    return lambda s: part not in s.off and all(part in on for kind, on in s.only if part.startswith(kind))


# Which finding counts ------------------------------------------------------------------------------------------------


def test_a_lowering_is_blamed() -> None:
    blame = find_part(Trials(without(RELU)), Stage.INDUCTOR)

    assert (blame.subsystem, blame.items, blame.confirmed) == ("lowerings", [RELU], True)
    assert blame.what == "the lowering of, or the code generated for, aten.relu.default"


def test_a_wrong_fusion_is_not_blamed_on_what_is_fused() -> None:
    pair = "fusion/aten.mul+aten.sum"
    parts = (pair, "lowerings/aten.mul.Tensor", "lowerings/aten.sum.default")

    blame = find_part(Trials(lambda s: all(without(part)(s) for part in parts), parts), Stage.INDUCTOR)

    assert blame.items == [pair]


def test_a_pass_is_blamed_although_another_lowering_hides_it() -> None:
    part = "post_grad_passes/reinplace"
    trials = Trials(lambda s: without(part)(s) and without(RELU)(s), (part, RELU))

    assert find_part(trials, Stage.INDUCTOR).items == [part]


def test_a_lowering_is_blamed_although_a_pass_puts_its_operator_there() -> None:
    part = "joint_graph_passes/pass_pattern_0:attention"

    class Replaces(Trials):
        def __call__(self, settings: Sequence[Setting]) -> list[Seen]:
            seen = super().__call__(settings)
            return [
                Seen(one.answer, {p: on for p, on in one.parts.items() if p != RELU or part not in s.off})
                for s, one in zip(settings, seen, strict=True)
            ]

    trials = Replaces(lambda s: without(part)(s) and without(RELU)(s), (part, RELU))

    assert find_part(trials, Stage.INDUCTOR).items == [RELU]


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (lambda s: True, "The failure stays whatever pass, fusion or lowering is left out."),
        (lambda s: False, "The failure does not show while the parts of the compiler are watched."),
        (
            lambda s: None if s.off else True,
            "The failure stays where a pass, fusion or lowering can be left out; without some of them the program fails in "
            "another way.",
        ),
        (lambda s: None, "Under the backend alone the program fails in another way: its parts were not searched."),
    ],
)
def test_why_nothing_is_blamed_is_told(fails: Callable[[Setting], bool | None], said: str) -> None:
    assert find_part(Trials(fails), Stage.INDUCTOR).what == said


def test_decompositions_are_searched_below_inductor() -> None:
    trials = Trials(without("decomposition/aten.silu.default"), ("decomposition/aten.silu.default", RELU))

    blame = find_part(trials, Stage.DECOMPOSITION)

    assert blame.what == "the decomposition of aten.silu.default"
    assert trials.backend == "aot_eager_decomp_partition"


@pytest.mark.parametrize("stage", [Stage.DYNAMO, Stage.AOT_AUTOGRAD, Stage.CUSTOM_BACKEND, Stage.UNKNOWN])
def test_stages_without_parts_are_unknown_and_cost_nothing(stage: Stage) -> None:
    trials = Trials(lambda s: True)

    assert find_part(trials, stage).subsystem == "unknown"
    assert not trials.asked


# The sweep -----------------------------------------------------------------------------------------------------------


def test_knobs_are_turned_away_from_what_they_are_set_to() -> None:
    name = KNOBS[0].name

    assert [t.value for t in turned({name: "False"}, "cpu")] == ["True"]
    assert [t.value for t in turned({name: "True"}, "cpu")] == ["False"]


def test_knobs_of_another_device_or_version_are_left_alone() -> None:
    on_cpu = turned({knob.name: "False" for knob in KNOBS}, "cpu")

    assert not [t for t in on_cpu if t.knob.device == "cuda"]
    assert turned({}, "cpu") == []


def test_every_turned_knob_is_in_one_group() -> None:
    knobs = turned({knob.name: "False" for knob in KNOBS}, "cuda")

    lines = [line for group in groups(knobs) for line in group]

    assert sorted(lines) == sorted(knob.line for knob in knobs)


# The whole -----------------------------------------------------------------------------------------------------------


def test_a_change_that_leaves_no_program_is_not_tried() -> None:
    good, broken = Change(Pasted("x = 1", "", ""), ""), Change(Pasted("x = 1,)", "", ""), "")
    tried: list[str] = []

    def try_(text: str) -> Tried:
        tried.append(text)
        return Tried(passes=True, frames=1)

    assert first_that_helps(iter([broken, good]), try_) is good
    assert tried == ["x = 1"]


def test_the_cheapest_change_that_helps_is_the_workaround(diagnosed: Callable[..., Report]) -> None:
    original = Original(lambda text: Tried("make_fallback" in text, frames=1))

    report = diagnosed(Trials(without(RELU)), original)

    assert report.workaround is not None
    assert report.workaround.verified
    assert report.workaround.code == (
        "import torch._inductor.lowering\n"
        "torch._inductor.lowering.make_fallback(torch.ops.aten.relu.default, warn=False, override_decomp=True)"
    )
    assert report.workaround.what.endswith("takes 2.50 ms with it and 1.00 ms without")
    assert (report.workaround.seconds_before, report.workaround.seconds_with) == (0.001, 0.0025)
    is_change = ["make_fallback" in text for text in original.tried]
    assert is_change == [True, False], "before the module, which would break the graph, and is run for the ablation"
    assert report.workaround.diff.startswith("--- a/script.py\n+++ b/script.py\n@@ ")
    added = [
        line[1:] for line in report.workaround.diff.splitlines() if line.startswith("+") and "script.py" not in line
    ]
    assert "\n".join(added) == report.workaround.code
    assert report.blame is not None and report.blame.confirmed_on_script
    assert report.culprits[0].what == report.blame.what
    assert {flag.outcome for flag in report.flags} == {"fails"}


@pytest.mark.parametrize(
    ("culprit", "operators", "what"),
    [
        (Culprit(ops=["aten.relu", "aten.sum"], what="a hook"), ["aten.relu"], "a hook"),
        (Culprit(ops=["aten.sum"]), ["aten.sum"], ""),
    ],
)
def test_the_culprit_of_a_script_has_the_operator_that_is_blamed(
    culprit: Culprit, operators: list[str], what: str, diagnosed: Callable[..., Report]
) -> None:
    """One that is known already stays, and is shown: words beside it would take its place."""
    report = diagnosed(Trials(without(RELU)), Original(lambda text: Tried(passes=False)), culprits=[culprit])
    assert report.blame is not None and report.blame.confirmed
    assert (report.culprits[0].operators, report.culprits[0].what) == (operators, what)


def test_each_kind_of_parts_that_acts_is_switched_off_as_a_whole(diagnosed: Callable[..., Report]) -> None:
    parts = (RELU, "post_grad_passes/remove_noop_ops", "decomposition/aten.silu.default")

    report = diagnosed(Trials(without(RELU), parts), Original(lambda text: Tried(passes=False)))

    told = [(one.what, one.outcome) for one in report.ablation if one.of == "program"]
    assert told == [("post_grad_passes", "fails"), ("lowerings", "passes")], "and of another stage none"


def test_the_workaround_comes_before_the_kinds_which_take_half_of_the_time(diagnosed: Callable[..., Report]) -> None:
    done: list[str] = []

    def fails(setting: Setting) -> bool:
        if any(not on for _, on in setting.only):
            done.append("kinds")
        return without(RELU)(setting)

    def passes(text: str) -> Tried:
        done.append("script")
        return Tried("make_fallback" in text, frames=1)

    diagnosed(Trials(fails), Original(passes))
    assert "kinds" in done[done.index("script") :]
    assert done[-2:] == ["kinds", "script"], "the module in eager comes last"


@pytest.mark.parametrize("shows", [True, False])
def test_nothing_is_said_of_kinds_where_the_failure_does_not_show_as_it_is(
    diagnosed: Callable[..., Report], shows: bool
) -> None:
    report = diagnosed(Trials(lambda s: shows), Original(lambda text: Tried(passes=False)))
    assert bool([one for one in report.ablation if one.of == "program"]) is shows


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [
        (Tried(passes=True, frames=1), ["passes"]),
        (Tried(passes=False, frames=1), []),
        (Tried(passes=True, frames=0), []),
        (Tried(passes=True, frames=None), []),
    ],
    ids=["it passes", "it fails", "nothing is compiled", "nobody knows what is compiled"],
)
def test_the_script_is_run_once_with_the_module_at_fault_in_eager(
    diagnosed: Callable[..., Report], ended: Tried, outcome: list[str]
) -> None:
    line = "torch._inductor.config.pattern_matcher = True"
    original = Original(lambda text: ended if "act = torch.compiler.disable" in text else Tried(line in text, frames=1))

    report = diagnosed(Trials(lambda s: line not in s.lines), original)

    assert [one.outcome for one in report.ablation if (one.what, one.of) == ("act", "script")] == outcome
    assert sum("torch.compiler.disable" in text for text in original.tried) == 1
    assert report.workaround is not None and report.workaround.code == line


def test_a_script_is_not_run_where_the_module_cannot_be_left_to_eager(
    diagnosed: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minimizer.engine.diagnose.disable_module", lambda *_: Pasted("x = 1,)", "", ""))
    report = diagnosed(Trials(without(RELU)), Original(lambda text: Tried(passes=True, frames=1)))
    assert not [one for one in report.ablation if one.of == "script"]


def test_a_change_helps_where_nobody_counts_what_is_compiled() -> None:
    one = Change(Pasted("x = 1", "", ""), "")
    assert first_that_helps(iter([one]), lambda _: Tried(passes=True, frames=None)) is one


def test_a_judge_that_counts_no_graphs_says_so(tmp_path: Path) -> None:
    class Reruns:
        def switched(self, changed: Sequence[tuple[str, object]]) -> list[tuple[None, Outcome]]:
            return [(None, Outcome(ending=Ending.SAME)) for _ in changed]

    script = RerunScript(cast(Rerun, Reruns()), tmp_path / "script.py", ())
    assert script.run("x = 1") == Tried(passes=True, frames=None)


def test_a_setting_that_mends_the_program_is_tried_on_the_script(diagnosed: Callable[..., Report]) -> None:
    line = "torch._inductor.config.pattern_matcher = True"
    original = Original(lambda text: Tried(line in text, frames=1))

    report = diagnosed(Trials(lambda s: line not in s.lines), original)

    assert report.workaround is not None and report.workaround.code == line
    assert [flag.name for flag in report.flags if flag.outcome == "passes"] == [
        "torch._inductor.config.pattern_matcher"
    ]


def test_equal_modules_are_taken_out_together_where_one_alone_does_not_help(diagnosed: Callable[..., Report]) -> None:
    instances = Instances(wrong=["blocks.0", "blocks.1", "blocks.2"], compared="modules")
    culprit = Culprit(module="blocks.2.act", ops=["aten.relu"], instances=instances)
    original = Original(lambda text: Tried("for equal in" in text, frames=1))

    report = diagnosed(Trials(lambda s: True), original, culprits=[culprit])

    assert report.workaround is not None
    assert report.workaround.code == "for equal in model.blocks:\n    equal.act = torch.compiler.disable(equal.act)"
    assert ["blocks[2].act" in text for text in original.tried] == [True, False]


def test_a_setting_is_said_to_hold_for_eager_where_it_does(diagnosed: Callable[..., Report]) -> None:
    line = "torch.use_deterministic_algorithms(True, warn_only=True)"

    report = diagnosed(Trials(lambda s: line not in s.lines), Original(lambda text: Tried(line in text, frames=1)))

    assert report.workaround is not None and report.workaround.code == line
    assert report.workaround.what.startswith("a setting that holds for all that the script computes, in eager too")


def test_a_setting_that_only_the_program_shows_is_put_back(diagnosed: Callable[..., Report]) -> None:
    """A context, or a module that the script imports, has set it while the graph was compiled."""
    name = "torch._inductor.config.debug_fusion"
    line = f"{name} = False"

    report = diagnosed(
        Trials(lambda s: line not in s.lines, setup=f"{name} = True"), Original(lambda text: Tried(False, frames=1))
    )

    assert [(flag.value, flag.outcome) for flag in report.flags if flag.name == name] == [("False", "passes")]


def test_no_compiler_is_no_workaround(diagnosed: Callable[..., Report]) -> None:
    original = Original(lambda text: Tried("force_eager" in text))

    report = diagnosed(Trials(lambda s: True), original)

    assert report.workaround is not None
    assert report.workaround.what.startswith("None but switching the compiler off")
    assert not any("force_eager" in text for text in original.tried)


def test_disabling_all_that_is_compiled_is_no_cheap_way_out(diagnosed: Callable[..., Report]) -> None:
    report = diagnosed(Trials(lambda s: True), Original(lambda text: Tried(True, frames="aot_eager" in text)))

    assert report.workaround is not None
    assert report.workaround.code == 'torch.compile(..., backend="aot_eager")'


def test_no_workaround_is_said_plainly(diagnosed: Callable[..., Report]) -> None:
    report = diagnosed(Trials(lambda s: True), Original(lambda text: Tried(False)))

    assert report.workaround is not None
    assert (report.workaround.code, report.workaround.verified) == ("", False)
    assert report.workaround.what.startswith("None but switching the compiler off: the script fails with every other")


def test_a_diagnosis_that_runs_out_of_time_says_so_and_keeps_what_it_found(diagnosed: Callable[..., Report]) -> None:
    def late(text: str) -> Tried:
        raise BudgetExceeded("late")

    report = diagnosed(Trials(without(RELU)), Original(late))

    assert report.blame is not None and report.blame.items == [RELU]
    assert report.workaround is None
    assert any("ran out of its time" in note for note in report.notes)


@pytest.mark.parametrize("slow", ["blame", "sweep"])
def test_a_search_that_takes_too_long_leaves_time_for_a_workaround(slow: str, diagnosed: Callable[..., Report]) -> None:
    class Slow(Trials):
        def __call__(self, settings: Sequence[Setting]) -> list[Seen]:
            is_sweep = any(setting.lines for setting in settings)
            if is_sweep == (slow == "sweep"):
                raise BudgetExceeded("late")
            return super().__call__(settings)

    report = diagnosed(Slow(lambda s: True), Original(lambda text: Tried("aot_eager" in text, frames=1)))

    assert report.workaround is not None
    assert report.workaround.code == 'torch.compile(..., backend="aot_eager")'
    assert (report.blame is None) == (slow == "blame")
    assert any("looking for the part of the compiler to blame" in note for note in report.notes) == (slow == "blame")


def test_a_script_of_a_newer_python_has_its_part_to_blame_and_its_settings_all_the_same(tmp_path: Path) -> None:
    """What can be asked of the minimal program needs nothing of the script's text."""
    (tmp_path / "newer.py").write_text("x = = 1\n")
    report = Report(failure=Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR))
    patient = Patient(Trials(without(RELU)), Original(lambda text: Tried(True)), tmp_path / "newer.py")

    folded(patient, report, tmp_path)

    assert report.blame is not None and report.blame.items == [RELU]
    assert report.flags and report.ablation
    assert report.notes == [f"No workaround was tried on the script: {UNPARSED}."]


def test_a_script_that_is_gone_has_its_part_to_blame_all_the_same(tmp_path: Path) -> None:
    report = Report(failure=Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR))
    patient = Patient(Trials(without(RELU)), Original(lambda text: Tried(True)), tmp_path / "gone.py")

    folded(patient, report, tmp_path)

    assert report.blame is not None and report.blame.items == [RELU]
    assert any("cut short" in note for note in report.notes)


def test_the_budget_ends_early_within_a_limit(tmp_path: Path) -> None:
    journal = Journal(FolderSink(tmp_path), Report(), Clock(900))

    with journal.clock.within(0.0), pytest.raises(BudgetExceeded):
        journal.watch()
    journal.watch()
    assert journal.clock.left > 800


def test_a_flaky_script_must_pass_more_often() -> None:
    assert passes_needed(Reproducibility(failed=3, runs=3)) == 1
    assert passes_needed(Reproducibility(failed=1, runs=5)) > 5
