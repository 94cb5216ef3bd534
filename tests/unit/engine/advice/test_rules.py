"""Which observations are findings: the rules by which a healthy program has none."""

from __future__ import annotations

from typing import Any

import pytest

from minimizer.engine.advice.guards import guard_of
from minimizer.engine.advice.rules import breaks_per_call, causes
from minimizer.engine.child.compilations import Break, Recompile, StackLine
from minimizer.engine.child.protocol import Health, Timed

LINE = StackLine(file="train.py", line=12, code="if y.sum() > 0:", function="forward")
SKIPPED = "Attempted to call function marked as skipped\n  Explanation: {}\n  Hint: see elsewhere"
SIZE = "0/0: tensor 'x' size mismatch at index {index}. expected {old}, actual {new}"


def broken(reason: str, **changes: Any) -> Break:
    return Break(**({"reason": reason, "stack": [LINE], "function": "forward"} | changes))


def again(guard: str, **changes: Any) -> Recompile:
    return Recompile(**({"function": "step", "frame": "2", "guard": guard, "stack": [LINE], "seconds": 2.0} | changes))


def found(**health: Any) -> list[Any]:
    return [cause.finding for cause in causes(Health(**health), "", "train.py")]


@pytest.mark.parametrize(
    "reason",
    [
        "Call to `torch._dynamo.graph_break()`\n  Explanation: User-inserted graph break.",
        "Skip calling `torch.compiler.disable()`d function",
        "Attempted to call function marked as skipped\n  Explanation: … `Adam.step` in file `torch/optim/lr_scheduler.py`",
        "Attempted to call function marked as skipped\n  Explanation: … in file `torch/autograd/profiler.py`",
    ],
)
def test_a_break_that_is_asked_for_or_torchs_own_is_no_finding(reason: str) -> None:
    assert not found(broken=[broken(reason)])


def test_a_hint_that_names_disable_does_not_hide_a_break() -> None:
    assert found(broken=[broken("Something\n  Hint: use `torch.compiler.disable()` around it")])


def test_a_break_without_a_line_of_the_users_is_no_finding() -> None:
    assert not found(broken=[broken("Unsupported", stack=[])])


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("generic_jump TensorVariable()", "a branch depends on the value of a tensor"),
        (
            "Failed to trace builtin operator\n  Dynamo does not know how to trace builtin operator `print`",
            "`print` is",
        ),
        ("Unsupported Tensor.item() call with capture_scalar_outputs=False", "`.item()` takes a number out"),
        ("Something new\n  Explanation: nobody knows.", "Dynamo says: nobody knows."),
        (
            SKIPPED.format(
                "Dynamo does not know how to trace the builtin `time.perf_counter.` This function is either a Python builtin (e.g. _warnings.warn) or"
            ),
            "since `time.perf_counter` is called, which Dynamo cannot trace",
        ),
        (
            SKIPPED.format("Dynamo does not know how to trace the Python builtin `_warnings.warn`."),
            "since a warning is given",
        ),
        (
            SKIPPED.format(
                "Dynamo developers have intentionally marked that the function `save` in file `torch/serialization.py` should not be traced."
            ),
            "since `save` is called, which Dynamo does not trace",
        ),
        (
            "Failed to trace builtin operator\n  Explanation: Dynamo does not know how to trace builtin operator `open` with argument types ['str']\n  Hint: If you are attempting to call a logging function (e.g. `print`), you can",
            "since `open` is called",
        ),
        (
            "Unsupported context manager\n  Explanation: Dynamo does not know how to enter a `lock` context manager.",
            "since `with` enters a `lock`, which Dynamo cannot",
        ),
        (
            "Observed exception\n  Explanation: Dynamo found no exception handler\n\n  Developer debug context: raised exception TypeError(\"'int' and 'int'\")\n",
            "since tracing it raises `TypeError(\"'int' and 'int'\")`",
        ),
        (
            "Data dependent operator\n  Explanation: Operator `aten._local_scalar_dense.default` has a non-Tensor output",
            "a number is taken out",
        ),
        (
            "torch.* op returned non-Tensor\n  Explanation: no\n\n  Developer debug context: target: <function fork_rng at 0x7f>",
            "since `fork_rng` is called, whose result is no tensor",
        ),
        (
            "using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops=False`",
            "gradients are taken within",
        ),
        (
            "Something new\n  Explanation: nobody knows.\n  Hint: avoid `_warnings.warn`, logging.Logger and np.zeros",
            "Dynamo says: nobody knows.",
        ),
    ],
)
def test_a_break_is_told_with_its_reason_function_and_line(reason: str, why: str) -> None:
    (finding,) = found(broken=[broken(reason, passes=24)], calls=6)
    assert finding.kind == "graph_breaks" and why in finding.what and "splits `forward`" in finding.what
    assert (finding.source.file, finding.source.line) == ("train.py", 12)
    assert (finding.cost.value, finding.cost.unit) == (4.0, "graph breaks per call")


def test_a_function_that_is_given_up_is_told_so() -> None:
    (finding,) = found(broken=[broken("`print`", is_whole=True)])
    assert "keeps `forward` in eager as a whole" in finding.what


def test_breaks_per_call_count_only_what_can_be_mended() -> None:
    health = Health(
        broken=[broken("generic_jump", passes=12), broken("Call to `torch._dynamo.graph_break()`", passes=6)], calls=6
    )
    assert breaks_per_call(health) == 2.0


