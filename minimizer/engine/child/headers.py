"""The header of Inductor's C++ kernels, precompiled once per torch and C++ compiler, in the user's cache folder.

It cuts the compilation of a kernel from six seconds to one. It is made by a process that runs only our own text, and no
script can write to it, so a repro verified with it is as clean as without. Inductor looks for it below the temporary
folder, by a name derived from the compiler, its flags and the whole preprocessed text: one that does not match has
another name, and is not used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from minimizer.engine.budget.patience import HEADER_SECONDS
from minimizer.engine.child import scratch_disk
from minimizer.engine.child.clean_process import run_clean
from minimizer.sandbox import COMPILER_VARIABLES, Sandbox, real_interpreter, runtime_paths

USER = "minimizer"
"""The user name in a process that uses the headers: Inductor's folder is named after it."""
BELOW = Path(f"torchinductor_{USER}", "precompiled_headers")
"""Inductor's folder of headers below the temporary folder (``_HEADER_DIR`` of ``torch/_inductor/codecache.py``)."""
KERNEL = "import torch\ntorch.compile(lambda x: x + 1)(torch.ones(8))\n"
KEPT = 4
"""Most versions of torch whose headers are kept: one takes 150 MB."""


@dataclass(frozen=True)
class Headers:
    """The headers of one torch; ``folder``: their present or future place, None if nothing can be kept."""

    folder: Path | None

    @staticmethod
    def of(python: Path, torch: str) -> Headers:
        """The headers of an interpreter's torch, by its version."""
        root = kept_in()
        if root is None:
            return NO_HEADERS
        compilers = [shutil.which(os.environ.get(name, default)) for name, default in (("CXX", "g++"), ("CC", "gcc"))]
        dated = [(path, Path(path).stat().st_mtime_ns) for path in compilers if path is not None]
        key = hashlib.sha256(repr((str(real_interpreter(python)), torch, dated)).encode()).hexdigest()[:16]
        return Headers(root / key)

    @property
    def are_there(self) -> bool:
        return self.folder is not None and self.folder.is_dir()

    @property
    def shown(self) -> list[Path]:
        """The paths that a process needs to read to use them."""
        return [self.folder] if self.folder is not None and self.are_there else []

    def lay(self, temporary: Path) -> bool:
        """Provide the headers to a process with this temporary folder; returns whether there are any."""
        if self.folder is None or not self.are_there:
            return False
        known = temporary / BELOW
        known.mkdir(parents=True, exist_ok=True)
        for file in self.folder.iterdir():
            with suppress(FileExistsError):
                (known / file.name).symlink_to(file)
        with suppress(OSError):
            os.utime(self.folder)  # the least recently used are deleted first
        return True

    def make(self, sandbox: Sandbox, python: Path, scratch: Path, watch: Callable[[], None]) -> None:
        """Compile them with Inductor in a clean process, unless they exist.

        ``scratch``: a folder of ours, removed afterwards.
        """
        if self.folder is None or self.are_there:
            return
        home = scratch / "home"
        home.mkdir(parents=True)
        try:
            ran = run_clean(
                [str(real_interpreter(python)), "-c", KERNEL],
                sandbox,
                work=home,
                output=scratch / "output",
                read=runtime_paths(python),
                write=[home],
                environment=clean_environment(home),
                limit=HEADER_SECONDS,
                watch=watch,
            )
            made = sorted((home / BELOW).glob("*.h.gch"))
            if ran.status == 0 and made:
                self.keep(made)
        except OSError:
            return  # without them everything works, only slower
        finally:
            scratch_disk.remove(scratch)

    def keep(self, made: Sequence[Path]) -> None:
        """Copy precompiled headers, and the header next to each, into the cache; the least recently used are deleted."""
        assert self.folder is not None
        new = self.folder.with_name(f"{self.folder.name}.{os.getpid()}")
        new.mkdir()
        for file in made:
            for part in (file, file.with_suffix("")):
                shutil.copyfile(part, new / part.name, follow_symlinks=False)
                (new / part.name).chmod(0o444)
        try:
            new.rename(self.folder)
        except OSError:  # another job was faster
            shutil.rmtree(new, ignore_errors=True)
        others = sorted(self.folder.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in others[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)


NO_HEADERS = Headers(None)


def kept_in() -> Path | None:
    """The folder of all headers, created if missing; None if this user has no writable cache folder."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "minimizer", "headers")
    except RuntimeError:  # a user without a home
        return None
    if not folder.is_absolute():
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def clean_environment(home: Path) -> dict[str, str]:
    """The minimal environment for a compiler, so that nothing of ours can make a repro fail.

    Inductor's test of the vector instructions is skipped: it costs five seconds a run, and does not change what is
    built.
    """
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        **{name: os.environ[name] for name in COMPILER_VARIABLES if name in os.environ},
        "HOME": str(home),
        "TMPDIR": str(home),
        "USER": USER,
        "LOGNAME": USER,
        "TORCHINDUCTOR_CACHE_DIR": str(home / "cache"),
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
    }
