"""Makes ordinary scripts of PyTorch's dumps, each in a folder with the dump's neighbours and the values of its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minimizer.errors import MissingTool
from minimizer.pytorch_dump import PyTorchDump, Unusable, read
from minimizer.vocabulary import counted

STORAGES = "storages"
"""Folder with the values of a dump's inputs, each in a file named by its hash."""
NEAR = (".", "checkpoints", "minifier/checkpoints", "../checkpoints")
"""Folders, relative to the dump's own, to search for the values if they are not where the dump says."""
MOST_ENTRIES = 1000


@dataclass(frozen=True)
class Unpacked:
    """A dump converted to a script.

    ``script`` has the dump's name and lines; ``read`` are the folders that it reads. ``told``: a sentence on its origin
    and form. ``made_up``: which values are not those of the original run; empty if all are.
    """

    script: Path
    read: tuple[Path, ...]
    told: str
    made_up: str


def unpack(script: Path, folder: Path, *, is_local: bool) -> Unpacked | None:
    """Make an ordinary script of a dump, in ``folder``, a new one; None if the file is no dump.

    ``is_local``: whether the submitter owns this machine, so that inputs may be read from wherever the dump says.

    Raises:
        MissingTool: the dump cannot be made into a script; the message says why, and what to do next.
    """
    try:
        dump = read(script.read_text("utf-8-sig", "replace"))
    except Unusable as error:
        raise MissingTool(
            f"{script.name} is a graph that PyTorch dumped, and cannot be run by itself: {error}. "
            "Run the script that it comes from, or have PyTorch write the dump again."
        ) from None
    if dump is None:
        return None
    folder.mkdir(parents=True)
    for entry in sorted(script.parent.iterdir())[:MOST_ENTRIES]:
        if entry.name not in (script.name, STORAGES):
            (folder / entry.name).symlink_to(entry.absolute())
    values, present = _values(dump, script, is_local)
    if values is not None:
        (folder / STORAGES).symlink_to(values)
    made_up = _made_up(dump, present)
    rewritten = folder / script.name
    rewritten.write_text(dump.script)
    return Unpacked(rewritten, tuple(filter(None, (script.parent, values))), _told(dump, script, made_up), made_up)


def _values(dump: PyTorchDump, script: Path, is_local: bool) -> tuple[Path | None, set[str]]:
    """The readable folder with most of the values of a dump's inputs, and the values in it."""
    wanted = {name for name in dump.storages if name is not None and Path(name).name == name}
    home = script.parent.resolve()
    places = [home / near / STORAGES for near in NEAR]
    if is_local and dump.save_dir is not None:
        places.insert(0, Path(dump.save_dir) / STORAGES)
    found = [(_present(place, wanted, None if is_local else home), place) for place in places]
    present, best = max(found, key=lambda one: len(one[0]))
    return (best.resolve(), present) if present else (None, set())


def _present(place: Path, wanted: set[str], within: Path | None) -> set[str]:
    """The files that exist in a folder; a link that leaves ``within`` does not count."""
    try:
        there = {name: (place / name).resolve() for name in wanted if (place / name).is_file()}
    except (OSError, RuntimeError, ValueError):
        return set()
    return {name for name, path in there.items() if within is None or path.is_relative_to(within)}


def _made_up(dump: PyTorchDump, present: set[str]) -> str:
    """The values of a dump that have to be made up; empty if all were saved and are there."""
    lost = [name for name in dump.storages if name not in present]
    parts = [f"{len(lost)} of {counted(len(dump.storages), 'input')}"] if lost else []
    return " and ".join([*parts, *(["the module's own state"] if dump.has_own_state else [])])


def _told(dump: PyTorchDump, script: Path, made_up: str) -> str:
    stage = "AOTAutograd" if dump.after == "aot" else "Dynamo"
    said = (
        f"{script.name} is a graph that PyTorch dumped after {stage}: it is compiled by torch.compile and called once, "
    )
    said += f"with made-up values for {made_up}." if made_up else "with the values that were saved with it."
    if dump.variables:
        said += (
            f" It sets {', '.join(dump.variables)}, which torch would read before it starts: where that matters, set it here and "
            "name it with --env."
        )
    return said
