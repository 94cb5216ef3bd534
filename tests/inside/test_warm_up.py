"""What the zygote imports, on each kind of machine: stand-ins for torch, whose forked children always say that CUDA is spoiled.

Device files are those of a folder, so that no test depends on the machine that runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from children import SECONDS, executor, trial

from minimizer.engine.child.executor import Executor
from minimizer.errors import ChildFailed
from minimizer.inside import gpu, warm_up

CARD, WSL, TEGRA = ("nvidiactl", "nvidia0"), ("dxg",), ("nvhost-gpu",)
RADEON, RENDER = ("kfd", "dri/renderD128"), ("dri/renderD128",)
CUDA, ROCM, XPU, NONE = {"cuda": "13.0"}, {"hip": "7.1"}, {"xpu": "2026"}, dict[str, str]()
BAD_FORK = "a forked process cannot use it then. `import json` did that"

Machine = Callable[..., Any]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Machine]:
    """Sets up a machine: a torch whose forked children are spoiled once ``json`` is imported, device files, and variables."""

    def set_up(build: dict[str, str], files: tuple[str, ...], environ: dict[str, str]) -> Any:
        device = SimpleNamespace(is_initialized=lambda: False, _is_in_bad_fork=lambda: "json" in sys.modules)
        version = SimpleNamespace(**{"cuda": None, "hip": None, "xpu": None, **build})
        stand_in = SimpleNamespace(version=version, cuda=device, xpu=device)
        monkeypatch.setitem(sys.modules, "torch", stand_in)
        monkeypatch.setitem(sys.modules, "json", sys.modules["json"])
        monkeypatch.delitem(sys.modules, "json")
        for name in files:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()
        monkeypatch.setattr(gpu, "DEV", str(tmp_path))
        for name in {*gpu.ROCM_HIDES, *environ}:
            monkeypatch.delenv(name, raising=False)
        for name, text in environ.items():
            monkeypatch.setenv(name, text)
        gpu.has_gpu.cache_clear()
        return stand_in

    yield set_up
    gpu.has_gpu.cache_clear()


HIDDEN = "CUDA_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("build", "files", "environ"),
    [
        pytest.param(CUDA, (), {}, id="no driver, or a container without its device files"),
        pytest.param(CUDA, ("nvidiactl", "nvidia-uvm"), {}, id="a driver without a device"),
        pytest.param(CUDA, ("nvidia0",), {}, id="a device without its driver"),
        pytest.param(CUDA, CARD, {HIDDEN: ""}, id="hidden by an empty list"),
        pytest.param(CUDA, CARD, {HIDDEN: "-1"}, id="hidden by a negative number"),
        pytest.param(CUDA, CARD, {HIDDEN: "NoDevFiles"}, id="hidden by a scheduler"),
        pytest.param(CUDA, RADEON, {}, id="a card of AMD's, and a build for CUDA"),
        pytest.param(ROCM, (), {}, id="ROCm without a card"),
        pytest.param(ROCM, ("kfd",), {}, id="ROCm's driver without a card"),
        pytest.param(ROCM, CARD, {}, id="a card of NVIDIA's, and a build for ROCm"),
        pytest.param(ROCM, RADEON, {"HIP_VISIBLE_DEVICES": "-1"}, id="ROCm, hidden"),
        pytest.param(XPU, (), {}, id="XPU without a card"),
        pytest.param(XPU, CARD, {}, id="a card of NVIDIA's, and a build for XPU"),
        pytest.param(NONE, CARD, {}, id="a build for the CPU"),
    ],
)  # fmt: skip
def test_without_a_gpu_nothing_refuses(
    machine: Machine, build: dict[str, str], files: tuple[str, ...], environ: dict[str, str]
) -> None:
    torch = machine(build, files, environ)
    warm_up.import_all(["json"])
    torch.cuda.is_initialized = torch.xpu.is_initialized = lambda: True
    assert warm_up.why_no_fork() is None


@pytest.mark.parametrize(
    ("build", "files", "environ"),
    [
        pytest.param(CUDA, CARD, {}, id="a card"),
        pytest.param(CUDA, CARD, {HIDDEN: "0,1"}, id="a card by its number"),
        pytest.param(CUDA, CARD, {HIDDEN: "MIG-11ce-77"}, id="an instance by its UUID"),
        pytest.param(CUDA, WSL, {}, id="WSL"),
        pytest.param(CUDA, TEGRA, {}, id="Tegra"),
        pytest.param(ROCM, RADEON, {}, id="ROCm"),
        pytest.param(XPU, RENDER, {}, id="XPU"),
    ],
)  # fmt: skip
def test_with_a_gpu_a_spoiled_child_is_refused_and_the_import_named(
    machine: Machine, build: dict[str, str], files: tuple[str, ...], environ: dict[str, str]
) -> None:
    torch = machine(build, files, environ)
    with pytest.raises(RuntimeError, match=BAD_FORK):
        warm_up.import_all(["colorsys", "json", "csv"])
    torch.cuda.is_initialized = torch.xpu.is_initialized = lambda: True
    assert "a forked process cannot use it then" in (warm_up.why_no_fork() or "")


def test_with_a_gpu_a_sound_child_is_not_refused(machine: Machine) -> None:
    machine(CUDA, CARD, {})
    warm_up.import_all(["colorsys", "csv"])
    assert warm_up.why_no_fork() is None


@pytest.mark.parametrize(("files", "answers"), [((), [0, 0]), (CARD, [4, 1])], ids=["no GPU", "GPU"])
def test_imports_count_devices_without_the_runtime(
    machine: Machine, files: tuple[str, ...], answers: list[int]
) -> None:
    """By the driver's library; without a GPU not even by that, and where that does not answer there is one."""
    torch = machine(CUDA, files, {})
    torch.cuda._device_count_nvml, torch.cuda._device_count_amdsmi = (lambda: 4), (lambda: -1)
    before = vars(torch.cuda).copy()
    with gpu.counted_without_runtime():
        assert [torch.cuda._device_count_nvml(), torch.cuda._device_count_amdsmi()] == answers
    assert vars(torch.cuda) == before


