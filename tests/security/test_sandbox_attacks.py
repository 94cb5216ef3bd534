"""What a hostile script cannot do in the sandbox. Every act is also done without one, to show that it would work."""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from minimizer.sandbox import Bounds, Bubblewrap, Limits, Sandbox, Unconfined, choose_sandbox, runtime_paths

PYTHON = Path(sys.executable)


class Outcome(NamedTuple):
    status: int
    text: str


class Victim:
    """Runs hostile scripts in one sandbox, and ends them with the test."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox = sandbox
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(
        self, script: str, *arguments: object, read: Sequence[Path] = (), write: Sequence[Path] = (), **limits: Any
    ) -> subprocess.Popen[bytes]:
        process = self.sandbox.start(
            [str(PYTHON), "-u", "-c", textwrap.dedent(script), *map(str, arguments)],
            cwd=self.folder,
            read=[*runtime_paths(PYTHON), *read],
            write=[self.folder, *write],
            env=limits.pop("env", {"PATH": os.defpath}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **limits,
        )
        self.processes.append(process)
        return process

    def run(self, script: str, *arguments: object, **options: Any) -> Outcome:
        process = self.start(script, *arguments, **options)
        text = process.communicate()[0].decode()
        return Outcome(process.returncode, text)


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Callable[[Sandbox], Victim]]:
    made: list[Victim] = []

    def make(sandbox: Sandbox) -> Victim:
        folder = tmp_path / f"work-{len(made)}"
        folder.mkdir()
        made.append(Victim(sandbox, folder))
        return made[-1]

    yield make
    for each in made:
        for process in each.processes:
            each.sandbox.kill(process)
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def inside(victim: Callable[[Sandbox], Victim]) -> Victim:
    return victim(choose_sandbox("required"))


@pytest.fixture
def limited(victim: Callable[[Sandbox], Victim]) -> Victim:
    return victim(Limits("this is a test"))


@pytest.fixture
def outside(victim: Callable[[Sandbox], Victim]) -> Victim:
    return victim(choose_sandbox("off"))


def test_the_sandboxes_of_this_file_are_what_they_claim(inside: Victim, outside: Victim) -> None:
    assert isinstance(inside.sandbox, Bubblewrap)
    assert isinstance(outside.sandbox, Unconfined)


READ = "import sys; print(open(sys.argv[1]).read())"


def test_cannot_read_a_secret_in_tmp(inside: Victim, outside: Victim, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    assert outside.run(READ, secret).text.strip() == "hunter2"
    assert "FileNotFoundError" in inside.run(READ, secret).text


@contextmanager
def secret_at_home() -> Iterator[Path]:
    secret = Path.home() / f".minimizer-test-secret-{os.getpid()}"
    secret.write_text("hunter2")
    try:
        yield secret
    finally:
        secret.unlink()


def test_cannot_read_a_secret_at_home(inside: Victim, outside: Victim) -> None:
    with secret_at_home() as secret:
        assert outside.run(READ, secret).text.strip() == "hunter2"
        assert "FileNotFoundError" in inside.run(READ, secret).text


ENVIRONMENTS = """
    import os
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                print(open(f"/proc/{entry}/environ").read())
            except OSError:
                pass
"""


def test_cannot_read_the_environment_of_others(inside: Victim, outside: Victim) -> None:
    """Another process bears the secret: /proc shows the environment a process was started with, not a later one."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={"TOKEN": "hunter2"}) as bearer:
        assert "hunter2" in outside.run(ENVIRONMENTS).text
        seen = inside.run(ENVIRONMENTS)
        bearer.communicate()
    assert seen.status == 0
    assert "hunter2" not in seen.text


def test_sees_no_environment_but_what_is_passed(
    inside: Victim, limited: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    script = "import os; print(sorted(set(os.environ) - {'PWD', 'LC_CTYPE'}))"
    for each in (inside, limited):
        assert each.run(script, env={"PATH": os.defpath, "SHOWN": "1"}).text.strip() == "['PATH', 'SHOWN']"
    inherited = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, check=True)
    assert "TOKEN" in inherited.stdout


