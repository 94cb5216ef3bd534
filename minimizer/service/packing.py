"""Packs files of a project into a zip archive, for a service that runs a script with everything it needs.

Equal files give equal bytes, whenever and wherever they are packed, so that the service recognises a repeated
submission.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from minimizer.errors import InvalidScript
from minimizer.service.archive import MAX_BYTES, MAX_FILES

NEVER_SENT = frozenset({"__pycache__", "node_modules", "minimizer-out", "minimizer-data"})
"""Folders that no script needs; hidden folders and virtual environments are left out too."""


def files_of(folder: Path) -> dict[str, Path]:
    """The files of a folder by their path in it.

    Hidden files and folders, virtual environments, `NEVER_SENT`, and links out of the folder are left out.

    Raises:
        InvalidScript: more files, or more bytes, than an archive may have.
    """
    root = folder.resolve()
    return _bounded(((path.relative_to(root).as_posix(), path) for path in _walk(root)), str(folder))


def matching(patterns: Sequence[str], folder: Path) -> dict[str, Path]:
    """The files below a folder that match one of the patterns, by their path in it; a pattern for a folder includes all its files.

    Raises:
        InvalidScript: a pattern matches nothing, or leads out of the folder; or there are more files than an archive may have.
    """
    root = folder.resolve()
    found: dict[str, Path] = {}
    for pattern in patterns:
        relative = pattern.removeprefix(f"{root}/").removeprefix("./").rstrip("/") or "."
        if os.path.isabs(relative) or ".." in Path(relative).parts:  # noqa: PTH117 - a pattern is no path
            raise InvalidScript(f"--files {pattern}: leads out of {root}; name files below the folder you are in")
        found_here = [root] if relative == "." else sorted(root.glob(relative))
        hits = [path for path in found_here if _is_inside(path, root) and _may_be_sent(path, root)]
        paths = [inner for hit in hits for inner in (_walk(hit) if hit.is_dir() else [hit])]
        if not paths:
            raise InvalidScript(f"--files {pattern}: no file below {root} matches")
        found |= _bounded(((path.relative_to(root).as_posix(), path) for path in paths), f"--files {pattern}")
    return _bounded(found.items(), "--files")


def pack(files: Mapping[str, Path | bytes]) -> bytes:
    """A zip archive of these files, each given as a path or as its content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)  # with the fixed default date 1980, for equal bytes
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            content = files[name]
            archive.writestr(entry, content.read_bytes() if isinstance(content, Path) else content)
    return buffer.getvalue()


def _walk(top: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(top):
        here = Path(where)
        folders[:] = sorted(name for name in folders if _is_wanted(here / name))
        for name in sorted(names):
            path = here / name
            if not name.startswith(".") and path.is_file() and _is_inside(path, top):
                yield path


def _may_be_sent(path: Path, root: Path) -> bool:
    """Whether a path below ``root`` may be sent: neither it nor any folder on the way to it is excluded."""
    on_the_way = [path, *path.parents][: len(path.relative_to(root).parts)]
    return all(_is_wanted(one) for one in on_the_way)


def _is_wanted(path: Path) -> bool:
    return not path.name.startswith(".") and path.name not in NEVER_SENT and not (path / "pyvenv.cfg").exists()


def _is_inside(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root)


def _bounded(files: Iterable[tuple[str, Path]], what: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    size = 0
    for name, path in files:
        found[name] = path
        size += path.stat().st_size
        if len(found) > MAX_FILES or size > MAX_BYTES:
            raise InvalidScript(
                f"{what} has more than the {MAX_FILES:,} files or {MAX_BYTES >> 20} MiB that are accepted: name a smaller folder, "
                "or a script with --files PATTERN for what it needs"
            )
    return found
