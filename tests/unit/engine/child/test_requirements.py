"""A job is told what is missing before its script is run."""

from __future__ import annotations

import json
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from minimizer.engine.child.environment import Place
from minimizer.engine.child.prepare import open_place
from minimizer.engine.child.requirements import require_modules
from minimizer.engine.pipeline import minimize
from minimizer.errors import MissingTool
from minimizer.options import Options
from minimizer.sandbox import choose_sandbox, editable_paths
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Reason, Status


class Asked:
    """A project below a folder, and what was said of it."""

    def __init__(self, folder: Path) -> None:
        self.top = folder / "project"
        self.notes: list[str] = []
        self.binds: list[Path] = []
        self.environment: dict[str, str] = {}
        self.python, self.is_local = Path(sys.executable), False
        self._scratch = folder / "scratch"
        self._scratch.mkdir()

    def write(self, name: str, text: str) -> Path:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def about(self, script: Path) -> None:
        require_modules(script, self._place(script), [self.top], watch=lambda: None, on_note=self.notes.append)

    def _place(self, script: Path) -> Place:
        return open_place(
            script,
            sandbox=choose_sandbox("auto"),
            scratch=self._scratch,
            python=self.python,
            is_local=self.is_local,
            binds=[self.top, *self.binds],
            network=False,
            memory_bytes=1 << 30,
            environment=self.environment,
        )


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


def test_all_missing_modules_are_named_with_their_lines(asked: Asked) -> None:
    asked.write("net/model.py", "import no_such_b\n")
    script = asked.write("main.py", "import no_such_a\nimport net.model\n")
    with pytest.raises(MissingTool) as told:
        asked.about(script)
    assert "no_such_a (main.py, line 1), no_such_b (net/model.py, line 1). Install it there" in str(told.value)


def test_a_module_that_lies_further_up_is_told_so(asked: Asked) -> None:
    asked.write("models/net.py", "")
    script = asked.write("train/run.py", "from models import net\n")
    with pytest.raises(MissingTool, match="models lies further up in the project"):
        asked.about(script)


def test_where_the_script_changes_its_path_it_is_a_note(asked: Asked) -> None:
    asked.about(asked.write("main.py", "import sys\nsys.path.append('lib')\nimport no_such\n"))
    assert len(asked.notes) == 1 and "no_such (main.py, line 3). The script may see to that itself." in asked.notes[0]


def test_requirements_that_are_not_met_are_notes(asked: Asked) -> None:
    asked.write(
        "requirements.txt", "-r other.txt\n# a comment\nno-such>=2  # why\npytest>=1\npydantic<1\nnot for us; [\n"
    )
    asked.write("pyproject.toml", "[project]\ndependencies = ['no-such-either', 'absent; python_version < \"3\"']\n")
    asked.about(asked.write("main.py", "x = 1\n"))
    told = {note.split()[4].rstrip(",;"): note for note in asked.notes}
    assert told.keys() == {"no-such>=2", "pydantic<1", "no-such-either"}
    assert told["no-such>=2"] == "The project asks for no-such>=2, which is not installed."
    assert told["pydantic<1"].startswith("The project asks for pydantic<1; 2.")


@pytest.mark.parametrize(
    "text",
    [
        f"a = {'[' * 5000}",
        f"a = {'9' * 5000}",
        f"[project]\ndependencies = [0x{'f' * 5000}]\n",
        "[project]\ndependencies = 1\n",
        "project = 1\n",
        "no toml",
    ],
    ids=["deep", "digits", "number", "none", "no table", "no toml"],
)
def test_a_project_file_that_cannot_be_read_says_nothing(asked: Asked, text: str) -> None:
    asked.write("pyproject.toml", text)
    asked.write("requirements.txt", "no-such>=2\n")
    asked.about(asked.write("main.py", "x = 1\n"))
    assert asked.notes == ["The project asks for no-such>=2, which is not installed."]


@pytest.mark.parametrize(
    "line",
    [
        'absent; os_name ~= "posix"',
        'absent; "a" in extras',
        f"absent; {'(' * 5000}os_name == 'posix'{')' * 5000}",
        f"absent; python_version < '{'9' * 5000}'",
        f"pytest=={'9' * 5000}",
        "n" * 200_000,
    ],
    ids=["comparison", "name", "deep", "digits", "version", "long"],
)
def test_a_requirement_that_cannot_be_judged_says_nothing(asked: Asked, line: str) -> None:
    asked.write("requirements.txt", f"{line}\nno-such>=2\n")
    asked.about(asked.write("main.py", "x = 1\n"))
    assert asked.notes == ["The project asks for no-such>=2, which is not installed."]


