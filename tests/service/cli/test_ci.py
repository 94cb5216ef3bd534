"""CI against a real service: a web server and a worker as processes, the action's own shell steps, the curl recipe of the page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
import yaml
from checkout import ROOT
from servers import free_port

from minimizer.report.identity import fingerprint
from minimizer.service import archive
from minimizer.vocabulary import Role, Scope

if TYPE_CHECKING:
    from conftest import Service

SERVE = """
from minimizer.settings import Settings
from web.server.serve import serve
serve(Settings(), lambda url: print(url, flush=True))
"""
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


class Ci:
    """A checkout in which steps run, and the service they talk to."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        folder.mkdir()

    def bash(self, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a step as GitHub does: ``bash --noprofile --norc -eo pipefail FILE``."""
        return self.run("bash --noprofile --norc -eo pipefail", text, **variables)

    def run(self, shell: str, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
        step = self.folder.parent / "step.sh"
        step.write_text(text)
        for name in ("output", "summary", "path"):
            (self.folder.parent / name).touch()
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder),
            "RUNNER_TEMP": str(self.folder.parent / "runner"),
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(self.folder.parent / "output"),
            "GITHUB_STEP_SUMMARY": str(self.folder.parent / "summary"),
            "GITHUB_PATH": str(self.folder.parent / "path"),
            **variables,
        }
        return subprocess.run(
            [*shell.split(), str(step)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
        )

    def action(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """All steps of action.yml, literally; the last one that ran."""
        defaults = {name: given.get("default", "") for name, given in ACTION["inputs"].items()}
        values = {**defaults, "server": self.url, **{name.replace("_", "-"): value for name, value in inputs.items()}}
        assert values.keys() == ACTION["inputs"].keys()
        for step in ACTION["runs"]["steps"]:
            assert step["shell"] == "bash" and "${{" not in step["run"], "inputs reach a shell as variables only"
            variables = {name: self._expand(text, values) for name, text in step["env"].items()}
            ran = self.bash(step["run"], **variables)
            if ran.returncode:
                break
        return ran

    @staticmethod
    def _expand(text: str, inputs: dict[str, str]) -> str:
        (kind, name) = re.fullmatch(r"\$\{\{ (inputs|github)\.([\w-]+) \}\}", text).groups()  # type: ignore[union-attr]
        return inputs[name] if kind == "inputs" else str(ROOT)


@contextmanager
def web(service: Service, folder: Path, **variables: str) -> Iterator[Ci]:
    """A web server on the database of a service, and a checkout beside it."""
    port = free_port()
    settings = service.settings.model_dump(mode="json", exclude_none=True) | {"port": port}
    environment = {f"MINIMIZER_{name.upper()}": str(value) for name, value in settings.items()} | variables
    with (folder / "web.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        assert address == f"http://127.0.0.1:{port}", (folder / "web.log").read_text()
        yield Ci(folder / "checkout", address)
    finally:
        process.terminate()
        process.wait()
        print((folder / "web.log").read_text())


@pytest.fixture
def ci(embedded: Service, tmp_path: Path) -> Iterator[Ci]:
    embedded.start_worker()
    with web(embedded, tmp_path) as ci:
        yield ci


def write(ci: Ci, **scripts: str) -> None:
    for name, text in scripts.items():
        (ci.folder / f"{name}.py").write_text(f"{text}\n")


def test_the_action_fails_for_what_counts_and_shows_it(ci: Ci) -> None:
    write(ci, good="# done", bad="# wrong aten.relu")
    ran = ci.action(script="good.py\nbad.py\n", options="--budget=60\n--steps=3")
    assert ran.returncode == 6, ran.stderr
    assert "status=6" in (ci.folder.parent / "output").read_text()
    assert "::error file=bad.py,line=1,title=torch.compile%3A wrong_output::" in ran.stderr
    summary = (ci.folder.parent / "summary").read_text()
    assert "### torch.compile: wrong_output in `bad.py`" in summary and "repro.py" in summary
    out = ci.folder / "minimizer-out"
    assert (out / "bad.py" / "repro.py").exists()
    junit = ElementTree.parse(out / "bad.py" / "junit.xml").getroot()
    assert (junit.get("failures"), junit.get("errors")) == ("1", "0")
    result = json.loads((out / "bad.py" / "results.sarif").read_text())["runs"][0]["results"][0]
    name = fingerprint(json.loads((out / "bad.py" / "report.json").read_text()))
    assert result["partialFingerprints"] == {"minimizerFailure/v1": name}

    assert ci.action(script="bad.py", fail_on="new").returncode == 6, "seen before is not known"
    ci.bash(
        f"""curl -fsS -X PATCH -H 'Content-Type: application/json' -d '{{"note": "ours"}}' {ci.url}/api/v1/failures/{name}"""
    )
    assert ci.action(script="bad.py", fail_on="new").returncode == 0
    ci.bash(
        f"""curl -fsS -X PATCH -H 'Content-Type: application/json' -d '{{"note": ""}}' {ci.url}/api/v1/failures/{name}"""
    )
    (ci.folder / "known").write_text(f"{name}  # reported\n")
    ran = ci.action(script="bad.py", fail_on="new", baseline="known")
    assert ran.returncode == 0, ran.stderr
    assert "::warning file=bad.py" in ran.stderr


def test_the_action_sends_the_files_that_a_script_needs(ci: Ci, embedded: Service) -> None:
    for name in ("models/net.py", "configs/a.json", "other.py"):
        (ci.folder / name).parent.mkdir(exist_ok=True)
        (ci.folder / name).write_text("{}\n")
    write(ci, **{"models/train": "# wrong aten.relu"})
    ran = ci.action(script="models/train.py", files="models/**/*.py\nconfigs\n", options="--budget=60")
    assert ran.returncode == 6, ran.stderr
    (job,), _ = embedded.store.jobs.page()
    packed = embedded.store.jobs.archive(job.id)
    assert packed is not None and job.filename == "models/train.py"
    assert sorted(archive.read(packed)) == ["configs/a.json", "models/net.py", "models/train.py"]
    assert "::error file=models/train.py,line=1" in ran.stderr
    ran = ci.action(script="models/train.py", files="nothing/*.py")
    assert ran.returncode == 2 and "--files nothing/*.py: no file below" in ran.stderr


def test_the_action_fails_where_a_script_cannot_be_submitted(ci: Ci) -> None:
    write(ci, broken="def f(:")
    assert ci.action(script="broken.py").returncode == 2


def recipe() -> str:
    page = (ROOT / "docs" / "ci.md").read_text()
    (found,) = re.findall(r"```sh\n(# reduce.sh\n.*?)```", page, re.DOTALL)
    assert isinstance(found, str)
    return found


SHELLS = ["bash --noprofile --norc -eo pipefail", "sh"]


@pytest.mark.parametrize("shell", [pytest.param(SHELLS[0], marks=pytest.mark.quality("slow")), SHELLS[1]])
def test_the_curl_recipe(ci: Ci, shell: str) -> None:
    write(ci, train="# wrong aten.relu")
    ran = ci.run(shell, recipe(), MINIMIZER_SERVER=ci.url)
    assert ran.returncode == 6, ran.stderr
    assert "# by " in (ci.folder / "repro.py").read_text()
    assert ran.stdout.startswith(f"{ci.url}/jobs/")
    write(ci, train="# large aten.relu")
    ran = ci.run(shell, recipe(), MINIMIZER_SERVER=ci.url)
    assert ran.returncode == 6 and "partial budget" in ran.stdout.splitlines(), ran.stderr
    for script, expected in {
        "# ends healthy": 0,
        "# ends partial not_verified": 0,
        "# ends failed nothing_compiled": 5,
        "# ends failed internal_error": 1,
    }.items():
        write(ci, train=script)
        ran = ci.run(shell, recipe(), MINIMIZER_SERVER=ci.url)
        assert ran.returncode == expected, (script, ran.stderr)
        assert ran.stdout.splitlines()[-1].split() == script.split()[2:]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_curl_recipe_ends_where_it_is_refused(embedded: Service, tmp_path: Path, shell: str) -> None:
    embedded.store.users.create("ci", Role.MEMBER, ["default"])
    _, token = embedded.store.tokens.create("ci", "test", Scope.WRITE)
    with web(embedded, tmp_path, MINIMIZER_ACCESS="on") as ci:
        variables = {"MINIMIZER_SERVER": ci.url}
        write(ci, train="# done")
        ran = ci.run(shell, recipe(), **variables)
        assert ran.returncode == 2 and "HTTP 401" in ran.stderr and "sign in" in ran.stderr

        variables["MINIMIZER_TOKEN"] = token
        write(ci, train="def f(:")
        ran = ci.run(shell, recipe(), **variables)
        assert ran.returncode == 2 and "is not Python" in ran.stderr

        write(ci, train="# done")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(ci.run, shell, recipe(), **variables)
            while not (jobs := embedded.store.jobs.page()[0]):
                assert not waiting.done(), waiting.result().stderr
                time.sleep(0.05)
            embedded.store.jobs.delete(jobs[0].id)
            ran = waiting.result()
        assert ran.returncode == 2 and "There is no job with this id" in ran.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_the_curl_recipe_ends_where_no_service_is(tmp_path: Path, shell: str) -> None:
    ci = Ci(tmp_path / "checkout", f"http://127.0.0.1:{free_port()}")
    write(ci, train="# done")
    assert ci.run(shell, recipe(), MINIMIZER_SERVER=ci.url).returncode == 1


def test_the_client_needs_no_more_than_the_action_installs() -> None:
    (packages,) = re.findall(r"pip\" install --quiet (.+)", ACTION["runs"]["steps"][0]["run"])
    brought = {
        "annotated_types",
        "dotenv",
        "markdown_it",
        "mdurl",
        "pydantic_core",
        "pygments",
        "typing_extensions",
        "typing_inspection",
    }
    allowed = {name.replace("-", "_") for name in packages.split()} | brought | {"minimizer"}
    code = f"""
import sys
before = set(sys.modules)
import minimizer.cli.remote, minimizer.cli.gate
found = {{name.partition(".")[0] for name in set(sys.modules) - before if name[0] != "_"}} - set(sys.stdlib_module_names)
assert found <= {allowed!r}, found
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_the_token_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    from minimizer.cli.client import Client

    sent: list[Any] = []
    client = Client("http://127.0.0.1:9")
    monkeypatch.setenv("MINIMIZER_TOKEN", "secret")
    monkeypatch.setattr(
        client, "_open", lambda request, timeout: sent.append(request) or (_ for _ in ()).throw(OSError())
    )
    with pytest.raises(Exception, match="no service answers"):
        client.job("1")
    assert sent[0].get_header("Authorization") == "Bearer secret"
