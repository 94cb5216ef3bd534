"""Environments with other releases of torch, created by pip on request, and kept for all jobs of this machine.

Each is a virtual environment with only that torch, in the user's cache folder. A job that uses one holds a shared lock
on it while its process lives; creating or removing one takes an exclusive lock.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path

from packaging.version import InvalidVersion, Version

from minimizer.errors import InvalidOption, MissingTool

OLDEST = Version("2.11")
"""First release that is searched for the one that broke it: the oldest that the engine works with."""
MOST_KEPT = 6
"""Most environments that are kept on a machine, since one with CUDA takes 5 GB."""
FREE_BYTES = 10 << 30
"""Least free disk to create one: for the wheels, and for their unpacked content."""
LOOK_SECONDS = 0.2
"""Between looks at pip."""
INDEX_SECONDS = 60
"""Most for the package index to list its releases."""
ALONE = ("-I",)
"""Keeps Python from importing modules from the working directory, that of an untrusted project."""
READY = "ready"
"""File in a whole environment; when it was used last is the time of it."""


@dataclass
class Releases:
    """The releases of torch to run a repro in; see `engine.verify.other_torches.Releases`.

    ``named``: requested individually. ``searched``: all from `OLDEST` on, oldest first, if the first failing one is to
    be found.
    """

    root: Path
    base: Path
    named: Sequence[str]
    searched: Sequence[str]
    _held: list[TextIOWrapper] = field(default_factory=list)

    def interpreter(self, release: str, *, left: Callable[[], float], watch: Callable[[], None]) -> Path:
        """The Python of an environment with this release, created if missing.

        Args:
            release: a full version, such as ``2.12.1``.
            left: seconds until it has to be ready.
            watch: called while waiting; an exception from it ends pip, and is raised here.

        Raises:
            MissingTool: it cannot be created, or not in time; the message has pip's complaint.
        """
        place = self.root / f"{release}-{_tag(self.base)}"
        lock = (self.root / f"{place.name}.lock").open("w")
        try:
            self._have(place, release, lock, time.monotonic() + left(), watch)
        except BaseException:
            lock.close()
            raise
        self._held.append(lock)
        return _python(place)

    def _have(self, place: Path, release: str, lock: TextIOWrapper, until: float, watch: Callable[[], None]) -> None:
        """See that an environment is there, and share it."""
        while not _locked(lock, fcntl.LOCK_EX):  # another job makes or uses it
            if (place / READY).exists() and _locked(lock, fcntl.LOCK_SH):
                break
            _wait(until, watch, f"another job is still installing torch {release}")
        if not (place / READY).exists():
            self._make(place, release, until, watch)
        (place / READY).touch()
        fcntl.flock(lock, fcntl.LOCK_SH)  # not in one: another job may remove it in between
        if not (place / READY).exists():
            raise MissingTool(f"the environment with torch {release} was removed by another job")

    def close(self) -> None:
        """Release the locks, so that other jobs can remove the environments."""
        for lock in self._held:
            lock.close()

    def _make(self, place: Path, release: str, until: float, watch: Callable[[], None]) -> None:
        self._make_room(place)
        try:
            _run([str(self.base), *ALONE, "-m", "venv", "--clear", "--without-pip", str(place)], until, watch)
            _run([*pip_of(self.root, self.base, until, watch), *_into(place), f"torch=={release}"], until, watch)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)  # what pip had put there by then takes gigabytes
            raise
        (place / READY).touch()

    def _make_room(self, place: Path) -> None:
        """Remove the environments that were not used for the longest time, but those in use."""
        others = [one for one in self.root.glob("[0-9]*-*/") if one != place]
        others.sort(key=_last_used)  # those that are not whole come first: a machine that went down left them
        for one in others[: max(sum(not _last_used(one) for one in others), len(others) - MOST_KEPT + 1)]:
            with (self.root / f"{one.name}.lock").open("w") as lock:
                if _locked(lock, fcntl.LOCK_EX):
                    shutil.rmtree(one, ignore_errors=True)
        free = shutil.disk_usage(place.parent).free
        if free < FREE_BYTES:
            raise MissingTool(
                f"to install torch takes up to {FREE_BYTES >> 30} GB in {self.root}, and {free >> 30} are free"
            )


def releases_of(asked: Sequence[str], base: Path, *, is_searched: bool, watch: Callable[[], None]) -> Releases:
    """The requested releases, among those that the package index has for a Python.

    Args:
        asked: versions, ``2.12`` for the latest of 2.12.
        base: the Python of the environments.
        is_searched: whether all releases from `OLDEST` on are to be searched.
        watch: called while waiting.

    Raises:
        InvalidOption: one is no version, or the index has none for this Python.
        MissingTool: the index is unreachable.
    """
    numbers = [_number(text) for text in asked]
    root = _root()
    known = _listed(root, base, watch)
    named = [_latest(text, number, known, base) for text, number in zip(asked, numbers, strict=True)]
    searched = [str(release) for release in known if release >= OLDEST] if is_searched else []
    return Releases(root, base, list(dict.fromkeys(named)), searched)


def _root() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minimizer" / "torch"
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MissingTool(f"{root}, where environments with torch are kept, cannot be made: {error.strerror}") from None
    return root


def _listed(root: Path, base: Path, watch: Callable[[], None]) -> list[Version]:
    """All final releases of torch that pip finds for this Python, oldest first."""
    until = time.monotonic() + INDEX_SECONDS
    said = _run([*pip_of(root, base, until, watch), *_for(base), "index", "versions", "torch"], until, watch)
    listed = re.search(r"^Available versions: (.*)$", said, re.MULTILINE)
    found = {Version(Version(text.strip()).public) for text in listed[1].split(",")} if listed else set()
    return sorted(release for release in found if not release.is_prerelease)


def _latest(text: str, number: Version, known: Sequence[Version], base: Path) -> str:
    """The latest of the known releases that begins with the requested version."""
    asked = number.release
    found = [release for release in known if release.release[: len(asked)] == asked]
    if not found:
        several = ", ".join(str(release) for release in known[-12:]) or "none"
        raise InvalidOption(f"--torch {text}: the package index has no such release for {base}; it has {several}")
    return str(found[-1])


def _number(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise InvalidOption(f"--torch {text}: not a version; write it like 2.12 or 2.14.1") from None


def pip_of(root: Path, base: Path, until: float, watch: Callable[[], None]) -> list[str]:
    """A separate pip, which installs into other environments: the user's may be missing, or old."""
    place = root / f"pip-{_tag(base)}"
    with (root / f"{place.name}.lock").open("w") as lock:
        while not _locked(lock, fcntl.LOCK_EX):
            _wait(until, watch, "another job is still setting up pip")
        if not (place / READY).exists():
            _run([str(base), *ALONE, "-m", "venv", "--clear", str(place)], until, watch)
            (place / READY).touch()
    return [str(_python(place)), *ALONE, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def _last_used(place: Path) -> float:
    """When an environment was used last; 0 if it is not whole."""
    try:
        return (place / READY).stat().st_mtime
    except OSError:
        return 0.0


def _for(base: Path) -> list[str]:
    return ["--python", str(base)]


def _into(place: Path) -> list[str]:
    return [*_for(_python(place)), "install", "--quiet"]


def _python(place: Path) -> Path:
    return place / "bin" / "python"


def _tag(base: Path) -> str:
    """The name of a Python's version, which an environment is made for."""
    asked = subprocess.run(
        [str(base), "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise MissingTool(f"{base} does not run")
    return asked.stdout.strip()


def _run(command: Sequence[str], until: float, watch: Callable[[], None]) -> str:
    """Run a command in its own process group, which ends with it; returns its output.

    Raises:
        MissingTool: it fails, or does not end in time.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            while process.poll() is None:
                _wait(until, watch, "installing torch took longer than there was time")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        said = output.read().decode(errors="replace")
    if process.returncode:
        raise MissingTool(_complaint(said) or f"{' '.join(command[:4])} failed")
    return said


def _complaint(said: str) -> str:
    """The cause of a failure, by pip's first complaint: later lines are advice."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return errors[0][:300] if errors else (lines or [""])[-1][:300]


def _wait(until: float, watch: Callable[[], None], late: str) -> None:
    watch()
    if time.monotonic() > until:
        raise MissingTool(late)
    time.sleep(LOOK_SECONDS)


def _locked(file: TextIOWrapper, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
