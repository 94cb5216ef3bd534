"""Backup and restore as docs/deploy.md has them, with jobs, files and users in the database."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from checkout import ROOT
from webtest import SCRIPT, Hands

from minimizer.options import Options
from minimizer.store import Store
from minimizer.store.tables.migrate import require_current
from minimizer.vocabulary import Role, Scope, Status


def fill(url: str) -> tuple[str, str, str]:
    """A job that has ended, one that runs, and a token."""
    store = Store.open(url)
    done = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0]).minimize()
    running = Hands(store, store.submissions.submit(SCRIPT, "other.py", Options())[0]).claim.job
    store.users.create("anna", Role.MEMBER, ["default"])
    _, secret = store.tokens.create("anna", "CI", Scope.WRITE)
    store.close()
    return done.id, running.id, secret


def check(url: str, done: str, running: str, secret: str) -> None:
    require_current(url)
    store = Store.open(url)
    assert store.jobs.get(done).status is Status.MINIMIZED
    assert store.results.artifact(done, "repro.py")[1].startswith(b"import torch")
    assert store.jobs.script(done) == SCRIPT and store.results.report(done) is not None
    assert store.jobs.get(running).status is Status.RUNNING
    assert (who := store.tokens.identify(secret)) is not None and who.name == "anna"
    assert store.submissions.submit(SCRIPT, "next.py", Options())[0].id not in (done, running), "numbers go on"
    store.close()


def backup(folder: Path, file: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "minimizer", "db", "backup", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MINIMIZER_DATA_DIR": str(folder), **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_sqlite(sqlite_url: str, tmp_path: Path) -> None:
    kept = fill(sqlite_url)
    writer = Store.open(sqlite_url)  # the service is running
    file = tmp_path / "backup" / "copy.db"
    file.parent.mkdir()
    assert backup(tmp_path, file).returncode == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    writer.jobs.delete(kept[0])
    writer.close()
    for path in tmp_path.glob("minimizer.db*"):
        path.unlink()
    shutil.copy(file, tmp_path / "minimizer.db")
    check(sqlite_url, *kept)


def test_postgresql(postgres_url: str, empty_postgres_url: str, tmp_path: Path) -> None:
    kept = fill(postgres_url)
    file, restored = tmp_path / "minimizer.dump", empty_postgres_url
    plain = [url.replace("+psycopg", "") for url in (postgres_url, restored)]
    subprocess.run([_tool("pg_dump"), "--format=custom", f"--file={file}", plain[0]], check=True)
    subprocess.run([_tool("pg_restore"), "--no-owner", f"--dbname={plain[1]}", str(file)], check=True)
    check(restored, *kept)


@pytest.mark.parametrize(
    ("environment", "words"),
    [({"MINIMIZER_DATABASE_URL": "postgresql://x/y"}, "use pg_dump"), ({}, "there is no database")],
)
def test_what_cannot_be_copied_is_said(tmp_path: Path, environment: dict[str, str], words: str) -> None:
    ended = backup(tmp_path, tmp_path / "copy.db", **environment)
    assert ended.returncode == 2 and words in ended.stderr and "Traceback" not in ended.stderr


def test_a_database_without_tables_is_no_backup(tmp_path: Path) -> None:
    (tmp_path / "minimizer.db").touch()
    ended = backup(tmp_path, tmp_path / "copy.db")
    assert ended.returncode == 2 and "has no tables" in ended.stderr and "Traceback" not in ended.stderr
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize(("name", "words"), [("there.db", "exists"), ("no/folder.db", "No such file or directory")])
def test_a_file_that_cannot_be_made_is_named(sqlite_url: str, tmp_path: Path, name: str, words: str) -> None:
    Store.open(sqlite_url).close()
    (tmp_path / "there.db").write_text("mine")
    ended = backup(tmp_path, tmp_path / name)
    assert ended.returncode == 2 and words in ended.stderr and "Traceback" not in ended.stderr
    assert (tmp_path / "there.db").read_text() == "mine"


def test_a_folder_that_is_made_for_the_database_is_for_nobody_else(tmp_path: Path) -> None:
    Store.open(f"sqlite:///{tmp_path}/data/minimizer.db").close()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_the_manifests_start_what_there_is() -> None:
    manifests = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text()))
    deployments = {one["metadata"]["name"]: one["spec"]["template"] for one in manifests if one["kind"] == "Deployment"}
    assert set(deployments) == {"web", "worker", "worker-gpu"}
    for name, template in deployments.items():
        (container,) = template["spec"]["containers"]
        of_gpus = {"NVIDIA_DRIVER_CAPABILITIES"} if name == "worker-gpu" else set()
        servers = {"MINIMIZER_DATABASE_URL", "MINIMIZER_BROKER_URL"}
        assert {entry["name"] for entry in container["env"]} == servers | of_gpus
        assert template["metadata"]["labels"]["part"] == name
    config = next(one["data"] for one in manifests if one["kind"] == "ConfigMap")
    from minimizer.settings import Settings

    values = {key.removeprefix("MINIMIZER_").lower(): value for key, value in config.items()}
    assert set(values) <= set(Settings.model_fields)
    assert Settings.model_validate(values).access == "on"


def test_the_manifests_fence_what_they_start() -> None:
    manifests = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text()))
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in manifests if one["kind"] == "Deployment"
    }
    for name, pod in pods.items():
        assert pod["automountServiceAccountToken"] is False
        assert "ephemeral-storage" in pod["containers"][0]["resources"]["limits"]
        if name.startswith("worker"):
            assert pod["containers"][0]["securityContext"]["procMount"] == "Unmasked", "bubblewrap mounts one"
            assert pod["hostUsers"] is False, "Kubernetes refuses an unmasked /proc in the host's user namespace"
    assert {"web", "worker", "worker-gpu"} <= pods.keys()


def _tool(name: str) -> str:
    found = shutil.which(name) or next(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), None)
    assert found, f"{name} is part of PostgreSQL's client programs"
    return found
