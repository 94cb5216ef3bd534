"""The oracle: what counts as the same failure, what is another one, and what is only the machine's noise."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, cast

import pytest
from fake_child import FakeExecutor, FakeSurvey

from minimizer.engine.budget.patience import FIRST_TIMEOUT, LEAST_TIMEOUT, SILENCE
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Difference, ExceptionInfo, Outcome, Verdict
from minimizer.engine.child.survey import Survey
from minimizer.engine.child.trouble import Again
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import (
    Signature,
    also_seen,
    crash_signature,
    exception_signature,
    normalise,
    signature_of,
    verdict_signature,
)
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.inside.questions import GivenInput, TrialRequest
from minimizer.vocabulary import Kind

META = TensorMeta((2, 3), "torch.float32", (3, 1))
PROGRAM = Program((Input("x", META, golden="x"),), (Node("y", "torch.relu", (Ref("x"),), meta=META),), ("y",))
TRUNCATED = "OSError: /tmp/cache/ab/cab.main.so: file too short"


def error(
    message: str = "expected 3 dims",
    kind: str = "RuntimeError",
    frame: tuple[str, str, str] = ("torch/x.py", "lower", "raise"),
) -> ExceptionInfo:
    wrapped = f"backend='inductor' raised:\n{kind}: {message}"
    return ExceptionInfo(
        type="torch._dynamo.exc.BackendCompilerFailed",
        message=wrapped,
        root_type=kind,
        root_message=message,
        frames=[frame],
    )


def outcome(word: str, *, phase: str = "compiled", **fields: Any) -> Outcome:
    return Outcome.model_validate({"ending": word, "phase": phase, **fields})


def different(kind: str = "wrong_output", what: str = "value") -> Outcome:
    verdict = Verdict(fault=True, kind=kind, differences=[Difference(where="output[0]", kind=kind, what=what)])  # type: ignore[arg-type]
    return outcome("different", phase="compare", verdict=verdict)


def oracle_for(executor: FakeExecutor, *accepts: Signature, **fields: Any) -> Oracle:
    accepted = accepts or (Signature(Kind.WRONG_OUTPUT),)
    return Oracle(cast(Executor, executor), cast(Survey, FakeSurvey()), accepted, **fields)


# messages -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("buf12 has size 3", "buf7 has size 400"),
        ("bad pointer 0x7f12ab", "bad pointer 0xDEADBEEF"),
        ("cannot open /tmp/a1/b.cpp", "cannot open /home/x-y/c/d.py"),
        ("expected 1.5e-3 at index 4", "expected 2 at index 17"),
        ("  same\nSet TORCHDYNAMO_VERBOSE=1", "same"),
        (
            "CppCompileError: C++ compile error\nCommand: g++ /tmp/x1.cpp\nx1.cpp:7:3: error: 'foo' was not declared",
            "CppCompileError: C++ compile error\nCommand: g++ /tmp/y2.cpp\ny2.cpp:99:1: error: 'foo' was not declared",
        ),
    ],
)
def test_what_drifts_from_run_to_run_is_no_part_of_a_message(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("expected a float tensor", "expected an int tensor"),
        ("KeyError: 'mean'", "KeyError: 'rsqrt'"),
        (
            "CppCompileError: C++ compile error\nx1.cpp:7:3: error: 'foo' was not declared",
            "CppCompileError: C++ compile error\nx1.cpp:7:3: error: 'bar' was not declared",
        ),
    ],
)
def test_what_tells_failures_apart_stays(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


def test_a_message_is_bounded() -> None:
    assert len(normalise("word " * 10_000)) == 300
    assert normalise("") == ""


# signatures -----------------------------------------------------------------------------------------------------------


def test_the_root_is_what_counts_of_an_exception() -> None:
    signature = exception_signature(Kind.COMPILE_ERROR, error())
    assert (signature.exception_type, signature.where) == ("RuntimeError", "torch/x.py:lower")
    assert signature.message == "expected N dims"
    assert exception_signature(Kind.COMPILE_ERROR, None) == Signature(Kind.COMPILE_ERROR)


def test_message_or_frame_may_drift_but_not_both_and_not_the_type() -> None:
    target = exception_signature(Kind.COMPILE_ERROR, error())
    for same in (error(), error("other words"), error(frame=("torch/y.py", "other", ""))):
        assert target.matches(exception_signature(Kind.COMPILE_ERROR, same))
    for other in (
        error("other words", frame=("torch/y.py", "other", "")),
        error(kind="KeyError"),
        error(kind="ImportError"),
        error(kind="MemoryError"),
    ):
        assert not target.matches(exception_signature(Kind.COMPILE_ERROR, other))


RESIZE = ("torch/nn/functional.py", "interpolate", "return torch._C._nn.{}(input, size)")
RUN = ("torch/_ops.py", "__call__", "return self._op(*args, **kwargs)")
META = ("torch/__init__.py", "_check_with", "raise error_type(message_evaluated)")


def raised(message: str, *frames: tuple[str, str, str], kind: str = "RuntimeError") -> ExceptionInfo:
    return ExceptionInfo(type=kind, message=message, root_type=kind, root_message=message, frames=list(frames))


def resized(kernel: str, op: str) -> ExceptionInfo:
    file, function, line = RESIZE
    return raised(
        f"\"{kernel}\" not implemented for 'Int'", (file, function, line.format(op)), kind="NotImplementedError"
    )


@pytest.mark.parametrize("kind", [Kind.MISSING_ERROR, Kind.RUNTIME_ERROR, Kind.COMPILE_ERROR])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (resized("upsample_bilinear2d", "upsample_bilinear2d"), resized("upsample_nearest2d", "upsample_nearest2d")),
        (raised("Could not run 'aten::log2' here", RUN), raised("Could not run 'aten::log10' here", RUN)),
        (raised("size must be positive", RUN), raised("stride must be positive", RUN)),
        (
            raised("Dimension out of range", ("torch/_refs/__init__.py", "softmax", ""), META),
            raised("Dimension out of range", ("torch/_refs/__init__.py", "cumsum", ""), META),
        ),
        (
            raised("expected 2D", ("m.py", "forward", "return torch.mm(x, y)")),
            raised("singular", ("m.py", "forward", "return torch.inverse(x)")),
        ),
        (raised("a is wrong", ("m.py", "forward", "check(x)")), raised("b is wrong", ("m.py", "forward", "check(x)"))),
    ],
    ids=["kernels", "names with numbers", "dispatcher", "shared check", "calls of the script", "the script's own"],
)
def test_what_another_operator_raises_in_the_same_frame_is_another_failure(
    kind: Kind, one: ExceptionInfo, other: ExceptionInfo
) -> None:
    first, second = exception_signature(kind, one), exception_signature(kind, other)
    assert first.matches(first) and second.matches(second)
    assert not first.matches(second) and not second.matches(first)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (raised("bad shape [2, 3, 4] at dim 1", RUN), raised("bad shape [7] at dim 0", RUN)),
        (raised("bad shape (2, 3)", ("m.py", "f", "")), raised("bad shape ()", ("n.py", "g", ""))),
        (
            raised("x is short", ("torch/_inductor/lowering.py", "cat", "raise")),
            raised("y has no elements", ("torch/_inductor/lowering.py", "cat", "raise")),
        ),
        (
            resized("upsample_bilinear2d", "upsample_bilinear2d"),
            resized("upsample_bilinear2d_channels_last", "upsample_bilinear2d"),
        ),
        (
            raised("\"softmax_channels_last\" not implemented for 'Int'", RUN),
            raised("\"softmax_kernel_impl\" not implemented for 'Int'", RUN),
        ),
        (
            raised(
                "mat1 and mat2 shapes cannot be multiplied (4x8 and 3x2)", ("m.py", "forward", "return torch.mm(x, y)")
            ),
            raised("mat1 and mat2 shapes cannot be multiplied (1x1 and 2x2)", ("x.py", "f", "mm = x @ y")),
        ),
    ],
    ids=["shapes", "other frames", "one lowering", "another layout", "another kernel", "smaller sizes"],
)
def test_numbers_shapes_and_places_of_one_failure_may_change(one: ExceptionInfo, other: ExceptionInfo) -> None:
    first, second = (exception_signature(Kind.RUNTIME_ERROR, error) for error in (one, other))
    assert first.matches(second) and second.matches(first)


def test_errors_without_a_message_are_told_apart_by_their_frames() -> None:
    bare = exception_signature(Kind.COMPILE_ERROR, error("", "AssertionError"))
    assert bare.message == ""
    assert bare.matches(bare)
    elsewhere = error("", "AssertionError", frame=("torch/y.py", "other", "assert x"))
    assert not bare.matches(exception_signature(Kind.COMPILE_ERROR, elsewhere))
    assert Signature(Kind.COMPILE_ERROR).matches(Signature(Kind.COMPILE_ERROR))


def test_two_unknown_frames_are_not_the_same_frame() -> None:
    without = Signature(Kind.RUNTIME_ERROR, "E", "one")
    assert not without.matches(Signature(Kind.RUNTIME_ERROR, "E", "two"))


@pytest.mark.parametrize("other", [kind for kind in Kind if kind is not Kind.RUNTIME_ERROR])
def test_another_kind_never_matches(other: Kind) -> None:
    assert not Signature(Kind.RUNTIME_ERROR, "E", "m", "w").matches(Signature(other, "E", "m", "w"))


def test_crashes_match_by_signal() -> None:
    abort = Signature(Kind.CRASH, signal=6)
    assert abort.matches(Signature(Kind.CRASH, signal=6))
    assert not abort.matches(Signature(Kind.CRASH, signal=11))
    overwritten = crash_signature(6, "free(): invalid pointer\nFatal Python error: Aborted\n")
    assert overwritten.matches(Signature(Kind.CRASH, signal=11))  # what was overwritten decides which signal it is
    assert Signature(Kind.CRASH, signal=11).matches(overwritten)
    assert not overwritten.matches(Signature(Kind.CRASH, signal=4))
    assert overwritten.text == crash_signature(11, "free(): invalid pointer\n").text != abort.text


def test_wrong_values_match_whatever_the_numbers_and_wrong_metadata_by_its_sort() -> None:
    assert Signature(Kind.WRONG_OUTPUT, what="value").matches(Signature(Kind.WRONG_OUTPUT, what="nan"))
    assert Signature(Kind.WRONG_METADATA, what="dtype").matches(Signature(Kind.WRONG_METADATA, what="dtype"))
    assert not Signature(Kind.WRONG_METADATA, what="dtype").matches(Signature(Kind.WRONG_METADATA, what="stride"))


def test_where_nan_is_the_failure_it_must_stay() -> None:
    pinned = Signature(Kind.WRONG_OUTPUT, what="nan", nonfinite=True)
    assert pinned.matches(Signature(Kind.WRONG_OUTPUT, what="value", nonfinite=True))  # as well as finite differences
    assert not pinned.matches(Signature(Kind.WRONG_OUTPUT, what="value"))


@pytest.mark.parametrize(("one", "other"), [("type", "value"), ("value", "type")])
def test_a_gradient_that_is_missing_is_no_wrong_one(one: str, other: str) -> None:
    assert not Signature(Kind.WRONG_GRADIENT, what=one).matches(Signature(Kind.WRONG_GRADIENT, what=other))
    assert Signature(Kind.WRONG_GRADIENT, what=one).matches(Signature(Kind.WRONG_GRADIENT, what=one))


def test_a_verdict_is_named_after_the_difference_of_its_kind() -> None:
    verdict = Verdict(
        fault=True,
        kind="wrong_metadata",
        differences=[Difference(what="value"), Difference(kind="wrong_metadata", what="dtype")],
    )
    assert verdict_signature(verdict) == Signature(Kind.WRONG_METADATA, what="dtype")


def test_the_short_name_of_a_signature_is_stable_and_distinct() -> None:
    signature = Signature(Kind.CRASH, signal=6)
    assert signature.text == Signature(Kind.CRASH, signal=6).text
    assert signature.text.startswith("crash-")
    assert signature.text != Signature(Kind.CRASH, signal=11).text


# what a trial showed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "kind"),
    [
        (different(), Kind.WRONG_OUTPUT),
        (different("wrong_gradient"), Kind.WRONG_GRADIENT),
        (outcome("compile_error", exception=error()), Kind.COMPILE_ERROR),
        (outcome("runtime_error", exception=error()), Kind.RUNTIME_ERROR),
        (outcome("missing_error", exception=error()), Kind.MISSING_ERROR),
        (outcome("crash", signal=6), Kind.CRASH),
        (outcome("crash", signal=11, phase="backward"), Kind.CRASH),
        (outcome("timeout"), Kind.HANG),
    ],
)
def test_failures(shown: Outcome, kind: Kind) -> None:
    signature = signature_of(shown)
    assert signature is not None
    assert signature.kind is kind


@pytest.mark.parametrize(
    "shown",
    [
        outcome("same"),
        outcome("setup_error", phase="setup", exception=error(kind="ImportError", message="No module named 'numpy'")),
        outcome("eager_error", exception=error()),
        outcome("nondeterministic"),
        outcome("lost"),
        outcome("different"),  # without a verdict
        outcome("crash", signal=9),
        outcome("crash", signal=6, phase="setup"),
        outcome("crash", signal=11, phase="eager"),
        outcome("crash", signal=11, phase=""),
        outcome("crash", signal=11, phase="compare"),
        outcome("timeout", phase="eager"),
        outcome("timeout", phase="setup"),
        outcome("timeout", phase="compare"),
    ],
)
def test_trap_06_no_failure_of_the_compiler(shown: Outcome) -> None:
    """Killed for memory, failing imports, a failing set-up or eager side: nothing of it is a failure of the compiled side."""
    assert signature_of(shown) is None


@pytest.mark.parametrize(
    "other",
    [
        outcome("compile_error", exception=error("No module named 'triton'", "ImportError", ("a.py", "f", ""))),
        outcome("compile_error", exception=error("", "MemoryError", ("a.py", "f", ""))),
        outcome("runtime_error", exception=error()),
        outcome("crash", signal=9),
        outcome("crash", signal=11),
        outcome("timeout"),
        outcome("lost", phase="compiled"),  # KeyboardInterrupt and exit() end a trial without an answer
        outcome("setup_error", exception=error()),
        outcome("eager_error", exception=error()),
        different(),
    ],
)
def test_trap_06_another_way_to_fail_is_not_the_failure(other: Outcome) -> None:
    target = exception_signature(Kind.COMPILE_ERROR, error())
    assert not oracle_for(FakeExecutor(lambda _: other), target).check([PROGRAM])[0]


def test_other_failures_are_remembered() -> None:
    answers = iter(
        [
            outcome("crash", signal=11),
            different(),
            outcome("crash", signal=11),
            outcome("same"),
            outcome("crash", signal=9),
        ]
    )
    oracle = oracle_for(FakeExecutor(lambda _: next(answers)))
    assert oracle.check([PROGRAM] * 5) == [False, True, False, False, False]
    assert oracle.also_seen == {Signature(Kind.CRASH, signal=11): 2}
    assert oracle.trials == 5


def test_any_accepted_signature_counts() -> None:
    oracle = oracle_for(
        FakeExecutor(lambda _: different()), Signature(Kind.WRONG_GRADIENT), Signature(Kind.WRONG_OUTPUT)
    )
    assert oracle.check([PROGRAM]) == [True]


# noise ----------------------------------------------------------------------------------------------------------------

NOISY = [
    outcome("compile_error", exception=error(TRUNCATED, "OSError")),
    outcome("runtime_error", exception=error("libc10.so: cannot open shared object file: No such file", "ImportError")),
    outcome("compile_error", exception=error("[Errno 28] No space left on device", "OSError")),
    outcome("runtime_error", exception=error("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes. Error code 12 (Cannot allocate memory)")),
    outcome("compile_error", exception=error("C++ compile error\ng++: fatal error: Killed signal terminated program cc1plus", "torch._inductor.exc.CppCompileError")),
    outcome("compile_error", exception=error("C++ compile error\ncc1plus: out of memory allocating 65536 bytes", "torch._inductor.exc.CppCompileError")),
    outcome("runtime_error", exception=error("std::bad_alloc", "MemoryError")),
    outcome("crash", signal=6, log="terminate called after throwing an instance of 'std::bad_alloc'"),
    outcome("lost"),
]  # fmt: skip


@pytest.mark.parametrize("noisy", NOISY)
def test_noise_is_retried_on_a_clean_cache_and_then_believed(noisy: Outcome) -> None:
    def answer(request: TrialRequest) -> Outcome:
        return outcome("same") if request.environ else noisy

    executor = FakeExecutor(answer)
    assert noisy.rule.again is Again.CLEAN_CACHE
    assert [o.ending for o in oracle_for(executor).judge([PROGRAM])] == ["same"]
    assert executor.asked[1].environ == {"TORCHINDUCTOR_CACHE_DIR": "/clean-1"}
    assert executor.asked[1].source == executor.asked[0].source


@pytest.mark.parametrize("noisy", NOISY)
def test_noise_that_stays_is_no_failure_even_where_it_looks_like_the_target(noisy: Outcome) -> None:
    target = signature_of(noisy) or Signature(Kind.CRASH, signal=6)
    oracle = oracle_for(FakeExecutor(lambda _: noisy), target)
    assert oracle.check([PROGRAM]) == [False]
    assert not oracle.also_seen


@pytest.mark.parametrize("again", ["same", "crash"])
def test_a_bus_error_is_believed_on_a_clean_cache_only(again: str) -> None:
    """A library that lost its end after it was written gives one; so may the compiler's own fault."""
    bus_error = outcome("crash", signal=7)
    executor = FakeExecutor(
        lambda r: outcome(again, signal=7 if again == "crash" else None) if r.environ else bus_error
    )
    assert oracle_for(executor, Signature(Kind.CRASH, signal=7)).check([PROGRAM]) == [again == "crash"]


