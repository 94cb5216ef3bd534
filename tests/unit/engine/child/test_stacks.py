"""Stacks as faulthandler writes them: which thread, which place, and when two samples show the same one."""

from __future__ import annotations

import faulthandler
import subprocess
import sys
from pathlib import Path

import pytest

from minimizer.engine.child.stacks import (
    Frame,
    Stack,
    agree,
    collective,
    common,
    culprit,
    is_compiling,
    is_waiting,
    last_words,
    overwrites_memory,
    parse,
    readable,
    users,
)

LIB = "/opt/venv/lib/python3.11/site-packages"
OURS = "/srv/minimizer/inside/capture.py"
ENTRY = "torch/_inductor/compile_fx.py:compile_fx_inner"
SCRIPT = ("/srv/job/script.py", "Stuck.__call__")


def dump(*threads: list[tuple[str, str, int]]) -> str:
    """What faulthandler writes, for threads given outermost frame first."""
    blocks = []
    for number, frames in enumerate(threads):
        head = "Current thread" if number == 0 else "Thread"
        lines = [f'  File "{path}", line {line} in {function}' for path, function, line in reversed(frames)]
        blocks.append("\n".join([f"{head} 0x00007f00000000{number:02x} (most recent call first):", *lines]))
    return "\n\n".join(blocks) + "\n"


def stack(*places: str, last: int = 1) -> Stack:
    """``file:function`` for each frame, outermost first; files without a folder are the user's. ``last``: the innermost line."""
    split = [place.rpartition(":") for place in places]
    lines = [1] * (len(split) - 1) + [last]
    return tuple(
        Frame(file, function, line, "/" not in file) for (file, _, function), line in zip(split, lines, strict=True)
    )


COMPILE = [
    (f"{LIB}/torch/_dynamo/convert_frame.py", "_compile", 90),
    (OURS, "_on_compile", 12),
    (f"{LIB}/torch/_inductor/compile_fx.py", "compile_fx_inner", 7),
    (*SCRIPT, 11),
]


def test_what_is_above_our_own_hook_is_left_out() -> None:
    found = parse(dump(COMPILE))
    assert [frame.place for frame in found] == [ENTRY, ":Stuck.__call__"]
    assert [(frame.file, frame.line, frame.is_users) for frame in found][-1] == ("script.py", 11, True)


def test_the_scripts_lines_are_found_outside_of_our_own_hook_too() -> None:
    dump = (
        "Thread 0x00007f0000000001 (most recent call first):\n"
        '  File "/x/site-packages/torch/distributed/distributed_c10d.py", line 3 in all_reduce\n'
        '  File "/opt/minimizer/inside/watch/record.py", line 5 in hook\n'
        '  File "/home/me/train.py", line 7 in step\n'
        '  File "/home/me/train.py", line 9 in <module>\n'
        '  File "/opt/minimizer/inside/zygote.py", line 5 in main\n'
    )
    assert [(frame.file, frame.line) for frame in users(dump)] == [("train.py", 9), ("train.py", 7)]
    assert not any(frame.is_users for frame in parse(dump))


def test_our_kernels_in_front_of_collectives_do_not_hide_the_script() -> None:
    """They pass everything on, so what they are called by is the script's own call."""
    kernels = "/opt/minimizer/inside/values/communication.py"
    eager = [(*SCRIPT, 11), (f"{LIB}/torch/distributed/distributed_c10d.py", "barrier", 3), (kernels, "run", 4)]
    assert [frame.function for frame in parse(dump(eager))] == ["Stuck.__call__", "barrier"]
    waits = [
        (*SCRIPT, 11),
        (kernels, "wait_tensor", 4),
        (kernels, "_passed_on", 5),
        (f"{LIB}/torch/_ops.py", "redispatch", 6),
    ]
    assert collective(parse(dump(waits))) == "wait_tensor"


def test_a_trial_and_a_survey_give_the_same_place_the_same_name() -> None:
    trial = [(OURS, "run", 5), COMPILE[2], ("/tmp/work/candidate_17.py", "Stuck.__call__", 40)]
    assert [f.place for f in parse(dump(trial))] == [f.place for f in parse(dump(COMPILE))]


def test_the_thread_that_compiles_is_taken_and_else_the_main_one() -> None:
    main = [("/srv/job/script.py", "main", 3)]
    idle = [("/usr/lib/python3.11/threading.py", "wait", 320)]
    assert parse(dump(idle, COMPILE, main))[-1].function == "Stuck.__call__"
    assert parse(dump(idle, main))[-1].function == "main"  # the main thread is written last


