"""Settings that are not as by default: who sets them, and what is known of a failure where they are put back."""

from __future__ import annotations

import pytest

from minimizer.engine.advice.settings import MOST_SETTINGS, PutBack, finding
from minimizer.engine.child.protocol import Changed
from minimizer.report.finding import Finding
from minimizer.report.model import Flag

PLANNING = Changed(name="torch._inductor.config.memory_planning", default="False", value="True")
CSE = Changed(name="torch._functorch.config.cse", default="True", value="False")
TUNING = Changed(name="max_autotune", value="True", by="torch.compile")
FREEZING = Changed(name="TORCHINDUCTOR_FREEZING", value="torch._inductor.config.freezing", by="environment")
PRECISION = Changed(name="torch.get_float32_matmul_precision()", default="'highest'", value="'high'")
TEXT = "import torch\nimport torch._inductor.config as inductor\n\ninductor.memory_planning = True\n"
REPRO = "import torch\n\ntorch._inductor.config.memory_planning = True\ntorch.compile(torch.relu)(torch.ones(1))\n"


def found(*changed: Changed, text: str = TEXT, known: PutBack | None = None) -> Finding:
    one = finding(changed, text, "train.py", known or PutBack())
    assert one is not None and one.kind == "settings" and one.cost is None
    return one


def test_nothing_changed_is_no_finding() -> None:
    assert finding([], TEXT, "train.py") is None


def test_who_sets_what_is_told_with_defaults_and_the_first_line() -> None:
    one = found(PLANNING, CSE.model_copy(update={"is_passing": True}), TUNING, FREEZING)
    assert one.what == (
        "The script changes 2 settings of the compiler from the default: `torch._inductor.config.memory_planning` is True (default False); "
        "`torch._functorch.config.cse` is False while graphs are compiled (default True). `torch.compile` is called with 1 option: `max_autotune` "
        "is True. The environment has `TORCHINDUCTOR_FREEZING`, which sets `torch._inductor.config.freezing`."
    )
    assert one.source is not None and (one.source.file, one.source.line) == ("train.py", 4)


def test_all_are_counted_and_the_first_are_shown() -> None:
    many = [PLANNING.model_copy(update={"name": f"torch._inductor.config.x{i}"}) for i in range(MOST_SETTINGS + 3)]
    one = found(*many, FREEZING, known=PutBack(repro=REPRO, is_minimal=True))
    assert "changes 23 settings of the compiler" in one.what
    assert "`torch._inductor.config.x19` is True (default False); and 3 more." in one.what
    assert "x20" not in one.what
    assert "The environment has `TORCHINDUCTOR_FREEZING`" in one.what, "which the script's own do not push out"
    assert one.what.endswith("`torch._inductor.config.x19`, and 4 more.")


@pytest.mark.parametrize(
    "line",
    [
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "f = torch.compile(g, options={'max_autotune': True})",
        "f = torch.compile(g, mode='max-autotune')",
        "torch.set_float32_matmul_precision('high')",
    ],
)
def test_the_line_is_that_of_any_way_to_set_one(line: str) -> None:
    one = found(TUNING, text=f"import torch\nf = torch.compile(g)\n{line}\n")
    assert one.source is not None and one.source.line == 3


@pytest.mark.parametrize(
    ("outcome", "helped", "note"),
    [
        ("passes", True, "The failure is gone."),
        ("fails", False, "The failure stays."),
        ("fails otherwise", False, "It fails in another way."),
    ],
)
def test_a_setting_that_was_put_back_says_what_the_failure_did(outcome: str, helped: bool, note: str) -> None:
    one = found(PLANNING, known=PutBack([Flag(name=PLANNING.name, value="False", outcome=outcome)]))
    (remedy,) = one.remedies
    assert (remedy.helped, remedy.words) == (helped, note)
    assert remedy.what == "`torch._inductor.config.memory_planning` put back to `False`"


def test_a_setting_that_was_tried_with_another_value_than_its_default_says_nothing() -> None:
    """Where the minimal program has the default, the sweep turns it to what the script has."""
    assert not found(PLANNING, known=PutBack([Flag(name=PLANNING.name, value="True", outcome="passes")])).remedies


def test_a_minimal_repro_tells_what_it_needs_and_what_it_does_without() -> None:
    one = found(PLANNING, CSE, FREEZING, known=PutBack(repro=REPRO, is_minimal=True))
    assert one.what.endswith(
        " The reproducer needs `torch._inductor.config.memory_planning`, and fails without `torch._functorch.config.cse`, `TORCHINDUCTOR_FREEZING`."
    )


@pytest.mark.parametrize(
    ("changed", "repro", "is_minimal"),
    [
        (PLANNING, REPRO, False),
        (PLANNING, "# torch._inductor.config.memory_planning = True was in the script\n", True),
        (PRECISION, "torch.backends.cuda.matmul.allow_tf32 = True\n", True),
        (TUNING, "torch.compile(f, mode='max-autotune')\n", True),
        (FREEZING, "torch._inductor.config.freezing = True\n", True),
        (PLANNING, None, True),
    ],
    ids=["not minimal", "in a comment", "another form", "by its mode", "by a setting", "no verified repro"],
)
def test_a_repro_that_may_have_the_setting_in_some_form_says_nothing(
    changed: Changed, repro: str | None, is_minimal: bool
) -> None:
    assert "reproducer" not in found(changed, known=PutBack(repro=repro, is_minimal=is_minimal)).what


def test_several_options_are_not_said_to_be_needed_one_by_one() -> None:
    """A reduction takes out all of them at once."""
    other, repro = (
        TUNING.model_copy(update={"name": "epilogue_fusion"}),
        "torch.compile(f, options={'max_autotune': True})\n",
    )
    assert found(TUNING, known=PutBack(repro=repro, is_minimal=True)).what.endswith(
        "The reproducer needs `max_autotune`."
    )
    assert "needs" not in found(TUNING, other, known=PutBack(repro=repro, is_minimal=True)).what