def test_each_noisy_trial_has_a_clean_cache_of_its_own() -> None:
    executor = FakeExecutor(lambda request: different() if request.environ else NOISY[0])
    assert oracle_for(executor).check([PROGRAM, PROGRAM]) == [True, True]
    assert [r.environ["TORCHINDUCTOR_CACHE_DIR"] for r in executor.asked[2:]] == ["/clean-1", "/clean-2"]


@pytest.mark.parametrize(
    "shown",
    [
        outcome("same"),
        different(),
        outcome("compile_error", exception=error()),
        outcome("crash", signal=6, log="Aborted"),
        outcome("timeout"),
    ],
)
def test_no_noise(shown: Outcome) -> None:
    executor = FakeExecutor(lambda _: shown)
    oracle_for(executor).judge([PROGRAM])
    assert shown.rule.again is Again.NOT
    assert len(executor.asked) == 1


def test_an_oracle_for_another_failure_counts_its_trials_with_those_of_the_first() -> None:
    first = oracle_for(FakeExecutor(lambda _: different("wrong_gradient")))
    assert first.check([PROGRAM]) == [False]
    other = first.accepting((Signature(Kind.WRONG_GRADIENT),))
    assert other.check([PROGRAM, PROGRAM]) == [True, True]
    assert first.trials == other.trials == 3
    first.count(10)
    assert other.trials == 13