def test_the_environment_is_in_no_command_line(inside: Victim, limited: Victim) -> None:
    """Command lines can be read by every user of the machine."""
    token = secrets.token_hex()
    for each in (inside, limited):
        process = each.start("print('up'); import time; time.sleep(600)", env={"TOKEN": token})
        assert process.stdout is not None
        process.stdout.readline()
        lines = list[bytes]()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(FileNotFoundError, ProcessLookupError):  # of another test, and over by now
                lines.append(path.read_bytes())
        assert token.encode() not in b"".join(lines)


def test_ld_preload_is_not_loaded_outside(inside: Victim, outside: Victim, tmp_path: Path) -> None:
    """The environment is the script's to choose; it must not act on the program that builds the sandbox."""
    source, library, target = tmp_path / "evil.cpp", outside.folder / "evil.so", tmp_path / "escaped"
    source.write_text(
        f'#include <fcntl.h>\n__attribute__((constructor)) static void act() {{ creat("{target}", 0600); }}\n'
    )
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    hostile = {"PATH": os.defpath, "LD_PRELOAD": str(library)}
    assert inside.run("print('ran')", env=hostile, write=[outside.folder]).text.strip() == "ran"
    assert not target.exists()
    assert outside.run("print('ran')", env=hostile).text.strip() == "ran"
    assert target.exists()


CONNECT = """
    import socket, sys
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10).close()
    print("connected")
"""


def test_cannot_connect_to_a_listener_on_loopback(inside: Victim, outside: Victim) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert outside.run(CONNECT, port).text.strip() == "connected"
        assert inside.run(CONNECT, port, network=True).text.strip() == "connected"
        assert "ConnectionRefusedError" in inside.run(CONNECT, port).text


def test_cannot_connect_to_an_abstract_socket(inside: Victim, outside: Victim) -> None:
    """Such sockets have no file: only the network namespace stands before them."""
    script = "import socket, sys; socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1]); print('connected')"
    name = f"minimizer-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        assert outside.run(script, name).text.strip() == "connected"
        assert "ConnectionRefusedError" in inside.run(script, name).text


WRITE = "import sys; open(sys.argv[1], 'w').write('owned')"


def test_cannot_write_outside_its_folders(inside: Victim, outside: Victim, tmp_path: Path) -> None:
    """Neither where it sees nothing nor where it may only read; each place has a fresh file to try."""
    readable = tmp_path / "readable"
    readable.mkdir()
    assert inside.run(WRITE, inside.folder / "fine").status == 0
    assert (inside.folder / "fine").read_text() == "owned"
    for folder in (tmp_path, readable, Path.home()):
        target = folder / f"minimizer-test-{os.getpid()}"
        try:
            inside.run(WRITE, target, read=[readable])
            assert not target.exists()
            assert outside.run(WRITE, target).status == 0
            assert target.read_text() == "owned"
        finally:
            target.unlink(missing_ok=True)


@pytest.mark.parametrize("folder", ["/", "/usr", "/etc", "/dev"])
def test_the_system_is_read_only(inside: Victim, folder: str) -> None:
    outcome = inside.run(WRITE, f"{folder}/minimizer-test")
    assert re.search("Read-only file system|Permission denied|No such file", outcome.text), outcome.text


WRITES_TO_THE_KERNEL = """
import os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        path = f"{folder}/{name}"
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            print(path)
        except OSError:
            pass
"""


def test_cannot_change_settings_of_the_kernel(inside: Victim, outside: Victim) -> None:
    """They ask for a user, not for a capability: as root a crash could be made to start a program of the script's outside."""
    assert inside.run(WRITES_TO_THE_KERNEL, "/proc/sys").text == ""
    if os.getuid() == 0:
        assert "core_pattern" in outside.run(WRITES_TO_THE_KERNEL, "/proc/sys/kernel").text


