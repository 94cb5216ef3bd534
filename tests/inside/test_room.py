"""Each run of a script is the first one: no run meets what an earlier one has left behind."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from threading import Event

import pytest
from children import SECONDS, executor, script, survey

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Outcome
from minimizer.engine.child.protocol import Finished
from minimizer.engine.child.survey import Survey
from minimizer.engine.survey.cases import Case
from minimizer.engine.survey.known_failure import failure_rate
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.triage import Triage
from minimizer.inside.questions import ScriptRequest
from minimizer.report.model import Reproducibility

LEAVES = """
    import os
    import tempfile

    for folder in (".", "~", tempfile.gettempdir(), *SHARED):
        os.mkdir(os.path.join(os.path.expanduser(folder), "checkpoints"))
    with open("settings.txt", "r+") as settings:
        assert settings.read() == "as it was"
        settings.write(", and more")
"""
WRONG = """
    import os
    import torch
    import torch._inductor.config as config

    os.mkdir("checkpoints")
    config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    torch.compile(lambda x: torch.relu(x - 1))(torch.arange(-4.0, 4.0))
"""


@pytest.fixture
def leaves(child: Executor, home: Path) -> Path:
    """A script that can run only where it has never been run before."""
    shared = ("/tmp", "/dev/shm") if child.place.sandbox.is_strong else ()
    (child.place.origin / "settings.txt").write_text("as it was")
    return script(home, LEAVES.replace("SHARED", repr(shared)))


def ended(survey: Survey) -> Finished:
    assert survey.finished is not None, survey.log
    return survey.finished


def rerun(child: Executor, path: Path, *, compile: bool = True) -> Outcome:
    (outcome,) = child.judge([ScriptRequest(text=None, script=str(path), compile=compile)], timeout=SECONDS)
    return outcome


def test_no_run_meets_what_an_earlier_one_has_left(child: Executor, leaves: Path) -> None:
    assert ended(survey(child, leaves)).exception is None
    assert ended(survey(child, leaves, compile=False)).exception is None
    assert rerun(child, leaves).ending == "same"
    assert rerun(child, leaves, compile=False).ending == "same"


def test_runs_at_once_have_rooms_of_their_own(child: Executor, home: Path) -> None:
    path = script(home, "import os, time\nos.mkdir('checkpoints')\ntime.sleep(0.5)\n", "both.py")
    request = ScriptRequest(text=None, script=str(path), compile=False)
    assert [outcome.ending for outcome in child.judge([request, request], timeout=SECONDS)] == ["same"] * 2


def test_a_held_run_keeps_its_room_until_it_is_closed(child: Executor, home: Path, leaves: Path) -> None:
    held = survey(child, script(home, WRONG, "wrong.py"))
    assert held.held is not None, held.log
    (room,) = rooms_with(child, "checkpoints")
    assert ended(survey(child, leaves)).exception is None
    assert room.exists()
    held.close()
    await_end_of(room)


def test_a_room_goes_with_its_run_whatever_is_in_it(child: Executor, home: Path) -> None:
    text = """
        import os
        os.makedirs("locked/inside")
        os.chmod("locked", 0)
        raise SystemExit(3)
    """
    rooms = child.place.scratch / "rooms"
    others = set(rooms.iterdir())  # of runs that other tests hold
    found = survey(child, script(home, text, "locks.py"), compile=False)
    assert ended(found).exception is not None
    await_end_of(*(set(rooms.iterdir()) - others))


def test_a_steady_fault_is_steady_though_the_script_makes_a_folder_first(child: Executor, home: Path) -> None:
    surveys = Surveys(child, script(home, WRONG, "wrong.py"), args=[], steps=None, hang_after=SECONDS, values=True)
    case = Triage(surveys, on_note=print).run()
    assert isinstance(case, Case)
    rate = failure_rate(surveys, case, Reproducibility(failed=1, runs=1), 2, Event())
    case.survey.close()
    assert (rate.failed, rate.runs) == (2, 2)


def test_a_script_in_the_machines_own_tmp_costs_its_job_no_file(tmp_path: Path, home: Path) -> None:
    """Where that is what the sandbox shows, and our folders lie in it, nothing there is taken for what a run has left."""
    with executor(tmp_path / "job", Path(tempfile.gettempdir()), home) as child:
        kept = child.place.folder("golden") / "1.pt"
        kept.write_bytes(b"values")
        path = script(home, "import tempfile\ntempfile.NamedTemporaryFile().close()\n", "plain.py")
        assert ended(survey(child, path)).exception is None
        assert ended(survey(child, path)).exception is None
        assert kept.read_bytes() == b"values"


def rooms_with(child: Executor, name: str) -> list[Path]:
    return [room for room in (child.place.scratch / "rooms").iterdir() if (room / "work" / name).exists()]


def await_end_of(*rooms: Path) -> None:
    """A room is removed by a process of its own, which tells nobody when it is done."""
    deadline = time.monotonic() + SECONDS
    while any(room.exists() for room in rooms) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(room.exists() for room in rooms)
