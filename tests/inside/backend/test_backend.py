"""The dynamo backend: its choices, what it saves, and the script that is made of that."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from checkout import ROOT, entry_points

import minimizer
from minimizer.from_backend import write_script
from minimizer.inside.backend import backend
from minimizer.inside.backend.backend import Choices
from minimizer.inside.backend.checked import Fault
from minimizer.inside.backend.saved import save
from minimizer.inside.referee.call import Call
from minimizer.inside.values import snapshot


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_choices_come_from_options_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Choices.read({}) == Choices()
    monkeypatch.setenv("MINIMIZER_BACKEND_ON_FAILURE", "report")
    monkeypatch.setenv("MINIMIZER_BACKEND_CALLS", "9")
    monkeypatch.setenv("MINIMIZER_BACKEND_WAIT", "1")
    chosen = Choices.read({"minimizer.calls": 2})
    assert (chosen.on_failure, chosen.calls, chosen.wait) == ("report", 2, True)


def test_every_choice_is_in_the_table_of_its_page() -> None:
    text = (ROOT / "docs" / "backend.md").read_text()
    for name, value in vars(Choices()).items():
        shown = f"`{value}`" if isinstance(value, str) else "no" if value is False else f"{value:g}"
        assert f"| `{backend.PREFIX}{name}` | {shown} |" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"minimizer.on_failure": "explode"}, "none of minimize, report, raise, off"),
        ({"minimizer.call": 3}, "no option minimizer.call; there are minimizer.on_failure"),
        ({"minimizer.calls": "many"}, "'many' is not a int"),
    ],
)
def test_a_wrong_choice_is_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Choices.read(options)


def test_inductor_refuses_its_own_options_by_itself() -> None:
    compiled = torch.compile(lambda x: x + 1, backend=backend.minimizer, options={"no_such_option": 1})
    with pytest.raises(Exception, match="no_such_option"):
        compiled(torch.ones(2))


def capture(function: Any, *inputs: Any, kind: str = "wrong_output", backward: bool = False, **kwargs: Any) -> Fault:
    """The graph that Dynamo makes of a function, as a fault of its first call."""
    found: list[Fault] = []

    def keep(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        from minimizer.inside.graph.graphs import concrete, copy_graph

        module = torch.fx.GraphModule(graph, copy_graph(graph.graph))
        rng = snapshot.rng_state()
        values = concrete(module.graph, examples)
        call = Call(module, values, rng, snapshot.global_state())
        found.append(Fault(module, call.behind(None) if backward else call, 0, kind, "it differs"))
        return graph

    torch.compile(function, backend=keep, **kwargs)(*inputs)
    (fault,) = found
    return fault


def run_saved(fault: Fault, folder: Path, **kwargs: Any) -> dict[str, Any]:
    """Save, make a script of it, and run that with a compiler that does nothing; its globals."""
    save(fault, str(folder), kwargs)
    script = write_script(folder)
    torch._dynamo.reset()
    compile_ = torch.compile
    seen: dict[str, Any] = {}

    def eager(function: Any, **given: Any) -> Any:
        seen.update(given)
        return function

    torch.compile = eager  # type: ignore[assignment]
    try:
        return {**runpy.run_path(str(script)), "given": seen}
    finally:
        torch.compile = compile_  # type: ignore[assignment]


def test_the_script_computes_what_the_graph_did(tmp_path: Path) -> None:
    torch.manual_seed(3)
    linear = torch.nn.Linear(4, 2)
    x = torch.randn(3, 4)

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(linear(x)) * 2 + torch.rand(2)

    fault = capture(model, x)
    ran = run_saved(fault, tmp_path / "graph-0")
    torch.set_rng_state(fault.call.rng["torch"])
    assert torch.equal(ran["outputs"], model(x))
    assert ran["outputs"].requires_grad
    text = (tmp_path / "graph-0" / "graph.py").read_text()
    assert "wrong_output in call 0" in text
    assert f"# test_backend.py:{model.__code__.co_firstlineno + 1}" in text


def test_the_script_runs_the_backward_and_keeps_storage_sharing(tmp_path: Path) -> None:
    base = torch.arange(6.0)
    views = (base[:4], base[2:])

    def both(a: torch.Tensor, b: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (a + b) * w

    weight = torch.full((4,), 2.0, requires_grad=True)
    fault = capture(both, *views, weight, kind="wrong_gradient", backward=True)
    ran = run_saved(fault, tmp_path / "graph-0", mode="max-autotune-no-cudagraphs", options={})
    assert ran["given"] == {"mode": "max-autotune-no-cudagraphs"}
    one, two, learned = (value for value in ran["inputs"])
    assert one.untyped_storage().data_ptr() == two.untyped_storage().data_ptr()
    assert torch.equal(learned.grad, (views[0] + views[1]).detach())


def test_the_script_makes_views_of_their_bases(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4).clone()

    def both(part: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
        return part.t() * whole[1:]

    ran = run_saved(capture(both, base[1:].t(), base), tmp_path / "graph-0")
    whole, part = sorted(ran["inputs"], key=torch.Tensor._is_view)
    assert part._base is whole and torch.equal(part, base[1:].t())
    assert torch.equal(ran["outputs"], base[1:].square())


def test_tensors_of_a_class_of_the_users_own_are_saved_as_plain_ones(tmp_path: Path) -> None:
    class Tag(torch.Tensor):
        pass

    fault = capture(lambda x: x + 1, torch.ones(3).as_subclass(Tag))
    ran = run_saved(fault, tmp_path / "graph-0")
    assert type(ran["inputs"][0]) is torch.Tensor


def test_symbols_become_a_dynamic_compilation(tmp_path: Path) -> None:
    def scale(x: torch.Tensor) -> torch.Tensor:
        return x * x.size(0)

    ran = run_saved(capture(scale, torch.ones(5, 2), dynamic=True), tmp_path / "graph-0")
    assert ran["given"] == {"dynamic": True}
    assert torch.equal(
        ran["outputs"][0] if isinstance(ran["outputs"], tuple) else ran["outputs"], torch.full((5, 2), 5.0)
    )


def test_what_the_main_program_registers_travels_with_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = tmp_path / "train.py"
    main.write_text(
        dedent("""
        import torch
        @torch.library.custom_op("captured_test::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2
        @twice.register_fake
        def _(x):
            return torch.empty_like(x)
        print("training")
        """)
    )
    twice = runpy.run_path(str(main))["twice"]
    monkeypatch.setattr(sys, "argv", [str(main)])
    fault = capture(lambda x: twice(x) + 1, torch.ones(2))
    save(fault, str(tmp_path / "graph-0"), {})
    text = write_script(tmp_path / "graph-0").read_text()
    assert 'custom_op("captured_test::twice"' in text
    assert "training" not in text


PROGRAM = """
import torch

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


@torch.compile(backend="minimizer", options={"minimizer.on_failure": "CHOICE"})
def model(x):
    return torch.relu(x) + 1


for call in range(3):
    try:
        print(model(torch.ones(2)))
    except RuntimeError as error:
        print(f"raised: {error}")
"""


@pytest.mark.quality("slow")
@pytest.mark.parametrize("choice", ["report", "raise", "off"])
def test_the_name_is_found_and_the_program_stays_usable(choice: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.replace("CHOICE", choice))
    (tmp_path / "path").mkdir()
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "train.py"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": f"{ROOT}:{entry_points(tmp_path / 'path')}"},
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
    )
    right, wrong = "tensor([2., 2.])", "tensor([3., 3.])"
    scripts = list(tmp_path.glob("minimizer-out/train-*/graph-0/graph.py"))
    if choice == "off":
        assert (ran.stdout.splitlines(), scripts) == ([wrong] * 3, [])
    elif choice == "report":
        assert (ran.stdout.splitlines(), scripts) == ([right] * 3, [])
        assert ran.stderr.count("wrong_output in call 0") == 1
    else:
        assert ran.stdout.splitlines()[-2:] == [right] * 2
        assert ran.stdout.startswith("raised: torch.compile: wrong_output in call 0")
        assert str(scripts[0]) in ran.stdout


@pytest.mark.quality("slow")
def test_under_our_own_eyes_nothing_is_checked_whatever_the_options_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(backend.UNCHECKED, "1")
    before = backend._process.spent.frames
    options = {"minimizer.on_failure": "raise"}
    compiled = torch.compile(lambda x: x + 1, backend=backend.minimizer, options=options)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert backend._process.spent.frames == before


def test_a_function_that_fails_in_eager_is_not_the_compilers_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def broken(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3)

    report = minimizer.minimize(broken, torch.ones(2))
    assert (report.status, report.reason) == ("failed", "fails_in_eager")


def test_a_function_of_which_nothing_is_compiled_is_not_called_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report = minimizer.minimize(lambda: 3)
    assert (report.status, report.reason) == ("failed", "nothing_compiled")
