"""Scripts whose own check fails where no call that we compare does."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from test_corpus import minimize

DRAWS = """
    import torch


    def draw(loc, scale):
        return torch.distributions.Normal(loc, scale).sample()


    loc, scale = torch.zeros(4, dtype=torch.half), torch.ones(4)
    expected, got = draw(loc, scale).dtype, torch.compile(draw)(loc, scale).dtype
    assert expected == got, f"{expected} in eager, {got} when compiled"
"""
SKEWED = """
    import torch
    from torch._inductor import inductor_prims
    from torch._inductor.lowering import lowerings, mul

    plain = lowerings[inductor_prims.random]


    def random(size, seed, mode, **kwargs):
        return mul(plain(size, seed, mode, **kwargs), 0.75)


    lowerings[inductor_prims.random] = random


    @torch.compile
    def masked(x):
        keep = torch.rand_like(x) > 0.2
        return torch.tanh(x * keep)


    torch.manual_seed(0)
    for step in range(4):
        print(masked(torch.randn(64, 32)).mean().item())
"""
REGIONAL = """
    import time

    import torch


    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(16, 16)

        def forward(self, x):
            return x + torch.nn.functional.gelu(self.linear(x))


    def seconds(model):
        torch._dynamo.reset()
        begun = time.perf_counter()
        model(torch.ones(4, 16))
        return time.perf_counter() - begun


    whole = torch.compile(torch.nn.Sequential(*(Block() for _ in range(3))))
    regional = torch.nn.Sequential(*(Block() for _ in range(3)))
    for block in regional:
        block.compile()
    regional_s, whole_s = seconds(regional), seconds(whole)
    assert FASTER, f"{regional_s:.2f} s, {whole_s:.2f} s"
"""


def ended(text: str, tmp_path: Path) -> tuple[int, dict[str, object]]:
    (tmp_path / "home").mkdir()
    script = tmp_path / "home" / "script.py"
    script.write_text(dedent(text))
    return minimize(script, tmp_path)


@pytest.mark.quality("unexplained")
@pytest.mark.timeout(900)
def test_a_check_that_fails_only_where_inductor_draws_by_itself_is_reduced(tmp_path: Path) -> None:
    """Our own runs set ``fallback_random``, with which it raises another error (torch 2.14), or holds (2.13)."""
    status, report = ended(DRAWS, tmp_path)

    assert (status, report["status"], report["reason"]) == (0, "minimized", None)
    (culprit, *_) = report["culprits"]  # type: ignore[misc]
    assert report["failure"]["kind"] == "wrong_metadata"  # type: ignore[index]
    assert culprit["ops"] == ["aten.normal"]
    assert "fallback_random" not in (tmp_path / "repro.py").read_text()


@pytest.mark.fault_behind("random_replaced")
@pytest.mark.quality("unexplained")
@pytest.mark.timeout(900)
def test_random_numbers_from_another_distribution_have_a_repro(tmp_path: Path) -> None:
    status, report = ended(SKEWED, tmp_path)

    assert (status, report["status"], report["reason"]) == (0, "minimized", None)
    failure, (culprit, *_) = report["failure"], report["culprits"]  # type: ignore[misc]
    assert (failure["kind"], failure["stage"]) == ("wrong_output", "inductor")  # type: ignore[index]
    assert (culprit["ops"], culprit["source"]["line"]) == (["aten.rand_like"], 18)
    assert report["workaround"]["code"] == "torch._inductor.config.fallback_random = True"  # type: ignore[index]


@pytest.mark.quality("unexplained")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("faster", "ends"),
    [("regional_s + whole_s > 0", (3, "healthy", None)), ("regional_s + whole_s < 0", (4, "partial", "disputed"))],
)
def test_a_check_of_how_long_compiling_takes_is_never_the_compilers_failure(
    faster: str, ends: tuple[object, ...], tmp_path: Path
) -> None:
    status, report = ended(REGIONAL.replace("FASTER", faster), tmp_path)

    assert (status, report["status"], report["reason"]) == ends
