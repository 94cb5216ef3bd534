"""The checks of ``minimizer doctor``, under the conditions they are there to notice."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from fake_smi import Card, FakeSmi
from servers import free_port

from minimizer import doctor, fitness
from minimizer.sandbox import bubblewrap
from minimizer.settings import Settings
from minimizer.store.tables.migrate import upgrade

PYTHON = Path(sys.executable)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", port=free_port())


def executable(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_sound_machine_has_nothing_to_mend(settings: Settings) -> None:
    findings = doctor.diagnose(settings)
    names = [finding.name for finding in findings]
    assert names == [
        "Python",
        "torch",
        "torch's hooks",
        "C++ compiler",
        "compile",
        "CUDA device",
        "sandbox",
        "disk space",
        "fit for jobs",
        "database",
        "broker",
        "port",
    ]
    assert [finding for finding in findings if finding.ok is False] == []


def test_every_finding_that_is_not_fine_says_what_to_do(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    findings = doctor.diagnose(settings, PYTHON)
    troubled = [finding for finding in findings if finding.ok is not True]
    assert "C++ compiler" in [finding.name for finding in troubled]
    assert all(finding.remedy for finding in troubled)
    assert not any(finding.remedy for finding in findings if finding.ok)


def test_every_toolchain_is_asked(settings: Settings, tmp_path: Path) -> None:
    bare = executable(tmp_path / "bare", f'exec {PYTHON} -S -I "$@"')
    toolchains = f"good={PYTHON},bare={bare},none=/bin/ls"
    findings = doctor.diagnose(settings.model_copy(update={"toolchains": toolchains}))
    good, without, none = [finding for finding in findings if finding.name.startswith("toolchain")]
    assert (good.name, good.ok, good.remedy) == ("toolchain good", True, "")
    assert good.detail.startswith("Python 3.") and ", torch 2." in good.detail
    assert (without.ok, "No module named 'torch'" in without.detail) == (False, True)
    assert f"{bare} -m pip install torch" in without.remedy
    assert (none.ok, "/bin/ls is not a Python interpreter" in none.detail) == (False, True)
    assert "MINIMIZER_TOOLCHAINS" in none.remedy


def test_torch_is_never_imported_here() -> None:
    """In a process of its own: other tests of this run do import torch."""
    code = f"import sys, pathlib; from minimizer import doctor; doctor.check_torch(pathlib.Path({str(PYTHON)!r})); print('torch' in sys.modules)"

    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout.strip() == "False"


def test_an_interpreter_that_is_none_ends_the_questions_to_it(settings: Settings, tmp_path: Path) -> None:
    findings = doctor.diagnose(settings, tmp_path / "python")
    assert findings[0].name == "Python"
    assert findings[0].ok is False
    assert "torch" not in [finding.name for finding in findings]


def test_an_interpreter_without_torch(tmp_path: Path) -> None:
    bare = executable(tmp_path / "python", f'exec {PYTHON} -S -I "$@"')
    finding = doctor.check_torch(bare)
    assert finding.ok is False
    assert "No module named 'torch'" in finding.detail
    assert "pip install torch" in finding.remedy


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ("2.10.1", False),
        ("2.11.0", True),
        ("2.13.1+cu130", True),
        ("2.15.0", True),
        ("2.16.0a0+git1", False),
        ("3.0", False),
    ],
)
def test_versions_of_torch(tmp_path: Path, version: str, fits: bool) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(f"print('importing torch is noisy')\n__version__ = {version!r}\n")
    python = executable(tmp_path / "python", f'PYTHONPATH={tmp_path} exec {PYTHON} "$@"')
    finding = doctor.check_torch(python)
    assert (finding.ok, finding.detail) == (fits, version)


def test_a_torch_that_takes_its_interpreter_down(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n")
    python = executable(tmp_path / "python", f'PYTHONPATH={tmp_path} exec {PYTHON} "$@"')
    finding = doctor.check_torch(python)
    assert finding.ok is False
    assert "-11" in finding.detail


def torch_of(folder: Path, *, cuda: str | None) -> Path:
    """An interpreter whose torch and Triton are stand-ins."""
    package = folder / "torch"
    package.mkdir()
    text = f"""
