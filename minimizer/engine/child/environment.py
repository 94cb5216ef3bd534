"""Where and how the processes of a job run: interpreter, sandbox, folders, and the environment they see."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from minimizer.engine.child.gate import Gate
from minimizer.sandbox import Sandbox

NAMES_PASSED = ("PATH", "LANG", "LC_ALL", "CXX", "CC", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of ours that a child may see."""
SHARED_FOLDERS = ("/tmp", "/dev/shm")
"""Folders of a sandbox that are empty when it starts, and that all its processes may write to."""
SECRET_LENGTH = 4
"""Values shorter than this are no secrets, and would be found everywhere."""


@dataclass(frozen=True)
class Place:
    """Where and how children run: the interpreter, the sandbox, the folders they see."""

    python: Path
    sandbox: Sandbox
    scratch: Path
    """A private folder of the job that children may write to."""
    read: Sequence[Path] = ()
    env: dict[str, str] = field(default_factory=dict)
    network: bool = False
    memory_bytes: int | None = None
    gate: Gate = field(default_factory=Gate, compare=False)
    """What runs the script or a trial passes it, so that one can be alone on the GPU."""

    def folder(self, name: str) -> Path:
        """A folder below the scratch folder, made if it is not there."""
        path = self.scratch / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def private(self, name: str) -> Path:
        """A folder of ours beside the scratch folder, which no child that runs the script sees."""
        path = self.scratch.with_name(f"{self.scratch.name}.private") / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def origin(self) -> Path:
        """What the working folder of every run of the script begins as. Children may read it."""
        return self.private("origin")

    def emptied(self) -> tuple[str, ...]:
        """The shared folders that are the sandbox's own: what runs leave there is removed between them.

        Where one of the machine's is shown in its place, as ``/tmp`` is for a script that lies in it, our own folders lie in it too.
        """
        shown = [Path(path) for path in self.read]
        is_own = {name: not any(Path(name).is_relative_to(path) for path in shown) for name in SHARED_FOLDERS}
        return tuple(name for name in SHARED_FOLDERS if self.sandbox.is_strong and is_own[name])

    def lay_out(self, work: Path) -> Path:
        """Make a working folder for a run in a sandbox of its own, and return it."""
        shutil.copytree(self.origin, work, symlinks=True)
        return work

    def environment(self, cache: Path, home: Path | None = None) -> dict[str, str]:
        """All that a child sees of the environment, with its compiler caches in ``cache``.

        The on-disk graph caches are off: a warm one bypasses the compiler, and with it the fault that is looked for.
        Kernels are built in the child itself (one compile thread), so that a trial is one process that can be killed. The
        vector instructions that the processor names are believed: inductor's own test of them costs five seconds a job.
        OpenMP's threads sleep while they wait for each other, where by default they spin: many small calls are compared, and
        where other processes have the cores, spinning made each of them ten times slower.
        Kernels, extensions that are built at run time and, with a network, models that are downloaded serve all runs of a job,
        whose homes are their own: each is found by what it is made from, and none is what an earlier run computed.
        """
        passed = {name: os.environ[name] for name in NAMES_PASSED if name in os.environ}
        downloads = home or self.folder("downloads")
        return {
            "PATH": os.defpath,
            **passed,
            "HOME": str(home or self.folder("home")),
            "TMPDIR": str(home or self.folder("tmp")),
            "USER": "minimizer",
            "LOGNAME": "minimizer",
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
        }

    def plain_environment(self, home: Path) -> dict[str, str]:
        """What a child sees of the environment where nothing of ours may have a say in what the script does."""
        passed = {name: os.environ[name] for name in NAMES_PASSED if name in os.environ}
        own = {"HOME": str(home), "TMPDIR": str(home), "USER": "minimizer", "LOGNAME": "minimizer"}
        return {"PATH": os.defpath, **passed, **own, **self.env}

    def redacted(self, text: str) -> str:
        """Without the values of the variables that the user let the script see, in whatever way they are quoted.

        PyTorch writes every variable with TORCH in its name into its dumps and traces, and a script may print what it likes.
        """
        for name, value in self.env.items():
            if len(value) >= SECRET_LENGTH:
                for form in {value, repr(value)[1:-1], json.dumps(value)[1:-1]}:
                    text = text.replace(form, f"[{name}]")
        return text
