"""The printed output of a script, and the files that it writes, looked at after its end.

Standard output is captured at its descriptor, never by replacing ``print``, which Dynamo knows by identity. Standard
error is left alone: the compiler warns there.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickletools
import zipfile
from collections.abc import Iterator

from ..standard_output import StandardOutput
from .leaves import Entry
from .observe import Look
from .reach import hashed
from .unseen import FILES, PRINTED, Unseen

PRINTED_TEXT, FILES_WRITTEN = "printed text", "files written"
"""The paths; because of the space, they are not names of a script's."""
MOST_PRINTED = 64 << 20
"""Most bytes of output to look at."""
MOST_FILES, MOST_BYTES, MOST_PICKLED = 5000, 1 << 30, 4 << 20
"""Most files to look at, most bytes of all of them, and most bytes of a pickle to look into."""
TEMPORARY = "tmp" + os.sep
"""The folder for temporary files, which have random names: they are compared by content."""
CACHES = ("__pycache__", ".triton", "torchinductor", ".cache", "torch_compile_debug")
"""Prefixes of folders with files of the compiler or the interpreter."""
MEMO = ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "FRAME", "PROTO")
RECALL = ("GET", "BINGET", "LONG_BINGET")


class Written:
    """Collects the output of this process from now on, and records the existing files, to find new ones at the end."""

    def __init__(self) -> None:
        self._output = StandardOutput()
        self._room = _room()
        self._before = dict(_files(self._room)) if self._room else {}

    def add_to(self, look: Look, unseen: Unseen) -> None:
        """Add the printed lines and the written files to a look."""
        size = self._output.size
        if size > MOST_PRINTED:
            unseen.add(PRINTED, f"{size} bytes")
            look.put(f"{PRINTED_TEXT}.<rest>", {"type": "text", "length": str(size)})
        _add_text(look, PRINTED_TEXT, self._output.text(MOST_PRINTED))
        left, unnamed = MOST_BYTES, list[str]()
        for name, stamp in _files(self._room) if self._room else ():
            if self._before.get(name) == stamp:
                continue
            path = f"{FILES_WRITTEN}[{name!r}]"
            left -= stamp[0]
            if left < 0:
                unseen.add(FILES, name)
                look.put(path, {"type": "file", "length": str(stamp[0])})
                continue
            with contextlib.suppress(OSError), open(os.path.join(str(self._room), name), "rb") as file:
                if name.startswith(TEMPORARY):
                    unnamed.append(_hash_of(file.read()))
                else:
                    _add_file(look, path, file.read())
        told = hashed(" ".join(sorted(unnamed)).encode())
        look.put(f"{FILES_WRITTEN}[{TEMPORARY!r}]", {"type": "files", "length": str(len(unnamed)), "value": told})

    def give_back(self) -> None:
        """Print what was collected, and stop collecting."""
        self._output.give_back()


def _room() -> str | None:
    """The folder with everything that the script can write to; None if it has no private one."""
    room = os.path.dirname(os.getcwd())
    return room if os.environ.get("HOME") == os.path.join(room, "home") else None


def _files(room: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The name of each file in a room, with its size in bytes and the time of its last change, in a fixed order."""
    count = 0
    for folder, folders, names in os.walk(room):
        folders[:] = sorted(name for name in folders if not name.startswith(CACHES))
        for name in sorted(names):
            with contextlib.suppress(OSError):
                path = os.path.join(folder, name)
                stat = os.lstat(path)
                count += 1
                yield os.path.relpath(path, room), (stat.st_size, stat.st_mtime_ns)
            if count >= MOST_FILES:
                return


def _add_text(look: Look, path: str, text: str) -> None:
    lines = text.splitlines()
    look.put(path, {"type": "text", "length": str(len(lines))})
    look.hold(path, lambda place: f"{path}[{place}]", lines)


def _add_file(look: Look, path: str, raw: bytes) -> None:
    entry: Entry = {"type": "file", "length": str(len(raw))}
    if zipfile.is_zipfile(io.BytesIO(raw)):
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            members = [f"{name}: {_hash_of(archive.read(name))}" for name in sorted(archive.namelist())]
        look.put(
            path,
            {"type": "file", "value": hashed("\n".join(m for m in members if "serialization_id" not in m).encode())},
        )
    elif raw.startswith(b"\x80"):
        look.put(path, {"type": "file", "value": _hash_of(raw)})
    else:
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            look.put(path, {**entry, "value": _hash_of(raw)})
        else:
            _add_text(look, path, text)


def _hash_of(raw: bytes) -> str:
    """A hash of a file; for a pickle, one that does not depend on whether equal strings are one object."""
    if raw.startswith(b"\x80") and len(raw) <= MOST_PICKLED:
        with contextlib.suppress(Exception):
            return hashed("\n".join(_unshared(raw)).encode("utf-8", "surrogatepass"))
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()[:16]


def _unshared(raw: bytes) -> Iterator[str]:
    """The operations of a pickle, with texts in place of references to them, and other references renumbered
    accordingly.
    """
    memo: list[str] = []
    objects, last = 0, ""
    for operation, argument, _ in pickletools.genops(raw):
        name = operation.name
        if name == "MEMOIZE" or name in MEMO[1:4]:
            is_text = "UNICODE" in last or "STRING" in last or "BYTES" in last
            memo.append(last if is_text else f"object {objects}")
            objects += not is_text
        elif name in RECALL:
            yield memo[int(str(argument))]
        elif name not in MEMO:
            last = f"{name} {argument!r}"
            yield last
