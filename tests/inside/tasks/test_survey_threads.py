"""Threads of a script: waited for, held, and heard one at a time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from children import script, survey
from surveyed import BACKENDS, finished

from minimizer.engine.child.executor import Executor
from minimizer.inside.wire import Channel


def test_threads_that_python_would_wait_for_are_waited_for(child: Executor, home: Path) -> None:
    text = """
        import concurrent.futures
        import threading
        import time
        import torch

        pool = concurrent.futures.ThreadPoolExecutor(1)
        pool.submit(print)  # its thread ends with the interpreter only

        def work():
            time.sleep(1)
            torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(3))

        threading.Thread(target=work).start()
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    """
    assert finished(survey(child, script(home, text))).checked.calls == 1


def test_threads_that_speak_at_once_speak_in_turns() -> None:
    outgoing, incoming = os.pipe()
    channel = Channel(outgoing, incoming)
    text = "x" * 100_000  # more than a pipe takes at once
    threads = [threading.Thread(target=channel.send, args=({"from": n, "text": text},)) for n in range(8)]
    for thread in threads:
        thread.start()
    heard = [channel.receive() for _ in threads]
    for thread in threads:
        thread.join()
    assert sorted(message["from"] for message in heard if message and message["text"] == text) == list(range(8))
    os.close(incoming)
    os.close(outgoing)


def test_a_call_that_a_thread_holds_outlives_the_script(child: Executor, home: Path) -> None:
    text = (
        BACKENDS
        + """
import threading, time

def work():
    torch.compile(lambda x: x + 1, backend=wrong)(torch.ones(3))

threading.Thread(target=work, daemon=True).start()
time.sleep(DELAY)
"""
    )
    found = survey(child, script(home, text.replace("DELAY", "10")))
    assert found.held is not None, found.finished
    assert found.held.failure.kind == "wrong_output"
    assert found.program("aot").level == "aot"
    found.close()
