"""What every reduction promises, whatever the program and whatever makes it fail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from fake_check import FakeCheck, Rule, both, flows, has, in_a_row, no_literal
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_programs import META, chain, well_formed

from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.engine.reduce.graph import Reduced, cut, reduce
from minimizer.engine.reduce.graph.order import sort_key
from minimizer.engine.reduce.graph.passes.sweep import singles
from minimizer.errors import BudgetExceeded, Cancelled
from minimizer.report.model import HistoryStep

OPS = ("torch.a", "torch.b", "torch.c", "torch.d", ".add_", "operator.setitem", "torch.split")
OTHER = TensorMeta((8, 16), "torch.float32", (16, 1))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Graphs of up to 14 nodes, with in-place nodes, tuples, several inputs, outputs, setup lines."""
    inputs = [
        Input(f"x{i}", draw(st.sampled_from([META, OTHER])), golden=f"x{i}") for i in range(draw(st.integers(1, 3)))
    ]
    tensors = [i.name for i in inputs]
    tuples: list[str] = []
    nodes: list[Node] = []
    for index in range(draw(st.integers(1, 14))):
        name, target = f"v{index}", draw(st.sampled_from(OPS))
        operands = tuple(Ref(draw(st.sampled_from(tensors))) for _ in range(draw(st.integers(1, 2))))
        meta: TensorMeta | None = draw(st.sampled_from([META, OTHER]))
        if target == "operator.setitem":
            operands, meta = (operands[0], draw(st.integers(0, 3)), operands[-1]), None
        elif target == "torch.split":
            meta = None
        elif tuples and draw(st.booleans()):
            target, operands = "operator.getitem", (Ref(draw(st.sampled_from(tuples))), 0)
        nodes.append(Node(name, target, operands, meta=meta))
        (tensors if meta is not None else tuples if target == "torch.split" else []).append(name)
    made = [name for name in tensors if name.startswith("v")]
    some = draw(st.lists(st.sampled_from(made), unique=True, max_size=3)) if made else []
    program = Program(
        inputs=tuple(inputs),
        nodes=tuple(nodes),
        outputs=tuple(some),
        setup=tuple(draw(st.lists(st.sampled_from(["import a", "b = 1", "c = 2"]), max_size=4))),
        compile_kwargs=tuple(draw(st.sets(st.sampled_from([("dynamic", "True"), ("fullgraph", "True")])))),
        grad=draw(st.booleans()),
    )
    used = {ref for node in program.nodes for ref in node.refs()} | set(program.outputs)
    return replace(program, inputs=tuple(i for i in program.inputs if i.name in used))


EXTRAS: tuple[Rule, ...] = (
    lambda program: "b = 1" in program.setup,
    lambda program: any(i.golden is not None for i in program.inputs),
    lambda program: any(i.meta is not None and max(i.meta.shape, default=0) >= 5 for i in program.inputs),
    lambda program: len(program.outputs) >= 2,
    lambda program: program.grad,
)


@st.composite
def failures(draw: st.DrawFn) -> tuple[Program, Rule]:
    """A program and a rule by which it fails: all that the rule asks for is drawn from what the program has."""
    program = draw(programs())
    nodes = {node.name: node for node in program.nodes}
    row = [draw(st.sampled_from(program.nodes))]
    while len(row) < 3 and draw(st.booleans()):
        producers = [nodes[name] for name in row[0].refs() if name in nodes]
        if not producers:
            break
        row.insert(0, draw(st.sampled_from(producers)))
    targets = st.sampled_from([node.target for node in program.nodes])
    shape = draw(
        st.one_of(
            st.lists(targets, min_size=1, max_size=3).map(lambda drawn: has(*drawn)),
            st.just(flows(*(node.target for node in (row[0], row[-1])[: len(row)]))),
            st.just(in_a_row(*(node.target for node in row))),
        )
    )
    extras = draw(st.lists(st.sampled_from(EXTRAS), unique=True))
    return program, both(shape, *(extra for extra in extras if extra(program)))


