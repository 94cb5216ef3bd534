"""The rungs of the ladder, for whatever backend a program asks for."""

from __future__ import annotations

import pytest

from minimizer.blame import LADDER, rungs
from minimizer.python_level import backend_of
from minimizer.types import Stage


@pytest.mark.parametrize(
    ("own", "last"),
    [
        (None, ("inductor", Stage.INDUCTOR)),
        ("'inductor'", ("inductor", Stage.INDUCTOR)),
        ("'aot_eager'", ("aot_eager", Stage.AOT_AUTOGRAD)),
        ("my_backend", ("my_backend", Stage.CUSTOM_BACKEND)),
        ("'cudagraphs'", ("cudagraphs", Stage.CUSTOM_BACKEND)),
    ],
)
def test_the_last_rung_is_what_the_program_asks_for(own: str | None, last: tuple[str, Stage]) -> None:
    *below, end = rungs(own)
    assert end == last
    assert below == list(LADDER[: len(below)])


@pytest.mark.parametrize(
    ("text", "backend"),
    [
        ("torch.compile(f)(x)", None),
        ("torch.compile(Cache(), backend=merge)(x)", "merge"),
        ("@torch.compile(fullgraph=True, backend='aot_eager')\ndef f(x): return x", "'aot_eager'"),
        ("model.compile(backend=partial(merge, 2))", "partial(merge, 2)"),
        ("re.compile('x')", None),
    ],
)
def test_the_backend_is_read_from_the_script(text: str, backend: str | None) -> None:
    assert backend_of(text) == backend
