"""What a report says of the culprit, given a reduced program and what was seen of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from minimizer.engine.child.outcome import Difference, Ending, ExceptionInfo, Outcome, Verdict
from minimizer.engine.levels.from_outcomes import culprit_of, details_of, dispute, mechanism_of
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.inside.rulings import Ruling, Unlike

META = TensorMeta((4,), "torch.float32", (1,))


def calling(*targets: str) -> Program:
    nodes = tuple(Node(f"v{index}", target, (Ref("x"),), meta=META) for index, target in enumerate(targets))
    return Program((Input("x", META, code="torch.ones(4)"),), nodes, (nodes[-1].name,))


def test_operators_that_were_seen_are_blamed_without_bookkeeping() -> None:
    program = calling("torch.nn.functional.gelu")
    assert culprit_of(program, ["aten.view", "aten.gelu"], None, program).ops == ["aten.gelu"]
    assert culprit_of(program, ["aten.view"], None, program).ops == ["aten.view"]


@pytest.mark.parametrize(
    ("target", "ops"),
    [
        ("torch.ldexp", ["aten.ldexp"]),
        (".sin_", ["aten.sin_"]),
        ("torch.nn.functional.gelu", ["aten.gelu"]),
        ("torch.ops.aten.add.Tensor", ["aten.add"]),
        ("torch._functorch.predispatch._make_dual", []),
        ("operator.add", []),
    ],
)
def test_calls_are_blamed_by_name_where_nothing_could_be_watched(target: str, ops: list[str]) -> None:
    """Where watching the operators crashes the process too."""
    program = calling(target)
    assert culprit_of(program, [], None, program).ops == ops


def differs(outcome: str, **verdict: object) -> Outcome:
    return Outcome.model_validate({"ending": outcome, "verdict": verdict})


def test_what_only_the_script_calls_a_failure_is_in_dispute() -> None:
    shown = Outcome(
        ending=Ending.DIFFERENT, verdict=Verdict(fault=True, differences=[Difference(max_abs=1e-6, required_atol=2e-6)])
    )
    assert dispute(shown, differs("different", fault=True)) is None
    assert dispute(shown, differs("compile_error")) is None
    text = dispute(shown, differs("same"))
    assert text is not None
    assert "atol=2.0e-06 would pass" in text
    eager_is_worse = dispute(shown, differs("same", compiled_error=1e-8, eager_error=1e-6))
    assert eager_is_worse is not None
    assert "eager is the less accurate side" in eager_is_worse


def test_nan_in_the_place_of_a_number_is_not_in_dispute() -> None:
    nan = Difference(where="grad[0]", kind="wrong_gradient", what="nan", expected="-6.125", actual="nan")
    shown = Outcome(ending=Ending.DIFFERENT, verdict=Verdict(fault=True, differences=[nan]))
    assert dispute(shown, differs("same")) is None


def test_a_repro_asks_for_a_gradient_that_one_side_does_not_have() -> None:
    meta = TensorMeta((4,), "torch.float32", (1,), requires_grad=True)
    program = Program((Input("x", meta, code="torch.ones(4)"),), (), ("x",))
    gone = Difference(where="grad[0]", kind="wrong_gradient", what="type", unlike=Unlike.ABSENT)
    wrong = Difference(where="grad[0]", kind="wrong_gradient", what="value", expected="1.0", actual="2.0")

    def details(difference: Difference) -> object:
        return details_of(program, Outcome(ending=Ending.DIFFERENT, verdict=Verdict(differences=[difference])), None)

    assert details(gone) == {"gradients": ["x"], "unused": True}
    assert details(wrong) == {"gradients": ["x"]}


@pytest.mark.parametrize(
    ("equals_itself", "places", "comparable"),
    [
        (True, [("output", "value"), ("output", "nan")], "tensor"),
        (True, [("output[0]", "inf")], "values"),
        (True, [("input[0]", "value")], "values"),
        (False, [("output", "value")], None),
        (True, [("output", "value"), ("output", "aliasing"), ("output", "stride")], "tensor"),
        (True, [("output[0]", "value"), ("output", "requires_grad")], "values"),
        (True, [("output", "value"), ("output", "dtype")], None),
        (True, [("output", "python")], None),
        (True, [("output", "shape")], None),
    ],
)
def test_values_are_compared_plainly_where_nothing_is_wrong_that_would_be_looked_at_too(
    equals_itself: bool, places: list[tuple[str, str]], comparable: str | None
) -> None:
    differences = [Difference(where=where, what=what) for where, what in places]
    verdict = Verdict(fault=True, equals_itself=equals_itself, differences=differences)
    details = details_of(calling(".sin"), Outcome(ending=Ending.DIFFERENT, verdict=verdict), None)
    assert details.get("comparable") == comparable


def test_a_child_that_says_nothing_of_nan_may_have_some() -> None:
    verdict = Verdict.model_validate({"fault": True, "differences": [{"where": "output"}]})
    assert "comparable" not in details_of(calling(".sin"), Outcome(ending=Ending.DIFFERENT, verdict=verdict), None)


def test_inputs_that_are_written_to_are_named_and_a_child_can_name_no_others() -> None:
    """What a child says is not to be trusted: it runs the user's script."""
    outcome = Outcome(ending=Ending.SAME, writes=[0, 7, -1])
    assert details_of(calling(".sin_"), outcome, None)["writes"] == ["x"]