def run(program: Program, rule: Rule, *, jobs: int = 1, budget: int | None = None) -> tuple[Reduced, FakeCheck]:
    executor = FakeCheck(rule, budget=budget)
    return reduce(program, check=executor, literal=no_literal, jobs=jobs), executor


@settings(max_examples=400)
@given(failures(), st.integers(1, 4))
def test_every_result_fails_and_nothing_single_can_go(failure: tuple[Program, Rule], jobs: int) -> None:
    program, rule = failure
    assert rule(program), "every example says something"
    result, executor = run(program, rule, jobs=jobs)
    assert rule(result.best)
    well_formed(result.best)
    assert sort_key(result.best) <= sort_key(program)
    assert result.one_minimal
    assert len(executor.asked) == len(set(executor.asked)) == result.trials
    assert max(executor.batches, default=0) <= jobs
    for node in result.best.nodes:
        without = cut.drop(result.best, [node.name])
        assert without is None or sort_key(without) >= sort_key(result.best) or not rule(without)
    for candidate in singles(result.best):
        assert candidate is None or sort_key(candidate) >= sort_key(result.best) or not rule(candidate)


@settings(max_examples=60)
@given(failures(), st.integers(1, 4))
def test_the_same_program_gives_the_same_result(failure: tuple[Program, Rule], jobs: int) -> None:
    first, second = run(*failure, jobs=jobs)[0], run(*failure, jobs=jobs)[0]
    assert first.best == second.best
    assert first.trials == second.trials


@settings(max_examples=100)
@given(failures(), st.integers(0, 12))
def test_out_of_budget_the_best_so_far_comes_back(failure: tuple[Program, Rule], budget: int) -> None:
    program, rule = failure
    result, executor = run(program, rule, budget=budget)
    assert rule(result.best)
    assert result.one_minimal == (len(executor.asked) <= budget)


def test_cancelling_returns_the_best_so_far() -> None:
    def check(batch: object) -> list[bool]:
        raise Cancelled

    program = chain(["torch.a", "torch.b"])
    result = reduce(program, check=check, literal=no_literal)
    assert (result.best, result.one_minimal) == (program, False)


def test_the_time_is_looked_at_where_nothing_is_left_to_ask() -> None:
    """A large graph has many candidates of which the answer is known, and none of them waits for a trial."""
    program = chain(["torch.a"] * 4)

    def watch() -> None:
        raise BudgetExceeded("the time is up")

    def check(programs: Sequence[Program]) -> list[bool]:
        raise AssertionError("asked all the same")

    reduced = reduce(program, check=check, literal=lambda _: None, watch=watch)
    assert reduced.best is program and not reduced.one_minimal


def test_leading_past_a_whole_graph_takes_no_memory_in_the_square_of_it() -> None:
    """Where no value is like another, every node has all before it to stand for it."""
    metas = [TensorMeta((size,), "torch.float32") for size in range(1, 2003)]
    nodes = [Node(f"v{i}", "torch.a", (Ref(f"v{i - 1}" if i else "x"),), meta=meta) for i, meta in enumerate(metas[1:])]
    program = Program((Input("x", metas[0], golden="x"),), tuple(nodes), (nodes[-1].name,))
    assert cut.bypass(program, [node.name for node in nodes]) is None
    assert cut.bypass(program, [nodes[0].name]) is not None


def test_errors_of_the_oracle_itself_are_not_swallowed() -> None:
    def check(batch: object) -> list[bool]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        reduce(chain(["torch.a", "torch.b"]), check=check, literal=no_literal)


