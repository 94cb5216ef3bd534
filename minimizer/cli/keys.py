"""Keys that are pressed while a job runs, on a terminal that is ours."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

LOOK_SECONDS = 0.2
"""How often it is looked whether to end, or whether the terminal is ours by now."""


def are_heard() -> bool:
    """Whether keys can be read one by one: standard input is a terminal, and we are in its foreground."""
    return sys.stdin is not None and sys.stdin.isatty() and _is_ours(sys.stdin.fileno())


@contextmanager
def pressed(on_key: Callable[[str], None]) -> Iterator[None]:
    """Call ``on_key`` from a thread with each pressed key inside, if keys are readable. Ctrl-C keeps its meaning."""
    if not are_heard():
        yield
        return
    import termios
    import tty

    terminal, ended = sys.stdin.fileno(), threading.Event()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSANOW)
    thread = threading.Thread(target=_listen, args=(terminal, ended, on_key), name="keys", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if _is_ours(terminal):  # else we would be stopped for it
            with suppress(termios.error):
                termios.tcsetattr(terminal, termios.TCSANOW, before)


def _listen(terminal: int, ended: threading.Event, on_key: Callable[[str], None]) -> None:
    while not ended.is_set():
        ready, _, _ = select.select([terminal], [], [], LOOK_SECONDS)
        if not ready or ended.is_set():
            continue
        if not _is_ours(terminal):
            ended.wait(LOOK_SECONDS)
            continue
        try:
            key = os.read(terminal, 1)
        except OSError:
            return
        if not key:  # hung up
            return
        on_key(key.decode("ascii", errors="replace"))


def _is_ours(terminal: int) -> bool:
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
