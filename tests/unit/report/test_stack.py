"""Stacks at a length that can be read."""

from __future__ import annotations

from minimizer.report.stack import MOST_LINES, shortened


def traceback(*files: str, said: str = "KeyError: 'buf1'") -> str:
    frames = "".join(f'  File "{file}", line {number}, in f{number}\n    call()\n' for number, file in enumerate(files))
    return f"Traceback (most recent call last):\n{frames}{said}"


def dump(*files: str, thread: str = "Current thread") -> str:
    frames = "".join(f'  File "{file}", line {number} in f{number}\n' for number, file in enumerate(files))
    return f"{thread} 0x0000 (most recent call first):\n{frames}"


def test_a_short_stack_stays_as_it_is() -> None:
    text = traceback("a.py", "torch/_inductor/graph.py")
    assert shortened(f"\n{text}\n") == text


def test_of_a_long_one_the_script_the_entrance_and_what_raised_stay() -> None:
    users = ["train.py"] + ["lightning/loop.py"] * 20 + ["model.py"]
    text = traceback(
        *users, *["torch/_dynamo/x.py"] * 50, *["torch/_inductor/graph.py"] * 30, "torch/_inductor/raises.py"
    )
    lines = shortened(text).splitlines()
    assert len(lines) <= MOST_LINES
    assert lines[1] == '  File "train.py", line 0, in f0'
    assert any('"model.py"' in line for line in lines)
    assert lines[-3] == '  File "torch/_inductor/raises.py", line 102, in f102'
    assert lines[-1] == "KeyError: 'buf1'"
    assert any(line.startswith("  ... ") and "torch/_dynamo" in line for line in lines)


def test_frames_that_are_left_out_are_counted() -> None:
    lines = shortened(traceback(*["a.py"] * 100)).splitlines()
    (gap,) = [line for line in lines if line.startswith("  ... ")]
    shown = sum(line.startswith('  File "') for line in lines)
    assert gap == f"  ... {100 - shown} frames in a.py ..."


def test_a_long_message_keeps_its_ends() -> None:
    said = "\n".join(["Failed: first", *(f"line {n}" for n in range(200)), "last"])
    lines = shortened(traceback("a.py", said=said)).splitlines()
    assert "Failed: first" in lines and lines[-1] == "last" and len(lines) <= MOST_LINES


def test_the_thread_that_died_comes_before_the_others() -> None:
    fatal = "Fatal Python error: Aborted\n\n" + dump("raises.py", *["torch/_inductor/graph.py"] * 80, "script.py")
    lines = shortened(fatal + "\n" + dump(*["threading.py"] * 80, thread="Thread")).splitlines()
    assert lines[0] == "Fatal Python error: Aborted"
    assert lines[3] == '  File "raises.py", line 0 in f0'
    assert any('"script.py"' in line for line in lines)
    assert len(lines) <= MOST_LINES + 1 and lines[-1].endswith(" of other threads ...")


def test_what_is_no_stack_is_bounded_too() -> None:
    assert len(shortened("x\n" * 1000).splitlines()) <= MOST_LINES