def found(
    where: str, what: str, *, eager: str = "", compiled: str = "", unlike: Unlike | None = None
) -> Mapping[str, object]:
    """The details for a difference; ``eager``, ``compiled``: the places of which these are aliases."""
    program = Program(tuple(Input(n, META, code="torch.ones(4)") for n in "xy"), (), ("x",))
    difference = Difference(
        where=where, kind="wrong_metadata", what=what, expected_alias=eager, actual_alias=compiled, unlike=unlike
    )
    return details_of(program, Outcome(ending=Ending.DIFFERENT, verdict=Verdict(differences=[difference])), None)


@pytest.mark.parametrize(
    ("where", "place"),
    [("output", ""), ("output[1]", "[1]"), ("output[0][1]", "[0][1]")],
)
def test_wrong_metadata_is_placed_in_what_the_function_returns(where: str, place: str) -> None:
    """One output may be a tuple, which a function returns as it is."""
    assert found(where, "stride") == {"aspect": "stride", "output": place}


def test_wrong_metadata_may_be_that_of_an_input_after_the_call() -> None:
    assert found("input[1]", "stride") == {"aspect": "stride", "input": "y"}


def test_what_shares_memory_may_be_an_input_or_an_output() -> None:
    assert found("output[1]", "aliasing", eager="output[0]")["alias_of_output"] == "[0]"
    assert found("output[1]", "aliasing", compiled="output[0]")["alias_of_output"] == "[0]"
    assert found("output[1]", "aliasing", eager="input[1]", compiled="output[0]")["alias_of"] == "y"
    assert "alias_of" not in found("output[1]", "aliasing", eager="input[7]")


def test_an_output_may_be_the_object_of_another() -> None:
    details = found("output[1]", "identity", compiled="output[0]")
    assert details == {"aspect": "identity", "output": "[1]", "alias_of_output": "[0]"}


@pytest.mark.parametrize(
    ("unlike", "aspect"),
    [(Unlike.LAYOUT, "layout"), (Unlike.DEVICE, "device"), (Unlike.CLASS, "class"), (Unlike.ABSENT, "class")],
)
def test_another_sort_of_tensor_is_told_by_what_differs(unlike: Unlike, aspect: str) -> None:
    assert found("output", "type", unlike=unlike)["aspect"] == aspect


def test_a_repro_differentiates_what_the_judge_did_and_no_more_is_believed() -> None:
    values = {"output[0]": "torch.float32", "output[1][0]": "torch.complex64", "output; import os": "torch.float32"}
    details = details_of(calling(".sin"), Outcome(ending=Ending.DIFFERENT, differentiated=values), None)
    assert details == {"differentiated": {"[0]": "torch.float32", "[1][0]": "torch.complex64"}}


