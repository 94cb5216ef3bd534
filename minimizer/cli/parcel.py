"""The upload of ``minimizer submit``: a script alone, or a zip archive of a project and the script's path in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minimizer.errors import InvalidOption, InvalidScript
from minimizer.notebook import taken
from minimizer.script_text import check_script, script_text
from minimizer.service import archive, packing


@dataclass(frozen=True)
class Parcel:
    """Checked, and ready to be sent."""

    script: Path
    """The script on this machine; for an uploaded archive, the archive."""
    content: bytes
    """Text of the script."""
    name: str
    """Its name for the service: its path in the archive, if there is one."""
    archive: bytes | None = None
    files: int = 1


def parcel_of(path: Path, main: str | None, patterns: Sequence[str], toolchain: str | None = None) -> Parcel:
    """A script, a folder, or a zip archive, with the files to upload with it.

    Args:
        path: the path named by the user.
        main: in a folder or an archive, the path of the script; by default main.py, or the only script at its top.
        patterns: for a script, further files below the working directory, which then is the top of the archive.
        toolchain: the interpreter of the service that runs it, if not the default one; whether that accepts its syntax
            is for the service to decide.

    Raises:
        InvalidScript: no script that is Python, or its files cannot be sent.
        InvalidOption: ``main`` or ``patterns`` where they do not apply.
    """
    if path.is_dir():
        if patterns:
            raise InvalidOption("--files goes with a script; of a folder all files are sent")
        return _packed(packing.files_of(path), main, path, toolchain)
    content = path.read_bytes()
    if archive.is_zip(content):
        if patterns:
            raise InvalidOption("--files goes with a script; of an archive all files are sent")
        files = archive.read(content)
        name = archive.main_script(files, main)
        _check(files[name], name, toolchain)
        return Parcel(path, files[name], name, content, len(files))
    if main is not None:
        raise InvalidOption("--main goes with a folder or a zip archive; a script needs none")
    if not patterns:
        content, name = taken(content, path.name)
        _check(content, str(path), toolchain)
        return Parcel(path, content, name)
    here = Path.cwd()
    if not path.resolve().is_relative_to(here):
        raise InvalidScript(
            f"{path} does not lie below {here}, whose files --files names: go to the top of the project"
        )
    name = path.resolve().relative_to(here).as_posix()
    _check(content, str(path), toolchain)
    sent = {**packing.matching(patterns, here), name: path}
    return Parcel(path, content, name, packing.pack(sent), len(sent))


def _packed(files: dict[str, Path], main: str | None, folder: Path, toolchain: str | None) -> Parcel:
    contents = dict.fromkeys(files, b"")
    try:
        name = archive.main_script(contents, main)
    except InvalidScript:
        if main:
            raise InvalidScript(
                f"--main {main}: {folder} has no such file, or it is one of those that are not sent"
            ) from None
        top = sorted(name for name in files if name.endswith(".py") and "/" not in name)
        found = ", ".join(top[:10]) or "none"
        raise InvalidScript(f"say which file of {folder} is the script, with --main; at its top are: {found}") from None
    content = files[name].read_bytes()
    _check(content, str(files[name]), toolchain)
    return Parcel(folder / name, content, name, packing.pack(files), len(files))


def _check(content: bytes, name: str, toolchain: str | None) -> None:
    most = len(content)  # the service decides how large it may be
    if toolchain is None:
        check_script(content, name, most)
    else:
        script_text(content, name, most)
