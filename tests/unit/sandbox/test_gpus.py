"""Which GPU is ours, by what ``CUDA_VISIBLE_DEVICES`` says and nvidia-smi lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_smi import Card, FakeSmi

from minimizer.sandbox.gpus import Own, own_gpus

ONE, TWO = Card("GPU-1a2b", minor="1"), Card("GPU-1a9c", minor="0", name="NVIDIA L4", memory=23034)
DIVIDED = Card(
    "GPU-77", minor="2", name="NVIDIA A100", instances=[(1, "3g.20gb", "MIG-aaaa"), (5, "2g.10gb", "MIG-bbbb")]
)


def uuids(visible: str | None) -> list[str]:
    own = own_gpus({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert own.trouble == ""
    return [gpu.uuid for gpu in own.gpus]


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        (None, ["GPU-1a2b", "GPU-1a9c"]),
        ("1", ["GPU-1a9c"]),
        ("1,0", ["GPU-1a9c", "GPU-1a2b"]),
        ("0, 0", ["GPU-1a2b"]),
        ("GPU-1a9c", ["GPU-1a9c"]),
        ("GPU-1a2", ["GPU-1a2b"]),
        ("", []),
        ("-1", []),
    ],
)
def test_the_variable_says_which(smi: FakeSmi, visible: str | None, found: list[str]) -> None:
    smi.has(ONE, TWO)
    assert uuids(visible) == found


@pytest.mark.parametrize(
    ("visible", "why"),
    [
        ("2", "names 2, which is no GPU here; there are: 0 (GPU-1a2b), 1 (GPU-1a9c)."),
        ("0,7", "names 7, which is no GPU"),
        ("GPU-1a", "names GPU-1a, which is more than one GPU"),
        ("GPU-ffff", "names GPU-ffff, which is no GPU"),
        ("0,", "names an empty entry"),
        ("all", "names all, which is no GPU"),
    ],
)
def test_an_entry_that_is_no_gpu_is_said_where_cuda_would_leave_it_out(smi: FakeSmi, visible: str, why: str) -> None:
    smi.has(ONE, TWO)
    own = own_gpus({"CUDA_VISIBLE_DEVICES": visible})
    assert own.gpus == () and why in own.trouble


def test_what_is_known_of_a_gpu(smi: FakeSmi) -> None:
    smi.has(ONE)
    (gpu,) = own_gpus({}).gpus
    assert (gpu.minor, gpu.memory_mib, gpu.driver, gpu.card) == (1, 81559, "580.82.07", "GPU-1a2b")
    assert gpu.text == "NVIDIA H100 80GB HBM3 (GPU-1a2b, 81,559 MiB)"


def test_a_mig_instance_is_named_by_its_uuid(smi: FakeSmi) -> None:
    smi.has(ONE, DIVIDED)
    (instance,) = own_gpus({"CUDA_VISIBLE_DEVICES": "MIG-bbbb"}).gpus
    assert (instance.uuid, instance.card, instance.minor, instance.instance) == ("MIG-bbbb", "GPU-77", 2, (5, 0))
    assert instance.name == "NVIDIA A100 MIG 2g.10gb"
    assert instance.memory_mib == 20096
    assert "GPU 1 is partitioned" in own_gpus({"CUDA_VISIBLE_DEVICES": "1"}).trouble
    assert "one MIG instance" in own_gpus({"CUDA_VISIBLE_DEVICES": "MIG-aaaa,MIG-bbbb"}).trouble


def test_a_container_that_was_given_one_instance_need_not_name_it(smi: FakeSmi) -> None:
    smi.has(Card("GPU-77", instances=[(1, "3g.20gb", "MIG-aaaa")]))
    assert uuids(None) == ["MIG-aaaa"]


def test_a_card_that_is_divided_into_nothing(smi: FakeSmi) -> None:
    smi.has(DIVIDED)
    smi.does(f"[ $1 = -L ] || cat {smi.path.parent}/log.xml")
    assert "has no instance" in own_gpus({}).trouble


def test_a_card_without_a_device_file_has_no_number(smi: FakeSmi) -> None:
    smi.has(Card("GPU-1a2b", minor="N/A"))
    assert own_gpus({}).gpus[0].minor is None


def test_a_driver_that_does_not_answer(smi: FakeSmi) -> None:
    smi.does("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    assert "Driver/library version mismatch" in own_gpus({}).trouble
    smi.does("echo 'No devices were found'")
    assert "does not answer in XML" in own_gpus({}).trouble


def test_no_gpu_is_listed(smi: FakeSmi) -> None:
    assert own_gpus({}).trouble == "nvidia-smi lists no GPU."


def test_without_nvidia_smi_the_kernel_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = tmp_path / "proc/driver/nvidia"
    cards = {"0000:19:00.0": ("GPU-1a2b", 1), "0000:3b:00.0": ("GPU-1a9c", 0), "0000:5c:00.0": ("GPU-????????-????", 2)}
    for bus, (uuid, minor) in cards.items():
        (facts / "gpus" / bus).mkdir(parents=True)
        text = f"Model: \t\t NVIDIA L4\nIRQ:   \t\t 38\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
        (facts / "gpus" / bus / "information").write_text(text)
    (facts / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n")
    (gpu,) = own_gpus({"CUDA_VISIBLE_DEVICES": "1"}, tmp_path).gpus
    assert (gpu.uuid, gpu.name, gpu.minor, gpu.driver, gpu.memory_mib) == ("GPU-1a9c", "NVIDIA L4", 0, "535.104.05", 0)


def test_a_machine_without_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_gpus({}, tmp_path) == Own()
    assert "nvidia-smi is not on the PATH" in own_gpus({"CUDA_VISIBLE_DEVICES": "0"}, tmp_path).trouble
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    assert "nvidia-smi is not on the PATH" in own_gpus({}, tmp_path).trouble
