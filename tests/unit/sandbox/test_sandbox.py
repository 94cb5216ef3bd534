"""How sandboxes are chosen, what they show of the file system, and how they end. Attacks: tests/security."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import uuid
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minimizer.errors import Cancelled, InvalidOption, MissingTool, WorkerTrouble
from minimizer.sandbox import (
    Bounds,
    Bubblewrap,
    Limits,
    Sandbox,
    Unconfined,
    bubblewrap,
    cgroup,
    choose_sandbox,
    real_interpreter,
    runtime_paths,
    supervisor,
    why_no_bubblewrap,
    without_bytecode,
)

PYTHON = Path(sys.executable)
ALL = [Bubblewrap(), Limits("this is a test"), Unconfined()]


@pytest.fixture(params=ALL, ids=[each.name for each in ALL])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    chosen: Sandbox = request.param
    return chosen


def start(sandbox: Sandbox, *argv: str | Path, cwd: Path, **options: Any) -> subprocess.Popen[bytes]:
    defaults: dict[str, Any] = {"read": (), "write": [cwd], "env": {"PATH": os.defpath}, "stdout": subprocess.PIPE}
    return sandbox.start(list(map(str, argv)), cwd=cwd, **defaults | options)


def output(sandbox: Sandbox, *argv: str | Path, cwd: Path, **options: Any) -> str:
    process = start(sandbox, *argv, cwd=cwd, **options)
    text = process.communicate()[0].decode()
    sandbox.kill(process)
    assert process.returncode == 0
    return text.strip()


@pytest.fixture
def detection() -> Iterator[None]:
    """Forgets what is known about bubblewrap, before and after."""
    for cached in (bubblewrap.require_bubblewrap, bubblewrap.bwrap, bubblewrap.bwrap_help):
        cached.cache_clear()
    yield
    for cached in (bubblewrap.require_bubblewrap, bubblewrap.bwrap, bubblewrap.bwrap_help):
        cached.cache_clear()


@pytest.mark.usefixtures("detection")
def test_bubblewrap_that_fails_for_once_is_tried_again_and_one_that_worked_is_never_gone_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = ["bubblewrap cannot create namespaces here", None, "bubblewrap is not installed"]
    monkeypatch.setattr(bubblewrap, "try_bubblewrap", lambda: answers.pop(0))
    assert why_no_bubblewrap() == "bubblewrap cannot create namespaces here"
    assert choose_sandbox("auto").is_strong and choose_sandbox("auto").is_strong
    assert answers == ["bubblewrap is not installed"], "not asked any more"


def test_names_and_notices() -> None:
    assert [each.name for each in ALL] == ["bubblewrap", "limits", "off"]
    assert [each.is_strong for each in ALL] == [True, False, False]
    assert all(each.notice for each in ALL if not each.is_strong)


@pytest.mark.parametrize(("mode", "kind"), [("auto", Bubblewrap), ("required", Bubblewrap), ("off", Unconfined)])
def test_choice(mode: Any, kind: type[Sandbox]) -> None:
    assert isinstance(choose_sandbox(mode), kind)


@pytest.mark.usefixtures("detection")
def test_without_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    weaker = choose_sandbox("auto")
    assert isinstance(weaker, Limits)
    assert "not installed" in weaker.notice
    with pytest.raises(MissingTool, match="apt-get install bubblewrap"):
        choose_sandbox("required")


@pytest.mark.usefixtures("detection")
def test_where_user_namespaces_are_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    with pytest.raises(MissingTool, match="cannot create namespaces"):
        choose_sandbox("required")


@pytest.mark.usefixtures("detection")
def test_a_sandbox_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, fake = bubblewrap.bwrap(), tmp_path / "bwrap"
    fake.write_text(f'#!/bin/sh\nexec {real} "$1" "$2" -- sleep 1000\n')
    fake.chmod(0o755)
    bubblewrap.bwrap.cache_clear()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    monkeypatch.setattr(bubblewrap, "TRY_SECONDS", 0.1)
    assert bubblewrap.try_bubblewrap() == "bubblewrap does not answer within 0.1 s"


def test_exit_status_and_output(sandbox: Sandbox, tmp_path: Path) -> None:
    process = start(sandbox, "sh", "-c", "echo hello; exit 7", cwd=tmp_path)
    assert process.communicate()[0] == b"hello\n"
    assert process.returncode == 7


def test_exit_status_after_a_signal(sandbox: Sandbox, tmp_path: Path) -> None:
    process = start(sandbox, "sh", "-c", "kill -SEGV $$", cwd=tmp_path)
    process.communicate()
    assert process.returncode == (-signal.SIGSEGV if sandbox.name == "off" else 128 + signal.SIGSEGV)


def test_kill_ends_it_and_may_be_repeated(sandbox: Sandbox, tmp_path: Path) -> None:
    process = start(sandbox, "sleep", "600", cwd=tmp_path)
    sandbox.kill(process)
    assert process.returncode != 0
    sandbox.kill(process)


def test_finish_waits_for_the_exit_status(sandbox: Sandbox, tmp_path: Path) -> None:
    process = start(sandbox, "sh", "-c", "exit 7", cwd=tmp_path)
    assert sandbox.finish(process, 60, watch=lambda: None) == 7


def test_finish_ends_what_is_not_over_in_time(sandbox: Sandbox, tmp_path: Path) -> None:
    process = start(sandbox, "sleep", "1000", cwd=tmp_path)
    assert sandbox.finish(process, 0.01, watch=lambda: None) is None
    assert process.poll() is not None


def test_finish_ends_the_command_when_the_watcher_gives_up(sandbox: Sandbox, tmp_path: Path) -> None:
    def cancelled() -> None:
        raise Cancelled("enough")

    process = start(sandbox, "sleep", "1000", cwd=tmp_path)
    with pytest.raises(Cancelled):
        sandbox.finish(process, 60, watch=cancelled)
    assert process.poll() is not None


def test_kill_after_the_end(sandbox: Sandbox, tmp_path: Path) -> None:
    process = start(sandbox, "true", cwd=tmp_path)
    assert process.wait() == 0
    sandbox.kill(process)
    assert process.returncode == 0


def test_the_number_of_a_command_that_has_ended_is_signalled_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be another process's by then."""
    ended: list[int] = []
    monkeypatch.setattr(supervisor, "end_descendants", ended.append)
    sandbox = Limits("this is a test")
    process = start(sandbox, "true", cwd=tmp_path)
    process.wait()
    sandbox.end()
    assert ended == []


