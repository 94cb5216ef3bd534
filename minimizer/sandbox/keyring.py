"""A kernel keyring for each sandbox: namespaces do not isolate keyrings, and a process inherits that of its session.

Otherwise a script could read the keys of the operator's session (Kerberos tickets, keys of encrypted folders), and keys
left by an earlier job.
"""

from __future__ import annotations

import errno

from minimizer.errors import WorkerTrouble
from minimizer.sandbox import syscall_numbers

_JOIN_SESSION_KEYRING = 1
_NO_KEYRINGS = (errno.ENOSYS, errno.EPERM, errno.EACCES)
"""Errors of a kernel without keyrings, or in a container that forbids them to us and so to all our children."""


def join_new_session() -> None:
    """Give the calling thread, and processes it starts from now on, a new, empty session keyring. Other threads keep theirs.

    Raises:
        WorkerTrouble: the kernel refuses a further keyring.
    """
    machine = syscall_numbers.architecture()
    if machine is None:
        return
    try:
        syscall_numbers.call(machine.numbers["keyctl"], _JOIN_SESSION_KEYRING, None)
    except OSError as error:
        if error.errno not in _NO_KEYRINGS:
            raise WorkerTrouble(f"the sandbox did not come up: no keyring of its own can be made ({error})") from None
