"""Scripts in which a survey finds nothing, and what it must not change in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from children import script, survey
from healthy_verdict import report_of_run, says_open
from surveyed import BACKENDS, finished

from minimizer.engine.child.executor import Executor
from minimizer.engine.survey.cases import Settled
from minimizer.vocabulary import Reason, Status

SOMETIMES = """
import torch

calls = []

@torch.library.custom_op("test::sometimes", mutates_args=())
def sometimes(x: torch.Tensor) -> torch.Tensor:
    calls.append(1)
    {}
    return x + (len(calls) % 5 == 3)

@sometimes.register_fake
def _(x):
    return torch.empty_like(x)

for _ in range(2):
    torch.compile(lambda x: torch.ops.test.sometimes(x) * 2, backend="aot_eager")(torch.ones(3))
"""


def test_a_graph_break_is_healthy(child: Executor, home: Path) -> None:
    text = """
        import torch

        @torch.compile(backend="aot_eager")
        def f(x):
            y = x.sin()
            print("in between", flush=True)
            return y.cos() if y.sum() > 0 else y.tan()

        f(torch.ones(3))
        f(-torch.ones(3))
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert answer.checked.frames == 4
    assert answer.checked.calls == 6


def test_the_script_sees_what_it_would_see_by_itself(child: Executor, home: Path) -> None:
    """Values that the survey makes on the side leave neither the random stream nor the script's tensors changed."""
    body = """
        import torch

        @torch.compile(backend="eager")
        def f(x):
            x.mul_(2)
            return x + torch.rand(3)

        torch.manual_seed(0)
        x = torch.ones(3)
        results = [f(x).tolist() for _ in range(3)]
        print("SAW", results, x.tolist(), torch.rand(2).tolist(), flush=True)
        raise SystemExit("SAW %s" % [results, x.tolist(), torch.rand(2).tolist()])
    """
    path = script(home, body)
    compiled, eager = (finished(survey(child, path, compile=mode)) for mode in (True, False))
    assert compiled.exception is not None
    assert eager.exception is not None
    assert compiled.exception.message == eager.exception.message
    assert "SAW" in compiled.exception.message


CAPTURED = """
import torch

capturing, ran = False, []
torch.cuda.is_initialized = torch.cuda.is_current_stream_capturing = lambda: capturing

@torch.library.custom_op("test::kernel", mutates_args=())
def kernel(x: torch.Tensor) -> torch.Tensor:
    ran.append(capturing)
    return x * 2

@kernel.register_fake
def _(x):
    return torch.empty_like(x)

def backend(gm, example):
    return lambda *args: [out + ({fault} and capturing) for out in gm(*args)]

f = torch.compile(torch.ops.test.kernel, backend=backend, dynamic=False)
{warm_up}
capturing = True
f(torch.ones(3))
capturing = False
f(torch.ones(3))
raise SystemExit("SAW %d" % ran.count(True))
"""
"""A stand-in for the capture of a CUDA graph, where there is no device."""


@pytest.mark.needs_excuse("captured")
@pytest.mark.fault_behind("captured")
@pytest.mark.parametrize(
    ("warm_up", "fault", "calls"),
    [("f(torch.ones(3))", True, 2), ("", False, 0)],
    ids=["warm, and wrong in it", "compiled in it"],
)
def test_nothing_of_ours_runs_while_the_script_captures_a_cuda_graph(
    child: Executor, home: Path, warm_up: str, fault: bool, calls: int
) -> None:
    answer = finished(survey(child, script(home, CAPTURED.format(warm_up=warm_up, fault=fault))))
    assert answer.exception is not None
    assert "SAW 1" in answer.exception.message
    assert answer.checked.calls == calls
    assert any("captured a CUDA graph" in line for line in answer.checked.not_compared)
    assert says_open(report_of_run(answer.checked), "captured")


@pytest.mark.parametrize(("steps", "calls"), [(None, 8), (2, 2), (100, 12)])
def test_steps_say_how_many_calls_are_compared(child: Executor, home: Path, steps: int | None, calls: int) -> None:
    text = """
        import torch
        f = torch.compile(lambda x: x + 1, backend="eager")
        for _ in range(12):
            f(torch.ones(2))
    """
    assert finished(survey(child, script(home, text), steps=steps)).checked.calls == calls


def test_a_script_runs_as_python_would_run_it(child: Executor, home: Path) -> None:
    """Arguments, its own name, modules and files beside it, and a working directory it may write to."""
    (home / "sibling.py").write_text("VALUE = 7\n")
    (home / "data.txt").write_text("forty-two\n")
    (child.place.origin / "data.txt").symlink_to(home / "data.txt")
    text = """
        import os, sys
        import sibling
        import torch
        assert __name__ == "__main__"
        assert sys.argv == [__file__, "--rate", "3"], sys.argv
        assert sibling.VALUE == 7
        assert open("data.txt").read() == "forty-two\\n"
        assert open(os.path.join(os.path.dirname(__file__), "data.txt")).read() == "forty-two\\n"
        open("written.txt", "w").write("here")
        assert os.path.realpath("written.txt") != os.path.join(os.path.dirname(__file__), "written.txt")
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    """
    answer = finished(survey(child, script(home, text), "--rate", "3"))
    assert answer.exception is None
    assert answer.checked.calls == 1
    assert not (home / "written.txt").exists()


