"""What a script gives to threads and pools, written as calls."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent

import pytest
from one_pass import reduced

from minimizer.engine.reduce.python import threads

AFTER = """
    import threading
    worker = threading.Thread(target=serve, args=(1,), kwargs={'most': 2}, daemon=True)
    worker.start()
    requests.put(3)
    worker.join(timeout=5)
"""
LISTED = """
    from threading import Thread
    workers = [Thread(None, step, 'worker', (n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
"""
POOL = """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(f, x, scale=2) for x in xs]
        rows = [future.result() for future in futures]
        first = pool.submit(f, 0).result()
        rest = list(pool.map(g, xs))
        pool.map(g, ys)
"""


@pytest.mark.parametrize(
    ("text", "needs", "expected"),
    [
        (AFTER, ["serve"], "import threading\nrequests.put(3)\nserve(1, most=2)"),
        (AFTER, ["serve(1, most=2)\nrequests"], "import threading\nserve(1, most=2)\nrequests.put(3)"),
        (AFTER, ["worker.start"], dedent(AFTER).strip()),
        (
            "from threading import Thread\nThread(target=f).start()\nThread(target=f, args=given).start()",
            [],
            "from threading import Thread\nf()\nThread(target=f, args=given).start()",
        ),
        (
            LISTED,
            ["step"],
            "from threading import Thread\nfor n in range(4):\n    step(n)",
        ),
        (f"{dedent(LISTED)}print(workers)", ["step"], f"{dedent(LISTED).strip()}\nprint(workers)"),
        (
            POOL,
            ["f(", "g"],
            "from concurrent.futures import ThreadPoolExecutor\nfutures = [f(x, scale=2) for x in xs]\n"
            "rows = [future for future in futures]\nfirst = f(0)\nrest = list(map(g, xs))\n[*map(g, ys)]",
        ),
        (
            "from concurrent import futures\npool = futures.ThreadPoolExecutor()\nout = pool.submit(f)\npool.shutdown()",
            ["f"],
            "from concurrent import futures\nout = f()",
        ),
        ("rows = pool.map(f, xs)\nx = y.result()", [], "rows = pool.map(f, xs)\nx = y.result()"),
    ],
)  # fmt: skip
def test_what_a_thread_would_do_is_called(text: str, needs: Sequence[str], expected: str) -> None:
    assert reduced(text, threads.calls, needs) == expected