def test_each_accepted_candidate_is_told_and_recorded() -> None:
    steps: list[HistoryStep] = []
    sizes: list[int] = []

    def on_step(step: HistoryStep, program: Program) -> None:
        steps.append(step)
        sizes.append(program.size)

    needed = ["torch.a", "torch.b", "torch.c"]  # too many nodes for the jump to the simplest inputs
    program = chain(["torch.sin"] * 20 + needed + ["torch.sin"] * 20)
    result = reduce(program, check=FakeCheck(in_a_row(*needed)), literal=no_literal, on_step=on_step)
    assert steps == result.history
    assert [s.nodes for s in steps] == sizes
    assert [s.nodes for s in steps] == sorted((s.nodes for s in steps), reverse=True)
    assert [s.trial for s in steps] == sorted(s.trial for s in steps)
    assert {s.by for s in steps} >= {"window", "inputs to code", "shapes"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_jump_to_the_simplest_inputs_asks_no_more_at_once_than_there_are_jobs(jobs: int) -> None:
    result, executor = run(chain(["torch.a"]), has("torch.a"), jobs=jobs)
    assert [i.code for i in result.best.inputs] == ["torch.ones(1)"]
    assert [step.by for step in result.history] == ["guess"]
    assert max(executor.batches) == jobs
    kept, _ = run(chain(["torch.a"]), lambda p: p.inputs[0].meta == META, jobs=jobs)
    assert [i.code for i in kept.best.inputs] == ["torch.ones(8, 8)"]


def test_an_oracle_that_forgets_never_makes_the_result_larger() -> None:
    """A flaky failure: every third candidate that fails is judged healthy."""
    count = 0

    def flaky(program: Program) -> bool:
        nonlocal count
        count += 1
        return has("torch.a")(program) and count % 3 != 0

    program = chain(["torch.sin"] * 30 + ["torch.a"] + ["torch.sin"] * 30)
    result, _ = run(program, flaky)
    assert has("torch.a")(result.best)
    assert result.best.size < 10


def test_parallel_successes_are_merged() -> None:
    needed = ["torch.a", "torch.b", "torch.c"]
    targets = [t for target in needed for t in (target, *["torch.sin"] * 10)]
    serial, _ = run(chain(targets), has(*needed))
    parallel, executor = run(chain(targets), has(*needed), jobs=8)
    assert parallel.best.size == serial.best.size == 3
    assert len(executor.batches) < serial.trials


def test_only_the_setup_line_that_is_needed_stays() -> None:
    program = replace(
        chain(["torch.a"]), setup=tuple(f"line_{i}" for i in range(40)), compile_kwargs=(("dynamic", "True"),)
    )
    result, _ = run(program, lambda p: "line_17" in p.setup)
    assert result.best.setup == ("line_17",)
    assert result.best.compile_kwargs == ()
    assert result.trials < 30


def test_equal_setup_lines_are_taken_out_one_by_one() -> None:
    result, _ = run(replace(chain(["torch.a"]), setup=("f()",) * 3), lambda p: len(p.setup) >= 2)
    assert result.best.setup == ("f()", "f()")


def test_gradients_go_when_they_are_not_needed() -> None:
    meta = replace(META, requires_grad=True)
    result, _ = run(replace(chain(["torch.a"], meta=meta), grad=True), has("torch.a"))
    assert not result.best.grad
    assert result.best.inputs[0].meta is not None
    assert not result.best.inputs[0].meta.requires_grad


def test_gradients_that_are_needed_stay_and_inputs_say_so() -> None:
    meta = replace(META, requires_grad=True)
    program = replace(chain(["torch.a"], meta=meta), grad=True)
    result, _ = run(program, lambda p: p.grad and any(i.meta is not None and i.meta.requires_grad for i in p.inputs))
    assert result.best.inputs[0].code == "torch.ones(1).requires_grad_()"


def test_a_size_that_matters_is_as_small_as_it_can_be() -> None:
    meta = TensorMeta((4, 60), "torch.float32", (60, 1))
    result, _ = run(
        chain(["torch.a"], meta=meta), lambda p: any(i.meta is not None and max(i.meta.shape) >= 16 for i in p.inputs)
    )
    assert result.best.inputs[0].code == "torch.ones(16)"


def test_arguments_follow_the_sizes_of_inputs() -> None:
    x = Input("x", TensorMeta((32, 64), "torch.float32", (64, 1)), golden="x")
    flat = Node("v", ".view", (Ref("x"), 2048), meta=TensorMeta((2048,), "torch.float32", (1,)))

    def rule(program: Program) -> bool:
        views = [node for node in program.nodes if node.target == ".view"]
        shapes = [i.meta for i in program.inputs if i.meta is not None]
        return (
            bool(views)
            and len(views[0].args) == 2
            and len(shapes[0].shape) == 2
            and shapes[0].shape[0] >= 3
            and views[0].args[1] == shapes[0].numel
        )

    result, _ = run(Program(inputs=(x,), nodes=(flat,), outputs=("v",)), rule)
    assert result.best.inputs[0].meta is not None
    assert result.best.inputs[0].meta.shape[1] == 1
    assert result.best.inputs[0].meta.shape[0] < 32
    assert result.best.nodes[0].meta is None


def test_the_value_of_a_mutated_tensor_is_taken_at_its_first_use() -> None:
    nodes = (
        Node("v0", ".add_", (Ref("x"), 1), meta=META),
        Node("v1", "torch.a", (Ref("x"),), meta=META),
    )
    program = Program(inputs=(Input("x", META, golden="x"),), nodes=nodes, outputs=("v1",))
    smaller = cut.keep(program, ["v1"])
    assert smaller is not None
    assert smaller.inputs == (Input("x", META, golden="x@v1"),)


def test_in_place_nodes_are_never_dead_code() -> None:
    nodes = (
        Node("v0", "torch.clone", (Ref("x"),), meta=META),
        Node("v1", "operator.setitem", (Ref("v0"), 0, 1.0)),
        Node("v2", "torch.a", (Ref("x"),), meta=META),
    )
    program = Program(inputs=(Input("x", META, golden="x"),), nodes=nodes, outputs=("v2",))
    assert cut.select_outputs(program, ["v2"]) == program
    smaller = cut.keep(program, ["v0", "v1"])
    assert smaller is not None
    assert smaller.outputs == ("v0",)


@pytest.mark.parametrize(
    ("target", "pure"),
    [
        ("torch.relu", True), (".relu_", False), ("torch.ops.aten.add_.Tensor", False), ("operator.iadd", False),
        ("operator.invert", True), ("operator.index", True), ("torch._foreach_add_", False), (".__getitem__", True),
        ("torch._C._set_grad_enabled", False), ("torch.amp.autocast_mode._enter_autocast", False),
    ],
)  # fmt: skip
def test_which_nodes_mutate(target: str, pure: bool) -> None:
    assert cut.is_pure(Node("v", target, (Ref("x"),))) is pure


def test_a_scalar_input_is_written_into_the_function() -> None:
    nodes = (Node("v", "torch.a", (Ref("x"), Ref("n")), meta=META),)
    program = Program(inputs=(Input("x", META, golden="x"), Input("n", code="3")), nodes=nodes, outputs=("v",))
    result, _ = run(program, lambda p: has("torch.a")(p) and len(p.nodes[0].args) == 2)
    assert [i.name for i in result.best.inputs] == ["x"]
    assert result.best.nodes[0].args == (Ref("x"), 3)


def test_optional_operands_go_with_the_inputs_they_needed() -> None:
    names = ("x", "w", "b")
    node = Node("v", "F.layer_norm", (Ref("x"), (8,), Ref("w"), Ref("b"), 1e-5), meta=META)
    program = Program(inputs=tuple(Input(n, META, golden=n) for n in names), nodes=(node,), outputs=("v",))
    result, _ = run(program, lambda p: has("F.layer_norm")(p) and len(p.nodes[0].args) >= 2)
    assert [i.name for i in result.best.inputs] == ["x"]
    assert len(result.best.nodes[0].args) == 2


def test_float32_comes_before_other_floats() -> None:
    meta = TensorMeta((8,), "torch.bfloat16", (1,))
    result, _ = run(chain(["torch.a"], meta=meta), has("torch.a"))
    assert result.best.inputs[0].code == "torch.ones(1)"
    result, _ = run(
        chain(["torch.a"], meta=meta), lambda p: any(i.meta and i.meta.dtype == meta.dtype for i in p.inputs)
    )
    assert result.best.inputs[0].code == "torch.ones(1, dtype=torch.bfloat16)"


def test_a_program_that_only_mutates_returns_nothing() -> None:
    nodes = (Node("v0", ".add_", (Ref("x"), 1), meta=META), Node("v1", "torch.a", (Ref("x"),), meta=META))
    program = Program(inputs=(Input("x", META, golden="x"),), nodes=nodes, outputs=("v1",))
    result, _ = run(program, has(".add_"))
    assert [n.target for n in result.best.nodes] == [".add_"]
    assert result.best.outputs == ()


def test_a_value_without_meta_brings_its_producer() -> None:
    nodes = (
        Node("v0", "torch.sin", (Ref("x"),), meta=META),
        Node("v1", "torch.split", (Ref("v0"), 4)),
        Node("v2", "operator.getitem", (Ref("v1"), 0), meta=META),
    )
    smaller = cut.keep(Program(inputs=(Input("x", META, golden="x"),), nodes=nodes, outputs=("v2",)), ["v2"])
    assert smaller is not None
    assert [n.name for n in smaller.nodes] == ["v1", "v2"]
    assert smaller.inputs == (Input("v0", META, golden="v0"),)


def test_a_budget_error_is_the_budget_of_the_job() -> None:
    with pytest.raises(BudgetExceeded):
        FakeCheck(has(), budget=0)([chain(["torch.a"])])


def test_trap_18_an_index_stays_in_range_where_random_numbers_would_not_be() -> None:
    """A candidate that is invalid does not fail as the target does: the oracle refuses it, and the next kind is tried."""
    table = Input("table", TensorMeta((8, 4), "torch.float32", (4, 1)), golden="table")
    index = Input("index", TensorMeta((5,), "torch.int64", (1,)), golden="index")
    node = Node("v", "F.embedding", (Ref("index"), Ref("table")), meta=META)

    def in_range(program: Program) -> bool:
        inputs = {i.name: i for i in program.inputs}
        if inputs.keys() != {"table", "index"} or inputs["table"].meta is None:
            return False
        code = inputs["index"].code or "golden 8"
        drawn = re.search(r"golden (\d+)|arange\((\d+)|randint\(0, (\d+)", code)
        bound = int(drawn[drawn.lastindex or 0]) if drawn else 2 if "ones" in code else 1
        shape = inputs["table"].meta.shape
        return len(shape) == 2 and bound <= shape[0]

    program = Program(inputs=(index, table), nodes=(node,), outputs=("v",))
    result, _ = run(program, both(has("F.embedding"), in_range))
    assert in_range(result.best)
    assert all(i.golden is None for i in result.best.inputs)


def test_trap_18_data_that_matters_is_kept_and_not_made_up() -> None:
    """A failure that no generated value shows keeps its own values; beside it, what does not matter is made."""
    inputs = (Input("x", META, golden="x"), Input("y", META, golden="y"))
    program = Program(inputs=inputs, nodes=(Node("v", "torch.a", (Ref("x"), Ref("y")), meta=META),), outputs=("v",))
    result, _ = run(program, lambda p: has("torch.a")(p) and p.inputs[0].golden == "x")
    kept, *others = result.best.inputs
    assert kept.golden == "x"
    assert all(i.golden is None for i in others)


def test_what_opens_a_transform_goes_with_what_closes_it() -> None:
    opens, closes = (f"torch._functorch.predispatch._vmap_{what}crement_nesting" for what in ("in", "de"))

    def fails(program: Program) -> bool:
        targets = [node.target for node in program.nodes]
        return "torch.relu" in targets and (opens in targets) == (closes in targets)

    nodes = (
        Node("o", opens, (5, "error")),
        Node("r", "torch.relu", (Ref("x0"),), meta=META),
        Node("c", closes, ()),
    )
    program = Program((Input("x0", META, golden="x0"),), nodes, ("r",))
    assert [node.target for node in run(program, fails)[0].best.nodes] == ["torch.relu"]
