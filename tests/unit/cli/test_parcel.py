"""What `minimizer submit` makes of what it is given: a script, a folder, a zip archive, a script with files."""

from __future__ import annotations

from pathlib import Path

import pytest

from minimizer.cli.parcel import Parcel, parcel_of
from minimizer.errors import InvalidOption, InvalidScript
from minimizer.service import archive, packing


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("main.py", "eval.py", "net/model.py"):
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def names(parcel: Parcel) -> list[str]:
    assert parcel.archive is not None
    return sorted(archive.read(parcel.archive))


def test_a_script_goes_alone(project: Path) -> None:
    parcel = parcel_of(project / "net" / "model.py", None, ())
    assert (parcel.name, parcel.content, parcel.archive) == ("model.py", b"# net/model.py\n", None)


def test_of_a_folder_all_goes_and_main_is_run(project: Path) -> None:
    parcel = parcel_of(project, None, ())
    assert names(parcel) == ["eval.py", "main.py", "net/model.py"]
    assert (parcel.name, parcel.script, parcel.content, parcel.files) == (
        "main.py", project / "main.py", b"# main.py\n", 3,
    )  # fmt: skip
    assert parcel_of(project, "net/model.py", ()).name == "net/model.py"


def test_an_archive_goes_as_it_is(project: Path) -> None:
    packed = project / "p.zip"
    packed.write_bytes(packing.pack({"run.py": project / "main.py"}))
    parcel = parcel_of(packed, None, ())
    assert (parcel.name, parcel.archive) == ("run.py", packed.read_bytes())


def test_files_go_with_a_script_where_they_are(project: Path) -> None:
    parcel = parcel_of(Path("net/model.py"), None, ["*.py"])
    assert names(parcel) == ["eval.py", "main.py", "net/model.py"]
    assert (parcel.name, parcel.script) == ("net/model.py", Path("net/model.py"))


@pytest.mark.parametrize(
    ("path", "main", "files", "error", "words"),
    [
        (".", "nothing.py", (), InvalidScript, "--main nothing.py: . has no such file"),
        ("net", None, (), None, ""),
        (".", None, ("*.py",), InvalidOption, "--files goes with a script"),
        ("main.py", "main.py", (), InvalidOption, "--main goes with a folder"),
        ("../outside.py", None, ("*.py",), InvalidScript, "does not lie below"),
        ("broken.zip", None, (), InvalidScript, "not a zip file that can be read"),
        (
            "two",
            None,
            (),
            InvalidScript,
            "say which file of two is the script, with --main; at its top are: a.py, b.py",
        ),
        ("bad", None, (), InvalidScript, "bad/main.py is not Python"),
    ],
)
def test_what_cannot_be_sent_says_why(
    project: Path, path: str, main: str | None, files: tuple[str, ...], error: type[Exception] | None, words: str
) -> None:
    (project.parent / "outside.py").write_text("x = 1\n")
    (project / "broken.zip").write_bytes(b"PK\x03\x04")
    for name, text in {"two/a.py": "", "two/b.py": "", "bad/main.py": "def f("}.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    if error is None:
        assert parcel_of(Path(path), main, files).name == "model.py", "the only script at its top"
        return
    with pytest.raises(error, match=words.replace("(", r"\(")):
        parcel_of(Path(path), main, files)


def test_syntax_that_another_python_is_to_run_is_for_the_service_to_judge(project: Path) -> None:
    (project / "bad.py").write_text("x = = 1\n")
    with pytest.raises(InvalidScript, match="is not Python"):
        parcel_of(project / "bad.py", None, ())
    assert parcel_of(project / "bad.py", None, (), "nightly").name == "bad.py"
