"""A check of the script's own that reads a clock or a counter of the compiler is told from one that compares values."""

from __future__ import annotations

from textwrap import dedent

import pytest

from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.survey.readings import reads_compiler


def reads(text: str, line: str, file: str = "script.py") -> bool:
    error = ExceptionInfo(
        type="AssertionError",
        message="",
        root_type="AssertionError",
        root_message="",
        frames=[(file, "<module>", line)],
    )
    return reads_compiler(dedent(text), error)


REGIONAL = """
    import time
    import torch

    def starts_in(model):
        begun = time.perf_counter()
        model(x)
        return time.perf_counter() - begun

    regional_s, whole_s = starts_in(regional), starts_in(whole)
    assert regional_s < whole_s, (
        f"{regional_s} s"
    )
"""
LOOP = """
    from time import perf_counter as clock
    seconds = []
    for f in (eager, compiled):
        begun = clock()
        f(x)
        seconds.append(clock() - begun)
    if seconds[1] > seconds[0]:
        raise SystemExit("slower")
"""
COUNTERS = """
    from torch._dynamo.utils import counters
    import torch._dynamo.testing
    cnt = torch._dynamo.testing.CompileCounter()
    graphs = []

    def backend(gm, inputs):
        compiled = gm.forward
        graphs.append(gm)
        return compiled

    torch.compile(f, backend=backend)(x)
    assert counters["stats"]["unique_graphs"] == 1
    assert cnt.frame_count == 1
    assert len(graphs) == 1
    assert compiled == expected
"""


def test_a_clock() -> None:
    assert reads(REGIONAL, "assert regional_s < whole_s, (")
    assert reads(LOOP, 'raise SystemExit("slower")')


@pytest.mark.parametrize(
    "line",
    ['assert counters["stats"]["unique_graphs"] == 1', "assert cnt.frame_count == 1", "assert len(graphs) == 1"],
)
def test_a_counter(line: str) -> None:
    assert reads(COUNTERS, line)


def test_a_name_that_a_backend_keeps_to_itself_is_another_one() -> None:
    assert not reads(COUNTERS, "assert compiled == expected")


@pytest.mark.parametrize(
    "line",
    [
        "assert (out - ref).abs().max() < 1e-3",
        "torch.testing.assert_close(out, ref)",
        "assert torch.equal(out, ref), out",
    ],
)
def test_values_are_values_in_a_script_that_takes_the_time(line: str) -> None:
    text = f"""
        import time
        begun = time.time()
        out = compiled(x)
        took = time.time() - begun
        print(took)
        {line}
    """
    assert not reads(text, line)


def test_what_the_script_does_not_raise_is_no_check_of_its_own() -> None:
    assert not reads(REGIONAL, "assert regional_s < whole_s, (", file="torch/_inductor/scheduler.py")


@pytest.mark.parametrize("text", ["", "assert (", "x = 1"])
def test_a_check_that_is_not_found_reads_nothing(text: str) -> None:
    assert not reads(text, "assert x == 2")
