"""Archives from outside: what is unpacked, and what is refused before it does harm."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from pathlib import Path

import pytest
from zips import zipped

from minimizer.errors import Busy, InvalidScript
from minimizer.service import archive


def test_files_and_folders_are_unpacked(tmp_path: Path) -> None:
    files = {"main.py": b"import lib.ops\n", "lib/__init__.py": b"", "lib/ops.py": b"x = 1\n"}
    archive.unpack(zipped(files | {"empty/": b""}), tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.py")} == set(files)
    assert (tmp_path / "lib/ops.py").read_bytes() == b"x = 1\n"


@pytest.mark.parametrize(
    "name",
    [
        "../up.py",
        "a/../../up.py",
        "/etc/cron.d/x",
        "a//b.py",
        "./a.py",
        "C:x.py",
        "a\\b.py",
        "a\nb.py",
        "d/" * 20 + "x",
        "x" * 201,
        "lib/" + "\N{GRINNING FACE}" * 64 + ".py",  # 259 bytes in one name
    ],
)
def test_paths_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(InvalidScript, match="name that is not accepted"):
        archive.read(zipped({"main.py": b"x = 1", name: b"x = 2"}))


def test_a_file_without_a_name_is_refused() -> None:
    content = zipped({"a": b"x = 1"})
    directory = content.index(b"PK\x01\x02")
    entry = bytearray(content[directory:])
    assert entry[28:30] == b"\x01\0" and entry[46:47] == b"a"
    entry[28:30] = b"\0\0"
    del entry[46]
    entry[-10:-6] = struct.pack("<I", len(entry) - 22)  # the size of the directory, in the record at the end
    with pytest.raises(InvalidScript, match="name that is not accepted"):
        archive.read(content[:directory] + bytes(entry))


@pytest.mark.parametrize("compression", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("broken", [False, True])
def test_unusual_compressions_are_refused(compression: int, broken: bool) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        file.writestr("main.py", b"x = 1\n" * 100)
    content = buffer.getvalue()
    if broken:  # in the compressed bytes, behind the header and the name
        content = content[:45] + b"\xff" * 20 + content[65:]
    with pytest.raises(InvalidScript, match="compressed in a way"):
        archive.read(content)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_are_refused(kind: int) -> None:
    entry = zipfile.ZipInfo("data")
    entry.external_attr = (kind | 0o777) << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(entry, "/etc/passwd")
    with pytest.raises(InvalidScript, match="no plain file"):
        archive.read(buffer.getvalue())


def test_a_bomb_is_refused_whatever_it_says_of_its_size() -> None:
    bomb = zipped({"main.py": b"\0" * (3 << 20)})
    assert len(bomb) < 10_000
    with pytest.raises(InvalidScript, match="unpacks to more"):
        archive.read(bomb, max_bytes=1 << 20)
    # The directory at the end of the file and the header before the content both claim 100 bytes.
    lying = bomb.replace((3 << 20).to_bytes(4, "little"), (100).to_bytes(4, "little"))
    assert lying != bomb
    with pytest.raises(InvalidScript):
        archive.read(lying, max_bytes=1 << 20)


def test_too_many_files_are_refused() -> None:
    with pytest.raises(InvalidScript, match="1,001 files"):
        archive.read(zipped({f"{number}.py": b"" for number in range(1001)}))


def test_a_directory_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """320,000 empty files are 16 MB of names, and were a hundred megabytes of the server before they were counted."""
    many = zipped({f"{number:0200}": b"" for number in range(5000)})
    made: list[None] = []
    monkeypatch.setattr(zipfile.ZipInfo, "_decodeExtra", lambda *_: made.append(None))
    with pytest.raises(InvalidScript, match="its directory has more than 1 MiB"):
        archive.read(many)
    assert not made


def test_names_are_had_without_unpacking(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = zipped({"b.py": b"x = 1", "a/c.py": b"", "a/": b""}), zipped({"../up.py": b""})
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("a file was unpacked"))
    assert archive.names(good) == ["a/c.py", "b.py"]
    with pytest.raises(InvalidScript, match="name that is not accepted"):
        archive.names(bad)


def test_few_archives_are_unpacked_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_TURN_SECONDS", 0.01)
    packed = zipped({"main.py": b"x = 1"})
    with archive.unpacked(packed) as files, archive.unpacked(packed):
        assert files == {"main.py": b"x = 1"}
        with pytest.raises(Busy, match="Try again soon"), archive.unpacked(packed):
            pass
    with archive.unpacked(packed), pytest.raises(InvalidScript), archive.unpacked(b"no zip"):
        pass
    with archive.unpacked(packed), archive.unpacked(packed):
        pass


def test_a_name_twice_and_a_file_that_is_a_folder_are_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("main.py", "x = 1")
        file.writestr("main.py", "x = 2")
    with pytest.raises(InvalidScript, match="twice"):
        archive.read(buffer.getvalue())
    with pytest.raises(InvalidScript, match="both as a file and as a folder"):
        archive.read(zipped({"lib": b"", "lib/ops.py": b""}))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no zip at all", zipped({"main.py": b"x = 1"})[:-10]])
def test_what_is_no_zip_file_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidScript, match="not a zip file"):
        archive.read(content)


def test_a_file_that_lies_beyond_all_numbers_is_refused() -> None:
    content = zipped({"main.py": b"x = 1"})
    directory, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    extra = struct.pack("<HHQ", 1, 8, (1 << 64) - 1)
    entry, last = bytearray(content[directory:end]) + extra, bytearray(content[end:])
    entry[30:32] = struct.pack("<H", len(extra))
    entry[42:46] = b"\xff" * 4  # the offset of the header is said in the extra field
    last[12:16] = struct.pack("<I", len(entry))
    with pytest.raises(InvalidScript, match="not a zip file"):
        archive.read(content[:directory] + bytes(entry) + bytes(last))


def test_a_damaged_file_is_refused() -> None:
    content = bytearray(zipped({"main.py": b"x = 1\n" * 100}))
    content[45] ^= 0xFF
    with pytest.raises(InvalidScript, match="not a zip file"):
        archive.read(bytes(content))


@pytest.mark.parametrize(
    ("names", "wanted", "found"),
    [
        (["main.py", "other.py"], None, "main.py"),
        (["train.py", "lib/ops.py", "README.md"], None, "train.py"),
        (["main.py", "lib/run.py"], "lib/run.py", "lib/run.py"),
    ],
)
def test_the_script_is_found(names: list[str], wanted: str | None, found: str) -> None:
    assert archive.main_script(dict.fromkeys(names, b""), wanted) == found


@pytest.mark.parametrize(
    ("names", "wanted", "words"),
    [
        (["a.py", "b.py"], None, "a.py, b.py"),
        (["lib/a.py"], None, "none"),
        (["main.py"], "other.py", "no file 'other.py'"),
    ],
)
def test_a_script_that_is_not_clear_is_asked_for(names: list[str], wanted: str | None, words: str) -> None:
    with pytest.raises(InvalidScript, match=words):
        archive.main_script(dict.fromkeys(names, b""), wanted)
