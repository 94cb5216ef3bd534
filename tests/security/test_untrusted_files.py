"""Files that hostile code left behind: no link leads us elsewhere, nothing blocks, nothing is read without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minimizer.engine.child.untrusted import read_untrusted, tail, walk_untrusted


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("password")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    (path / "golden").mkdir(parents=True)
    return path


def test_a_plain_file_is_read_up_to_the_limit(root: Path) -> None:
    (root / "golden" / "data.pt").write_bytes(b"12345")

    assert read_untrusted(root, Path("golden/data.pt"), 100) == b"12345"
    assert read_untrusted(root, Path("golden/data.pt"), 3) == b"123"
    assert read_untrusted(root, Path("golden/none.pt"), 3) is None


def test_a_link_in_place_of_the_file_is_not_followed(root: Path, secret: Path) -> None:
    (root / "golden" / "data.pt").symlink_to(secret)

    assert (root / "golden" / "data.pt").read_text() == "password"
    assert read_untrusted(root, Path("golden/data.pt"), 100) is None


def test_a_link_in_place_of_a_folder_is_not_followed(root: Path, secret: Path) -> None:
    (root / "linked").symlink_to(secret.parent)

    assert read_untrusted(root, Path("linked/secret"), 100) is None


def test_a_pipe_does_not_block(root: Path) -> None:
    os.mkfifo(root / "golden" / "data.pt")

    assert read_untrusted(root, Path("golden/data.pt"), 100) is None


def test_a_folder_is_no_file(root: Path) -> None:
    assert read_untrusted(root, Path("golden"), 100) is None


def test_a_walk_finds_files_nearest_first_and_follows_no_link(root: Path, secret: Path) -> None:
    (root / "golden" / "deeper").mkdir()
    for path in ("golden/deeper/b", "golden/a"):
        (root / path).touch()
    (root / "golden" / "elsewhere").symlink_to(secret.parent)

    found = list(walk_untrusted(root, Path("golden")))

    assert set(found[:2]) == {Path("golden/a"), Path("golden/elsewhere")}  # the link itself
    assert found[2:] == [Path("golden/deeper/b")]


def test_a_walk_does_not_begin_at_a_link(root: Path, secret: Path) -> None:
    (root / "debug").symlink_to(secret.parent)

    assert (root / "debug" / "secret").exists()
    assert list(walk_untrusted(root, Path("debug"))) == []
    assert list(walk_untrusted(root, Path("none"))) == []


def test_a_walk_ends_in_a_folder_that_was_made_without_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nested = root.joinpath("golden", *["d"] * 100)
    nested.mkdir(parents=True)
    for folder in (root / "golden", nested):
        for number in range(50):
            (folder / str(number)).touch()

    assert len(list(walk_untrusted(root, Path("golden")))) == 50
    monkeypatch.setattr("minimizer.engine.child.untrusted.MOST_ENTRIES", 20)
    assert len(list(walk_untrusted(root, Path("golden")))) <= 20


def test_of_a_long_output_only_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "output"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk, and could not be read as a whole
        file.seek(0, os.SEEK_END)
        file.write(b"the end")

    assert tail(path, 7) == "the end"