def test_how_a_program_failed_is_known_to_the_oracle_of_that_failure_only() -> None:
    first = oracle_for(FakeExecutor(lambda _: different()))
    assert first.check([PROGRAM]) == [True]
    other = first.accepting((Signature(Kind.WRONG_GRADIENT),))
    assert other.shown(PROGRAM) is None
    assert other.check([PROGRAM]) == [False]
    assert (first.also_seen, [kind.kind for kind in other.also_seen]) == (Counter(), [Kind.WRONG_OUTPUT])
    assert first.shown(PROGRAM) == different()


def test_an_oracle_that_aims_at_another_failure_forgets_how_programs_failed_before() -> None:
    shown = [different(what="nan"), different()]
    judge = oracle_for(FakeExecutor(lambda request: shown["torch.cos" in request.source]))
    other = replace(PROGRAM, nodes=(replace(PROGRAM.nodes[0], target="torch.cos"),))
    assert judge.check([PROGRAM, other]) == [True, True]
    judge.aim_at((Signature(Kind.WRONG_OUTPUT, nonfinite=True),))
    assert (judge.shown(PROGRAM), judge.shown(other)) == (shown[0], None)
    assert judge.check([PROGRAM, other]) == [True, False]


# requests -------------------------------------------------------------------------------------------------------------


