"""Says what this machine lacks, and how to get it. Every check does the real thing instead of guessing.

torch is asked in a process of its own: importing it here would take seconds, and a broken one may take us down.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import minimizer
from minimizer.errors import MinimizerError, MissingTool
from minimizer.fitness import needs_sandbox, why_unfit
from minimizer.sandbox import (
    HOW_TO_GET_BUBBLEWRAP,
    bounded,
    cxx,
    own_gpus,
    real_interpreter,
    why_no_bubblewrap,
    without_bytecode,
)
from minimizer.sandbox.torch_cuda import torch_on
from minimizer.settings import Settings

OLDEST_PYTHON = (3, 11)
HOOKS = Path(minimizer.__file__).parent / "inside" / "hooks.py"
TORCH_VERSIONS = ((2, 11), (2, 15))
FREE_BYTES = 5 << 30
"""Disk for the kernel caches of one large job."""
TORCH_SECONDS = 120
CONNECT_SECONDS = 5


@dataclass(frozen=True)
class Finding:
    """The outcome of one check. ``ok`` is None for a warning: something is missing that not everybody needs."""

    name: str
    ok: bool | None
    detail: str
    remedy: str = ""


def diagnose(settings: Settings, python: Path | None = None) -> list[Finding]:
    """Check this machine, and the Python interpreter that scripts will run in (default: the one we run in)."""
    interpreter = python or Path(sys.executable)
    findings = [check_python(interpreter)]
    if findings[0].ok:
        torch = check_torch(interpreter)
        hooks = [check_hooks(interpreter)] if torch.ok is not False else []
        findings += [torch, *hooks, *check_compiler(), check_cuda(interpreter)]
    return [
        *findings,
        *(check_toolchain(name, path) for name, path in settings.interpreters.items()),
        check_sandbox(settings),
        check_disk(Path(tempfile.gettempdir())),
        check_fitness(settings, interpreter),
        check_database(settings),
        check_broker(settings),
        check_port(settings),
    ]


def check_python(python: Path) -> Finding:
    name, remedy = "Python", "Install Python 3.11 or later, or name another interpreter with --python."
    try:
        version = tuple(_ask(real_interpreter(python), "tuple(sys.version_info[:3])", seconds=10))
    except MissingTool as error:
        return Finding(name, False, str(error), remedy)
    except _NoAnswer as error:
        return Finding(name, False, f"{python}: {error}", remedy)
    fits = version >= OLDEST_PYTHON
    return Finding(name, fits, f"{_dotted(version)} at {python}", "" if fits else remedy)


def check_torch(python: Path) -> Finding:
    oldest, newest = TORCH_VERSIONS
    remedy = f"Install torch {_dotted(oldest)} to {_dotted(newest)} there: {python} -m pip install torch"
    try:
        version = str(_ask(python, "str(__import__('torch').__version__)", seconds=TORCH_SECONDS))
    except _NoAnswer as error:
        return Finding("torch", False, f"it cannot be imported: {error}", remedy)
    if not oldest <= tuple(map(int, version.split(".")[:2])) <= newest:
        return Finding("torch", False, version, remedy)
    if (bare := without_bytecode(python)) is not None:
        mend = f"Once: {python} -m compileall -q {bare}"
        return Finding("torch", None, f"{version}, without bytecode: runs take several times as long", mend)
    return Finding("torch", True, version)


def check_hooks(python: Path) -> Finding:
    """Whether torch has the private parts by which a job observes it: without one it would end at its start."""
    name, remedy = "torch's hooks", f"Install another build there: {python} -m pip install torch"
    asked = f"(lambda m: (m['lacks'](), m['absent'](m['WISHED'])))(__import__('runpy').run_path({str(HOOKS)!r}))"
    try:
        lacks, misses = _ask(python, asked, seconds=TORCH_SECONDS)
    except _NoAnswer as error:
        return Finding(name, False, f"they cannot be looked up: {error}", remedy)
    if lacks or misses:
        return Finding(name, False if lacks else None, "; ".join([*lacks, *misses]), remedy)
    return Finding(name, True, "all private parts of torch that jobs observe are there")


def check_toolchain(name: str, python: Path) -> Finding:
    """Check an interpreter of MINIMIZER_TOOLCHAINS and its torch: jobs that name it fail otherwise."""
    remedy = f"Repair {python}, or name another interpreter in MINIMIZER_TOOLCHAINS."
    found = check_python(python)
    if not found.ok:
        return Finding(f"toolchain {name}", False, found.detail, remedy)
    torch = check_torch(python)
    if torch.ok is not False and not (hooks := check_hooks(python)).ok:
        return Finding(f"toolchain {name}", hooks.ok, hooks.detail, hooks.remedy)
    detail = f"torch: {torch.detail}" if torch.ok is False else f"Python {found.detail}, torch {torch.detail}"
    return Finding(f"toolchain {name}", torch.ok, detail, torch.remedy)


def check_cuda(python: Path) -> Finding:
    """The GPUs that are ours by CUDA_VISIBLE_DEVICES, their driver, and whether torch computes on them and finds Triton."""
    name, own = "CUDA device", own_gpus()
    wanted = False if os.environ.get("CUDA_VISIBLE_DEVICES") else None  # a GPU that is named is needed
    if own.trouble:
        return Finding(
            name, wanted, own.trouble, "docs/gpu.md, Troubleshooting, has more. Scripts for the CPU need none."
        )
    if not own.gpus:
        remedy = "Only scripts for CUDA need one: install the driver, and a torch that is built for CUDA."
        return Finding(name, None, "none; scripts run on the CPU", remedy)
    torch = torch_on(python, own.gpus)
    cards = f"{', '.join(gpu.text for gpu in own.gpus)}, driver {own.gpus[0].driver}"
    if torch.trouble:
        remedy = (
            f"Install in {python} a torch that is built for CUDA, at most as new as the driver allows, with its Triton."
        )
        return Finding(name, wanted, f"{cards}; {torch.trouble}", remedy)
    return Finding(name, True, f"{cards}; {torch.text}")


def check_compiler() -> list[Finding]:
    """Whether inductor will find a C++ compiler, and whether that one compiles and links."""
    found = cxx()
    if found is None:
        remedy = "apt-get install g++, or name another one in CXX, such as clang++."
        return [Finding("C++ compiler", False, f"there is no {os.environ.get('CXX') or 'g++ on the PATH'}", remedy)]
    return [Finding("C++ compiler", True, found), check_compile(found)]


def check_compile(compiler: str) -> Finding:
    name, remedy = "compile", f"{compiler} is incomplete: apt-get install --reinstall g++ libc6-dev"
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "probe.cpp"), Path(folder, "probe.so")
        source.write_text(
            "#include <cmath>\n#include <vector>\nint probe() { return (int)std::vector<int>{1}.size(); }\n"
        )
        command = [compiler, "-std=c++17", "-shared", "-fPIC", "-o", str(library), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return Finding(name, False, str(error), remedy)
    if done.returncode != 0:
        return Finding(name, False, _last_line(done.stderr), remedy)
    return Finding(name, True, "a small shared library compiles and links")


def check_sandbox(settings: Settings) -> Finding:
    if settings.sandbox == "off":
        return Finding("sandbox", None, "switched off: scripts can do all that you can", "Unset MINIMIZER_SANDBOX.")
    trouble = why_no_bubblewrap()
    if trouble is None:
        by = "its control group" if "memory" in bounded() else "a watch, since no control group can be made"
        return Finding("sandbox", True, f"bubblewrap works; the memory of a job is bounded by {by}")
    ok = False if settings.sandbox == "required" or settings.access == "on" else None
    return Finding("sandbox", ok, f"{trouble}; without it only resource limits apply", HOW_TO_GET_BUBBLEWRAP)


def check_disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    detail = f"{free / (1 << 30):.1f} GiB free in {folder}"
    if free >= FREE_BYTES:
        return Finding("disk space", True, detail)
    return Finding(
        "disk space", None, detail, f"Free {FREE_BYTES >> 30} GiB, or set TMPDIR to a folder with more room."
    )


def check_fitness(settings: Settings, python: Path) -> Finding:
    """Whether a worker takes jobs here."""
    trouble = why_unfit((python, *settings.interpreters.values()), sandboxed=needs_sandbox(settings))
    if trouble:
        return Finding("fit for jobs", False, trouble, "Mend it: until then no worker takes a job on this machine.")
    return Finding("fit for jobs", True, "a worker takes jobs on this machine")


def check_database(settings: Settings) -> Finding:
    """Asks without making anything: opening a SQLite file that does not exist would create it."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    from minimizer.store.tables.migrate import require_current

    name, url = "database", settings.resolved_database_url
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
            return Finding(
                name, None, f"{parsed.database} does not exist yet", "minimizer db upgrade, or serve, makes it."
            )
        require_current(url)
    except ArgumentError:
        return Finding(name, False, "the URL is not one that SQLAlchemy reads", "Correct MINIMIZER_DATABASE_URL.")
    except MinimizerError as error:  # another schema, or none
        return Finding(name, False, str(error), "minimizer db upgrade")
    except (SQLAlchemyError, ImportError) as error:
        shown = parsed.render_as_string(hide_password=True)
        remedy = "Start the database, or correct MINIMIZER_DATABASE_URL."
        return Finding(name, False, f"{shown} does not answer: {_first_line(str(error.args[0]))}", remedy)
    return Finding(name, True, f"{parsed.render_as_string(hide_password=True)} is up to date")


