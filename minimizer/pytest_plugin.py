"""``pytest --minimize``: reduce a failure under ``torch.compile`` in a failing test, and say where the repro is.

pytest loads this module in every run of every project in whose environment minimizer is installed. So it imports
nothing of ours and no torch, and without the option it does nothing. With it a failing test is written as a script,
which ``minimizer run`` reduces in a separate process while pytest waits.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

REDUCED = 5
"""Failing tests of one session that are reduced; a session in which everything fails has to end."""
GRACE = 120
"""Seconds beyond its budget after which a reduction is abandoned."""
SCRIPT = '''\
"""{nodeid} as a script: it raises what the test raises."""

import sys

import pytest

sys.path[:0] = {path!r}


class Watch:
    error = None

    def pytest_exception_interact(self, call):
        self.error = call.excinfo.value


watch = Watch()
pytest.main({arguments!r}, plugins=[watch])
if watch.error is not None:
    raise watch.error
'''


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("minimizer", "failures of torch.compile")
    group.addoption(
        "--minimize", action="store_true", help="Reduce failing tests that compile something to a verified repro.py."
    )
    group.addoption(
        "--minimize-budget",
        type=int,
        default=120,
        metavar="SECONDS",
        help=f"Time for each of them, default 120; at most {REDUCED} are reduced.",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--minimize"):
        config.pluginmanager.register(_Minimize(config), "minimize-failing-tests")


class _Minimize:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._folder = config.invocation_params.dir / "minimizer-out" / f"pytest-{time.strftime('%Y%m%d-%H%M%S')}"
        self._reduced = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "call" and report.failed and _has_compiled():
            report.sections.append(("minimizer", self._reduce(item)))
        return report

    def _reduce(self, item: pytest.Item) -> str:
        if self._reduced == REDUCED:
            return f"Not reduced: {REDUCED} tests of this session were. Run this one alone."
        self._reduced += 1
        folder = self._folder / re.sub(r"[^\w.-]+", "_", item.nodeid)[-100:]
        folder.mkdir(parents=True, exist_ok=True)
        script = folder / "test_as_script.py"
        path = [entry for entry in sys.path if entry and Path(entry).is_dir() and not _is_installed(entry)]
        script.write_text(as_script(item, path))
        budget = self._config.getoption("--minimize-budget")
        command = [sys.executable, "-m", "minimizer", "run", str(script), "--out", str(folder), f"--budget={budget}"]
        binds = [f"--bind={entry}" for entry in dict.fromkeys([str(self._config.rootpath), *path])]
        try:
            ran = subprocess.run(
                [*command, "--no-diagnosis", "--no-witness", *binds],
                capture_output=True,
                text=True,
                timeout=budget + GRACE,
            )
        except subprocess.TimeoutExpired:
            return f"The reduction was given up; what it has found is in {folder}"
        if (folder / "repro.py").exists():
            item.user_properties.append(("minimizer_repro", str(folder / "repro.py")))
        said: str = ran.stdout.strip() or ran.stderr.strip()[-2000:]
        return said


def as_script(item: pytest.Item, path: list[str]) -> str:
    """The text of a script that runs one test and raises its exception; ``path`` is put before its ``sys.path``."""
    config = item.config
    test = f"{item.path}::{item.nodeid.partition('::')[2]}"
    arguments = ["-s", "-x", "-p", "no:cacheprovider", "-o", "addopts=", f"--rootdir={config.rootpath}"]
    if config.inipath is not None:
        arguments += ["-c", str(config.inipath)]
    return SCRIPT.format(nodeid=item.nodeid, path=path, arguments=[*arguments, test])


def _has_compiled() -> bool:
    """Whether Dynamo has compiled a frame in this process, in this test or before it."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    return utils is not None and bool(utils.counters["frames"])


def _is_installed(entry: str) -> bool:
    prefixes = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    return any(Path(entry).resolve().is_relative_to(prefix) for prefix in prefixes)
