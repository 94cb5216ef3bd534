"""Calls that the filter refuses, and families of sockets: with arguments that are harmless where they are made."""

from __future__ import annotations

CALL = """
    import ctypes, errno, sys
    libc = ctypes.CDLL(None, use_errno=True)
    number, *arguments = map(int, sys.argv[1:])
    made = libc.syscall(number, *map(ctypes.c_void_p, arguments))
    print("made" if made >= 0 else errno.errorcode[ctypes.get_errno()])
"""
SOCKET = """
    import errno, socket, sys
    try:
        socket.socket(*map(int, sys.argv[1:]))
        print("made")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
NEWUSER, NEWTIME = 0x10000000, 0x80
NO_DESCRIPTOR = 2**64 - 1
REFUSED = {
    "io_uring_setup": ((1, 0), "ENOSYS"),
    "io_uring_enter": ((NO_DESCRIPTOR, 0, 0, 0, 0, 0), "ENOSYS"),
    "io_uring_register": ((NO_DESCRIPTOR, 0, 0, 0), "ENOSYS"),
    "userfaultfd": ((1,), "EPERM"),
    "bpf": ((0, 0, 0), "EPERM"),
    "perf_event_open": ((0, 0, NO_DESCRIPTOR, NO_DESCRIPTOR, 0), "EPERM"),
    "fanotify_init": ((0x200, 0), "EPERM"),
    "memfd_secret": ((0,), "ENOSYS"),
    "modify_ldt": ((0, 0, 0), "EPERM"),
    "keyctl": ((0, 2**64 - 3, 1), "EPERM"),
    "add_key": ((0, 0, 0, 0, 0), "EPERM"),
    "request_key": ((0, 0, 0, 0), "EPERM"),
    "ptrace": ((0, 0, 0, 0), "EPERM"),
    "fsopen": ((0, 0), "EPERM"),
    "fsconfig": ((NO_DESCRIPTOR, 0, 0, 0, 0), "EPERM"),
    "open_tree": ((NO_DESCRIPTOR, 0, 0), "EPERM"),
    "mount": ((0, 0, 0, 0, 0), "EPERM"),
    "setns": ((NO_DESCRIPTOR, 0), "EPERM"),
    "unshare": ((NEWUSER,), "EPERM"),
    "clone3": ((0, 0), "ENOSYS"),
    "kexec_load": ((0, 0, 0, 0), "EPERM"),
    "fallocate": ((NO_DESCRIPTOR, 0, 0, 1), "ENOTSUP"),
    "shmget": ((0, 4096, 0o600), "ENOSYS"),
    "semget": ((0, 1, 0o600), "ENOSYS"),
    "msgget": ((0, 0o600), "ENOSYS"),
    "quotactl": ((0, 0, 0, 0), "EPERM"),
    "quotactl_fd": ((NO_DESCRIPTOR, 0, 0, 0), "EPERM"),
}
"""Each call with arguments that are harmless where it is made, and the error that the filter gives."""
REFUSED_ANYWAY = {"perf_event_open", "fsopen", "fsconfig", "open_tree", "mount", "unshare", "kexec_load", "quotactl", "bpf", "fanotify_init",
                  "memfd_secret", "modify_ldt", "userfaultfd"}  # fmt: skip
"""Calls that a kernel may refuse by itself in the same words, by its configuration, or since no sandbox has a capability."""
FAMILIES = {
    "netfilter": (16, 3, 12),
    "packet": (17, 3, 0),
    "key": (15, 3, 2),
    "alg": (38, 5, 0),
    "vsock": (40, 1, 0),
    "xdp": (44, 3, 0),
}
"""Arguments of socket(2) by family."""
