"""Source text of the settings that a script has changed: it must run where nothing but torch is imported."""

from __future__ import annotations

import string

import pytest
import torch

from minimizer.inside.graph.literals import Opaque
from minimizer.inside.graph.state import literal_text


@pytest.mark.parametrize(
    "value", [True, -1, 0.5, "max-autotune", (1,), [len], {print}, {"dtype": torch.bfloat16}, {torch.relu}]
)
def test_text_of_a_setting_gives_its_value_back(value: object) -> None:
    assert eval(literal_text(value), {"torch": torch}) == value


def test_function_of_another_module_has_no_text() -> None:
    with pytest.raises(Opaque):
        literal_text({string.capwords})
