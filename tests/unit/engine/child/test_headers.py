"""The precompiled header of Inductor's kernels: made once by a process of ours, used by clean runs that cannot change it."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from minimizer.engine.child.headers import BELOW, NO_HEADERS, Headers, kept_in
from minimizer.engine.emit import Repro
from minimizer.engine.verify.clean_runs import run_once
from minimizer.sandbox import choose_sandbox
from minimizer.vocabulary import Kind

TELLS_ITS_HEADERS = f"""
import os, tempfile, torch

torch.compile(lambda x: x + 2)(torch.ones(8))
folder = os.path.join(tempfile.gettempdir(), {str(BELOW)!r})
made = [name for name in os.listdir(folder) if name.endswith(".gch")]
links = [os.path.join(folder, name) for name in made if os.path.islink(os.path.join(folder, name))]
print(len(made), len(links))
try:
    os.chmod(links[0], 0o600)
    open(links[0], "ab").close()
except OSError as error:
    print("refused")
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own; beside the temporary folder, which a sandbox may show to its processes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.quality("slow")
def test_a_clean_run_uses_the_header_that_was_made_before_and_cannot_change_it(cache: Path, tmp_path: Path) -> None:
    sandbox = choose_sandbox("auto")
    python = Path(sys.executable)
    headers = Headers.of(python, version("torch"))
    assert not headers.are_there and headers.shown == []
    headers.make(sandbox, python, tmp_path / "making", lambda: None)
    assert headers.are_there and headers.folder is not None and not (tmp_path / "making").exists()
    before = {path.name: path.read_bytes() for path in headers.folder.iterdir()}
    assert sorted(Path(name).suffix for name in before) == [".gch", ".h"]

    repro = Repro(source=TELLS_ITS_HEADERS, lines=1, kind=Kind.WRONG_OUTPUT, evidence="")
    run = run_once(repro, None, sandbox, python, tmp_path / "run", 120, lambda: None, headers=headers)
    assert run.status == 0, run.output
    # Nothing was compiled beside what was there: the name, made of flags and text, is the one that Inductor looked for.
    assert run.output.endswith("1 1\nrefused\n" if sandbox.is_strong else "1 1\n"), run.output
    assert {path.name: path.read_bytes() for path in headers.folder.iterdir()} == before


def test_each_torch_and_interpreter_has_headers_of_its_own(cache: Path) -> None:
    python = Path(sys.executable)
    assert Headers.of(python, "2.13.0") == Headers.of(python, "2.13.0")
    assert Headers.of(python, "2.13.0") != Headers.of(python, "2.14.1")


def test_those_of_the_torches_used_last_are_kept(cache: Path, tmp_path: Path) -> None:
    made = tmp_path / "x.h.gch"
    made.write_bytes(b"binary")
    (tmp_path / "x.h").write_text("text")
    all_of_them = [Headers.of(Path(sys.executable), f"2.{minor}.0") for minor in range(11, 16)]
    for age, headers in enumerate(all_of_them[:4]):
        headers.keep([made])
        assert headers.folder is not None
        os.utime(headers.folder, (1000 + age, 1000 + age))
    assert all_of_them[0].lay(tmp_path / "home"), "a use counts"
    all_of_them[4].keep([made])
    assert [headers.are_there for headers in all_of_them] == [True, False, True, True, True]


def test_without_a_cache_folder_all_goes_on_without_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert kept_in() is None
    assert Headers.of(Path(sys.executable), "2.13.0") == NO_HEADERS
    assert not NO_HEADERS.lay(tmp_path / "home") and NO_HEADERS.shown == []
    NO_HEADERS.make(choose_sandbox("off"), Path(sys.executable), tmp_path / "making", lambda: None)
    assert not (tmp_path / "making").exists()