def test_what_reaches_the_caller_is_kept_beside_the_root() -> None:
    error = ExceptionInfo(type="torch.exc.Outer", message="lowering failed", root_type="KeyError", root_message="'f'")
    assert details_of(calling(".sin"), Outcome(ending=Ending.COMPILE_ERROR, exception=error), None) == {
        "said": "Outer: lowering failed"
    }


def test_no_error_against_double_precision_is_told_of_what_became_nan() -> None:
    """The referee's figure is that of the elements that are numbers: zero where there are none."""
    verdict = {"fault": True, "compiled_error": 0.0, "eager_error": 0.25}
    lost = culprit_of(
        calling("torch.amax"), [], differs("different", differences=[{"what": "nan"}], **verdict), calling("torch.amax")
    )
    off = culprit_of(
        calling("torch.amax"),
        [],
        differs("different", differences=[{"what": "value"}], **verdict),
        calling("torch.amax"),
    )
    assert lost.local_error is not None and off.local_error is not None
    assert (lost.local_error.compiled_vs_fp64, lost.local_error.eager_vs_fp64) == (None, 0.25)
    assert off.local_error.compiled_vs_fp64 == 0.0


def test_the_view_is_blamed_where_two_outputs_are_one_object() -> None:
    program = calling("operator.mul", ".view")
    one = differs("different", fault=True, differences=[{"where": "output[1]", "what": "identity"}])
    assert culprit_of(program, ["aten.mul", "aten.view"], one, program).ops == ["aten.view"]


def test_a_check_of_what_is_undefined_is_in_dispute() -> None:
    shown = differs("different", fault=True, differences=[{"what": "value", "max_abs": 128.0, "required_atol": 128.0}])
    judged = differs("same", rule="undefined", note="a float was converted")
    assert dispute(shown, judged) == "Disputed: a float was converted."


def test_what_is_otherwise_in_a_fault_of_precision_is_what_the_referee_says_of_it() -> None:
    verdict = Verdict(rule=Ruling.CASTS, why="a cast to bfloat16: is dropped", mechanism="dropped_cast")
    assert mechanism_of(verdict) == {"mechanism": "dropped_cast", "object": "a cast to bfloat16: is dropped"}


@pytest.mark.parametrize(("rule", "tolerances"), [(Ruling.EXACT, {"rtol": 0.0, "atol": 0.0}), (Ruling.FP64, {})])
def test_a_repro_demands_every_bit_where_all_producers_are_exact(rule: Ruling, tolerances: dict[str, float]) -> None:
    details = details_of(calling(".neg"), differs("different", fault=True, rule=rule), None)
    assert {name: details[name] for name in ("rtol", "atol") if name in details} == tolerances  # type: ignore[literal-required]


@pytest.mark.parametrize("cast", [".to", "torch.ops.prims.convert_element_type.default"])
def test_a_dropped_cast_is_blamed_at_its_line(cast: str) -> None:
    program = calling(cast, ".sub")
    lines = [(("script.py", line, code)) for line, code in ((3, "y = x.to(bf16)"), (4, "return x - y"))]
    nodes = tuple(replace(node, source=line) for node, line in zip(program.nodes, lines, strict=True))
    dropped = differs("different", fault=True, rule="casts", mechanism="dropped_cast")
    source = culprit_of(replace(program, nodes=nodes), ["aten.sub"], dropped, replace(program, nodes=nodes)).source
    assert source is not None and source.line == 3


def test_the_line_is_that_of_an_operator_and_not_of_the_end_of_autocast_behind_it() -> None:
    program = calling(".mm", "torch.amp.autocast_mode._exit_autocast")
    lines = (
        ("script.py", 3, "y = x @ w"),
        ("script.py", 9, "model(x)"),
    )  # the call of the graph, in place of a line of its own
    nodes = tuple(replace(node, source=line) for node, line in zip(program.nodes, lines, strict=True))
    source = culprit_of(replace(program, nodes=nodes), ["aten.mm"], None, replace(program, nodes=nodes)).source
    assert source is not None and source.line == 3
