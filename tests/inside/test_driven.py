"""Scripts that serve, driven by the launcher of plain runs: ready by a port or a text, driven by a command, ended behind it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from minimizer.engine.child import environment
from minimizer.inside import driven

SERVER = """
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"answer")

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open("port", "w") as file:
    file.write(str(server.server_address[1]))
print("waiting for requests")
try:
    server.serve_forever()
finally:
    print("closed")
"""
CLIENT = f"""{sys.executable} -c "
import urllib.request
port = open('port').read()
answer = urllib.request.urlopen('http://127.0.0.1:' + port).read()
open('answer', 'wb').write(answer)
" """
SLEEPER = "import threading\nprint('ready', flush=True)\nthreading.Event().wait()\n"


def run(script: str, folder: Path, **plan: str) -> subprocess.CompletedProcess[str]:
    """A run of a script by the launcher; ``plan``: ``ready`` and ``drive``."""
    (folder / "script.py").write_text(script)
    names = {"ready": driven.READY, "drive": driven.DRIVE}
    environment = {"PATH": os.environ["PATH"], **{names[name]: value for name, value in plan.items()}}
    return subprocess.run(
        [sys.executable, driven.__file__, "script.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_both_sides_know_the_plan_by_the_same_names() -> None:
    assert (environment.READY, environment.DRIVE) == (driven.READY, driven.DRIVE)
    assert Path(driven.__file__) == environment.DRIVER


def test_a_server_is_driven_once_it_prints_that_it_waits_and_ends_well(tmp_path: Path) -> None:
    done = run(SERVER, tmp_path, ready="waiting for requests", drive=CLIENT)

    assert (tmp_path / "answer").read_text() == "answer"
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["waiting for requests", "closed"], "what it prints at its end is not lost"


def test_a_server_is_ready_when_it_listens_at_its_port(tmp_path: Path) -> None:
    with_port = SERVER.replace('"127.0.0.1", 0', '"127.0.0.1", 18_321')

    done = run(with_port, tmp_path, ready="18321", drive=CLIENT)

    assert (tmp_path / "answer").read_text() == "answer", done.stderr
    assert done.returncode == 0


def test_a_script_without_a_command_is_ended_when_it_is_ready(tmp_path: Path) -> None:
    assert run(SLEEPER, tmp_path, ready="ready").returncode == 0


def test_a_command_that_fails_is_an_error_of_the_script(tmp_path: Path) -> None:
    done = run(SLEEPER, tmp_path, ready="ready", drive="exit 3")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("DriveFailed: the command that drives the script ended with status 3")


def test_what_a_command_prints_is_no_output_of_the_script(tmp_path: Path) -> None:
    done = run(SLEEPER, tmp_path, ready="ready", drive="echo asked")
    assert (done.stdout, done.stderr) == ("ready\n", "asked\n")


def test_a_script_that_ends_before_it_is_ready_ends_as_it_does(tmp_path: Path) -> None:
    done = run("print('first')\nraise ValueError('no model')\n", tmp_path, ready="never printed", drive="exit 3")

    assert done.returncode == 1
    assert done.stdout == "first\n"
    assert done.stderr.splitlines()[-1] == "ValueError: no model"


def test_a_script_that_never_gets_ready_is_told_so(tmp_path: Path) -> None:
    code = f"import atexit\nfrom minimizer.inside import driven\ndriven.READY_SECONDS = 0.2\natexit.register(driven.begin())\n{SLEEPER}"

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, driven.READY: "never printed"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "the script was not ready within 0.2 s: it did not print 'never printed'" in done.stderr
