"""The engine's own packages for an interpreter that has torch and nothing else: a folder of wheels, filled where there is a
network, and unpacked beside the interpreter where there is none. Nothing is ever installed into the interpreter.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements.txt"
WHEELS, UNPACKED = ROOT / "build" / "gpu-wheels", ROOT / "build" / "gpu-packages"
MOST_MIB = 40
GLIBC = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
OLDEST = (3, 11)


class Unusable(Exception):
    """The interpreter or its packages cannot be used; the message says what to do."""


def tag_of(python: Path) -> str:
    """The folder name for an interpreter, such as ``cp312-x86_64``.

    Raises:
        Unusable: it does not start, or is too old.
    """
    question = "import platform, sys; print(*sys.version_info[:2], platform.machine())"
    try:
        done = subprocess.run([python, "-c", question], capture_output=True, text=True, timeout=60, check=True)
        major, minor, machine = done.stdout.split()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise Unusable(f"{python} is no interpreter that starts: {error}") from None
    if (int(major), int(minor)) < OLDEST:
        raise Unusable(f"{python} is Python {major}.{minor}; the engine needs 3.11 or later")
    return f"cp{major}{minor}-{machine}"


def tag_for(version: str, machine: str) -> str:
    """The folder name for a version such as ``3.12`` and a machine such as ``x86_64``.

    Raises:
        Unusable: no such version.
    """
    match = re.fullmatch(r"3\.(\d+)", version)
    if match is None or (3, int(match[1])) < OLDEST:
        raise Unusable(f"{version!r} is no version that the engine runs on: give one such as 3.12")
    return f"cp3{match[1]}-{machine}"


def download_command(python: Path, tag: str, target: Path) -> list[str]:
    """The command that fetches the wheels for a tag; ``python`` is any interpreter with pip."""
    abi, machine = tag.split("-", 1)
    platforms = [f"--platform={glibc}_{machine}" for glibc in GLIBC]
    return [
        *(str(python), "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--implementation=cp"),
        *(f"--python-version={abi.removeprefix('cp3').join(('3.', ''))}", f"--abi={abi}", "--abi=abi3", "--abi=none"),
        *(*platforms, f"--constraint={ROOT / 'constraints.txt'}", f"--requirement={REQUIREMENTS}", f"--dest={target}"),
    ]


def fill(python: Path, tag: str) -> Path:
    """Fetch the wheels for a tag into a folder of their own, which replaces an earlier one.

    Raises:
        Unusable: pip could not, or they are larger than is allowed.
    """
    WHEELS.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{tag}-", dir=WHEELS))
    try:
        if subprocess.run(download_command(python, tag, fresh), check=False).returncode != 0:
            raise Unusable(f"pip could not fetch the wheels for {tag}; its own message is above")
        if (size := mib(fresh)) > MOST_MIB:
            raise Unusable(f"the wheels for {tag} have {size:.1f} MiB; {MOST_MIB} are allowed")
        fresh.chmod(0o755)  # a temporary folder is for its owner only
        shutil.rmtree(WHEELS / tag, ignore_errors=True)
        return fresh.rename(WHEELS / tag)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def mib(folder: Path) -> float:
    """The size of the files in a folder."""
    return sum(file.stat().st_size for file in folder.iterdir()) / (1 << 20)


def unpacked(python: Path, tag: str) -> Path | None:
    """The folder to put on ``sys.path``, made from the wheels for a tag; None if the interpreter has all packages itself.

    Raises:
        Unusable: there are neither wheels nor packages, or pip could not unpack them.
    """
    wheels = sorted((WHEELS / tag).glob("*.whl"))
    if not wheels:
        if lacks := lacking(python):
            raise Unusable(
                f"{python} has no {lacks}, and there are no wheels for {tag}: where there is a network, run "
                f"make gpu-wheels WHEELS_FOR={tag.split('-')[0].replace('cp3', '3.')}, and copy build/gpu-wheels here"
            )
        return None
    names = "\n".join(f"{wheel.name} {wheel.stat().st_size}" for wheel in wheels)
    target = UNPACKED / f"{tag}-{hashlib.sha256(names.encode()).hexdigest()[:12]}"
    if not target.exists():
        _unpack(python, wheels, target)
    return target


def search_path(python: Path, tag: str) -> list[Path]:
    """What is put on ``sys.path`` before the interpreter's own packages, so that the engine starts: the checkout, and its packages.

    Raises:
        Unusable: see `unpacked`; or the engine does not start with them.
    """
    packages = unpacked(python, tag)
    path = [ROOT, *([packages] if packages else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [python, "-c", "import minimizer.cli.run, minimizer.engine.pipeline"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise Unusable(f"the engine does not start in {python} with {path[-1]}: {why}")
    return path


def lacking(python: Path) -> str:
    """The first package that the engine needs and the interpreter does not have; empty if it has all."""
    modules = [line.split()[0].replace("-", "_") for line in REQUIREMENTS.read_text().splitlines() if _is_needed(line)]
    question = f"import importlib.util as u; print(next((m for m in {modules} if u.find_spec(m) is None), ''))"
    done = subprocess.run([python, "-c", question], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else modules[0]


def _is_needed(line: str) -> bool:
    return bool(line.strip()) and not line.startswith(("#", "pip"))


def _unpack(python: Path, wheels: list[Path], target: Path) -> None:
    """By pip from its own wheel, so that the interpreter needs none."""
    pip = next((wheel for wheel in wheels if wheel.name.startswith("pip-")), None)
    if pip is None:
        raise Unusable(f"{wheels[0].parent} lacks pip's own wheel: run make gpu-wheels again")
    UNPACKED.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=UNPACKED))
    others = [wheel for wheel in wheels if wheel != pip]
    command = [
        *(python, pip / "pip", "install", "--isolated", "--quiet", "--no-index", "--no-deps", "--no-cache-dir"),
        "--root-user-action=ignore",
        *("--disable-pip-version-check", "--no-compile", "--target", fresh, *others),
    ]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": ""}, check=False)
    if done.returncode != 0:
        shutil.rmtree(fresh, ignore_errors=True)
        raise Unusable(f"pip could not unpack the wheels of {wheels[0].parent}; its own message is above")
    fresh.chmod(0o755)
    fresh.rename(target)
