"""Modules, tests, notebooks, servers and folders of scripts as whole jobs of the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.quality("whole jobs"), pytest.mark.timeout(1500)]
BUG = "import torch._inductor.config\n\ntorch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'\n"
MODEL = """
import torch


class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = torch.nn.Linear(8, width)

    def forward(self, x):
        return torch.relu(self.fc(x))
"""
TRAIN = f"""
import sys

import torch
{BUG}
from .model import Net

if __name__ == "__main__":
    torch.manual_seed(0)
    torch.compile(Net(int(sys.argv[1])))(torch.randn(4, 8))
"""
TEST = f"""
import pytest
import torch
{BUG}
from package.model import Net


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net(8)


def test_compiled(net):
    x = torch.randn(4, 8)
    torch.testing.assert_close(torch.compile(net)(x), net(x))
"""
SCRIPT = f"""
import torch
{BUG}
torch.compile(lambda x: {{body}})(torch.ones(4, 8))
"""

SERVER = f"""
import http.server
import json

import torch
{BUG}
from package.model import Net

torch.manual_seed(0)
score = torch.compile(Net(8))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with torch.inference_mode():
            answer = json.dumps(score(torch.tensor(rows)).tolist()).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)


http.server.HTTPServer(("127.0.0.1", 8123), Handler).serve_forever()
"""
CLIENT = """
import json
import urllib.request

for row in range(4):
    rows = json.dumps([[float(row + column) for column in range(8)]]).encode()
    json.load(urllib.request.urlopen("http://127.0.0.1:8123", rows))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project with a package, and with tests that import it from the working directory."""
    folder = tmp_path / "home"
    for name, text in {
        "package/__init__.py": "",
        "package/model.py": MODEL,
        "package/train.py": TRAIN,
        "conftest.py": "",
        "tests/test_model.py": TEST,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def command(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, "-m", "minimizer", "run", "--budget=600", "--no-diagnosis", "--no-witness", "--jobs=2"]
    return subprocess.run([*whole, *arguments], cwd=home, capture_output=True, text=True, check=False)


def report_of(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "report.json").read_text())
    assert isinstance(found, dict)
    return found


def is_relu_of_the_model(report: dict[str, Any]) -> bool:
    (culprit,) = report["culprits"]
    source = culprit["source"]
    return (
        (report["failure"]["kind"], report["failure"]["stage"]) == ("wrong_output", "inductor")
        and culprit["ops"] == ["aten.relu"]
        and (source["file"], source["code"]) == ("package/model.py", "return torch.relu(self.fc(x))")
    )


def test_a_module_is_reduced_as_its_script_would_be(home: Path) -> None:
    done = command(home, "--out", "out", "-m", "package.train", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert is_relu_of_the_model(report_of(home / "out"))


def test_a_test_is_reduced_by_its_name(home: Path) -> None:
    done = command(home, "--out", "out", "tests/test_model.py::test_compiled")
    assert done.returncode == 0, done.stdout + done.stderr
    assert is_relu_of_the_model(report_of(home / "out"))


def test_a_test_that_only_pytest_can_miss_is_not_called_healthy(home: Path) -> None:
    done = command(home, "--out", "out", "tests/test_model.py::test_compiled[wide]")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "pytest finds no test tests/test_model.py::test_compiled[wide]" in done.stdout


def test_a_notebook_is_reduced_with_the_modules_beside_it(home: Path) -> None:
    cells = [
        BUG,
        "%matplotlib inline\nimport torch\n\nfrom package.model import Net",
        "torch.compile(Net(8))(torch.randn(4, 8))",
    ]
    notebook = {"cells": [{"cell_type": "code", "source": cell} for cell in cells], "nbformat": 4}
    (home / "train.ipynb").write_text(json.dumps(notebook))
    done = command(home, "--out", "out", "train.ipynb")
    assert done.returncode == 0, done.stdout + done.stderr
    assert is_relu_of_the_model(report_of(home / "out"))
    assert "pass  # %matplotlib inline" in (home / "out" / "train-notebook.py").read_text()


def test_a_server_is_reduced_by_the_requests_that_it_gets(home: Path) -> None:
    (home / "server.py").write_text(SERVER)
    (home / "client.py").write_text(CLIENT)
    done = command(home, "--out", "out", "--ready", "8123", "--drive", f"{sys.executable} client.py", "server.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert is_relu_of_the_model(report_of(home / "out"))


def test_a_server_that_answers_as_in_eager_is_healthy(home: Path) -> None:
    (home / "server.py").write_text(SERVER.replace(BUG, ""))
    (home / "client.py").write_text(CLIENT)
    done = command(home, "--out", "out", "--ready", "8123", "--drive", f"{sys.executable} client.py", "server.py")
    assert done.returncode == 3, done.stdout + done.stderr
    checked = report_of(home / "out")["checked"]
    assert checked["calls"] == checked["calls_made"] == 4
    assert checked["between"]["compared"], "also what the script sees of itself, run by run at one port"


def test_scripts_with_one_fault_are_one_group_and_run_once(tmp_path: Path) -> None:
    folder = tmp_path / "failing"
    folder.mkdir()
    for name, body in {"a": "torch.relu(x.sin())", "b": "torch.relu(x + 1).cos()"}.items():
        (folder / f"{name}.py").write_text(SCRIPT.format(body=body))
    first = command(tmp_path, "--each", "failing")
    assert first.returncode == 0, first.stdout + first.stderr
    shown = first.stdout.splitlines()[-4:]
    assert "2 scripts, 1 fault" in first.stdout and shown[-3].startswith("wrong_output in inductor: aten.relu  [")
    second = command(tmp_path, "--each", "failing")
    assert second.stdout.splitlines()[-4:] == shown
    assert second.stderr.count("done before") == 2