import types
__version__ = "2.13.0"
version = types.SimpleNamespace(cuda={cuda!r})
zeros = lambda size, device: types.SimpleNamespace(item=lambda: 0.0)
"""
    (package / "__init__.py").write_text(text)
    (folder / "triton.py").write_text("__version__ = '3.7.1'\n")
    return executable(folder / "python", f'PYTHONPATH={folder} exec {PYTHON} "$@"')


def test_a_gpu_is_named_with_its_driver_and_what_torch_makes_of_it(smi: FakeSmi, tmp_path: Path) -> None:
    smi.has(Card("GPU-a"))
    finding = doctor.check_cuda(torch_of(tmp_path, cuda="13.0"))
    detail = "NVIDIA H100 80GB HBM3 (GPU-a, 81,559 MiB), driver 580.82.07; torch 2.13.0, CUDA 13.0, Triton 3.7.1"
    assert finding == doctor.Finding("CUDA device", True, detail)


def test_a_torch_without_cuda_beside_a_gpu(smi: FakeSmi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi.has(Card("GPU-a"))
    python = torch_of(tmp_path, cuda=None)
    finding = doctor.check_cuda(python)
    assert (finding.ok, "torch 2.13.0 is not built for CUDA" in finding.detail) == (None, True)
    assert f"Install in {python}" in finding.remedy
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert doctor.check_cuda(python).ok is False


def test_a_gpu_is_a_wish_unless_it_is_named(smi: FakeSmi, monkeypatch: pytest.MonkeyPatch) -> None:
    smi.does("echo 'Driver/library version mismatch'; exit 18")
    finding = doctor.check_cuda(PYTHON)
    assert (finding.ok, "version mismatch" in finding.detail) == (None, True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    finding = doctor.check_cuda(PYTHON)
    assert finding.ok is False and "docs/gpu.md" in finding.remedy
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    finding = doctor.check_cuda(PYTHON)
    assert (finding.ok, finding.detail) == (None, "none; scripts run on the CPU")


def test_no_compiler_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    [finding] = doctor.check_compiler()
    assert finding.ok is False
    assert "apt-get install g++" in finding.remedy


def test_the_compiler_named_in_cxx_is_the_one_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "missing"))
    assert [finding.ok for finding in doctor.check_compiler()] == [False]
    compiler = shutil.which("g++")
    assert compiler is not None
    monkeypatch.setenv("CXX", compiler)
    assert [finding.ok for finding in doctor.check_compiler()] == [True, True]


def test_a_compiler_that_cannot_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = executable(tmp_path / "g++", "echo 'cannot execute cc1plus' >&2; exit 1")
    monkeypatch.setenv("CXX", str(broken))
    found, compiles = doctor.check_compiler()
    assert found.ok is True
    assert (compiles.ok, compiles.detail) == (False, "cannot execute cc1plus")


def test_the_sandbox_that_is_off_is_a_warning(settings: Settings) -> None:
    assert doctor.check_sandbox(settings.model_copy(update={"sandbox": "off"})).ok is None
    assert doctor.check_sandbox(settings).ok is True


def test_a_database_that_is_not_there_yet_is_not_made(settings: Settings) -> None:
    finding = doctor.check_database(settings)
    assert finding.ok is None
    assert "does not exist yet" in finding.detail
    assert not settings.data_dir.exists()


def test_an_empty_file_is_no_database_yet(settings: Settings) -> None:
    settings.data_dir.mkdir()
    (settings.data_dir / "minimizer.db").touch()
    assert doctor.check_database(settings).ok is False


def test_a_database_is_fine_once_it_has_its_tables(settings: Settings, empty_database_url: str) -> None:
    settings = settings.model_copy(update={"database_url": empty_database_url})
    finding = doctor.check_database(settings)
    assert finding.ok is not True
    assert "minimizer db upgrade" in finding.remedy
    upgrade(empty_database_url)
    assert doctor.check_database(settings).ok is True


def test_a_database_that_does_not_answer(settings: Settings) -> None:
    url = f"postgresql://user:hunter2@127.0.0.1:{free_port()}/nothing"
    finding = doctor.check_database(settings.model_copy(update={"database_url": url}))
    assert finding.ok is False
    assert "refused" in finding.detail.lower()
    assert "hunter2" not in finding.detail


def test_a_database_url_that_is_none(settings: Settings) -> None:
    finding = doctor.check_database(settings.model_copy(update={"database_url": "nonsense"}))
    assert finding.ok is False
    assert "MINIMIZER_DATABASE_URL" in finding.remedy


def test_a_broker_that_answers(settings: Settings, redis_url: str) -> None:
    assert doctor.check_broker(settings.model_copy(update={"broker_url": redis_url})).ok is True


def test_a_broker_that_does_not_answer(settings: Settings) -> None:
    url = f"redis://user:hunter2@127.0.0.1:{free_port()}/0"
    finding = doctor.check_broker(settings.model_copy(update={"broker_url": url}))
    assert finding.ok is False
    assert "refused" in finding.detail.lower()
    assert "hunter2" not in finding.detail


def test_a_broker_of_an_unknown_kind(settings: Settings) -> None:
    finding = doctor.check_broker(settings.model_copy(update={"broker_url": "carrier-pigeon://coop"}))
    assert finding.ok is False
    assert "MINIMIZER_BROKER_URL" in finding.remedy


def test_the_embedded_broker_needs_a_folder(settings: Settings, tmp_path: Path) -> None:
    assert doctor.check_broker(settings).ok is True
    blocked = tmp_path / "file"
    blocked.touch()
    finding = doctor.check_broker(settings.model_copy(update={"data_dir": blocked / "data"}))
    assert finding.ok is False
    assert "MINIMIZER_DATA_DIR" in finding.remedy


def test_a_port_that_is_taken(settings: Settings) -> None:
    assert doctor.check_port(settings).ok is True
    with socket.create_server(("127.0.0.1", settings.port)):
        finding = doctor.check_port(settings)
    assert finding.ok is None
    assert str(settings.port) in finding.detail


def test_little_disk_space_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_disk(Path("/")).name == "disk space"
    monkeypatch.setattr(doctor, "FREE_BYTES", shutil.disk_usage(tmp_path).total + 1)
    assert doctor.check_disk(tmp_path).ok is None


@pytest.mark.parametrize("lacks", ["memory", "sandbox"])
def test_what_keeps_a_worker_from_jobs_is_no_warning(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    assert doctor.check_fitness(settings, PYTHON).ok is True
    if lacks == "memory":
        monkeypatch.setattr(fitness, "MEMINFO", tmp_path / "meminfo")
        (tmp_path / "meminfo").write_text("MemAvailable:  102400 kB\n")
    else:
        settings = settings.model_copy(update={"access": "on"})
        monkeypatch.setattr("minimizer.sandbox.bubblewrap.bwrap", lambda: str(tmp_path / "bwrap"))
        for cached in (bubblewrap.require_bubblewrap, bubblewrap.bwrap_help):
            monkeypatch.setattr(bubblewrap, cached.__name__, cached.__wrapped__)
        assert doctor.check_sandbox(settings).ok is False
    finding = doctor.check_fitness(settings, PYTHON)
    assert (finding.name, finding.ok) == ("fit for jobs", False)
    assert {"memory": "100 MiB of memory", "sandbox": "bubblewrap does not start"}[lacks] in finding.detail