def test_a_thread_that_waits_for_the_compilers_processes_does_not_compile() -> None:
    reader = [
        ("/usr/lib/python3.12/threading.py", "run", 1010),
        (f"{LIB}/torch/_inductor/compile_worker/subproc_pool.py", "_read_thread", 271),
    ]
    on_gpu = [("/srv/job/script.py", "main", 3), (f"{LIB}/torch/cuda/__init__.py", "synchronize", 1162)]
    assert parse(dump(reader, on_gpu))[-1].function == "synchronize"


@pytest.mark.parametrize(
    ("path", "file", "is_users"),
    [
        (f"{LIB}/torch/_inductor/scheduler.py", "torch/_inductor/scheduler.py", False),
        ("/usr/lib/python3/dist-packages/sympy/core.py", "sympy/core.py", False),
        ("/home/me/pytorch/torch/_inductor/scheduler.py", "torch/_inductor/scheduler.py", False),
        ("/usr/lib/python3.12/subprocess.py", "subprocess.py", False),
        ("/job/cache/ab/cabcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrs.py", "<generated>", False),
        ("<frozen importlib._bootstrap>", "<generated>", False),
        ("/home/me/model/layers.py", "layers.py", True),
    ],
)
def test_files_are_named_without_the_machine(path: str, file: str, is_users: bool) -> None:
    (frame,) = parse(dump([(path, "f", 1)]))
    assert (frame.file, frame.is_users) == (file, is_users)


@pytest.mark.parametrize("text", ["", "garbage", 'Thread 0x1 (most recent call first):\n  File "x', "\0"])
def test_what_is_no_dump_has_no_frames(text: str) -> None:
    assert parse(text) == ()