def test_a_request_holds_all_of_the_program() -> None:
    program = Program(
        inputs=(
            Input("weight", TensorMeta((2,), "torch.float32", requires_grad=True), golden="weight@relu"),
            Input("n", None, code="3"),
        ),
        nodes=(Node("z", "torch.mul", (Ref("weight"), Ref("n"))),),
        outputs=("z",),
        setup=("torch.set_default_dtype(torch.float64)",),
        compile_kwargs=(("dynamic", "True"), ("backend", "'aot_eager'")),
        grad=True,
    )
    request = oracle_for(FakeExecutor(lambda _: outcome("same")), tolerance={"rtol": 0.5}).request(program)
    assert request.source == "def f(x0, x1):\n    v0 = torch.mul(x0, x1)\n    return v0\n"
    assert request.setup.endswith("torch.set_default_dtype(torch.float64)")
    assert request.inputs == [
        GivenInput(name="x0", golden="weight@relu", requires_grad=True),
        GivenInput(name="x1", code="3"),
    ]
    assert request.golden_files == ["/golden/weight@relu.pt"]
    assert request.compile_kwargs == "dynamic=True, backend='aot_eager'"
    assert (request.grad, request.tolerance) == (True, {"rtol": 0.5})


# hangs ----------------------------------------------------------------------------------------------------------------