def test_a_script_with_all_it_needs_goes_on_in_silence(asked: Asked) -> None:
    asked.write("net/model.py", "import torch\n")
    asked.about(asked.write("main.py", "import net.model\n"))
    assert asked.notes == []


def test_a_job_ends_before_the_script_has_run(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text("import no_such_module\n")
    report = minimize(script, options=Options(), settings=Settings(), sink=FolderSink(tmp_path / "out"))
    assert (report.status, report.reason) == (Status.FAILED, Reason.NOT_RUNNABLE)
    assert "no_such_module (main.py, line 1)" in report.summary
    assert "survey" not in report.timings and "exact" not in report.timings


@pytest.fixture
def packages(asked: Asked, tmp_path: Path) -> Path:
    """The site-packages of an interpreter of one's own."""
    venv.create(tmp_path / "mein Übungs-env", symlinks=True)
    asked.python, asked.is_local = tmp_path / "mein Übungs-env" / "bin" / "python", True
    [found] = (tmp_path / "mein Übungs-env" / "lib").glob("python3*/site-packages")
    return found


def path_file(packages: Path, source: Path) -> None:
    (packages / "mine.pth").write_text(f"{source}\n", encoding="utf-8")


def finder(packages: Path, source: Path) -> None:
    """As setuptools writes it, for a package and a module."""
    mapping = {"pack": str(source / "pack"), "single": str(source / "single")}
    (packages / "__editable___mine_finder.py").write_text(
        f"""import importlib.util, os, sys
MAPPING = {mapping!r}
NAMESPACES = {{}}
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        for file in (f"{{MAPPING.get(name)}}/__init__.py", f"{{MAPPING.get(name)}}.py"):
            if os.path.exists(file):
                return importlib.util.spec_from_file_location(name, file)
sys.meta_path.append(Finder)
""",
        encoding="utf-8",
    )
    (packages / "mine.pth").write_text("import __editable___mine_finder\n")


def project(packages: Path, source: Path) -> None:
    """As a build tool with a finder that says nothing of where it looks."""
    text = f"import sys\nclass Finder:\n    pass\nsys.path_hooks.append(lambda path: 1 / 0)\nsys.path.append({str(source)!r})\n"
    (packages / "loader.py").write_text(text, encoding="utf-8")
    info = packages / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: mine\nVersion: 1\n")
    (info / "direct_url.json").write_text(json.dumps({"url": source.as_uri(), "dir_info": {"editable": True}}))


@pytest.mark.parametrize("install", [path_file, finder])
def test_what_is_installed_as_editable_is_there(
    asked: Asked, packages: Path, install: Callable[[Path, Path], None]
) -> None:
    source = asked.top.parent / "mein Quelltext"
    (source / "pack").mkdir(parents=True)
    (source / "pack" / "__init__.py").write_text("")
    (source / "single.py").write_text("")
    install(packages, source)
    asked.about(asked.write("main.py", "import pack\nimport single\n"))
    asked.is_local = False
    with pytest.raises(MissingTool, match=r"pack .*single"):
        asked.about(asked.write("main.py", "import pack\nimport single\n"))


def test_of_a_project_with_a_finder_of_its_own_the_whole_folder_is_shown(asked: Asked, packages: Path) -> None:
    source = asked.top.parent / "source"
    source.mkdir()
    project(packages, source)
    assert source in editable_paths(asked.python)
    path_file(packages, source / "src")
    (source / "src").mkdir()
    assert source not in editable_paths(asked.python) and source / "src" in editable_paths(asked.python)


def test_what_pythonpath_names_is_said_to_be_there_with_the_way(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libs = tmp_path / "my libs"
    libs.mkdir()
    (libs / "helper.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(libs))
    script = asked.write("main.py", "import helper\n")
    with pytest.raises(MissingTool) as told:
        asked.about(script)
    assert "helper" in str(told.value) and str(libs) not in str(told.value), "that is told to nobody but who owns it"
    asked.is_local = True
    with pytest.raises(MissingTool) as told:
        asked.about(script)
    assert f"--bind '{libs}' --env PYTHONPATH shows it to the script" in str(told.value)
    assert "Install it" not in str(told.value)
    asked.binds, asked.environment = [libs], {"PYTHONPATH": str(libs)}
    asked.about(script)
