"""Where the values of a dumped graph come from, and how it is told that some are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.scratch_disk import Scratch
from minimizer.engine.job import Job
from minimizer.engine.journal import Journal
from minimizer.engine.pipeline import as_script, minimize
from minimizer.engine.user_script.from_dump import Unpacked, unpack
from minimizer.errors import MissingTool
from minimizer.options import Options
from minimizer.report.model import Report
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Reason, Status

NAME = "a97eb8da8aa99cf28dfad09ca68ea30c2e56b426"
TEXT = """
import torch
class Repro(torch.nn.Module):
    def forward(self, x):
        return (torch.ops.aten.relu.default(x),)
def load_args(reader):
    buf0 = reader.storage('{name}', 256)
    reader.tensor(buf0, (8, 8), is_leaf=True)
mod = Repro()
if __name__ == '__main__':
    from torch._dynamo.repro.after_aot import run_repro
    run_repro(mod, load_args, save_dir='{folder}')
"""


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A launcher whose values lie elsewhere on this machine."""
    saved = tmp_path / "elsewhere"
    (saved / "storages").mkdir(parents=True)
    (saved / "storages" / NAME).write_bytes(b"values")
    script = tmp_path / "sent" / "minifier_launcher.py"
    script.parent.mkdir()
    script.write_text(TEXT.format(name=NAME, folder=saved))
    return script


def unpacked(script: Path, *, is_local: bool = False) -> Unpacked:
    found = unpack(script, script.parents[1] / "new", is_local=is_local)
    assert found is not None
    return found


def test_values_are_read_from_where_the_dump_says_by_their_owner_only(dump: Path) -> None:
    found = unpacked(dump, is_local=True)
    assert not found.made_up and "saved with it" in found.told
    assert (found.script.parent / "storages" / NAME).read_bytes() == b"values"
    assert dump.parents[1] / "elsewhere" / "storages" in found.read


def test_a_dump_that_somebody_sent_reads_nothing_of_this_machine(dump: Path) -> None:
    found = unpacked(dump)
    assert found.made_up == "1 of 1 input" and "made-up values for 1 of 1 input" in found.told
    assert not (found.script.parent / "storages").exists()
    assert found.read == (dump.parent,)


@pytest.mark.parametrize("near", ["storages", "checkpoints/storages"])
def test_values_that_were_sent_along_are_read(dump: Path, near: str) -> None:
    place = dump.parent / near
    place.mkdir(parents=True)
    (place / NAME).write_bytes(b"sent")
    found = unpacked(dump)
    assert not found.made_up
    assert (found.script.parent / "storages" / NAME).read_bytes() == b"sent"


def test_a_link_out_of_what_was_sent_is_no_value(dump: Path) -> None:
    (dump.parent / "storages").symlink_to(dump.parents[1] / "elsewhere" / "storages")
    assert unpacked(dump).made_up == "1 of 1 input"


def test_what_lies_next_to_a_dump_can_still_be_imported(dump: Path) -> None:
    (dump.parent / "my_operators.py").write_text("x = 1\n")
    found = unpacked(dump)
    assert found.script.name == dump.name
    assert (found.script.parent / "my_operators.py").read_text() == "x = 1\n"


def test_another_script_stays_what_it_is(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    assert unpack(script, tmp_path / "new", is_local=True) is None
    assert not (tmp_path / "new").exists()


def test_a_dump_that_was_cut_off_says_what_to_do(dump: Path) -> None:
    text = dump.read_text()
    dump.write_text(text.replace("import torch\n", "import torch\nfrom torch._dynamo.testing import rand_strided\n"))
    dump.write_text(dump.read_text()[: dump.read_text().index("mod =")])
    with pytest.raises(MissingTool, match=r"cut off.*Run the script that it comes from"):
        unpacked(dump)


def test_variables_of_the_original_run_are_named(dump: Path) -> None:
    dump.write_text("import os\nos.environ['TORCHINDUCTOR_MAX_AUTOTUNE'] = '1'\n" + dump.read_text())
    assert "It sets TORCHINDUCTOR_MAX_AUTOTUNE" in unpacked(dump).told


def minimized(script: Path) -> Report:
    sink = FolderSink(script.parents[1] / "out")
    return minimize(script, options=Options(budget=60), settings=Settings(), sink=sink)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("reader.tensor(", "reader.jagged(", "reader.jagged, which this version does not know"),
        ("mod = Repro()\n", "", "hands mod to run_repro, and does not define it"),
    ],
)
def test_a_job_whose_dump_is_no_script_ends_at_once_with_what_to_do(dump: Path, old: str, new: str, why: str) -> None:
    dump.write_text(dump.read_text().replace(old, new))
    report = minimized(dump)
    assert (report.status, report.reason) == (Status.FAILED, Reason.NOT_RUNNABLE)
    assert why in report.summary and "Run the script that it comes from" in report.summary
    assert "Traceback" not in report.summary


def test_a_job_with_made_up_values_says_so_before_all_else(dump: Path, tmp_path: Path) -> None:
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(60))
    job = Job(dump, Options(), Settings(), journal, Path("python"))
    with Scratch() as disk:
        found = as_script(job, disk)
        assert found.script.name == dump.name and found.script != dump
    assert [(one.rule, one.object, one.leaves_open) for one in found.excused] == [
        ("made_up_inputs", "1 of 1 input", True)
    ]
    assert journal.report.notes == [unpacked(dump).told]
