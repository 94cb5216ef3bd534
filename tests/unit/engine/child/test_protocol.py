"""Whatever the far side sends: it is taken as agreed, or refused as `ChildFailed`. Nothing else, and nothing is ever run."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minimizer.engine.child import protocol, sent_program
from minimizer.engine.child.bounded import Loose, parse
from minimizer.engine.child.outcome import Outcome, Verdict
from minimizer.engine.child.protocol import MAX_MODULES, End, Finished, Held, Part, Phase, Ready, Stacks
from minimizer.engine.child.sent_program import parse_program
from minimizer.engine.emit.layout import setup
from minimizer.engine.program import render
from minimizer.engine.program.arguments import Code, Ref
from minimizer.engine.program.model import Program
from minimizer.errors import ChildFailed, GraphTooLarge

META: dict[str, Any] = {
    "shape": [2, 3],
    "dtype": "torch.float32",
    "stride": [3, 1],
    "device": "cpu",
    "requires_grad": False,
    "symbolic": [0],
}
NODE: dict[str, Any] = {
    "name": "y", "target": "torch.relu", "args": [{"ref": "x"}], "kwargs": {}, "meta": META, "number": 2,
}  # fmt: skip
INPUT: dict[str, Any] = {"name": "x", "meta": META, "golden": "x"}
BODY: dict[str, Any] = {"name": "inner", "parameters": ["x"], "nodes": [NODE], "result": {"tuple": [{"ref": "y"}]}}
PROGRAM: dict[str, Any] = {
    "inputs": [INPUT], "nodes": [NODE], "outputs": ["y"], "functions": [BODY],
    "level": "dynamo", "setup": [], "compile_kwargs": {}, "grad": False,
}  # fmt: skip
ROOT = Path(protocol.__file__).parents[2]
PARENT = sorted(path for path in ROOT.rglob("*.py") if "inside" not in path.relative_to(ROOT).parts)
HARM = "__import__('os').system('touch harm')"
NO_NAMES = [
    HARM,
    "a b",
    "a;b",
    "x=1",
    "",
    "lambda",
    "None",
    "a.b",
    "1a",
    "x" * 5000,
    3,
    None,
    [],
    {},
    ["x"],
    True,
    1e999,
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(NO_NAMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def with_(base: dict[str, Any], path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a message with the value at a path replaced."""
    copy = json.loads(json.dumps(base))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return copy


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a message."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in below for place in [(*path, key), *paths(item, (*path, key))]]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_settings_stand_behind_the_functions_of_a_graph() -> None:
    """In front of a definition they are run outside of the ``try`` of a repro: a torch that lacks one would show the bug."""
    setting = "torch._inductor.config.cpp_wrapper = True"
    called = {**NODE, "target": "torch.ops.higher_order.map_impl", "args": [{"code": "inner"}]}
    program = parse_program({**PROGRAM, "nodes": [called], "setup": [setting]})
    assert len(render.setup(program)) == 2
    assert setup(render.setup(program)).settings == (setting,)


def test_a_program_as_agreed() -> None:
    program = parse_program(PROGRAM)
    assert program.node("y").args == (Ref("x"),)
    assert program.input("x").golden == "x"
    assert program.metas["y"] == program.metas["x"]
    assert program.input("x").meta is not None
    assert program.input("x").meta.symbolic == (0,)
    assert program.node("y").number == 2


@pytest.mark.parametrize(
    "value",
    [*NO_NAMES, 10**400, -1, nested(100_000)],
    ids=lambda value: str(value)[:20] if not isinstance(value, list) else "list",
)
def test_any_value_anywhere_is_taken_or_refused(value: Any) -> None:
    for path in paths(PROGRAM):
        taken_or_refused(path, value)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(paths(PROGRAM)), JSON)
def test_random_values_anywhere_are_taken_or_refused(path: tuple[Any, ...], value: Any) -> None:
    taken_or_refused(path, value)


def taken_or_refused(path: tuple[Any, ...], value: Any) -> None:
    message = with_(PROGRAM, path, value)
    try:
        program = parse_program(message)
    except ChildFailed as refused:
        assert str(refused)
    else:
        assert isinstance(program, Program)
        assert_names(program)


def assert_names(program: Program) -> None:
    for name in [*(i.name for i in program.inputs), *(n.name for n in program.nodes), *program.outputs]:
        assert name.isidentifier()


@pytest.mark.parametrize(
    "path",
    [
        ("inputs", 0, "name"),
        ("inputs", 0, "golden"),
        ("nodes", 0, "name"),
        ("nodes", 0, "args", 0, "ref"),
        ("outputs", 0),
        ("functions", 0, "name"),
        ("functions", 0, "parameters", 0),
        ("functions", 0, "nodes", 0, "name"),
        ("functions", 0, "result", "tuple", 0, "ref"),
        ("inputs", 0, "meta", "device"),
    ],
)
def test_code_is_no_name(path: tuple[Any, ...]) -> None:
    for name in NO_NAMES:
        with pytest.raises(ChildFailed, match="malformed program"):
            parse_program(with_(PROGRAM, path, name))