def test_many_ends_leave_no_descriptor_behind(sandbox: Sandbox, tmp_path: Path) -> None:
    output(sandbox, "true", cwd=tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        output(sandbox, "true", cwd=tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_outlives_the_thread_that_started_it(sandbox: Sandbox, tmp_path: Path) -> None:
    started: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(target=lambda: started.append(start(sandbox, "cat", cwd=tmp_path, stdin=subprocess.PIPE)))
    thread.start()
    thread.join()
    assert started[0].communicate(b"still here")[0] == b"still here"
    assert started[0].returncode == 0


def test_starts_in_a_forked_process(sandbox: Sandbox, tmp_path: Path) -> None:
    """A worker forks after it has used the sandbox; threads do not come along."""
    output(sandbox, "true", cwd=tmp_path)
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom minimizer.sandbox import Bubblewrap, Limits, Unconfined\n"
        "sandbox = {'bubblewrap': Bubblewrap, 'limits': lambda: Limits('x'), 'off': Unconfined}[sys.argv[1]]()\n"
        "go = lambda: sandbox.start(['true'], cwd=Path('/'), read=(), write=(), env={'PATH': os.defpath}).wait()\n"
        "assert go() == 0\n"
        "if os.fork() == 0:\n    os._exit(go())\n"
        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    subprocess.run([PYTHON, "-W", "ignore", "-c", script, sandbox.name], check=True, timeout=60)


def test_environment_and_folder(sandbox: Sandbox, tmp_path: Path) -> None:
    environment = {"PATH": os.defpath, "WORDS": "with spaces\nand lines", "EMPTY": ""}
    script = "import os; print([os.getcwd(), os.environ['WORDS'], os.environ['EMPTY'], 'HOME' in os.environ])"
    seen = output(sandbox, "/usr/bin/env", "python3", "-c", script, cwd=tmp_path, env=environment)
    assert seen == str([str(tmp_path), "with spaces\nand lines", "", False])


def test_a_passed_pipe_works_and_ends_with_the_command(sandbox: Sandbox, tmp_path: Path) -> None:
    """Nobody between us and the command may keep a copy, or we would wait for an end that never comes."""
    reader, writer = os.pipe()
    script = "import os, sys; fd = int(sys.argv[1]); os.write(fd, b'through'); os.close(fd); sys.stdin.read()"
    process = start(
        sandbox,
        *("/usr/bin/env", "python3", "-c", script, str(writer)),
        cwd=tmp_path,
        pass_fds=[writer],
        stdin=subprocess.PIPE,
    )
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert stream.read() == b"through"
    assert process.poll() is None
    process.communicate()
    assert process.returncode == 0


def test_folders_keep_their_paths(tmp_path: Path) -> None:
    outer, inner = tmp_path / "readable", tmp_path / "readable" / "writable"
    inner.mkdir(parents=True)
    (outer / "given").write_text("given")
    script = f"cat {outer}/given; echo made > {inner}/made; touch {outer}/no 2>/dev/null || echo :denied"
    seen = output(Bubblewrap(), "sh", "-c", script, cwd=outer, read=[outer], write=[inner])
    assert seen == "given:denied"
    assert (inner / "made").read_text() == "made\n"


def test_a_file_to_read_in_a_folder_to_write(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('original')")
    seen = output(
        Bubblewrap(),
        "sh",
        "-c",
        f"echo > {script}; cat {script}",
        cwd=tmp_path,
        read=[script],
        stderr=subprocess.DEVNULL,
    )
    assert seen == "print('original')"


def test_a_link_is_seen_under_both_names(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    (real / "file").write_text("found ")
    link.symlink_to(real)
    assert (
        output(Bubblewrap(), "cat", link / "file", real / "file", cwd=Path("/"), read=[link], write=()) == "found found"
    )


def test_shared_memory_works_and_tmp_is_its_own(tmp_path: Path) -> None:
    name = f"{uuid.uuid4()}"  # on any machine, something may be called x
    script = f"echo x > /dev/shm/{name} && echo x > /tmp/{name} && cat /dev/shm/{name} /tmp/{name}"
    assert output(Bubblewrap(), "sh", "-c", script, cwd=tmp_path).split() == ["x", "x"]
    assert not Path("/tmp", name).exists()


@pytest.mark.parametrize("path", ["/", "/proc", "/dev", "/sys", "/missing"])
def test_what_is_never_bound(sandbox: Sandbox, tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidOption, match="cannot be opened to the script"):
        start(sandbox, "true", cwd=tmp_path, read=[Path(path)])


@pytest.mark.usefixtures("detection")
def test_a_sandbox_that_does_not_come_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    with pytest.raises(WorkerTrouble, match="did not come up"):
        start(Bubblewrap(), "true", cwd=tmp_path)


def test_a_command_without_its_limits_never_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(bounds: Bounds) -> dict[str, Any]:
        raise OSError(errno.EMFILE, "too many open files")

    sandbox = Bubblewrap(bounds=Bounds(256 << 20, 64))
    reader, writer = os.pipe()
    with monkeypatch.context() as patch, pytest.raises(OSError, match="too many open files"):
        patch.setattr(cgroup, "_make", fails)
        start(sandbox, "echo", "it runs", cwd=tmp_path, stdout=writer)
    os.close(writer)
    with open(reader) as text:  # noqa: PTH123 - a pipe, which ends with the last process that holds it
        assert text.read() == ""
    assert output(sandbox, "echo", "later", cwd=tmp_path) == "later"


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    for each in ALL[:2]:
        process = start(each, "no-such-command", cwd=tmp_path, stderr=subprocess.PIPE)
        assert b"no-such-command" in process.communicate()[1]
        assert process.returncode != 0


def test_runtime_paths_of_a_virtual_environment(tmp_path: Path) -> None:
    """It works inside, and the folder around it stays closed."""
    home = tmp_path / "project"
    venv.create(home / ".venv", with_pip=False)
    secrets = [home / "secret", home / ".venv" / "pip.conf", home / ".venv" / "minimizer-data" / "minimizer.db"]
    for secret in secrets:
        secret.parent.mkdir(exist_ok=True)
        secret.write_text("hunter2")
    python = home / ".venv" / "bin" / "python"
    paths = runtime_paths(python)
    assert {home / ".venv" / "bin", home / ".venv" / "lib", home / ".venv" / "pyvenv.cfg"} <= set(paths)
    assert not {home / ".venv", home, tmp_path, Path.home(), Path("/")} & set(paths)
    script = "import sys, os, ssl, ctypes; print(sys.prefix, any(map(os.path.exists, sys.argv[1:])))"
    work = tmp_path / "work"
    work.mkdir()
    seen = output(Bubblewrap(), python, "-c", script, *secrets, cwd=work, read=paths)
    assert seen == f"{home / '.venv'} False"


def test_runtime_paths_leave_a_development_install_closed(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    [packages] = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    (packages / "checkout.pth").write_text(f"{checkout}\n")
    python = tmp_path / "env" / "bin" / "python"
    assert (
        str(checkout)
        in subprocess.run(
            [python, "-c", "import sys; print(sys.path)"], capture_output=True, text=True, check=True
        ).stdout
    )
    assert checkout not in runtime_paths(python)


def test_what_torch_imports_is_open_where_it_lies_in_another_environment(tmp_path: Path) -> None:
    """So it is when ``make`` reuses the torch of another virtual environment: what lies beside that torch is not installed again."""
    for name in ("theirs", "ours"):
        venv.create(tmp_path / name, with_pip=False)
    [theirs], [ours] = ((tmp_path / name / "lib").glob("python3*/site-packages") for name in ("theirs", "ours"))
    (theirs / "torch").mkdir()
    (theirs / "torch" / "__init__.py").write_text("import sympy\n")
    (theirs / "sympy.py").write_text("")
    (ours / "reused-torch.pth").write_text(f"{theirs}\n")
    python, work = tmp_path / "ours" / "bin" / "python", tmp_path / "work"
    work.mkdir()
    seen = output(
        Bubblewrap(), python, "-c", "import torch; print(torch.__file__)", cwd=work, read=runtime_paths(python)
    )
    assert seen == str(theirs / "torch" / "__init__.py")


def test_a_torch_that_is_built_in_its_checkout_leaves_the_checkout_closed(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    checkout = tmp_path / "pytorch"
    (checkout / "torch").mkdir(parents=True)
    (checkout / "torch" / "__init__.py").write_text("")
    [packages] = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    (packages / "torch.pth").write_text(f"{checkout}\n")
    paths = runtime_paths(tmp_path / "env" / "bin" / "python")
    assert checkout / "torch" in paths
    assert checkout not in paths


def test_a_compiler_outside_of_the_systems_folders_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what lies around it in its prefix, and no more; also behind a link."""
    prefix, work = tmp_path / "toolset-13", tmp_path / "work"
    for folder in (prefix / "bin", prefix / "libexec", work):
        folder.mkdir(parents=True)
    (prefix / "libexec" / "cc1plus").write_text("inner part")
    (prefix / "token").write_text("hunter2")
    compiler = prefix / "bin" / "g++-13"
    compiler.write_text(f'#!/bin/sh\ncat {prefix}/libexec/cc1plus {prefix}/token; echo " $0"\n')
    compiler.chmod(0o755)
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "c++"
    link.symlink_to(Path("..") / "toolset-13" / "bin" / "g++-13")
    monkeypatch.setenv("CXX", str(link))
    paths = runtime_paths(PYTHON)
    assert {prefix / "bin", prefix / "libexec", link} <= set(paths)
    assert not {prefix, tmp_path} & set(paths)
    seen = output(Bubblewrap(), "sh", "-c", f"{link} 2>/dev/null", cwd=work, read=paths)
    assert seen.startswith("inner part")
    assert "hunter2" not in seen
    monkeypatch.delenv("CXX")
    assert link not in runtime_paths(PYTHON)


def test_a_launcher_leads_to_the_interpreter(tmp_path: Path) -> None:
    shim = tmp_path / "python"
    shim.write_text(f'#!/bin/sh\nexec {PYTHON} "$@"\n')
    shim.chmod(0o755)
    assert real_interpreter(shim) == PYTHON


def test_a_torch_without_bytecode_is_noticed(tmp_path: Path) -> None:
    """As uv installs it, or as it is when an environment was copied."""
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", tmp_path], check=True)
    packages = next(tmp_path.glob("lib/python*/site-packages"))
    source = packages / "torch" / "__init__.py"
    source.parent.mkdir()
    source.write_text("")

    def found(name: str) -> Path | None:
        python = tmp_path / "bin" / name  # each is asked only once
        if not python.exists():
            python.symlink_to("python")
        return without_bytecode(python)

    assert found("python") == packages
    subprocess.run([PYTHON, "-m", "compileall", "-q", packages], check=True)
    assert found("compiled") is None
    os.utime(source, (0, 0))
    assert found("copied") == packages
    subprocess.run([PYTHON, "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash", packages], check=True)
    assert found("hashed") is None


def test_what_is_no_interpreter(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match=r"runs: No such file or directory\. Name another one\."):
        runtime_paths(tmp_path / "python")
    with pytest.raises(MissingTool, match="its output is not that of a Python interpreter"):
        runtime_paths(Path("/usr/bin/true"))


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("exit 3", "exit status 3"),
        ("echo \"python: invalid option -- 'E'\" >&2; echo 'Try --help.' >&2; exit 2", "python: invalid option -- 'E'"),
        (f"exec {PYTHON} -c 'import nothing_like_it'", "ModuleNotFoundError: No module named 'nothing_like_it'"),
    ],
)
def test_why_it_is_no_interpreter_is_said_without_our_code(tmp_path: Path, says: str, why: str) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    with pytest.raises(MissingTool) as refused:
        real_interpreter(program)
    assert str(refused.value) == f"{program} is not a Python interpreter that runs: {why}. Name another one."


@pytest.mark.quality("slow")
def test_inductor_compiles_inside(tmp_path: Path) -> None:
    """With no environment but PATH and the caches: user name, compiler, linker and cores are all found."""
    script = (
        "import torch\nx = torch.randn(8)\ny = torch.compile(lambda x: torch.relu(x) + 1)(x)\n"
        "assert torch.equal(y, torch.relu(x) + 1)\nprint('compiled')"
    )
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    seen = output(
        Bubblewrap(4 << 30),
        PYTHON,
        "-c",
        script,
        cwd=tmp_path,
        env=environment,
        read=runtime_paths(PYTHON),
    )
    assert seen == "compiled"
    assert list((tmp_path / "cache").rglob("*.so"))