HANG = Signature(Kind.HANG, where=":fix")


def timeout(*places: str, phase: str = "compiled") -> Outcome:
    return outcome("timeout", phase=phase, places=list(places))


@pytest.mark.parametrize(
    ("trial", "same"),
    [
        (timeout("torch/_inductor/compile_fx.py:inner", ":fix"), True),
        (timeout(":fix", "torch/fx/graph.py:lint"), True),  # caught in a helper of the loop
        (timeout("torch/_inductor/compile_fx.py:inner", ":other"), False),
        (timeout(), False),
        (timeout(":fix", phase="eager"), False),
        (outcome("crash", signal=11, places=[":fix"]), False),
        (outcome("same"), False),
    ],
)
def test_a_hang_is_the_same_inside_of_the_same_frame(trial: Outcome, same: bool) -> None:
    assert oracle_for(FakeExecutor(lambda _: trial), HANG).check([PROGRAM]) == [same]


def test_a_hang_elsewhere_is_remembered() -> None:
    oracle = oracle_for(FakeExecutor(lambda _: timeout(":other")), HANG)
    oracle.check([PROGRAM])
    assert oracle.also_seen == {Signature(Kind.HANG, where=":other"): 1}


def test_a_hang_in_an_unknown_place_is_like_any_hang() -> None:
    assert oracle_for(FakeExecutor(lambda _: timeout(":fix")), Signature(Kind.HANG)).check([PROGRAM]) == [True]