@pytest.mark.parametrize(
    ("code", "fails"), [("sys.exit()", False), ("sys.exit(0)", False), ("sys.exit(3)", True), ("exit('no')", True)]
)
def test_the_exit_status_of_a_script(child: Executor, home: Path, code: str, fails: bool) -> None:
    assert (finished(survey(child, script(home, f"import sys\n{code}\n"))).exception is not None) is fails


def test_a_script_that_compiles_nothing(triage: Any) -> None:
    found = triage("import torch\nprint(torch.ones(3))\n")
    assert (found.status, found.reason) == (Status.FAILED, Reason.NOTHING_COMPILED)


def test_a_script_that_fails_without_the_compiler_too(triage: Any) -> None:
    found = triage("import torch\ntorch.compile(lambda x: x @ torch.ones(5), backend='eager')(torch.ones(2))\n")
    assert (found.status, found.reason) == (Status.FAILED, Reason.FAILS_IN_EAGER)


def test_a_script_cannot_tell_that_a_stance_switches_the_compiler_off(child: Executor, home: Path) -> None:
    text = """
        import os
        import torch
        from torch._dynamo.utils import counters

        model = torch.compile(torch.nn.Linear(2, 2), backend="eager")
        model(torch.ones(2))
        assert "TORCHDYNAMO_DISABLE" not in os.environ
        assert model._orig_mod.in_features == 2
        assert not counters["stats"]
    """
    path = script(home, text)
    assert finished(survey(child, path, compile=False, stance=True)).exception is None
    assert finished(survey(child, path, compile=False)).exception is not None


def test_eager_runs_compile_nothing(child: Executor, home: Path) -> None:
    text = """
        import torch
        def never(gm, example):
            raise ValueError("compiled after all")
        torch.compile(lambda x: x + 1, backend=never)(torch.ones(2))
    """
    answer = finished(survey(child, script(home, text), compile=False))
    assert answer.exception is None
    assert answer.checked.frames == 0


def test_what_cannot_be_copied_is_left_to_the_compiler(child: Executor, home: Path) -> None:
    """A survey that cannot look at a graph says so, and raises nothing into the script."""
    text = """
        import torch

        class Secret(torch.Tensor):
            @staticmethod
            def __new__(cls, data):
                return torch.Tensor._make_subclass(cls, data)

            def _is_zerotensor(self):
                raise RuntimeError("no copies")

        f = torch.compile(lambda x: x + 1, backend="eager")
        assert f(Secret(torch.ones(3))).tolist() == [2.0, 2.0, 2.0]
        assert f(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert any("no copies" in note for note in answer.notes)


@pytest.mark.parametrize("base", ["torch.Tensor", "torch.nn.Parameter"])
def test_tensors_of_a_class_of_the_scripts_own_are_compared_as_tensors(child: Executor, home: Path, base: str) -> None:
    text = f"""
import torch

class Own({base}):
    pass

x = torch.ones(3).as_subclass(Own) if Own.__base__ is torch.Tensor else Own(torch.ones(3))
torch.compile(lambda x: x + 1, backend=COMPILER)(x)
"""
    answer = finished(survey(child, script(home, text.replace("COMPILER", "'inductor'"))))
    assert (answer.checked.calls, answer.notes) == (1, [])
    found = survey(child, script(home, BACKENDS + text.replace("COMPILER", "wrong")))
    assert found.held is not None, found.finished
    key = found.program("dynamo").inputs[0].golden
    assert key is not None
    assert found.literal(key) == "torch.tensor([1.0, 1.0, 1.0])"
    found.close()


def test_what_fails_in_a_unit_test_is_what_the_script_fails_by(child: Executor, home: Path) -> None:
    text = """
        import unittest

        class Tests(unittest.TestCase):
            def test(self):
                raise KeyError("width")

        unittest.main()
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is not None
    assert (answer.exception.type, answer.exception.root_type) == ("SystemExit", "KeyError")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (
            "import argparse\np = argparse.ArgumentParser(prog='train')\np.add_argument('--n', required=True)\np.parse_args()\n",
            "train: error: the following arguments are required: --n",
        ),
        ("import sys\nprint('no data')\nprint('╰──╯')\nsys.exit(2)\n", "no data"),
        ("import sys\nprint('fine')\nsys.exit()\n", ""),
        ("print('on the way')\nraise KeyError('width')\n", ""),
        ("import os, sys\nos.close(2)\nsys.exit(1)\n", ""),
    ],
)
def test_what_a_script_printed_last_before_it_ended_itself_is_told(
    child: Executor, home: Path, text: str, printed: str
) -> None:
    assert finished(survey(child, script(home, text))).printed == printed


