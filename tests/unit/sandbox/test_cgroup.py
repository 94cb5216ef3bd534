"""Groups of jobs on trees of files that stand in for the kernel's, of both versions. On the kernel: tests/security/test_job_memory.py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from minimizer.sandbox import cgroup
from minimizer.sandbox.cgroup import Bounds, JobGroup

BOUNDS = Bounds(1 << 30, 300)
FILES = {
    2: ("memory.max", "memory.swap.max", "memory.oom.group", "memory.events", "pids.max", "cpu.weight"),
    1: ("memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control", "pids.max", "cpu.shares"),
}


class Tree:
    """A file system of control groups: a folder that is made in it has the files of a group."""

    def __init__(self, root: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.version = root, version
        self._make, self._remove = Path.mkdir, Path.rmdir
        monkeypatch.setattr(cgroup, "ROOT", root)
        monkeypatch.setattr(cgroup, "OWN", root.parent / "own")
        monkeypatch.setattr(Path, "mkdir", lambda path, *args, **named: self.mkdir(path, *args, **named))
        monkeypatch.setattr(Path, "rmdir", lambda path: self.rmdir(path))

    def mkdir(self, path: Path, *args: Any, **named: Any) -> None:
        self._make(path, *args, **named)
        if path.is_relative_to(self.root):
            for name in ("cgroup.procs", "cgroup.subtree_control", *FILES[self.version]):
                (path / name).touch()

    def rmdir(self, path: Path) -> None:
        for file in path.iterdir():
            file.unlink()
        self._remove(path)

    def be_in(self, *lines: str) -> None:
        (self.root.parent / "own").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def v2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    tree = Tree(tmp_path / "cgroup", 2, monkeypatch)
    for folder in (tree.root, tree.root / "system.slice", tree.root / "system.slice" / "worker.service"):
        folder.mkdir()
        (folder / "cgroup.controllers").write_text("cpu memory pids")
    tree.be_in("0::/system.slice/worker.service")
    return tree


def entered(group: JobGroup) -> Path:
    """The folder of a group of one hierarchy."""
    assert group.enter(os.getpid()) == {"memory", "pids", "cpu"}
    (folder,) = {folder for _, folder in group._folders.values()}
    return folder


def test_a_service_moves_out_of_its_own_group_and_puts_jobs_beside_itself(v2: Tree) -> None:
    unit = v2.root / "system.slice" / "worker.service"
    (unit / "cgroup.procs").write_text(str(os.getpid()))
    folder = entered(JobGroup(BOUNDS))
    assert folder.parent == unit
    assert (unit / "minimizer-main" / "cgroup.procs").read_text() == str(os.getpid())
    written = {name: (folder / name).read_text() for name in FILES[2] if name != "memory.events"}
    assert written == {
        "memory.max": str(1 << 30),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "300",
        "cpu.weight": "50",
    }
    v2.be_in("0::/system.slice/worker.service/minimizer-main")
    assert entered(JobGroup(BOUNDS)).parent == unit


def test_a_group_with_others_in_it_stays_as_it_is(v2: Tree) -> None:
    unit = v2.root / "system.slice" / "worker.service"
    (unit / "cgroup.procs").write_text(f"{os.getpid()}\n1\n")
    assert entered(JobGroup(BOUNDS)).parent == unit.parent
    assert not (unit / "minimizer-main").exists()


def test_what_the_kernel_has_ended_is_known_also_when_the_group_is_gone(v2: Tree) -> None:
    group = JobGroup(BOUNDS)
    folder = entered(group)
    assert not group.look()
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\noom_group_kill 1\n")
    group.leave()
    assert not folder.exists()
    assert group.ran_out and group.look() and not group.was_starved


def test_what_the_kernel_has_ended_for_others_is_not_the_jobs_own_bound(v2: Tree) -> None:
    group = JobGroup(BOUNDS)
    folder = entered(group)
    (folder / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 0\noom_kill 1\noom_group_kill 1\n")
    assert not group.look() and group.was_starved
    group.leave()
    assert not group.look() and group.was_starved


def test_the_first_version_has_a_folder_for_each_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(tmp_path / "cgroup", 1, monkeypatch)
    tree.root.mkdir()
    for name in ("memory", "pids", "cpu"):
        (tree.root / name).mkdir()
    (tree.root / "memory" / "docker").mkdir()
    tree.be_in("8:pids:/", "4:memory:/docker", "1:cpu,cpuacct:/", "0::/")
    group = JobGroup(BOUNDS)
    assert group.enter(7) == {"memory", "pids", "cpu"}
    folders = {kind: folder for kind, (_, folder) in group._folders.items()}
    assert folders["memory"].parent == tree.root / "memory" / "docker"
    assert (folders["memory"] / "memory.limit_in_bytes").read_text() == str(1 << 30)
    assert (folders["pids"] / "pids.max").read_text() == "300"
    assert all((folder / "cgroup.procs").read_text() == "7" for folder in folders.values())
    group.leave()
    assert not any(folder.exists() for folder in folders.values())


@pytest.mark.parametrize("peak", ["memory.max_usage_in_bytes", "memory.memsw.max_usage_in_bytes"])
@pytest.mark.parametrize(("taken", "is_own"), [(BOUNDS.memory_bytes // 2, False), (BOUNDS.memory_bytes - 4096, True)])
def test_the_first_version_says_how_much_a_group_had_when_one_was_killed(
    peak: str, taken: int, is_own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path / "cgroup", 1, monkeypatch)
    (tree.root / "memory").mkdir(parents=True)
    tree.be_in("4:memory:/")
    group = JobGroup(BOUNDS)
    assert group.enter(7) == {"memory"}
    _, folder = group._folders["memory"]
    (folder / peak).write_text(f"{taken}\n")
    assert not group.look() and not group.was_starved
    (folder / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert group.look() == is_own
    assert group.was_starved != is_own


def test_folders_without_controllers_bound_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a hybrid, where what lies at the root is no control group: files of our own there would look like bounds."""
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    monkeypatch.setattr(cgroup, "OWN", tmp_path / "own")
    (tmp_path / "own").write_text("4:memory:/\n0::/\n")
    (tmp_path / "memory").mkdir()
    group = JobGroup(BOUNDS)
    assert group.enter(7) == set()
    assert list((tmp_path / "memory").iterdir()) == []


def test_the_memory_of_a_container_is_that_of_its_narrowest_group(v2: Tree) -> None:
    (v2.root / "system.slice" / "worker.service" / "memory.max").write_text("max\n")
    (v2.root / "system.slice" / "memory.max").write_text(f"{2 << 30}\n")
    assert cgroup.memory_limit() == 2 << 30
