"""Which culprits a report keeps when another one gets its repro."""

from __future__ import annotations

import pytest

from minimizer.engine.secondary import _is_holder
from minimizer.report.model import Culprit

OTHER = Culprit(module="blocks.1.act", nodes=["relu"], ops=["aten.relu"])


@pytest.mark.parametrize(
    ("known", "goes"),
    [
        (Culprit(nodes=["sub_one"], what="a call of no operator"), False),
        (Culprit(module="blocks.1", nodes=["sub_one"]), False),
        (Culprit(module="blocks.1", ops=["aten.add"]), False),
        (Culprit(what="a graph break"), False),
        (Culprit(module="blocks.1", what="fails by itself too"), True),
        (Culprit(module="blocks.1.act"), True),
        (Culprit(module="blocks.11"), False),
        (Culprit(module="blocks.2"), False),
    ],
)
def test_only_a_module_that_holds_it_gives_way_to_a_culprit(known: Culprit, goes: bool) -> None:
    assert _is_holder(known, OTHER) is goes
