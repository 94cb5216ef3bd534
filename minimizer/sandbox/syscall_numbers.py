"""Numbers of the system calls that Python has no function for, and of those that the filter names."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """System call numbers and calling convention of a processor.

    ``audit`` is the AUDIT_ARCH number of the calling convention; ``x32``: a second convention shares it, whose call numbers have
    bit 30 set.
    """

    audit: int
    numbers: Mapping[str, int]
    x32: bool = False


_X86_64 = {
    "ioctl": 16, "shmget": 29, "socket": 41, "clone": 56, "semget": 64, "msgget": 68, "ptrace": 101, "syslog": 103, "vhangup": 153, "modify_ldt": 154, "pivot_root": 155,
    "acct": 163, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "iopl": 172,
    "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "unshare": 272, "fallocate": 285, "perf_event_open": 298, "fanotify_init": 300,
    "open_by_handle_at": 304, "setns": 308, "finit_module": 313, "kexec_file_load": 320,
    "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
_AARCH64 = {
    "ioctl": 29, "umount2": 39, "mount": 40, "pivot_root": 41, "fallocate": 47, "vhangup": 58, "quotactl": 60, "acct": 89, "unshare": 97,
    "kexec_load": 104, "init_module": 105, "delete_module": 106, "syslog": 116, "ptrace": 117, "reboot": 142,
    "msgget": 186, "semget": 190, "shmget": 194, "socket": 198, "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "swapon": 224, "swapoff": 225,
    "perf_event_open": 241, "fanotify_init": 262, "open_by_handle_at": 265, "setns": 268,
    "finit_module": 273, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip
_SHARED = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "mount_setattr": 442,
    "quotactl_fd": 443, "memfd_secret": 447, "open_tree_attr": 467,
}  # fmt: skip
"""Calls with the same number on all processors, as all since Linux 5.1."""

ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, {**_X86_64, **_SHARED}, x32=True),
    "aarch64": Architecture(0xC00000B7, {**_AARCH64, **_SHARED}),
}
"""Architectures by machine name, as in ``uname -m``."""


def architecture() -> Architecture | None:
    """The architecture of this machine; None if its numbers are not known here."""
    return ARCHITECTURES.get(platform.machine())


def call(number: int, *arguments: int | None) -> int:
    """Make a system call by number.

    Raises:
        OSError: the call failed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    words = [ctypes.c_void_p(argument) for argument in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *words))
    if result == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
