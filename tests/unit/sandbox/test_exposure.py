"""A service does not start where every script could read its files."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pytest

from minimizer.errors import InvalidOption
from minimizer.sandbox import bubblewrap, exposure, refuse_exposed
from minimizer.settings import Settings

PYTHON = Path(sys.executable)


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An environment of its own."""
    venv.create(tmp_path / "env", with_pip=False)
    return tmp_path / "env"


def refuse(settings: Settings, prefix: Path) -> None:
    refuse_exposed(settings, [PYTHON, prefix / "bin" / "python"])


def test_files_in_a_place_of_their_own_are_none_to_worry_about(tmp_path: Path, prefix: Path) -> None:
    refuse(Settings(data_dir=tmp_path / "data"), prefix)
    refuse(Settings(data_dir=prefix / "minimizer-data"), prefix)  # beside what is shown
    far = {"database_url": "postgresql+psycopg://u:p@h/d", "broker_url": "redis://h"}
    refuse(Settings(data_dir=prefix / "lib", **far), prefix)  # not used


def test_a_data_folder_among_the_packages_is_refused(prefix: Path) -> None:
    with pytest.raises(InvalidOption) as refused:
        refuse(Settings(data_dir=prefix / "lib" / "data"), prefix)
    assert str(refused.value) == (
        f"The data folder ({prefix}/lib/data) lies in {prefix}/lib, which every script can read. "
        "Name another folder in MINIMIZER_DATA_DIR."
    )


def test_a_data_folder_behind_a_link_and_in_the_system_is_refused(tmp_path: Path, prefix: Path) -> None:
    (tmp_path / "data").symlink_to(prefix / "share" / "data")
    (prefix / "share").mkdir()
    for folder in (tmp_path / "data", Path("/usr/local/minimizer")):
        with pytest.raises(InvalidOption, match="The data folder"):
            refuse(Settings(data_dir=folder), prefix)


def test_a_database_among_the_packages_is_refused(tmp_path: Path, prefix: Path) -> None:
    url = f"sqlite:///{prefix}/lib/minimizer.db?timeout=5"
    with pytest.raises(InvalidOption, match=r"The database .*MINIMIZER_DATABASE_URL"):
        refuse(Settings(database_url=url, data_dir=tmp_path), prefix)


def test_jobs_that_others_could_look_into_are_refused(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(prefix / "lib"))
    with pytest.raises(InvalidOption, match=r"The folder of running jobs .*TMPDIR"):
        refuse(Settings(data_dir=prefix.parent / "data"), prefix)


def test_a_log_among_the_packages_is_refused(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposure, "DESCRIPTORS", prefix.parent)
    log = prefix / "lib" / "service.log"
    log.touch()
    (prefix.parent / "2").symlink_to(log)
    with pytest.raises(InvalidOption, match="The log "):
        refuse(Settings(data_dir=prefix.parent / "data"), prefix)


def test_with_the_sandbox_off_it_is_looked_where_people_sign_in(prefix: Path) -> None:
    data = prefix / "lib" / "data"
    refuse(Settings(data_dir=data, sandbox="off"), prefix)
    with pytest.raises(InvalidOption, match="The data folder"):
        refuse(Settings(data_dir=data, sandbox="off", access="on"), prefix)


@pytest.mark.parametrize(
    "further", [{}, {"MINIMIZER_SANDBOX": "off", "MINIMIZER_ACCESS": "on"}], ids=["", "sandbox off"]
)
@pytest.mark.parametrize("command", [["worker"], ["minimizer", "serve", "--port", "1"]])
def test_worker_and_service_refuse_before_they_have_done_anything(
    tmp_path: Path, command: list[str], further: dict[str, str]
) -> None:
    data = PYTHON.parent / f"data-of-{tmp_path.name}"
    environment = {"MINIMIZER_DATA_DIR": str(data), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **further}
    done = subprocess.run(
        [PYTHON, "-m", *command],
        env=environment,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "which every script can read" in done.stderr and "Traceback" not in done.stderr
    assert not data.exists()


def test_the_password_of_an_index_in_the_system_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter in /usr/local, as of most images, has its pip.conf there; a stand-in that exists everywhere."""
    file = Path("/usr/lib/os-release")
    monkeypatch.setattr(bubblewrap, "PACKAGE_SETTINGS", (file,))
    sandbox = bubblewrap.Bubblewrap()
    process = sandbox.start(
        ["cat", str(file)], cwd=tmp_path, read=[tmp_path], write=(), env={"PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.communicate()[0] == b""
    sandbox.kill(process)