def test_only_trials_of_a_hang_are_watched() -> None:
    """Any other failure can wait for its timeout, and must not be cut short by a guess."""
    watched = FakeExecutor(lambda _: outcome("same"))
    oracle_for(watched, HANG).check([PROGRAM])
    plain = FakeExecutor(lambda _: outcome("same"))
    oracle_for(plain, Signature(Kind.CRASH, signal=11)).check([PROGRAM])
    assert [len(watched.watchdogs), len(plain.watchdogs)] == [1, 0]


@pytest.mark.parametrize(("slowest", "silence"), [(0.0, SILENCE[0]), (6.0, 6.0), (100.0, SILENCE[1])])
def test_a_trial_may_be_silent_as_long_as_a_healthy_one_takes(slowest: float, silence: float) -> None:
    executor = FakeExecutor(lambda _: outcome("same", seconds=slowest))
    oracle = oracle_for(executor, HANG)
    oracle.check([PROGRAM])
    oracle.check([PROGRAM])
    assert executor.watchdogs[-1]().limits.floor == silence


def test_gradients_are_not_compared_where_nobody_wants_them() -> None:
    executor = FakeExecutor(lambda _: outcome("same"))
    oracle_for(executor).judge([PROGRAM], backward=False)
    assert not executor.asked[0].backward