@pytest.mark.parametrize("target", [HARM, "torch.relu(x) or f", "torch.relu\n", "torch.import", ".", "", None, 3])
def test_code_is_no_target_and_no_dtype(target: Any) -> None:
    for path in (("nodes", 0, "target"), ("nodes", 0, "meta", "dtype")):
        with pytest.raises(ChildFailed):
            parse_program(with_(PROGRAM, path, target))


@pytest.mark.parametrize("field", ["kwargs", "compile_kwargs"])
def test_code_is_no_keyword(field: str) -> None:
    message = with_(PROGRAM, ("compile_kwargs",), {HARM: "1"})
    if field == "kwargs":
        message = with_(PROGRAM, ("nodes", 0, "kwargs"), {HARM: 1})
    with pytest.raises(ChildFailed):
        parse_program(message)


@pytest.mark.parametrize("missing", sorted(PROGRAM))
def test_a_missing_field(missing: str) -> None:
    with pytest.raises(ChildFailed):
        parse_program({key: value for key, value in PROGRAM.items() if key != missing})


@pytest.mark.parametrize("message", [None, 3, "text", [], [1], {}, nested(100_000)])
def test_no_program_at_all(message: Any) -> None:
    with pytest.raises(ChildFailed):
        parse_program(message)


def test_deep_nesting_is_refused() -> None:
    """Deep enough for the stack of the parent, were it followed; JSON itself allows it."""
    for arg in (nested(3000), {"tuple": nested(3000)}, {"dict": [["k", nested(3000)]]}):
        with pytest.raises(ChildFailed):
            parse_program(
                with_(PROGRAM, ("nodes", 0, "args"), [arg])
                if False
                else {**PROGRAM, "nodes": [{**NODE, "args": [arg]}]}
            )


def test_sizes_that_are_no_sizes_are_refused() -> None:
    for size in (math.inf, math.nan, "many", None, [1]):
        with pytest.raises(ChildFailed):
            parse_program(with_(PROGRAM, ("inputs", 0, "meta", "shape"), [size]))


@pytest.mark.parametrize("field", ["shape", "stride", "symbolic"])
def test_tensors_that_torch_cannot_have_are_refused(field: str) -> None:
    """The number of elements of four thousand dimensions of as many digits takes the worker minutes, and is asked for again and again."""
    for sizes in ([1 << 63], [-(1 << 63) - 1], [1] * 257):
        with pytest.raises(ChildFailed, match="more or larger dimensions"):
            parse_program(with_(PROGRAM, ("inputs", 0, "meta", field), sizes))
    parse_program(with_(PROGRAM, ("inputs", 0, "meta", field), [(1 << 63) - 1, 0, *[1] * 254]))


def test_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_program, "MAX_NODES", 3)
    parse_program({**PROGRAM, "nodes": [NODE] * 2})
    with pytest.raises(GraphTooLarge, match=r"4 nodes, and one of at most 3 .* Compile a part of the model"):
        parse_program({**PROGRAM, "nodes": [NODE] * 3})
    with pytest.raises(GraphTooLarge, match="4 nodes"):
        parse_program({**PROGRAM, "functions": [BODY, {**BODY, "name": "other", "nodes": [NODE] * 2}]})
    for what in ("inputs", "outputs"):
        with pytest.raises(GraphTooLarge, match=f"4 {what}"):
            parse_program({**PROGRAM, what: PROGRAM[what] * 4})


def test_the_path_of_a_module_is_cut_where_no_model_has_modules() -> None:
    (node,) = parse_program({**PROGRAM, "nodes": [{**NODE, "module": "a." * 400}]}).nodes
    assert node.module == ".".join("a" * MAX_MODULES)


def test_free_text_is_kept_as_text() -> None:
    """Input code, setup lines and compile arguments are text of the script."""
    program = parse_program(
        {
            **PROGRAM,
            "inputs": [{"name": "x", "code": HARM}],
            "nodes": [{**NODE, "args": [{"code": HARM}]}],
            "setup": [HARM],
            "compile_kwargs": {"dynamic": HARM},
        }
    )
    assert program.setup == (HARM,)
    assert program.inputs[0].code == HARM
    assert program.nodes[0].args == (Code(HARM),)
    assert program.compile_kwargs == (("dynamic", HARM),)


def test_the_parent_has_no_means_to_run_such_text() -> None:
    """Only sandboxes execute what came over the pipe: outside of ``inside`` nothing evaluates or unpickles anything."""
    assert len(PARENT) > 100
    means = {str(path.relative_to(ROOT)): means_to_run_text(path) for path in PARENT}
    assert {module: found for module, found in means.items() if found} == {}


def means_to_run_text(module: Path) -> set[str]:
    """What a module calls, imports or passes that runs text or unpickles bytes."""
    tree = ast.parse(module.read_text())
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    passed = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    return (
        called & {"eval", "exec", "__import__"}
        | imported & {"pickle", "marshal", "shelve", "dill", "cloudpickle", "code", "runpy"}
        | passed & {"shell"}
    )


