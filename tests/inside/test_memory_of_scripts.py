"""A script that takes more memory than a job may ends the job for that, and neither fails nor is the machine's trouble."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from children import place, script, survey

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.scratch_disk import Scratch
from minimizer.engine.child.warden import Warden
from minimizer.errors import MemoryExceeded
from minimizer.sandbox import Bounds, Bubblewrap, bounded, cgroup

HOG = """
import os
import torch

files = [os.memfd_create(str(number)) for number in range(256)]
for file in files:
    os.write(file, bytes(16 << 20))
torch.compile(torch.relu, backend="eager")(torch.ones(3))
"""


@pytest.mark.quality("slow")
@pytest.mark.parametrize("counted", ["group", "watch"])
def test_a_script_that_takes_too_much_memory_ends_the_job(
    counted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if counted == "watch":
        monkeypatch.setattr(cgroup, "_make", lambda bounds: {})
    elif "memory" not in bounded():
        pytest.skip("no control group of memory")
    home = tmp_path / "home"
    home.mkdir()
    path = script(home, HOG)
    with Scratch(least_free=0, least_files=0) as scratch:
        folder = scratch.path / "shared"
        folder.mkdir()
        sandbox = Bubblewrap(bounds=Bounds(2 << 30, 512))
        there = replace(place(folder, home), sandbox=sandbox)
        with Warden(sandbox, scratch) as warden, Executor(there, jobs=1, watch=warden.watch) as child:
            child.start()
            with pytest.raises(MemoryExceeded, match="the 2048 MiB that a job may take"):
                survey(child, path)