def test_the_timeout_follows_the_slowest_trial_that_ended_by_itself() -> None:
    answers = iter(
        [
            outcome("timeout", seconds=FIRST_TIMEOUT),
            outcome("same", seconds=1.0),
            outcome("same", seconds=20.0),
            outcome("same", seconds=2.0),
        ]
    )
    executor = FakeExecutor(lambda _: next(answers))
    oracle = oracle_for(executor)
    for _ in range(4):
        oracle.judge([PROGRAM])
    assert executor.timeouts == [FIRST_TIMEOUT, FIRST_TIMEOUT, LEAST_TIMEOUT, 160.0]


def test_no_program_is_no_trial() -> None:
    executor = FakeExecutor(lambda _: outcome("same"))
    oracle = oracle_for(executor)
    assert oracle.check([]) == []
    assert oracle.trials == 0


def test_of_a_lost_gpu_the_place_says_nothing() -> None:
    """Kernels run by themselves: what raises the error is whatever waits for one."""
    wait = ("torch/cuda/__init__.py", "synchronize", "wait()")
    illegal, asserted = (
        exception_signature(Kind.RUNTIME_ERROR, error(said, frame=wait).model_copy(update={"device": "context_lost"}))
        for said in ("CUDA error: an illegal memory access was encountered", "CUDA error: device-side assert triggered")
    )
    assert illegal.where == "" and illegal.matches(illegal)
    assert not illegal.matches(asserted)


def test_each_other_failure_is_told_once() -> None:
    """Signatures tell frames and NaN apart, which nobody reads: two lines that say the same are one."""
    in_two_places = [Signature(Kind.COMPILE_ERROR, "RuntimeError", "no such size", where) for where in ("a:f", "b:g")]
    nan, other = Signature(Kind.WRONG_OUTPUT, what="value", nonfinite=True), Signature(Kind.CRASH, signal=11)
    seen = Counter(
        {in_two_places[0]: 2, nan: 3, other: 9, in_two_places[1]: 3, Signature(Kind.WRONG_OUTPUT, what="value"): 1}
    )
    told = [(one.kind, one.message, one.times) for one in also_seen(seen)]
    assert told == [("crash", "", 9), ("compile_error", "no such size", 5), ("wrong_output", "", 4)]


def test_what_a_program_showed_does_not_depend_on_what_was_asked_last() -> None:
    executor = FakeExecutor(lambda request: different() if "relu" in request.source else outcome("same"))
    oracle = oracle_for(executor)
    other = replace(PROGRAM, nodes=(replace(PROGRAM.nodes[0], target="torch.add"), *PROGRAM.nodes[1:]))
    assert oracle.check([PROGRAM]) == [True]
    assert oracle.check([other]) == [False]
    assert oracle.shown(PROGRAM) is not None
    assert oracle.shown(other) is None
