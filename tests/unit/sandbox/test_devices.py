"""Which device files a sandbox shows, and what it says to CUDA."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_smi import Card, FakeSmi

from minimizer.sandbox import Bubblewrap, Devices, Limits, Sandbox, Unconfined, bubblewrap, devices_for

NODES = (
    "nvidia0 nvidia1 nvidiactl nvidia-uvm nvidia-uvm-tools nvidia-modeset nvidia-caps/nvidia-cap1 nvidia-caps/nvidia-cap12"
    " nvidia-caps/nvidia-cap13 nvidia-caps/nvidia-cap21 dri/card0 dri/renderD128"
)


def machine(root: Path, *further: str) -> Path:
    """A folder that stands in for the root of a machine."""
    for name in (*NODES.split(), *further):
        (root / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "dev" / name).touch()
    for path, number in (("gi1", 12), ("gi1/ci0", 13), ("gi5", 21)):
        file = root / f"proc/driver/nvidia/capabilities/gpu1/mig/{path}/access"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"DeviceFileMinor: {number}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    return root


def shown(devices: Devices, root: Path) -> list[str]:
    return [str(node.relative_to(root / "dev")) for node in devices.nodes(root)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return machine(tmp_path / "machine")


def test_a_job_sees_its_own_card_by_the_number_of_its_device_file(smi: FakeSmi, root: Path) -> None:
    smi.has(Card("GPU-a", minor="1"), Card("GPU-b", minor="0"))
    devices = devices_for("auto", {"CUDA_VISIBLE_DEVICES": "0"}, root)
    assert shown(devices, root) == ["nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"]
    assert devices.environment == {"CUDA_VISIBLE_DEVICES": "GPU-a"}
    both = devices_for("cuda", {}, root)
    assert shown(both, root)[:2] == ["nvidia1", "nvidia0"]
    assert both.environment == {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}


def test_a_cpu_job_sees_none(smi: FakeSmi, root: Path) -> None:
    smi.has(Card("GPU-a"))
    (root / "dev" / "kfd").touch()
    devices = devices_for("cpu", {}, root)
    assert shown(devices, root) == []
    assert devices.environment == {"CUDA_VISIBLE_DEVICES": ""}


def test_a_mig_instance_comes_with_what_opens_it_and_no_other(smi: FakeSmi, root: Path) -> None:
    instances = [(1, "3g.20gb", "MIG-aaaa"), (5, "2g.10gb", "MIG-bbbb")]
    smi.has(Card("GPU-a", minor="1", instances=instances))
    devices = devices_for("auto", {"CUDA_VISIBLE_DEVICES": "MIG-aaaa"}, root)
    assert shown(devices, root)[0] == "nvidia1"
    assert [name for name in shown(devices, root) if "cap" in name] == [
        "nvidia-caps/nvidia-cap12",
        "nvidia-caps/nvidia-cap13",
    ]
    assert devices.environment == {"CUDA_VISIBLE_DEVICES": "MIG-aaaa"}


def test_wsl_has_one_device_for_all(smi: FakeSmi, tmp_path: Path) -> None:
    root = tmp_path / "wsl"
    (root / "dev").mkdir(parents=True)
    (root / "dev" / "dxg").touch()
    smi.has(Card("GPU-a", minor="N/A"))
    assert shown(devices_for("auto", {}, root), root) == ["dxg"]


def test_of_amd_the_compute_and_render_devices_are_shown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(root))
    for name in ("nvidiactl", "nvidia0"):
        (root / "dev" / name).unlink()
    (root / "dev" / "kfd").touch()
    devices = devices_for("auto", {}, root)
    assert shown(devices, root) == ["kfd", "dri/renderD128"]
    assert devices.environment == {}


def test_trouble_is_told_and_shows_nothing(smi: FakeSmi, root: Path) -> None:
    devices = devices_for("auto", {"CUDA_VISIBLE_DEVICES": "3"}, root)
    assert "names 3" in devices.trouble
    assert shown(devices, root) == []
    assert devices.environment == {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize(("memory", "jobs"), [(81559, 9), (23034, 2), (8192, 1), (4096, 1), (0, 16)])
def test_how_many_trials_run_at_once_goes_by_the_memory(smi: FakeSmi, root: Path, memory: int, jobs: int) -> None:
    smi.has(Card("GPU-a", memory=memory), Card("GPU-b"))
    assert devices_for("auto", {"CUDA_VISIBLE_DEVICES": "0"}, root).at_once(16, 1) == jobs
    assert Devices().at_once(16, 1) == 16


def test_jobs_that_share_a_gpu_share_its_memory(smi: FakeSmi, root: Path) -> None:
    smi.has(Card("GPU-a", memory=81559))
    assert devices_for("auto", {}, root).at_once(16, 2) == 4


@dataclass(frozen=True)
class Shown(Devices):
    """Devices whose file is one of a test's, since none can be made in ``/dev``."""

    file: Path = Path()

    def nodes(self, root: Path = Path("/")) -> list[Path]:
        return [self.file]


def run(sandbox: Sandbox, script: str, folder: Path, **env: str) -> str:
    process = sandbox.start(
        ["sh", "-c", script],
        cwd=folder,
        read=(),
        write=[folder],
        env={"PATH": os.defpath, **env},
        stdout=subprocess.PIPE,
    )
    text = process.communicate()[0].decode()
    sandbox.kill(process)
    return text.strip()


@pytest.fixture
def device() -> Iterator[Path]:
    """A character device that no sandbox has of its own."""
    found = next((Path("/dev", name) for name in ("fuse", "kmsg", "loop-control") if Path("/dev", name).exists()), None)
    assert found is not None
    yield found


def test_bubblewrap_shows_what_is_named_and_nothing_else(tmp_path: Path, device: Path) -> None:
    script = "ls /dev"
    without = run(Bubblewrap(), script, tmp_path).split()
    with_it = run(Bubblewrap(devices=Shown(file=device)), script, tmp_path).split()
    assert sorted([*without, device.name]) == sorted(with_it)
    assert not any(name.startswith(("nvidia", "kfd", "dri", "dxg")) for name in without)


def test_bubblewrap_hides_what_the_driver_says_from_a_job_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``/proc/driver`` is there on every Linux; ``/proc/driver/nvidia`` only with the driver."""
    facts = Path("/proc/sys/kernel/random")
    monkeypatch.setattr(bubblewrap, "DRIVER_FACTS", facts)
    assert run(Bubblewrap(), f"ls -A {facts}", tmp_path) == ""


@pytest.mark.parametrize("sandbox", [Bubblewrap, lambda **kw: Limits("this is a test", **kw), Unconfined])
def test_the_gpus_of_a_job_are_the_sandbox_s_to_say(smi: FakeSmi, tmp_path: Path, sandbox: type[Sandbox]) -> None:
    smi.has(Card("GPU-a"), Card("GPU-b"))
    script = 'echo "$CUDA_VISIBLE_DEVICES ${MINIMIZER_OWNER%%-*}"'
    own = devices_for("auto", {"CUDA_VISIBLE_DEVICES": "1"})
    assert run(sandbox(devices=own), script, tmp_path, CUDA_VISIBLE_DEVICES="0") == f"GPU-b {os.getpid()}"
    assert run(sandbox(devices=devices_for("cpu")), script, tmp_path, CUDA_VISIBLE_DEVICES="0") == ""
