"""The filter of system calls, run by an interpreter of its own for both processors. On the kernel: tests/security/test_system_calls.py."""

from __future__ import annotations

import errno
import json
import re
import socket
import struct
import termios
from pathlib import Path

import pytest
import yaml

from minimizer.sandbox import seccomp
from minimizer.sandbox.syscall_numbers import ARCHITECTURES, Architecture

ALLOW, KILL = 0x7FFF0000, 0x80000000
I386 = 0x40000003
CLONE_VM, CLONE_THREAD, CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWTIME = 0x100, 0x10000, 0x10000000, 0x20000, 0x80
SIGCHLD = 17


@pytest.fixture(params=sorted(ARCHITECTURES))
def machine(request: pytest.FixtureRequest) -> Architecture:
    return ARCHITECTURES[request.param]


def refuses(error: int) -> int:
    return 0x00050000 | error


def verdict(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """What a filter returns for a call: classic BPF, as far as filters of ours go."""
    data = struct.pack("=IIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    code = list(struct.iter_unpack("=HBBI", program))
    at = loaded = 0
    while True:
        operation, true, false, value = code[at]
        at += 1
        match operation:
            case 0x20:
                [loaded] = struct.unpack_from("=I", data, value)
            case 0x15:
                at += true if loaded == value else false
            case 0x45:
                at += true if loaded & value else false
            case 0x06:
                return value
            case _:
                raise AssertionError(f"{operation:#x} is no instruction that is used here")


def answer(machine: Architecture, name: str, *arguments: int) -> int:
    return verdict(seccomp.program(machine), machine.audit, machine.numbers[name], *arguments)


def test_what_is_refused_and_how(machine: Architecture) -> None:
    names = [name for name in seccomp.DENIED if name in machine.numbers]
    assert len(names) >= 30
    for name in names:
        assert answer(machine, name, 0xFFFFFFFF) == refuses(seccomp.DENIED[name])
    assert {answer(machine, name) for name in ("bpf", "keyctl", "ptrace", "mount")} == {refuses(errno.EPERM)}
    assert {answer(machine, name) for name in ("io_uring_setup", "clone3")} == {refuses(errno.ENOSYS)}


def test_everything_else_is_let_through(machine: Architecture) -> None:
    filtered = set(machine.numbers.values())
    program = seccomp.program(machine)
    assert {verdict(program, machine.audit, number) for number in range(500) if number not in filtered} == {ALLOW}


def test_no_number_is_there_twice(machine: Architecture) -> None:
    assert len(set(machine.numbers.values())) == len(machine.numbers)


def test_another_calling_convention_is_killed_and_x32_is_not_there() -> None:
    program = seccomp.program(ARCHITECTURES["x86_64"])
    assert verdict(program, I386, 20) == KILL
    assert verdict(program, ARCHITECTURES["aarch64"].audit, 20) == KILL
    assert verdict(program, ARCHITECTURES["x86_64"].audit, 0x40000000 | 39) == refuses(errno.ENOSYS)


def test_threads_and_processes_are_made_but_no_namespaces(machine: Architecture) -> None:
    assert answer(machine, "clone", CLONE_VM | CLONE_THREAD) == ALLOW
    assert answer(machine, "clone", SIGCHLD) == ALLOW
    assert answer(machine, "unshare", 0x400) == ALLOW  # CLONE_FILES
    for name in ("clone", "unshare"):
        for flag in (CLONE_NEWUSER, CLONE_NEWNS):
            assert answer(machine, name, flag | SIGCHLD) == refuses(errno.EPERM)
    assert answer(machine, "unshare", CLONE_NEWTIME) == refuses(errno.EPERM)
    assert answer(machine, "clone", CLONE_NEWTIME) == ALLOW


def test_families_of_sockets(machine: Architecture) -> None:
    allowed = {family for family in range(50) if answer(machine, "socket", family, socket.SOCK_STREAM, 0) == ALLOW}
    assert allowed == {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}
    assert answer(machine, "socket", socket.AF_VSOCK) == refuses(errno.EAFNOSUPPORT)


def test_interfaces_are_listed_and_nothing_else_is_asked_through_netlink(machine: Architecture) -> None:
    protocols = range(25)
    asked = {each: answer(machine, "socket", socket.AF_NETLINK, socket.SOCK_RAW, each) for each in protocols}
    assert asked == {each: ALLOW if each == socket.NETLINK_ROUTE else refuses(errno.EAFNOSUPPORT) for each in protocols}


def test_ioctl_allocates_no_disk_and_does_all_else(machine: Architecture) -> None:
    space_resv = struct.calcsize("@hhqqiI4i")
    write = 1 << 30 | space_resv << 16 | ord("X") << 8
    for number in (40, 42, 57):  # FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE
        for above in (0, 0xFFFFFFFF << 32):  # the kernel reads 32 bits
            assert answer(machine, "ioctl", 3, above | write | number) == refuses(errno.EOPNOTSUPP)
    for request in (termios.TCGETS, termios.FIONREAD, write | 41, write | 43):  # FS_IOC_UNRESVSP gives space back
        assert answer(machine, "ioctl", 3, request) == ALLOW
    assert answer(machine, "ioctl", write | 42, termios.TCGETS) == ALLOW


ROOT = Path(__file__).parents[3]
OF_WORKERS = {"mount", "umount2", "pivot_root", "clone3", "fallocate"}
"""What bubblewrap and databases call, and so has to be let through around a worker."""


def test_the_profile_of_containers_refuses_what_the_filter_does() -> None:
    profile = json.loads((ROOT / "deploy" / "seccomp.json").read_text())
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    refused = {name: rule["errnoRet"] for rule in profile["syscalls"] if "args" not in rule for name in rule["names"]}
    assert refused == {name: error for name, error in seccomp.DENIED.items() if name not in OF_WORKERS}
    families = {rule["args"][0]["value"] for rule in profile["syscalls"] if rule["names"] == ["socket"]}
    assert families == {socket.AF_PACKET, socket.AF_ALG, socket.AF_VSOCK}


def test_no_worker_of_compose_is_without_a_filter() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name in ("worker", "worker-gpu"):
        assert "seccomp=./deploy/seccomp.json" in services[name]["security_opt"]


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
"""Of the kernel's interface; 64-bit ARM has the generic one."""


@pytest.mark.parametrize("name", HEADERS)
def test_numbers_are_those_of_the_kernel(name: str) -> None:
    if not HEADERS[name].exists():
        pytest.skip(f"{HEADERS[name]} is not installed")
    defined = dict(re.findall(r"#define __NR_(\w+)\s+(\d+)", HEADERS[name].read_text()))
    numbers = ARCHITECTURES[name].numbers
    assert len(numbers.keys() & defined.keys()) > 30
    assert {call: numbers[call] for call in numbers.keys() & defined.keys()} == {
        call: int(defined[call]) for call in numbers.keys() & defined.keys()
    }
