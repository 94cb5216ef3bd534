"""The compiler's caches of graphs in runs of a script: off, or left to the script and empty at its beginning."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from children import script

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending
from minimizer.engine.levels.cached_calls import without_caches
from minimizer.engine.reduce.python import Rerun

HITS = dedent("""
    import torch
    torch.compile(lambda x: x.sin() + 1)(torch.ones(4))
    first = torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"]
    torch._dynamo.reset()
    torch.compile(lambda x: x.sin() + 1)(torch.ones(4))
    again = torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"]
    assert False, (first, again)
""")


@pytest.mark.parametrize(
    ("caches", "text", "hits"),
    [(False, HITS, "(0, 0)"), (True, HITS, "(0, 1)"), (True, HITS, "(0, 1)"), (True, without_caches(HITS), "(0, 0)")],
)
def test_caches_begin_empty_where_they_are_left_to_the_script(
    child: Executor, home: Path, text: str, hits: str, *, caches: bool
) -> None:
    _, outcome = Rerun(child, script(home, text), caches=caches).failure(text)
    assert outcome.ending is Ending.RUNTIME_ERROR and outcome.exception is not None
    assert outcome.exception.message == hits
