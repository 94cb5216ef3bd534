"""The `Place` of a job's processes: interpreter, sandbox, folders and environment variables."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from minimizer.engine.child.gate import Gate
from minimizer.engine.child.headers import NO_HEADERS, USER, Headers
from minimizer.sandbox import COMPILER_VARIABLES, Sandbox

NAMES_PASSED = (
    "PATH",
    "LANG",
    "LC_ALL",
    *COMPILER_VARIABLES,
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
)
"""Variables of our own environment that a child may see."""
READY, DRIVE = "MINIMIZER_READY", "MINIMIZER_DRIVE"
"""Variables with which `DRIVER` drives and ends a script that serves."""
DRIVER = Path(__file__).parents[2] / "inside" / "driven.py"
SHARED_FOLDERS = ("/tmp", "/dev/shm")
"""Folders of a sandbox that are empty when it starts, and that all its processes may write to."""
SECRET_LENGTH = 4
"""Least characters of a value that is redacted: shorter ones are no secrets, and would match everywhere."""


@dataclass(frozen=True)
class Place:
    """The interpreter, sandbox, folders and limits of a job's children."""

    python: Path
    sandbox: Sandbox
    scratch: Path
    """A private folder of the job that children may write to."""
    read: Sequence[Path] = ()
    env: dict[str, str] = field(default_factory=dict)
    network: bool = False
    memory_bytes: int | None = None
    packages: Sequence[Path] = ()
    """The editable installs among ``read``: a clean process imports them like any other package of the interpreter."""
    is_local: bool = False
    """Whether the submitter owns this machine, and may see the paths on it."""
    plan: dict[str, str] = field(default_factory=dict)
    """`READY` and `DRIVE` for a script that serves; empty for one that ends by itself."""
    headers: Headers = NO_HEADERS
    """The precompiled headers of the interpreter's torch, once that is known."""
    gate: Gate = field(default_factory=Gate, compare=False)
    """Passed by every run of the script and every trial, so that one of them can have the GPU alone."""

    def folder(self, name: str) -> Path:
        """A folder below the scratch folder, created if missing."""
        path = self.scratch / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def private(self, name: str) -> Path:
        """A folder outside of the scratch folder, hidden from children that run the script; created if missing."""
        path = self.scratch.with_name(f"{self.scratch.name}.private") / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def origin(self) -> Path:
        """The template of the working folder of every run of the script. Children may read it."""
        return self.private("origin")

    def emptied(self) -> tuple[str, ...]:
        """The shared folders that belong to the sandbox: files that runs leave there are removed between runs.

        If the machine's own folder is mapped there, such as ``/tmp`` for a script in it, our own folders are in it too.
        """
        shown = [Path(path) for path in self.read]
        is_own = {name: not any(Path(name).is_relative_to(path) for path in shown) for name in SHARED_FOLDERS}
        return tuple(name for name in SHARED_FOLDERS if self.sandbox.is_strong and is_own[name])

    def lay_out(self, work: Path) -> Path:
        """Create a working folder for a run in a sandbox of its own, as a copy of `origin`, and return it."""
        shutil.copytree(self.origin, work, symlinks=True)
        return work

    def environment(self, cache: Path, home: Path | None = None) -> dict[str, str]:
        """The environment of a child, with its compiler caches in ``cache``.

        The on-disk graph caches are off: a warm one bypasses the compiler, and with it the fault. Kernels are built in
        one thread, unless a request asks for more (`Switched.threads`: a trial that runs alone does). Inductor's own test of
        the processor's vector instructions is skipped: it costs five seconds a job. OpenMP's threads sleep while they
        wait for each other: a survey compares many small calls, and the default, spinning, made each of them ten times
        slower where other processes had the cores.

        All runs of a job share compiled kernels, extensions built at run time and, with a network, downloaded models,
        although each has its own home: these are keyed by what they are made from, and hold no results of an earlier
        run.
        """
        passed = {name: os.environ[name] for name in NAMES_PASSED if name in os.environ}
        downloads = home or self.folder("downloads")
        return {
            "PATH": os.defpath,
            **passed,
            "HOME": str(home or self.folder("home")),
            "TMPDIR": str(home or self.folder("tmp")),
            "USER": USER,
            "LOGNAME": USER,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "ignore",
            "TORCHINDUCTOR_CACHE_DIR": str(cache),
            "TRITON_CACHE_DIR": str(cache / "triton"),
            "TORCH_EXTENSIONS_DIR": str(cache / "extensions"),
            **({"HF_HOME": str(downloads), "TORCH_HOME": str(downloads)} if self.network else {}),
            "OMP_WAIT_POLICY": "PASSIVE",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TORCHINDUCTOR_VEC_ISA_OK": "1",
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
            "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
            **self.env,
            **self.plan,
        }

    def plain_environment(self, home: Path) -> dict[str, str]:
        """The environment of a plain run: without any setting of ours that could change the script's behaviour."""
        passed = {name: os.environ[name] for name in NAMES_PASSED if name in os.environ}
        own = {"HOME": str(home), "TMPDIR": str(home), "USER": USER, "LOGNAME": USER}
        return {"PATH": os.defpath, **passed, **own, **self.env, **self.plan}

    @property
    def driver(self) -> list[Path]:
        """The file to put before the script in the command of a run without hooks, if the script is driven."""
        return [DRIVER] if self.plan else []

    def redacted(self, text: str) -> str:
        """The text without the values of variables that the user passed to the script, in any quoting.

        PyTorch writes every variable with TORCH in its name into its dumps and traces, and a script may print any of
        them.
        """
        for name, value in self.env.items():
            if len(value) >= SECRET_LENGTH:
                for form in {value, repr(value)[1:-1], json.dumps(value)[1:-1]}:
                    text = text.replace(form, f"[{name}]")
        return text