def test_a_real_dump_is_read(tmp_path: Path) -> None:
    with (tmp_path / "dump").open("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        found = parse(file.read())
    assert found[-1].function == sys._getframe().f_code.co_name
    assert found[-1].file == Path(__file__).name


def test_a_dump_is_told_without_our_frames_and_with_the_thread_that_died_first() -> None:
    ours = "/opt/minimizer/inside/zygote.py"
    other = 'Thread 0x1 (most recent call first):\n  File "/usr/lib/python3.12/threading.py", line 3 in wait\n'
    died = (
        "Current thread 0x2 (most recent call first):\n"
        f'  File "{LIB}/torch/_inductor/graph.py", line 9 in run\n'
        '  File "/home/me/proj/pkg/net.py", line 4 in forward\n'
        f'  File "{ours}", line 2 in main\n'
    )
    found = readable(
        f"said before\nFatal Python error: Aborted\n\n{other}\n{died}\nExtension modules: a, b", "/home/me/proj"
    )
    assert found.splitlines() == [
        "Fatal Python error: Aborted",
        "",
        "Current thread 0x2 (most recent call first):",
        '  File "torch/_inductor/graph.py", line 9, in run',
        '  File "pkg/net.py", line 4, in forward',
        "",
        "Thread 0x1 (most recent call first):",
        '  File "threading.py", line 3, in wait',
    ]
    assert readable("Segmentation fault", "/home/me/proj") == ""


def test_names_beyond_ascii_are_read_as_they_are(tmp_path: Path) -> None:
    """As ``faulthandler`` writes them, and shown by their path in the project."""
    folder = tmp_path / "prüf ordner" / "módulo"
    folder.mkdir(parents=True)
    (folder / "neß_😀.py").write_text("import faulthandler\ndef f():\n    faulthandler.dump_traceback()\n")
    script = folder.parent / "träin.py"
    script.write_text("import importlib\nimportlib.import_module('módulo.neß_😀').f()\n")
    dumped = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stderr
    assert "tr\\xe4in.py" in dumped
    shown = readable(dumped, str(script.parent)).splitlines()[1:]
    assert shown == ['  File "módulo/neß_😀.py", line 3, in f', '  File "träin.py", line 2, in <module>']
    assert parse(dumped)[-1].file == "neß_😀.py"
    assert '"a\\x1b.py"' in readable(dumped.replace("tr\\xe4in", "a\\x1b"), str(script.parent)), (
        "nothing that cannot be shown"
    )


# samples --------------------------------------------------------------------------------------------------------------

FX = "torch/fx/graph.py"


def test_a_loop_is_the_frame_in_which_samples_part() -> None:
    one = stack(ENTRY, "pass.py:fix", f"{FX}:lint", last=7)
    two = stack(ENTRY, "pass.py:fix", f"{FX}:nodes", last=3)
    assert [frame.function for frame in common([one, two])] == ["compile_fx_inner", "fix"]
    assert [frame.function for frame in common([one, one])] == ["compile_fx_inner", "fix", "lint"]


def test_another_line_is_another_call() -> None:
    """From two lines of one function the same helper is called: that is progress inside of the function."""
    one = (*stack(ENTRY, last=10), *stack(f"{FX}:lint"))
    two = (*stack(ENTRY, last=20), *stack(f"{FX}:lint"))
    assert [frame.function for frame in common([one, two])] == ["compile_fx_inner"]


@pytest.mark.parametrize(
    ("chain", "name"),
    [
        ([ENTRY, "pass.py:fix", "pass.py:helper", f"{FX}:lint"], "fix"),
        ([ENTRY, "torch/_inductor/scheduler.py:fuse", "sympy/core.py:simplify"], "fuse"),
        (["mine.py:backend", ENTRY, "torch/_inductor/graph.py:run"], "run"),
        ([ENTRY, "pass.py:<lambda>", "torch/_inductor/graph.py:<genexpr>"], "compile_fx_inner"),
        (["mine.py:main"], "main"),
    ],
)
def test_the_culprit_is_the_users_pass_or_the_innermost_frame_of_torch(chain: list[str], name: str) -> None:
    found = culprit(stack(*chain))
    assert found is not None and found.function == name


def test_no_frames_no_culprit() -> None:
    assert culprit(()) is None
    assert not agree([(), ()])


def test_a_pass_of_the_users_agrees_however_deep_it_calls() -> None:
    deep = [f"{FX}:call_{i}" for i in range(20)]
    assert agree([stack(ENTRY, "pass.py:fix", *deep), stack(ENTRY, "pass.py:fix", f"{FX}:other")])


def test_the_compiler_at_work_does_not_agree() -> None:
    """All samples are inside of the loop over the nodes; what it calls is far from the same."""
    run = "torch/_inductor/graph.py:run"
    one = stack(ENTRY, run, *(f"torch/_inductor/lowering.py:a{i}" for i in range(8)))
    two = stack(ENTRY, run, *(f"torch/_inductor/lowering.py:b{i}" for i in range(5)))
    assert not agree([one, two])
    assert agree([one, one])


def test_a_backend_of_the_users_that_calls_inductor_is_no_pass() -> None:
    one = stack("mine.py:backend", ENTRY, *(f"torch/_inductor/a.py:a{i}" for i in range(8)))
    two = stack("mine.py:backend", ENTRY, *(f"torch/_inductor/b.py:b{i}" for i in range(8)))
    assert not agree([one, two])


def test_waiting_for_a_compiler_is_told_from_a_lock_of_the_users() -> None:
    gcc = (*stack(ENTRY, "torch/_inductor/cpp_builder.py:build"), Frame("subprocess.py", "communicate", 9, False))
    lock = (*stack(ENTRY, "pass.py:fix"), Frame("threading.py", "wait", 9, False))
    assert is_waiting(gcc)
    assert not is_waiting(lock)


@pytest.mark.parametrize("file", ["torch/utils/_filelock.py", "filelock/_api.py"])
def test_waiting_for_who_holds_a_lock_of_the_cache_is_no_hang_at_once(file: str) -> None:
    """Another process of the script may be building the same headers."""
    assert is_waiting((*stack(ENTRY, "torch/_inductor/cpp_builder.py:build"), Frame(file, "__enter__", 24, False)))


def test_compiling() -> None:
    assert is_compiling(stack("mine.py:main", "torch/_dynamo/convert_frame.py:_compile"))
    assert not is_compiling(stack("mine.py:main", "torch/_dynamo/eval_frame.py:_fn", "mine.py:train"))


def test_the_last_words_of_a_process_are_what_its_runtime_wrote_and_not_the_script() -> None:
    aborted = (
        "step 3 loss 0.5\nterminate called after throwing an instance of 'std::runtime_error'\n"
        "  what():  index out of bounds: 0 <= tmp7 < 4L\nFatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n"
    )
    said = "terminate called after throwing an instance of 'std::runtime_error'; what():  index out of bounds: 0 <= tmp7 < 4L"
    assert last_words(aborted) == said
    assert last_words("step 3 loss 0.5\nFatal Python error: Segmentation fault\n") == ""


@pytest.mark.parametrize(
    ("said", "is_overwritten"),
    [
        ("free(): invalid pointer", True),
        ("corrupted size vs. prev_size", True),
        ("double free or corruption (!prev)", True),
        ("malloc(): invalid size (unsorted)", True),
        ("*** stack smashing detected ***: terminated", True),
        ("terminate called after throwing an instance of 'std::bad_alloc'", False),
        ("my free(): done", False),
    ],
)
def test_glibc_says_that_memory_was_overwritten(said: str, *, is_overwritten: bool) -> None:
    assert overwrites_memory(f"step 3\n{said}\nFatal Python error: Aborted\n\nThread 0x1:\n") is is_overwritten
    assert not overwrites_memory(f"Fatal Python error: Aborted\n\nThread 0x1:\n{said}\n")
