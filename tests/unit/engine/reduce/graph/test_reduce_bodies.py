"""What a higher-order operator calls, in the place of the operator."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_check import FakeCheck, Rule, no_literal
from toy_programs import tidy, well_formed

from minimizer.engine.program import render
from minimizer.engine.program.arguments import Arg, Code, Ref
from minimizer.engine.program.model import Body, Input, Node, Program, TensorMeta
from minimizer.engine.reduce.graph import Reduced, reduce
from minimizer.engine.reduce.graph.passes.bodies import opened
from minimizer.engine.reduce.graph.passes.inner import leaner

WRONG = "torch.log1p"
HALF = Body("inner", ("h",), (Node("sin", "torch.sin", (Ref("h"),)),), (Ref("sin"),))
SQUARE = Body(
    "inner_1",
    ("g",),
    (Node("mul", "operator.mul", (Ref("g"), Ref("g"))), Node("log", WRONG, (Ref("mul"),))),
    (Ref("log"),),
)
STEP = Body(
    "inner_2",
    ("count", "state"),
    (Node("more", "operator.add", (Ref("count"), 1)), Node("log_1", WRONG, (Ref("state"),))),
    (Ref("more"), Ref("log_1")),
)
PREDICATE = Body("inner_3", ("n", "s"), (Node("less", "operator.lt", (Ref("n"), 3)),), Ref("less"))


def calling(operator: str, *args: Arg, bodies: tuple[Body, ...], item: int = 0) -> Program:
    """A program that hands ``args`` to an operator, and returns one item of what that gives."""
    return Program(
        inputs=tuple(Input(name, code="torch.ones(4)") for name in ("p", "x")),
        nodes=(
            Node("before", "torch.abs", (Ref("x"),)),
            Node("made", f"torch.ops.higher_order.{operator}", args),
            Node("taken", "operator.getitem", (Ref("made"), item)),
            Node("after", "torch.neg", (Ref("taken"),)),
        ),
        outputs=("after",),
        bodies=bodies,
    )


COND = calling("cond", Ref("p"), Code("inner"), Code("inner_1"), (Ref("before"),), bodies=(HALF, SQUARE))
LOOP = calling(
    "while_loop", Code("inner_3"), Code("inner_2"), (Ref("p"), Ref("before")), (), bodies=(PREDICATE, STEP), item=1
)
SCAN = calling("scan", Code("inner_2"), [Ref("p")], [Ref("before")], [], bodies=(STEP,), item=1)
MAP = calling("map_impl", Code("inner_1"), [Ref("before")], [], bodies=(SQUARE,))


SCORE = Body(
    "inner_4",
    ("score", "batch", "head", "query", "key", "slopes"),
    (
        Node("slope", "operator.getitem", (Ref("slopes"), Ref("head"))),
        Node("log_2", WRONG, (Ref("key"),)),
        Node("scaled", "operator.mul", (Ref("log_2"), Ref("slope"))),
        Node("less", "operator.sub", (Ref("score"), Ref("scaled"))),
    ),
    Ref("less"),
)
MASK = Body(
    "inner_5",
    ("batch", "head", "query", "key"),
    (Node("seen", "operator.ge", (Ref("query"), Ref("key"))),),
    Ref("seen"),
)
ROWS = TensorMeta((2, 3, 5, 4), "torch.float32", (60, 20, 4, 1))
FLEX = Program(
    inputs=(*(Input(name, ROWS, golden=name) for name in ("q", "k", "v")), Input("s", TensorMeta((3,), "torch.float32"), golden="s")),
    nodes=(
        Node("bound", "functools.partial", (Code("inner_4"),), (("slopes", Ref("s")),)),
        Node(
            "made",
            "torch.ops.higher_order.flex_attention",
            (Ref("q"), Ref("k"), Ref("v"), Ref("bound"), (1, 1, Code("inner_5")), 0.5, {}),
        ),
        Node("taken", "operator.getitem", (Ref("made"), 0), meta=ROWS),
    ),
    outputs=("taken",),
    bodies=(SCORE, MASK),
)  # fmt: skip


def run(program: Program, rule: Rule) -> Reduced:
    reduced = reduce(program, check=FakeCheck(rule), literal=no_literal)
    well_formed(reduced.best)
    tidy(reduced.best)
    assert reduced.one_minimal
    return reduced


def calls_wrong(program: Program) -> bool:
    """By itself, or from what an operator calls."""
    is_called = any("higher_order" in node.target for node in program.nodes)
    return any(node.target == WRONG for node in (program.every_node if is_called else program.nodes))


def body_of(program: Program) -> list[str]:
    return [render.statement(node) for node in program.nodes]


@pytest.mark.parametrize(
    "program", [COND, LOOP, SCAN, MAP, FLEX], ids=["cond", "while_loop", "scan", "map_impl", "flex_attention"]
)
def test_an_operator_of_a_body_is_left_by_itself(program: Program) -> None:
    best = run(program, calls_wrong).best

    assert [node.target for node in best.nodes] == [WRONG]
    assert best.called == ()


def test_only_what_the_program_takes_of_an_operators_results_is_returned() -> None:
    """The rest may be undefined, as the scores of flex_attention are that nobody asks for."""
    best = run(FLEX, lambda program: any("higher_order" in node.target for node in program.nodes)).best

    assert best.outputs == ("taken",)


def test_each_branch_is_tried() -> None:
    first, second = (program for program in opened(COND) if program is not None)

    assert body_of(first) == ["before = torch.abs(x)", "made_sin = torch.sin(before)", "after = torch.neg(made_sin)"]
    assert body_of(second)[1:3] == ["made_mul = before * before", "made_log = torch.log1p(made_mul)"]


def test_a_round_takes_the_first_row_of_what_is_scanned() -> None:
    (program,) = (program for program in opened(SCAN) if program is not None)

    assert body_of(program) == [
        "before = torch.abs(x)",
        "made_row_0 = before[0]",
        "made_log_1 = torch.log1p(made_row_0)",
        "after = torch.neg(made_log_1)",
    ]


def test_the_functions_of_an_attention_get_a_row_of_scores_and_what_they_capture() -> None:
    score, mask = (program for program in opened(FLEX) if program is not None)

    assert body_of(score) == [
        "made_slope = s[made_head]",
        "made_log_2 = torch.log1p(made_key)",
        "made_scaled = made_log_2 * made_slope",
        "made_less = made_score - made_scaled",
    ]
    assert {item.name: item.code for item in score.inputs if item.golden is None} == {
        "made_score": "torch.randn(5)",
        "made_head": "torch.zeros(5, dtype=torch.int32)",
        "made_key": "torch.arange(5, dtype=torch.int32)",
    }
    assert body_of(mask) == ["made_seen = made_query >= made_key"]
    assert FLEX.size == 1


def test_an_attention_of_tensors_of_unknown_shape_is_left_alone() -> None:
    computed = Node("p", "torch.relu", (Ref("q"),))
    attention = FLEX.nodes[1]
    program = replace(
        FLEX, nodes=(FLEX.nodes[0], computed, replace(attention, args=(Ref("p"), *attention.args[1:])), FLEX.nodes[2])
    )

    assert list(opened(program)) == []


def test_names_stay_apart() -> None:
    taken = replace(
        COND,
        nodes=(
            replace(COND.nodes[0], name="made_sin"),
            COND.nodes[1].mapped(lambda leaf: Ref("made_sin") if leaf == Ref("before") else leaf),
            *COND.nodes[2:],
        ),
    )

    first, _ = (program for program in opened(taken) if program is not None)

    assert body_of(first) == [
        "made_sin = torch.abs(x)",
        "made__sin = torch.sin(made_sin)",
        "after = torch.neg(made__sin)",
    ]


def test_a_result_that_is_returned_as_it_is() -> None:
    whole = replace(LOOP, nodes=LOOP.nodes[:2], outputs=("made",))

    round_, condition = (program for program in opened(whole) if program is not None)

    assert round_.outputs == ("made_more", "made_log_1")
    assert condition.outputs == ("made_less",)


def test_an_operator_at_fault_keeps_of_its_bodies_what_the_failure_needs() -> None:
    best = run(COND, lambda program: len(program.called) == 2 and calls_wrong(program)).best

    assert [node.target for node in best.nodes] == ["torch.ops.higher_order.cond"]
    assert render.setup(best) == (
        "def inner(h):\n    return (h,)",
        "def inner_1(g):\n    log = torch.log1p(g)\n    return (log,)",
    )


def test_a_fingerprint_knows_what_bodies_compute_and_not_where_they_come_from() -> None:
    def with_sine(**changes: object) -> Program:
        return replace(COND, bodies=(replace(HALF, nodes=(replace(HALF.nodes[0], **changes),)), SQUARE))  # type: ignore[arg-type]

    assert with_sine(source=("model.py", 7, "h.sin()"), module="gate").fingerprint() == COND.fingerprint()
    assert with_sine(target="torch.cos").fingerprint() != COND.fingerprint()


def test_a_body_that_nothing_calls_is_not_written() -> None:
    inner = replace(SQUARE, nodes=(*SQUARE.nodes, Node("deep", "torch.ops.higher_order.cond", (Code("inner"),))))
    deep = replace(COND, bodies=(HALF, inner))

    assert [body.name for body in deep.called] == ["inner", "inner_1"]
    assert replace(deep, nodes=deep.nodes[:1], outputs=("before",)).called == ()


@pytest.mark.parametrize(
    "args",
    [(Ref("p"), Code("inner"), Code("inner_1")), (Ref("p"), Code("inner"), Code("inner_1"), (Ref("x"), Ref("x")))],
    ids=["too few arguments", "too many operands"],
)
def test_a_call_of_another_form_is_left_alone(args: tuple[Arg, ...]) -> None:
    program = calling("cond", *args, bodies=(HALF, SQUARE))

    assert [candidate for candidate in opened(program) if candidate is not None] == []


COUNTED = Body(
    "inner_6",
    ("step", "state", "count", "bias"),
    (Node("counted", ".add_", (Ref("count"), 1)), Node("less", "operator.lt", (Ref("step"), 3))),
    Ref("less"),
)
ADVANCED = Body(
    "inner_7",
    ("step", "state", "count", "bias"),
    (
        Node("next", "operator.add", (Ref("step"), 1)),
        Node("moved", "torch.add", (Ref("state"), Ref("bias"))),
        Node("bent", "torch.tanh", (Ref("moved"),)),
    ),
    (Ref("next"), Ref("bent")),
)
COUNTING = replace(
    calling(
        "while_loop",
        Code("inner_6"),
        Code("inner_7"),
        (Ref("p"), Ref("before")),
        (Ref("x"), Ref("b")),
        bodies=(COUNTED, ADVANCED),
    ),
    inputs=tuple(Input(name, code="torch.ones(4)") for name in ("p", "x", "b")),
)


def counts(program: Program) -> bool:
    """A loop that can run, and whose condition changes what it is handed."""
    loop = next((node for node in program.nodes if "higher_order" in node.target), None)
    if loop is None or len(loop.args) != 4 or not all(isinstance(items, tuple) for items in loop.args[2:]):
        return False
    carried, free = loop.args[2:]
    can_run = len(carried) > 0 and all(len(body.parameters) == len(carried) + len(free) for body in program.called)
    return can_run and any(node.target == ".add_" for node in program.every_node)


def test_bodies_of_an_operator_at_fault_keep_what_the_failure_needs() -> None:
    best = run(COUNTING, counts).best

    assert [node.target for node in best.every_node if "higher_order" not in node.target] == [".add_"]
    loop = next(node for node in best.nodes if "higher_order" in node.target)
    assert [len(items) for items in loop.args[2:]] == [1, 0]
    assert all(len(body.parameters) == 1 for body in best.called)


def test_an_operand_is_left_out_and_a_body_that_reads_it_reads_its_first_parameter() -> None:
    fewer = [
        program for program in leaner(COUNTING) if program is not None and "b" not in {i.name for i in program.inputs}
    ]

    (advanced,) = [body for body in fewer[0].called if body.name == "inner_7"]
    assert advanced.parameters == ("step", "state", "count")
    assert [node.args for node in advanced.nodes if node.name == "moved"] == [(Ref("state"), Ref("step"))]


def test_what_a_loop_carries_stays_where_its_last_value_is_taken() -> None:
    second = tuple(replace(n, args=(n.args[0], 1)) if n.name == "taken" else n for n in COUNTING.nodes)
    best = run(
        replace(COUNTING, nodes=second),
        lambda program: counts(program) and any(n.name == "taken" for n in program.nodes),
    ).best

    loop, taken = (next(n for n in best.nodes if word in n.target) for word in ("higher_order", "getitem"))
    assert taken.args[1] < len(loop.args[2])
    advance = next(body for body in best.called if isinstance(body.result, tuple))
    assert len(advance.result) == len(loop.args[2])


@pytest.mark.parametrize(
    "loop",
    [
        replace(COUNTING, bodies=(COUNTED,)),
        replace(COUNTING, bodies=(replace(COUNTED, parameters=("step",)), replace(ADVANCED, parameters=()))),
        replace(
            COUNTING, nodes=tuple(replace(n, args=(n.args[0], "x")) if n.name == "taken" else n for n in COUNTING.nodes)
        ),
    ],
    ids=["a body is missing", "fewer parameters than operands", "an item by another index"],
)
def test_a_graph_that_its_sender_made_up_has_no_candidates_and_no_error(loop: Program) -> None:
    for program in leaner(loop):
        assert program is None or all(isinstance(node, Node) for node in program.every_node)