def test_each_means_to_run_text_is_known(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    for text, found in (
        ("eval(x)", "eval"),
        ("import pickle", "pickle"),
        ("from code import y", "code"),
        ("run(shell=1)", "shell"),
    ):
        module.write_text(text)
        assert means_to_run_text(module) == {found}


MESSAGES: list[tuple[type[Loose], dict[str, Any]]] = [
    (Ready, {"environment": {"torch": "2.13.0", "python": "3.11"}, "gpu": False}),
    (Phase, {"doing": "run", "graph": 0, "call": 1, "eager_seconds": 0.1, "trusted": True, "checked": {"calls": 2}}),
    (Stacks, {"text": "Thread 0x1"}),
    (Part, {"name": "post_grad_passes/mine", "acted": None}),
    (End, {"exit": 0, "signal": None, "timed_out": False, "seconds": 1.5, "log": ""}),
    (Held, {"failure": {"graph": 0, "call": 1, "phase": "run", "kind": "wrong_output"}, "program": PROGRAM}),
    (
        Finished,
        {
            "exception": {"type": "E", "message": "m", "root_type": "E", "root_message": "m", "frames": [["f", "g", "h"]]},
            "checked": {"frames": 1, "calls": 2, "backward": 0},
            "suspects": [{"graph": 0, "call": 0, "verdict": {"fault": False, "differences": [{"where": "output[0]"}]}}],
            "checks": [{"rtol": 0.1, "atol": 0.0}],
            "notes": ["n"],
        },
    ),
    (Outcome, {"ending": "different", "verdict": {"fault": True, "kind": "wrong_output"}, "ops": ["aten.relu"], "seconds": 1.0}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "message"), MESSAGES)
def test_messages_as_agreed(model: type[Loose], message: dict[str, Any]) -> None:
    assert isinstance(parse(model, message), model)
    assert isinstance(parse(model, {**message, "from_the_future": 1}), model)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([(m, d, p) for m, d in MESSAGES for p in paths(d)]), JSON)
def test_messages_with_anything_in_them(case: tuple[type[Loose], dict[str, Any], tuple[Any, ...]], value: Any) -> None:
    model, message, path = case
    try:
        assert isinstance(parse(model, with_(message, path, value)), model)
    except ChildFailed as refused:
        assert "malformed" in str(refused)


@pytest.mark.parametrize("model", [model for model, _ in MESSAGES])
@pytest.mark.parametrize("message", [None, 3, "text", [], [1], nested(100_000)], ids=lambda m: str(type(m)))
def test_no_message_at_all(model: type[Loose], message: Any) -> None:
    with pytest.raises(ChildFailed, match="malformed"):
        parse(model, message)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Outcome, {"ending": "minimized"}),
        (Outcome, {"ending": "same", "ops": ["x"] * 10_001}),
        (Outcome, {"ending": "same", "ops": ["x" * 20_001]}),
        (Outcome, {"ending": "same", "seconds": "soon"}),
        (Finished, {"notes": ["n"] * 101}),
        (Finished, {"checks": [{"rtol": [HARM]}]}),
        (Finished, {"suspects": [{"graph": "first", "call": 0, "verdict": {}}]}),
        (Held, {"failure": {"graph": 0, "phase": "lunch"}, "program": PROGRAM}),
        (Held, {"failure": {"graph": 0, "phase": "run"}, "program": [PROGRAM]}),
        (Held, {"failure": {"graph": 0, "phase": "run", "kind": "hang"}, "program": PROGRAM}),
        (Verdict, {"kind": "crash"}),
        (Ready, {"environment": {"torch": "x" * 301}}),
        (Phase, {"graph": "one"}),
        (Phase, {"graph": 1, "call": []}),
        *((Phase, {"checked": {"calls": forged}}) for forged in ("many", [], -1.5, None)),
        (Part, {"name": "x", "acted": "perhaps"}),
    ],
)
def test_refused(model: type[Loose], message: dict[str, Any]) -> None:
    with pytest.raises(ChildFailed, match="malformed"):
        parse(model, message)


def test_an_error_names_the_field_and_no_more_of_a_key_than_fits() -> None:
    with pytest.raises(ChildFailed, match=r"malformed Finished: health\.seconds: "):
        parse(Finished, {"health": {"seconds": -1.0}})
    with pytest.raises(ChildFailed) as refused:
        parse(Finished, {"checks": [{"k" * 30_000: 1.0}]})
    assert len(str(refused.value)) < 500


def test_numbers_that_json_has_not_come_as_text() -> None:
    verdict = parse(Verdict, {"compiled_error": "inf", "differences": [{"max_abs": "nan"}]})
    assert verdict.compiled_error == math.inf
    assert verdict.differences[0].max_abs is not None
    assert math.isnan(verdict.differences[0].max_abs)
