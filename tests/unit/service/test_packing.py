"""What of a folder is sent to a service, and that it arrives as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minimizer.errors import InvalidScript
from minimizer.service import archive, packing


def write(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def test_a_folder_goes_without_what_no_run_needs(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "project",
        *("main.py", "net/model.py", "net/sizes.json", "minimizer/own.py"),
        *(".git/config", ".env", "net/.cache/x", "net/__pycache__/model.pyc", "node_modules/a.js", "minimizer-out/repro.py"),
        *("env/pyvenv.cfg", "env/lib/site.py"),
    )  # fmt: skip
    assert sorted(packing.files_of(folder)) == ["main.py", "minimizer/own.py", "net/model.py", "net/sizes.json"]


def test_links_go_only_where_they_lead_to_a_file_of_the_folder(tmp_path: Path) -> None:
    write(tmp_path, "secret.txt", "project/data/sizes.json")
    folder = tmp_path / "project"
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "sizes.json").symlink_to(folder / "data" / "sizes.json")
    (folder / "loop").symlink_to(folder)
    (folder / "gone").symlink_to(folder / "nothing")
    assert sorted(packing.files_of(folder)) == ["data/sizes.json", "sizes.json"]


def test_what_is_packed_arrives_as_it_was(tmp_path: Path) -> None:
    folder = write(tmp_path, "main.py", "net/model.py")
    (folder / "weights.bin").write_bytes(bytes(range(256)))
    packed = packing.pack(packing.files_of(folder))
    assert archive.read(packed) == {
        "main.py": b"main.py",
        "net/model.py": b"net/model.py",
        "weights.bin": bytes(range(256)),
    }


def test_the_same_files_are_the_same_archive(tmp_path: Path) -> None:
    one, other = (write(tmp_path / name, "b.py", "a.py") for name in ("one", "other"))
    os.utime(other / "a.py", (0, 1_000_000_000))
    (other / "b.py").chmod(0o700)
    packed = packing.pack(packing.files_of(one))
    assert packed == packing.pack(packing.files_of(other))
    (other / "a.py").write_text("changed")
    assert packed != packing.pack(packing.files_of(other))


def test_a_folder_that_is_too_much_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.py", "b.py", "c.py")
    monkeypatch.setattr(packing, "MAX_FILES", 2)
    with pytest.raises(InvalidScript, match="more than the 2 files or 64 MiB that are accepted: name a smaller folder"):
        packing.files_of(tmp_path)
    monkeypatch.setattr(packing, "MAX_FILES", 3)
    assert len(packing.files_of(tmp_path)) == 3
    monkeypatch.setattr(packing, "MAX_BYTES", 11)
    with pytest.raises(InvalidScript, match="that are accepted"):
        packing.files_of(tmp_path)


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["models/*.py"], ["models/a.py"]),
        (["**/*.py"], ["models/a.py", "models/deep/b.py", "run.py"]),
        (["models"], ["models/a.py", "models/deep/b.py", "models/sizes.json"]),
        (["./models/deep/", "run.py"], ["models/deep/b.py", "run.py"]),
        (["."], ["models/a.py", "models/deep/b.py", "models/sizes.json", "run.py"]),
    ],
)
def test_patterns_name_files_below_a_folder(tmp_path: Path, patterns: list[str], names: list[str]) -> None:
    write(tmp_path, "run.py", "models/a.py", "models/sizes.json", "models/deep/b.py", "models/.hidden/c.py")
    wanted = [name for name in names if not name.startswith("models/.hidden")]
    assert sorted(packing.matching(patterns, tmp_path)) == wanted


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("nothing/*.py", "no file below"),
        ("../other", "leads out of"),
        ("/etc/passwd", "leads out of"),
        ("link", "no file below"),
    ],
)
def test_a_pattern_that_names_nothing_or_leads_out_is_refused(tmp_path: Path, pattern: str, words: str) -> None:
    write(tmp_path, "project/run.py", "other/x.py")
    (tmp_path / "project" / "link").symlink_to(tmp_path / "other")
    with pytest.raises(InvalidScript, match=words):
        packing.matching([pattern], tmp_path / "project")
