"""What `make demo` does: the whole way of a job, over REST, on a service of its own that is gone afterwards.

    start the service on a free port  ->  submit transformer_relu.py and watch  ->  run the repro.py that comes back

It uses only what a user has: `minimizer serve`, `minimizer submit --wait`, `python repro.py`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from minimizer.sandbox import choose_sandbox

HERE = Path(__file__).resolve().parent
WORK = HERE.parent / ".demo"
SCRIPT = HERE / "transformer_relu.py"
START_SECONDS = 60


def main() -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    if notice := choose_sandbox("auto").notice:
        print(f"Note: {notice}\n`minimizer doctor` says how to get what is missing.")
    say(f"Starting the service (its log: {WORK / 'serve.log'})")
    with service() as server:
        print(f"It runs at {server}")
        say(f"Submitting {SCRIPT.name}: a transformer that ends well, with wrong numbers")
        status = minimizer(
            "submit", str(SCRIPT), "--server", server, "--wait", "--no-witness", "--out", str(WORK / "out")
        )
        if status != 0:
            print(f"\nThe demo went wrong: exit status {status} instead of 0. The log is {WORK / 'serve.log'}")
            return 1
        failed = show_repro(WORK / "out" / "repro.py")
        say("Stopping the service")
    if not failed:
        print("The repro did not fail, so something is wrong here. Please report it with the folder .demo.")
        return 1
    print(f"Done. The results are in {WORK / 'out'}. `make serve` leaves the service running for your own scripts.")
    return 0


def show_repro(repro: Path) -> bool:
    """Print the repro, run it with and without the compiler; whether only the compiled run fails."""
    say(f"The repro that came back: {repro}")
    print(repro.read_text())
    say("Running it: it exits 1 while the bug is there")
    compiled = run(repro)
    say("Running it with the compiler off (TORCHDYNAMO_DISABLE=1): it exits 0")
    eager = run(repro, TORCHDYNAMO_DISABLE="1")
    return compiled == 1 and eager == 0


def run(repro: Path, **setting: str) -> int:
    # torch warns when it finds no NumPy; that has nothing to do with the repro.
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", **setting}
    status = subprocess.run([sys.executable, repro.name], cwd=repro.parent, env=environment, check=False).returncode
    print(f"exit status {status}")
    return status


@contextlib.contextmanager
def service() -> Iterator[str]:
    """A service on a free port, with its data in the demo's folder."""
    port = free_port()
    server = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "minimizer", "serve", "--port", str(port), "--data-dir", str(WORK / "data")]
    # What the environment says about a real service is not meant for this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MINIMIZER_")}
    with (WORK / "serve.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        wait_until_ready(server, process)
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(server: str, process: subprocess.Popen[bytes]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with opener.open(f"{server}/readyz", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    print((WORK / "serve.log").read_text(errors="replace"))
    sys.exit("The service did not start; its log is above.")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def minimizer(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "minimizer", *arguments], check=False).returncode


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