HEALTHY = {
    "one for a size that is dynamic from then on": [again(SIZE.format(index=0, old=8, new=16))],
    "one more for size 1": [again(SIZE.format(index=0, old=8, new=16)), again("0/1: 2 <= x.size()[0]")],
    "two sizes": [again(SIZE.format(index=dim, old=8, new=16)) for dim in (0, 1)],
    "train and eval": [again("0/0: self.training == True"), again("0/1: GLOBAL_STATE changed: grad_mode")],
    "a switch between two phases": [again(f"0/{n}: self.phase == 'critic'") for n in range(4)],
    "several functions, each once": [again("0/0: f == 0.5", frame=str(number)) for number in range(9)],
}


@pytest.mark.parametrize("recompiled", HEALTHY.values(), ids=HEALTHY.keys())
def test_recompiles_that_a_healthy_program_has_are_no_finding(recompiled: list[Recompile]) -> None:
    assert not found(recompiled=recompiled)


def test_a_guard_that_fails_again_and_again_is_a_finding_with_its_values_and_seconds() -> None:
    guards = [f"2/{n}: self.param_groups[0]['lr'] == {0.1 / (n + 1):.3g}  # in step" for n in range(7)]
    (finding,) = found(recompiled=[*map(again, guards), again(guards[-1], refused=True, seconds=0.0)])
    assert finding.kind == "recompiles"
    assert (
        "`step` was compiled again 7 times, since `self.param_groups[0]['lr']` changes (0.1, 0.05, 0.0333"
        in finding.what
    )
    assert "limit was reached" in finding.what
    assert (finding.cost.value, finding.cost.unit, finding.source.line) == (14.0, "s", 12)


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        (SIZE, "the size of `x` changes in dimension 0 (1, 2, 3)"),
        ("0/0: tensor 'x' rank mismatch. expected {old}, actual {new}", "the rank of `x` changes (1, 2, 3)"),
    ],
)
def test_what_changes_about_a_tensor_is_told(guard: str, words: str) -> None:
    guards = [guard.format(index=0, old=n, new=n + 1) for n in (1, 2, 3)]
    (finding,) = found(recompiled=[*map(again, guards)])
    assert words in finding.what


def test_parts_of_a_function_behind_a_graph_break_count_with_it() -> None:
    parts = [again(f"{frame}/{n}: self.step == {n}", frame=str(frame)) for frame in (1, 2) for n in range(3)]
    (finding,) = found(recompiled=parts)
    assert "compiled again 6 times" in finding.what and finding.cost.value == 12.0


def test_the_line_that_made_the_guard_goes_before_the_call() -> None:
    made = StackLine(file="model.py", line=3, code="self.step += 1", function="forward")
    (finding,) = found(recompiled=[again(f"0/{n}: self.step == {n}", made_by=[made]) for n in range(3)])
    assert (finding.source.file, finding.source.code) == ("model.py", "self.step += 1")


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        ("2/0: self.param_groups[0]['lr'] == 0.01   # for group in self.param_groups:", "self.param_groups[0]['lr']"),
        (SIZE.format(index=1, old=3, new=4), "tensor 'x' size mismatch at index 1"),
        ("5/0: len(xs) == 2", "len(xs)"),
        ("1/1: ___check_obj_id(f, 140234)", "___check_obj_id(f, #)"),
    ],
)
def test_a_guard_is_known_again_without_its_value(guard: str, expected: str) -> None:
    assert guard_of(guard) == expected


def timed(**changes: Any) -> Timed:
    times = {"eager": 0.001, "compiled": 0.002, "eager_slow": 0.0012, "compiled_fast": 0.0019, "turns": 30}
    return Timed(**({"place": LINE} | times | changes))


def test_a_graph_that_is_slower_than_eager_is_told_with_both_times() -> None:
    (finding,) = found(timed=[timed()])
    assert finding.kind == "slow" and "2 ms a call, and 1 ms in eager" in finding.what
    assert (finding.cost.value, finding.cost.unit, finding.source.line) == (1.0, "ms per call", 12)


@pytest.mark.parametrize(
    "changes",
    [
        {"compiled": 0.0008},
        {"turns": 4},
        {"compiled_fast": 0.0011},  # within what eager's own calls differ by
        {"compiled": 0.00115, "compiled_fast": 0.0013},
        {"eager": 0.00001, "eager_slow": 0.00002, "compiled": 0.0001, "compiled_fast": 0.00009},  # a tiny graph
    ],
)
def test_a_time_within_noise_is_no_finding(changes: dict[str, Any]) -> None:
    assert not found(timed=[timed(**changes)])


def test_nothing_is_found_where_nothing_was_seen() -> None:
    assert not found()


@pytest.mark.parametrize(
    ("reason", "is_movable"),
    [
        (SKIPPED.format("Dynamo does not know how to trace the builtin `time.perf_counter.` This is"), True),
        (
            "Unsupported context manager\n  Explanation: Dynamo does not know how to enter a `lock` context manager.",
            True,
        ),
        (SKIPPED.format("Dynamo does not know how to trace the Python builtin `_warnings.warn`."), False),
        ("generic_jump TensorVariable()", False),
    ],
)
def test_what_a_program_can_do_outside_is_advised_and_said_to_be_untried(reason: str, is_movable: bool) -> None:
    (finding,) = found(broken=[broken(reason)])
    assert (
        finding.what.endswith("Not tried: moving it out of the compiled function, before or after its call.")
        is is_movable
    )
