"""Files that hostile code left behind: no link leads us elsewhere, nothing blocks, nothing is read without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minimizer.untrusted import read_untrusted, tail


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


def test_of_a_long_output_only_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "output"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk, and could not be read as a whole
        file.seek(0, os.SEEK_END)
        file.write(b"the end")

    assert tail(path, 7) == "the end"
