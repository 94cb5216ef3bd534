"""Command lines in the place of a script: what they start, and how often."""

from __future__ import annotations

from pathlib import Path

import pytest

from minimizer.cli.launchers import Launch, launch_of
from minimizer.errors import InvalidOption


def rank(script: str, *args: str, nproc: int = 0) -> Launch:
    return Launch(script, None, args, nproc, is_rank=True)


@pytest.mark.parametrize(
    ("line", "started"),
    [
        ("torchrun --nproc-per-node 2 train.py --lr 0.1", rank("train.py", "--lr", "0.1", nproc=2)),
        ("torchrun --standalone --nnodes=1 --nproc_per_node=4 train.py", rank("train.py", nproc=4)),
        ("torchrun -t 3 --rdzv-backend c10d --log_dir logs train.py", rank("train.py")),
        (
            "/opt/bin/torchrun --nproc-per-node 2 -m package.train -- 3",
            Launch(None, "package.train", ("3",), 2, is_rank=True, python="/opt/bin/python"),
        ),
        ("python train.py --nproc-per-node 2", Launch("train.py", None, ("--nproc-per-node", "2"))),
        ("python3.12 -u -m package.train 3", Launch(None, "package.train", ("3",), python="python3.12")),
        ("../bin/python train.py", Launch("train.py", None, (), python="../bin/python")),
        ("python -m torch.distributed.run --nproc-per-node 3 train.py", rank("train.py", nproc=3)),
    ],
)
def test_a_command_is_read_as_its_program_reads_it(line: str, started: Launch) -> None:
    first, *rest = line.split()
    assert launch_of(first, rest) == started


@pytest.mark.parametrize("path", ["train.py", "tests/test_model.py::test_one", "pythonic.py", "torchrun.py", "train"])
def test_the_path_of_a_script_is_no_command(path: str) -> None:
    assert launch_of(path, ["--nproc-per-node", "2"]) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("torchrun --nnodes 2 train.py", "one machine"),
        ("torchrun --nproc-per-node gpu train.py", "the number of processes"),
        ("torchrun --nproc-per-node 0 train.py", "the number of processes"),
        ("torchrun --no-python ./train.sh", "name a script"),
        ("torchrun --nproc-per-node 2", "name the script"),
        ("python -m torch.distributed.launch train.py", "superseded by torchrun"),
        ("torchrun --speed 3 train.py", "--speed"),
        ("python -c pass", "-u and -m are understood"),
        ("python", "name the script"),
    ],
)
def test_what_cannot_be_started_here_is_refused_with_the_reason(line: str, why: str) -> None:
    first, *rest = line.split()
    with pytest.raises(InvalidOption, match=why):
        launch_of(first, rest)


def test_both_ways_of_a_job_start_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line goes on with what the command starts: here it finds that this is not there."""
    from click.testing import CliRunner

    from minimizer.cli.run import run

    monkeypatch.chdir(tmp_path)
    for command in (["missing.py"], ["--", "torchrun", "--nproc-per-node", "2", "missing.py"]):
        ended = CliRunner().invoke(run, command)
        assert ended.exit_code == 2 and "'missing.py' does not exist" in ended.output
    torchrun = ["torchrun", "--nproc-per-node", "2", "missing.py"]
    ended = CliRunner().invoke(run, ["--nproc", "3", "--", *torchrun])
    assert ended.exit_code == 2 and "leave --nproc out" in ended.output
    ended = CliRunner().invoke(run, ["--", str(tmp_path / "bin" / "python"), "missing.py"])
    assert "bin/python: no such program" in str(ended.exception)