def test_what_a_script_was_handling_when_it_ended_itself_is_what_it_fails_by(child: Executor, home: Path) -> None:
    text = "import sys\ntry:\n    {}['width']\nexcept KeyError:\n    sys.exit(1)\n"
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is not None
    assert answer.exception.root_type == "KeyError"


@pytest.mark.parametrize("how", ["pass", "if len(calls) % 5 == 3: raise ValueError"])
def test_an_operator_that_seldom_differs_from_itself_is_nondeterministic(triage: Any, how: str) -> None:
    found = triage(SOMETIMES.format(how))
    assert isinstance(found, Settled)
    assert (found.status, found.reason) == (Status.FAILED, Reason.NONDETERMINISTIC)


def test_a_script_that_fails_in_half_of_its_runs_without_the_compiler_is_nondeterministic(triage: Any) -> None:
    text = """
        import os
        import torch
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
        count = "../../../count"  # behind the folder of the run, as a server would be
        runs = int(open(count).read()) if os.path.exists(count) else 0
        open(count, "w").write(str(runs + 1))
        assert runs % 2 == 0
    """
    found = triage(text)
    assert isinstance(found, Settled)
    assert (found.status, found.reason) == (Status.FAILED, Reason.NONDETERMINISTIC)


REUSED = """
import torch

buffer = torch.zeros(3)

def reuse(module, inputs):
    def call(*args):
        buffer.data.copy_(module(*args)[0])  # as the replay of a CUDA graph: no version counter moves
        return [buffer.detach()]
    return call

def again(module, inputs):
    return module

{memory}
f = torch.compile(lambda x: x * 2, backend={backend})
kept = []
for i in range(3):
    y = f(torch.full((3,), float(i)))
    kept.append({kept})
    {script}
"""


IN_POOL = """
import sys
segment = {{"address": buffer.data_ptr(), "total_size": buffer.nbytes, "segment_pool_id": ({pool}, 0)}}
torch.cuda.is_initialized = lambda: sys._getframe(1).f_code.co_name == "is_of_cuda_graphs"
torch.cuda.memory_snapshot = lambda: [segment]
"""
"""A stand-in for the memory of a device, where there is none: the buffer lies in this pool, of CUDA graphs but for the first one."""


@pytest.mark.fault_behind("outputs_written_over")
@pytest.mark.needs_excuse("outputs_written_over")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "call 1 of graph 0 writes over output 0 of call 0 of graph 0"),
        ({"kept": "y.clone()"}, "call 1 of graph 0 writes over output 0 of call 0 of graph 0"),
        ({"kept": "y.clone()", "script": "del y"}, ""),
        ({"backend": "again"}, ""),
        ({"backend": "again", "script": "y.zero_()"}, ""),
    ],
    ids=["kept", "the last one is still named", "none is held", "memory of its own", "written to by the script"],
)
@pytest.mark.examples(2)
def test_a_call_that_writes_over_an_earlier_output_of_a_cuda_graph(
    child: Executor, home: Path, changes: dict[str, str], said: str
) -> None:
    text = REUSED.format(**{"backend": "reuse", "kept": "y", "script": "", "memory": IN_POOL.format(pool=1), **changes})
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert answer.checked.calls == 3, "each is right when it returns"
    assert answer.overwritten.startswith(said) and bool(answer.overwritten) is bool(said)
    is_held_on_to = said != "" and changes.get("kept") is None
    assert [note for note in answer.notes if "also afterwards" in note] == [
        note for note in answer.notes if is_held_on_to
    ]
    assert says_open(report_of_run(answer.checked), "outputs_written_over") is is_held_on_to
    assert answer.written_over == ""


@pytest.mark.fault_behind("outputs_written_over")
@pytest.mark.parametrize(
    "memory", ["", IN_POOL.format(pool=0)], ids=["of the CPU", "of the device, and no CUDA graph's"]
)
def test_an_output_that_no_cuda_graph_has_is_not_excused(child: Executor, home: Path, memory: str) -> None:
    text = REUSED.format(backend="reuse", kept="y.clone()", script="", memory=memory)
    answer = finished(survey(child, script(home, text)))
    assert answer.written_over.startswith("call 1 of graph 0 writes over output 0 of call 0 of graph 0")
    assert not [one for one in answer.checked.excused if one.rule == "outputs_written_over"]
    assert not [note for note in answer.notes if "also afterwards" in note]


def test_an_output_that_is_given_back_to_be_changed_is_no_overwriting(child: Executor, home: Path) -> None:
    """A cache: eager writes over it too."""
    text = """
        import torch

        @torch.compile(backend="aot_eager")
        def step(cache, x):
            return cache.add_(x)

        cache = torch.zeros(3)
        for _ in range(3):
            cache = step(cache, torch.ones(3))
    """
    answer = finished(survey(child, script(home, text)))
    assert (answer.checked.calls, answer.overwritten) == (3, "")