def test_cannot_reach_out_through_a_link(inside: Victim, outside: Victim, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    script = """
        import os, sys
        os.path.lexists("link") or os.symlink(sys.argv[1], "link")
        print(open("link").read())
    """
    assert outside.run(script, secret).text.strip() == "hunter2"
    assert "FileNotFoundError" in inside.run(script, secret).text


FILL = """
    import sys
    with open("big", "wb", buffering=0) as file:
        for _ in range(int(sys.argv[1])):
            file.write(bytes(1 << 16))
"""


def test_cannot_fill_a_file_past_its_bound(inside: Victim, limited: Victim, outside: Victim) -> None:
    assert outside.run(FILL, 32).status == 0
    for each in (inside, limited):
        outcome = each.run(FILL, 32, file_bytes=1 << 20)
        assert "File too large" in outcome.text
        assert (each.folder / "big").stat().st_size == 1 << 20


def test_cannot_fill_tmp_past_its_memory(inside: Victim, victim: Callable[[Sandbox], Victim]) -> None:
    script = FILL.replace('"big"', '"/tmp/big"')
    assert inside.run(script, 32).status == 0
    assert "No space left" in victim(choose_sandbox("required", 64 << 20)).run(script, 1 << 11).text


ALLOCATE = "import sys; block = bytearray(int(sys.argv[1])); print(len(block))"


def test_memory_is_bounded(outside: Victim, victim: Callable[[Sandbox], Victim]) -> None:
    size, bound = 512 << 20, 256 << 20
    assert outside.run(ALLOCATE, size).text.strip() == str(size)
    for sandbox in (choose_sandbox("required", bound), Limits("this is a test", bound)):
        assert "MemoryError" in victim(sandbox).run(ALLOCATE, size).text


FORK = """
    import os, time
    children = 0
    try:
        while children < 100:
            if os.fork() == 0:
                time.sleep(600)
                os._exit(0)
            children += 1
    except BlockingIOError:
        pass
    print(children)
"""


def forked(victim: Victim) -> int:
    process = victim.start(FORK)
    assert process.stdout is not None
    children = int(process.stdout.readline())
    victim.sandbox.kill(process)
    return children


FEW = Bounds(1 << 30, processes=30)


def test_a_fork_bomb_is_bounded(outside: Victim, victim: Callable[[Sandbox], Victim]) -> None:
    assert forked(outside) == 100
    assert 0 < forked(victim(Bubblewrap(bounds=FEW))) < 30


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's other processes count too and may end meanwhile")
def test_a_fork_bomb_under_limits_is_bounded_for_root(victim: Callable[[Sandbox], Victim]) -> None:
    assert 0 < forked(victim(Limits("this is a test", bounds=FEW))) < 30


DAEMON = """
    import os, sys, time
    lock = os.open(sys.argv[1], os.O_RDWR)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            print("up")
            os.close(1), os.close(2)
            os.open("/dev/null", os.O_RDWR), os.open("/dev/null", os.O_RDWR)
            time.sleep(600)
        os._exit(0)
    os.wait()
    time.sleep(600)
"""


class Pulse:
    """A FIFO that is at its end when nobody holds its writing side any more: tells when all of a family are gone."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "pulse"
        os.mkfifo(self.path)
        self.reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def is_over(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self.reader, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def ended_by_kill(victim: Victim) -> bool:
    pulse = Pulse(victim.folder)
    process = victim.start(DAEMON, pulse.path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    victim.sandbox.kill(process)
    victim.sandbox.kill(process)
    return pulse.is_over(0)


@contextmanager
def reaping_orphans(marker: Path) -> Iterator[None]:
    """End what a positive control left behind: it holds the FIFO open."""
    try:
        yield
    finally:
        for entry in Path("/proc").glob("[0-9]*"):
            if int(entry.name) != os.getpid() and holds(entry, marker):
                os.kill(int(entry.name), signal.SIGKILL)


def holds(process: Path, file: Path) -> bool:
    try:
        return any(link.readlink() == file for link in (process / "fd").iterdir())
    except OSError:
        return False


def test_a_daemon_does_not_survive_kill(inside: Victim, limited: Victim, outside: Victim) -> None:
    with reaping_orphans(outside.folder / "pulse"):
        assert not ended_by_kill(outside)
    assert ended_by_kill(inside)
    assert ended_by_kill(limited)


def test_a_daemon_does_not_survive_the_end_of_its_command(inside: Victim, limited: Victim, outside: Victim) -> None:
    script = DAEMON.rsplit("time.sleep", 1)[0]
    for each, survives in ((inside, False), (limited, False), (outside, True)):
        pulse = Pulse(each.folder)
        with reaping_orphans(pulse.path):
            process = each.start(script, pulse.path)
            assert process.wait() == 0
            assert pulse.is_over(0 if survives else 30) is not survives


SIGNAL = "import os, sys; os.kill(int(sys.argv[1]), 15); print('sent')"


def test_cannot_signal_processes_outside(inside: Victim, outside: Victim) -> None:
    with subprocess.Popen(["sleep", "600"]) as bystander:
        assert "ProcessLookupError" in inside.run(SIGNAL, bystander.pid).text
        assert bystander.poll() is None
        assert outside.run(SIGNAL, bystander.pid).text.strip() == "sent"
        assert bystander.wait() == -signal.SIGTERM


PARENT = """
    import subprocess, sys
    from pathlib import Path
    from minimizer.sandbox import Bounds, Bubblewrap, Limits, Unconfined
    sandbox = {"bubblewrap": Bubblewrap, "limits": lambda: Limits("test"), "off": Unconfined}[sys.argv[1]]()
    folder = Path(sys.argv[2])
    script = "import os, sys, time; f = os.open(sys.argv[1], os.O_RDWR); print('up', flush=True); time.sleep(600)"
    sandbox.start(["/usr/bin/env", "python3", "-c", script, str(folder / "pulse")], cwd=folder, read=(), write=[folder],
                  env={"PATH": "/usr/bin:/bin"})
    sys.stdin.read()
"""


@pytest.mark.parametrize(("name", "survives"), [("bubblewrap", False), ("limits", False), ("off", True)])
def test_dies_when_the_parent_is_killed(tmp_path: Path, name: str, survives: bool) -> None:
    pulse = Pulse(tmp_path)
    with (
        reaping_orphans(pulse.path),
        subprocess.Popen(
            [PYTHON, "-c", textwrap.dedent(PARENT), name, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as parent,
    ):
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        parent.kill()
        parent.wait()
        assert pulse.is_over(0 if survives else 30) is not survives


def test_holds_no_descriptor_but_those_passed(inside: Victim, limited: Victim, outside: Victim) -> None:
    script = """if True:
        import os
        def is_open(fd):
            try:
                return bool(os.fstat(fd))
            except OSError:
                return False
        print([fd for fd in range(1024) if is_open(fd)])
    """
    leaky, passed = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaky, True)
    try:
        for each in (inside, limited, outside):
            assert each.run(script, pass_fds=[passed]).text.strip() == str([0, 1, 2, passed])
        open_to_all = subprocess.run(
            [PYTHON, "-c", script], close_fds=False, capture_output=True, text=True, check=True
        )
        assert str(leaky) in open_to_all.stdout
    finally:
        os.close(leaky)
        os.close(passed)


def test_has_no_capabilities_and_cannot_get_any(inside: Victim) -> None:
    outcome = inside.run("print(open('/proc/self/status').read())")
    capabilities = [line.split()[1] for line in outcome.text.splitlines() if line.startswith("Cap")]
    assert len(capabilities) == 5
    assert {int(each, 16) for each in capabilities} == {0}
    assert "unshare failed" in inside.run("import subprocess; subprocess.run(['unshare', '-Ur', 'true'])").text


def test_knows_no_users_of_this_machine(inside: Victim, outside: Victim) -> None:
    script = "import pwd; print([user.pw_name for user in pwd.getpwall()])"
    assert "'root'" in outside.run(script).text
    assert inside.run(script).text.strip() == "['sandbox']"


def test_environment_of_the_supervisor_is_empty(limited: Victim) -> None:
    process = limited.start("print('up'); import time; time.sleep(600)", env={"PYTHONSTARTUP": "x", "LD_PRELOAD": ""})
    assert process.stdout is not None
    process.stdout.readline()
    assert Path(f"/proc/{process.pid}/environ").read_bytes() == b""
