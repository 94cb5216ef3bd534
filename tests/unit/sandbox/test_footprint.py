"""The memory of processes by files that stand in for the kernel's. On the kernel: tests/security/test_job_memory.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minimizer.sandbox import footprint

MEBIBYTE = 1 << 20


@pytest.mark.parametrize(("share", "counts"), [(300, True), (100, False)])
def test_memory_in_swap_counts_by_a_process_share_of_it(
    share: int, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footprint, "PROC", tmp_path)
    ours = tmp_path / str(os.getpid())
    ours.mkdir()
    (ours / "status").write_text(f"Name:\tpython\nVmRSS:\t1024 kB\nVmSwap:\t{300 << 10} kB\nThreads:\t1\n")
    (ours / "smaps_rollup").write_text(
        "55d0-7ffd ---p 00000000 00:00 0  [rollup]\n"
        f"Pss_Anon: 1024 kB\nPss_Shmem: 0 kB\nSwap: {300 << 10} kB\nSwapPss: {share << 10} kB\n"
    )
    assert footprint.exceeds([os.getpid()], 200 * MEBIBYTE) == counts
    assert not footprint.exceeds([os.getpid()], 400 * MEBIBYTE)
