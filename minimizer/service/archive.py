"""Reads a zip archive with a script and its files, which is untrusted input.

Names and sizes in its directory are the sender's claims. Names are checked before they become paths, and bytes are counted while
the content is unpacked, so that a zip bomb is stopped early. A server unpacks few at a time (`unpacked`), since each may take `MAX_BYTES`.
"""

from __future__ import annotations

import io
import stat
import struct
import threading
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from minimizer.errors import Busy, InvalidScript

MAX_FILES = 1000
"""Most files of an archive."""
MAX_BYTES = 64 << 20
"""Most unpacked bytes of all files of an archive together."""
_MAX_NAME = 200
"""Characters of the longest accepted path in an archive."""
_MAX_PART_BYTES = 255
"""Longest file or folder name that file systems accept."""
_MAX_DEPTH = 12
"""Most parts of a path in an archive."""
_MAX_DIRECTORY_BYTES = 1 << 20
"""Largest accepted directory of an archive: a kibibyte for each file."""
_MOST_OPEN = 2
"""Archives that are unpacked in this process at a time."""
_TURN_SECONDS = 2.0
"""Time for which an archive waits for its turn."""
_turns = threading.BoundedSemaphore(_MOST_OPEN)
_CHUNK = 1 << 16
"""Bytes that are unpacked at a time, between two checks of the total."""
_REGULAR = (0, stat.S_IFREG)
"""Accepted file types of an entry: unspecified, or a regular file."""
# Exceptions that the standard library raises for nonsensical offsets, sizes and flags.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, OverflowError, RuntimeError, ValueError)


def is_zip(content: bytes) -> bool:
    """Whether content begins like a zip archive; an empty archive consists of its end record only."""
    return content.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def read(content: bytes, max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
    """The files of a zip archive by their path in it.

    Raises:
        InvalidScript: it is not a zip file, or cannot be unpacked safely.
    """
    with _opened(content) as (archive, entries):
        files: dict[str, bytes] = {}
        for name, entry in entries.items():
            files[name] = _content(archive, entry, max_bytes - sum(map(len, files.values())))
    return files


def names(content: bytes) -> list[str]:
    """The paths of the files of a zip archive, without unpacking it.

    Raises:
        InvalidScript: it is not a zip file, or its directory shows that it cannot be unpacked safely.
    """
    with _opened(content) as (_, entries):
        return sorted(entries)


@contextmanager
def unpacked(content: bytes) -> Iterator[dict[str, bytes]]:
    """The files of a zip archive by their path in it, for as long as they are needed.

    Raises:
        InvalidScript: as `read` does.
        Busy: as many archives as may be are being looked at, and none was done in time.
    """
    if not _turns.acquire(timeout=_TURN_SECONDS):
        raise Busy("Other archives are being unpacked at the moment. Try again soon.")
    try:
        yield read(content)
    finally:
        _turns.release()


def main_script(files: Mapping[str, bytes], wanted: str | None) -> str:
    """The path of the script to run: the one named by ``wanted``, else main.py, else the only script at the top level.

    Raises:
        InvalidScript: there is no such file, or the choice is ambiguous.
    """
    if wanted:
        if wanted not in files:
            raise InvalidScript(f"the archive has no file {wanted!r} (field 'main')")
        return wanted
    if "main.py" in files:
        return "main.py"
    scripts = sorted(name for name in files if name.endswith(".py") and "/" not in name)
    if len(scripts) != 1:
        found = ", ".join(scripts[:10]) or "none"
        raise InvalidScript(f"say which file of the archive is the script (field 'main'); at its top are: {found}")
    return scripts[0]


def unpack(content: bytes, folder: Path) -> None:
    """Write the files of an archive into an empty folder.

    Raises:
        InvalidScript: as `read` does.
    """
    for name, data in read(content).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class _File(io.BytesIO):
    """The bytes of an archive, whose directory `zipfile` reads at once and everything else in small parts."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"its directory has more than {_MAX_DIRECTORY_BYTES >> 20} MiB")
        return super().read(size)


@contextmanager
def _opened(content: bytes) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """An archive, and its files by their path in it, as its directory has them."""
    try:
        with zipfile.ZipFile(_File(content)) as archive:
            # Not `is_dir`, which fails on an empty name before Python 3.11.4.
            found = [entry for entry in archive.infolist() if not entry.filename.endswith("/")]
            if len(found) > MAX_FILES:
                raise InvalidScript(f"the archive has {len(found):,} files; at most {MAX_FILES:,} are accepted")
            entries: dict[str, zipfile.ZipInfo] = {}
            for entry in found:
                name = _checked(entry)
                if name in entries:
                    raise InvalidScript(f"the archive has {name!r} twice")
                entries[name] = entry
            _refuse_files_that_are_folders(entries)
            yield archive, entries
    except _UNREADABLE as error:
        raise InvalidScript(f"the archive is not a zip file that can be read: {error}") from None


def _checked(entry: zipfile.ZipInfo) -> str:
    name = entry.filename
    parts = PurePosixPath(name).parts
    harmless = (
        0 < len(name) <= _MAX_NAME
        and len(parts) <= _MAX_DEPTH
        and "/".join(parts) == name
        and not name.startswith("/")
        and ".." not in parts
        and "\\" not in name
        and ":" not in name
        and not any(unicodedata.category(char).startswith("C") for char in name)
        and all(len(part.encode()) <= _MAX_PART_BYTES for part in parts)
    )
    if not harmless:
        raise InvalidScript(f"the archive has a file with a name that is not accepted: {name[:_MAX_NAME]!r}")
    if stat.S_IFMT(entry.external_attr >> 16) not in _REGULAR:
        raise InvalidScript(f"the archive has {name!r}, which is a link or something else that is no plain file")
    if entry.flag_bits & 1:
        raise InvalidScript(f"{name!r} in the archive is encrypted")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidScript(f"{name!r} in the archive is compressed in a way that is not accepted: use deflate or none")
    return name


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, left: int) -> bytes:
    content = bytearray()
    with archive.open(entry) as file:
        while chunk := file.read(_CHUNK):
            content += chunk
            if len(content) > left:
                raise InvalidScript(f"the archive unpacks to more than the {MAX_BYTES >> 20} MiB that are accepted")
    return bytes(content)


def _refuse_files_that_are_folders(files: Mapping[str, object]) -> None:
    for name in files:
        for parent in PurePosixPath(name).parents:
            if str(parent) in files:
                raise InvalidScript(f"the archive has {str(parent)!r} both as a file and as a folder")