WARNS = "import logging; logging.getLogger({logger!r}).warning('No CUDA runtime is found')"


@pytest.mark.parametrize(
    ("logger", "told"), [("torch.utils.cpp_extension", []), ("others", ["No CUDA runtime is found"])]
)
def test_nothing_is_said_of_a_toolkit_without_a_gpu(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    logger: str, told: list[str],
) -> None:  # fmt: skip
    """``nvcc`` may be there without a GPU, as in images that build for one: torch's module warns of that when it is imported."""
    machine(CUDA, (), {})
    (tmp_path / "warns_of_toolkit.py").write_text(WARNS.format(logger=logger))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "warns_of_toolkit", raising=False)
    warm_up.import_all(["warns_of_toolkit"])
    assert [record.getMessage() for record in caplog.records] == told


# a real torch in a real zygote ------------------------------------------------------------------------------------------

GPU = """
import glob, os, sys
import torch
find = glob.glob
glob.glob = lambda pattern, **options: [os.devnull] if "nvidia" in pattern else find(pattern, **options)
torch.version.cuda = torch.version.cuda or "13.0"
cuda, parent = torch.cuda, os.getpid()
"""
"""What a sitecustomize.py does that imports torch, on a machine that has a GPU."""
LATER = """
from importlib.abc import MetaPathFinder

class Late(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch._inductor.scheduler":
            {does}

sys.meta_path.insert(0, Late())
"""
SPOILS = "cuda._is_in_bad_fork = lambda: os.getpid() != parent"
IS_KILLED = "cuda._is_in_bad_fork = lambda: os.getpid() != parent and os.kill(os.getpid(), 9)"
STARTS = "cuda.is_initialized = lambda: True"
ASKS = "assert os.environ['PYTORCH_NVML_BASED_CUDA_CHECK'] == '1'"


def with_site(folder: Path, text: str) -> Executor:
    """A started executor whose Python runs this text at its start."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(text)
    return executor(folder / "scratch", site, env={"PYTHONPATH": str(site)})


@pytest.mark.parametrize("does", [SPOILS, STARTS], ids=["counts", "starts"])
def test_the_error_names_the_import_that_started_cuda(tmp_path: Path, does: str) -> None:
    """One that has only counted the devices spoils its children too, and only they know it."""
    named = r"CUDA was started in the process that all trials are forked from.* `import torch\S+` did that"
    with pytest.raises(ChildFailed, match=named):
        with_site(tmp_path, GPU + LATER.format(does=does))


def test_the_error_names_what_starts_with_python(tmp_path: Path) -> None:
    with pytest.raises(ChildFailed, match=r"What Python imports at its start did that: \S*sitecustomize\.py"):
        with_site(tmp_path, GPU + SPOILS)


def test_a_child_that_is_killed_says_nothing_of_cuda(tmp_path: Path) -> None:
    with_site(tmp_path, GPU + LATER.format(does=IS_KILLED)).close()


def test_what_is_imported_in_the_parent_asks_nvml_and_not_cuda(tmp_path: Path) -> None:
    """By default ``torch.cuda.is_available()`` starts CUDA, in whatever module it is asked while that is imported."""
    setup = "assert 'PYTORCH_NVML_BASED_CUDA_CHECK' not in os.environ"
    with with_site(tmp_path, GPU + LATER.format(does=ASKS)) as child:
        (outcome,) = child.judge([trial("return x + 1", setup=setup)], timeout=SECONDS)
    assert outcome.ending == "same", outcome