def check_broker(settings: Settings) -> Finding:
    url = settings.resolved_broker_url
    if url.startswith("filesystem:"):
        return _check_broker_folder(settings.data_dir.resolve())
    from kombu.connection import Connection
    from kombu.exceptions import KombuError

    shown = _without_password(url)
    try:
        with Connection(url, connect_timeout=CONNECT_SECONDS) as connection:  # type: ignore[no-untyped-call]
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=CONNECT_SECONDS)
    except (OSError, KombuError, ImportError, KeyError, ValueError) as error:
        remedy = "Start the broker, or correct MINIMIZER_BROKER_URL."
        return Finding("broker", False, f"{shown} does not answer: {_last_line(str(error))}", remedy)
    return Finding("broker", True, f"{shown} answers")


def _check_broker_folder(folder: Path) -> Finding:
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Finding("broker", True, f"embedded, in {folder}")
    return Finding("broker", False, f"{existing} cannot be written", "Set MINIMIZER_DATA_DIR to a folder of yours.")


def check_port(settings: Settings) -> Finding:
    where = f"{settings.host}:{settings.port}"
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As a server does: a port that was just left is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            remedy = "Only `minimizer serve` needs it: end who listens there, or set MINIMIZER_PORT."
            return Finding("port", None, f"{where}: {error.strerror}", remedy)
    return Finding("port", True, f"{where} is free")


class _NoAnswer(Exception):
    """An interpreter did not answer; the message says why."""


def _ask(python: Path, expression: str, *, seconds: float) -> Any:
    """The value of an expression in another interpreter, separated from other output while torch is imported."""
    script = f"import json, sys\nanswer = {expression}\nprint()\nprint(json.dumps(answer))"
    try:
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise _NoAnswer(f"no answer within {seconds:.0f} s") from None
    except OSError as error:
        raise _NoAnswer(error.strerror or str(error)) from None
    if done.returncode != 0:
        raise _NoAnswer(_last_line(done.stderr) or f"it ended with status {done.returncode}")
    return json.loads(_last_line(done.stdout))


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user, _, _ = parts.netloc.rpartition("@")[0].partition(":")
    return urlunsplit(parts._replace(netloc=f"{user}:***@{parts.netloc.rpartition('@')[2]}"))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
