"""A kernel keyring for each sandbox: namespaces do not hold keyrings, and a process has that of the session it was started in.

A script would otherwise read what the operator's session holds (tickets of Kerberos, keys of encrypted folders), and find what an
earlier job has left.
"""

from __future__ import annotations

import errno

from minimizer.errors import WorkerTrouble
from minimizer.sandbox import syscall_numbers

_JOIN_SESSION_KEYRING = 1
_NO_KEYRINGS = (errno.ENOSYS, errno.EPERM, errno.EACCES)
"""Errors of a kernel without keyrings, and of a container that forbids them to us, and so to all that we start."""


def join_new_session() -> None:
    """Give the calling thread, and what it starts from now on, a new and empty session keyring. Other threads keep theirs.

    Raises:
        WorkerTrouble: there can be no further one.
    """
    machine = syscall_numbers.architecture()
    if machine is None:
        return
    try:
        syscall_numbers.call(machine.numbers["keyctl"], _JOIN_SESSION_KEYRING, None)
    except OSError as error:
        if error.errno not in _NO_KEYRINGS:
            raise WorkerTrouble(f"the sandbox did not come up: no keyring of its own can be made ({error})") from None
