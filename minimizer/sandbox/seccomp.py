"""The filter of system calls under which every sandboxed command runs: the parts of the kernel that no script needs.

A namespace changes which objects a call reaches, not how much kernel code it runs, and bugs are in rarely used code. Refused are the
calls that containers refuse by default, and those that need a capability no sandbox has. The filter is classic BPF, as seccomp(2)
takes it: a sequence of tests, each with its own answer.
"""

from __future__ import annotations

import errno
import socket
import struct

from minimizer.sandbox.syscall_numbers import Architecture

DENIED = {
    # Kernel interfaces that many exploits have used; io_uring could also make calls that this filter refuses.
    "io_uring_setup": errno.ENOSYS, "io_uring_enter": errno.ENOSYS, "io_uring_register": errno.ENOSYS,
    "userfaultfd": errno.EPERM, "bpf": errno.EPERM, "perf_event_open": errno.EPERM, "fanotify_init": errno.EPERM,
    "modify_ldt": errno.EPERM, "memfd_secret": errno.ENOSYS,
    # Objects that no namespace isolates.
    "keyctl": errno.EPERM, "add_key": errno.EPERM, "request_key": errno.EPERM, "syslog": errno.EPERM,
    # Other processes of the job, the zygote among them.
    "ptrace": errno.EPERM,
    # Mounts and namespaces. clone3 hides its flags from a filter; without it, programs fall back to clone.
    "mount": errno.EPERM, "umount2": errno.EPERM, "pivot_root": errno.EPERM, "setns": errno.EPERM,
    "open_tree": errno.EPERM, "open_tree_attr": errno.EPERM, "move_mount": errno.EPERM, "mount_setattr": errno.EPERM,
    "fsopen": errno.EPERM, "fsconfig": errno.EPERM, "fsmount": errno.EPERM, "fspick": errno.EPERM,
    "open_by_handle_at": errno.EPERM, "clone3": errno.ENOSYS,
    # Memory that no process, no descriptor and no mount shows, and that no watch over a job's memory would see.
    "shmget": errno.ENOSYS, "semget": errno.ENOSYS, "msgget": errno.ENOSYS,
    # Could fill the disk at once, before the watch on disk use sees it; posix_fallocate then falls back to slow writes.
    "fallocate": errno.EOPNOTSUPP,
    # The machine itself.
    "kexec_load": errno.EPERM, "kexec_file_load": errno.EPERM, "reboot": errno.EPERM, "init_module": errno.EPERM,
    "finit_module": errno.EPERM, "delete_module": errno.EPERM, "acct": errno.EPERM, "swapon": errno.EPERM,
    "swapoff": errno.EPERM, "quotactl": errno.EPERM, "quotactl_fd": errno.EPERM, "vhangup": errno.EPERM,
    "iopl": errno.EPERM, "ioperm": errno.EPERM,
}  # fmt: skip
"""Refused calls by name, each with the error it returns. ENOSYS for calls whose absence makes programs use a fallback."""
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
"""Allowed socket families, in addition to NETLINK_ROUTE, which gloo and NCCL use to list interfaces. All others fail with
EAFNOSUPPORT, such as AF_VSOCK, which reaches the host of a virtual machine."""
ALLOCATING = (0x40305828, 0x4030582A, 0x40305839)
"""FS_IOC_RESVSP, FS_IOC_RESVSP64 and FS_IOC_ZERO_RANGE: requests of ioctl that do what fallocate does, and fail as it does."""
NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_NEW_TIME = 0x80
"""CLONE_NEWTIME, for unshare only: in clone's flags this bit is part of the signal number."""
_X32 = 0x40000000

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
"""BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_JMP|JSET|K, BPF_RET|K."""
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data. An argument has eight bytes, the low ones first on both processors; the arguments tested here are
32 bits wide to the kernel, too."""


def program(machine: Architecture) -> bytes:
    """The filter for a machine, as ``bwrap --seccomp`` reads it.

    A program of another architecture, such as a 32-bit one, is killed at its first call.
    """
    numbers = machine.numbers
    code = [_load(_ARCHITECTURE), _jump(_EQUAL, machine.audit, 1, 0), _answer(_KILL), _load(_NUMBER)]
    if machine.x32:
        code += _if(_ANY_BIT, _X32, [_answer(_ERRNO | errno.ENOSYS)])
    for name, error in DENIED.items():
        if name in numbers:
            code += _if(_EQUAL, numbers[name], [_answer(_ERRNO | error)])
    for name, flags in (("clone", NEW_NAMESPACES), ("unshare", NEW_NAMESPACES | _NEW_TIME)):
        refused = _if(_ANY_BIT, flags, [_answer(_ERRNO | errno.EPERM)])
        code += _if(_EQUAL, numbers[name], [_load(_ARGUMENTS), *refused, _answer(_ALLOW)])
    code += _if(_EQUAL, numbers["socket"], _sockets())
    code += _if(_EQUAL, numbers["ioctl"], _requests())
    code.append(_answer(_ALLOW))
    return b"".join(code)


def _sockets() -> list[bytes]:
    code = [_load(_ARGUMENTS)]
    for family in FAMILIES:
        code += _if(_EQUAL, family, [_answer(_ALLOW)])
    route = [_load(_ARGUMENTS + 2 * 8), *_if(_EQUAL, socket.NETLINK_ROUTE, [_answer(_ALLOW)])]
    code += _if(_EQUAL, socket.AF_NETLINK, route)
    return [*code, _answer(_ERRNO | errno.EAFNOSUPPORT)]


def _requests() -> list[bytes]:
    code = [_load(_ARGUMENTS + 8)]
    for request in ALLOCATING:
        code += _if(_EQUAL, request, [_answer(_ERRNO | errno.EOPNOTSUPP)])
    return [*code, _answer(_ALLOW)]


def _if(test: int, value: int, then: list[bytes]) -> list[bytes]:
    """Instructions that run ``then`` if the test holds for the value loaded last, and else skip it."""
    return [_jump(test, value, 0, len(then)), *then]


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, 0, 0, offset)


def _jump(test: int, value: int, true: int, false: int) -> bytes:
    return _instruction(test, true, false, value)


def _answer(action: int) -> bytes:
    return _instruction(_RETURN, 0, 0, action)


def _instruction(code: int, true: int, false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, true, false, value)
