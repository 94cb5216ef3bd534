"""What is in dispute where a check of the script's own fails: one row of the rule each."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.survey.dispute import DISPUTES, FailedCheck, Ground, ground
from minimizer.engine.survey.rules import decide

READING, VALUES, FAULT = Ground.READING, Ground.VALUES, Ground.NONE
TESTING = "torch/testing/_comparison.py"
GENERATED = f"c{'a' * 51}.py"


def failed(
    text: str, line: str, *, kind: str = "AssertionError", file: str = "script.py", **comparison: float
) -> FailedCheck:
    error = ExceptionInfo(type=kind, message="", root_type=kind, root_message="", frames=[(file, "f", line)])
    return FailedCheck(dedent(text), error, [comparison] if comparison else [])


def of(text: str, line: str, **rest: Any) -> Ground:
    check = failed(text, line, **rest)
    return ground(check.text, check.error, check.comparisons)


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        # a tolerance, or another random stream, would let it pass
        ("torch.allclose(got, want)", VALUES),
        ("torch.equal(got, want)", VALUES),
        ("(got - want).abs().max() < 1e-6", VALUES),
        ("(got == want).all()", VALUES),
        ("got.item() == want.item()", VALUES),
        ("0.4 < (got == 0).float().mean() < 0.6", VALUES),
        ("torch.allclose(got, want.reshape(got.shape))", VALUES),
        ("got is not None and torch.allclose(got, want)", VALUES),
        ("close", VALUES),
        ("unheard_of", VALUES),
        # a clock, or a counter of the compiler
        ("time.perf_counter() - begun < 1", READING),
        ("torch._dynamo.utils.counters['frames']['total'] == 1", READING),
        # something missing, another type, shape, dtype or layout
        ("tangent is not None", FAULT),
        ("got.grad is None", FAULT),
        ("not (tangent is None)", FAULT),
        ("is_there", FAULT),
        ("(got is None) == (want is None)", FAULT),
        ("isinstance(got, torch.Tensor)", FAULT),
        ("type(got) is type(want)", FAULT),
        ("type(got) == tuple", FAULT),
        ("(got.shape, got.dtype) == expected", FAULT),
        ("got.shape == want.shape", FAULT),
        ("got.shape[0] == 3", FAULT),
        ("got.size(0) == want.size(0) and got.dtype == torch.float16", FAULT),
        ("got.stride() == (1, 3)", FAULT),
        ("got.requires_grad", FAULT),
        ("len(got) == 2", FAULT),
        ("hasattr(got, 'mark')", FAULT),
        ("False", FAULT),
    ],
)
def test_what_an_assertion_goes_by(test: str, expected: Ground) -> None:
    text = f"""
    import time
    import torch

    close = torch.allclose(got, want)
    is_there = got is not None
    assert {test}, "it is not"
    """
    assert of(text, f'assert {test}, "it is not"') is expected


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("if tangent is None:\n    raise RuntimeError('lost')", "raise RuntimeError('lost')", FAULT),
        ("if checked:\n    if got.shape != want.shape:\n        sys.exit(1)", "sys.exit(1)", FAULT),
        ("if not torch.allclose(got, want):\n    raise ValueError('off')", "raise ValueError('off')", VALUES),
        ("try:\n    f(x)\nexcept ValueError:\n    pass\nelse:\n    raise RuntimeError('no error')", "raise RuntimeError('no error')", FAULT),
        ("try:\n    f(x)\nexcept KeyError as error:\n    raise ValueError(error) from None", "raise ValueError(error) from None", FAULT),
        ("def fail(why):\n    raise ValueError(why)", "raise ValueError(why)", VALUES),
    ],
    ids=["missing", "shape", "value", "error is missing", "another error", "helper"],
)  # fmt: skip
def test_what_a_raise_or_an_exit_goes_by(text: str, line: str, expected: Ground) -> None:
    assert of(text, line, kind="RuntimeError") is expected


@pytest.mark.parametrize(
    ("checks", "expected"), [({"rtol": 1e-6, "tolerable": 1.0}, VALUES), ({"tolerable": 0.0}, FAULT), ({}, VALUES)]
)
def test_assert_close_was_seen_with_what_it_compared(checks: dict[str, float], expected: Ground) -> None:
    assert of("import torch", "raise error_metas[0].to_error(msg)", file=TESTING, **checks) is expected


@pytest.mark.parametrize(
    ("kind", "file", "line"),
    [
        ("AssertionError", "torch/_dynamo/guards.py", "assert guard"),
        ("AssertionError", GENERATED, "assert_size_stride(buf0, (2, 3), (3, 1))"),
        ("TypeError", "script.py", "got + None"),
    ],
    ids=["of torch", "of generated code", "no check"],
)
def test_an_exception_is_never_disputed(kind: str, file: str, line: str) -> None:
    assert of(line, line, kind=kind, file=file) is FAULT


def test_each_rule_is_reached() -> None:
    checks = [
        failed("got + None", "got + None", kind="TypeError"),
        failed("import time\nassert time.time() < 1", "assert time.time() < 1"),
        failed("", "raise error", file=TESTING, tolerable=0.0),
        failed("", "raise error", file=TESTING, tolerable=1.0),
        failed("assert got is None", "assert got is None"),
        failed("assert got == 1", "assert got == 1"),
    ]
    assert [decide(DISPUTES, check)[0] for check in checks] == list(DISPUTES)
