"""Ten thousand requests that are wrong in some way, by a seed, and what the web server makes of them.

    python benchmarks/malformed.py                   # all: half a minute on an idle machine
    python benchmarks/malformed.py --requests 500    # the first of them

None may be answered with 5xx, but for the 501 that HTTP asks for where a transfer coding is not known; the server may not take more than
300 MiB, and no temporary file may be left. Exits with 1 where that does not hold.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import socket
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from soak import process
from stage import Stage, stage

SEED = 20261125
LOOKS = 10
MOST_MIB = 300
NOT_IMPLEMENTED = "501"
LET_GO_SECONDS = 30.0
"""For the server to end the connections whose request never came to its end."""
PATHS = (
    "/", "/jobs", "/api/v1/jobs", "/api/v1/batches", "/api/v1/jobs/0", "/api/v1/jobs/%00", "/api/v1/failures/x", "/jobs/../../etc",
    "/api/v1/webhooks", "/static/../web/wsgi.py", "/api/v1/jobs/0/artifacts/..%2f..", "/metrics", "/login", "/openapi/openapi.json",
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "FOO", "get")
JUNK = (
    "",
    "\0",
    "a" * 5000,
    "-1",
    "1e999",
    "NaN",
    "\U0001d54f",
    "\ud800",
    "'; --",
    "{{7*7}}",
    "../../etc/passwd",
    "%s%n",
    "<script>",
    "\r\nX: y",
)
VALUES: tuple[Any, ...] = (None, True, -1, 10**400, 1.5, [], {}, [[]] * 50, *JUNK)
FIELDS = ("script", "filename", "options", "force", "priority", "project", "jobs", "archive", "main")
SCRIPT = b"import torch\ntorch.compile(lambda x: x)(torch.ones(2))\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000, help="default 10000")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="minimizer-malformed-") as folder, stage("sqlite", reap_seconds=1000) as on:
        web = on.start_web(TMPDIR=folder).pid
        found = measure(on, web, arguments.requests)
        deadline = time.monotonic() + LET_GO_SECONDS
        while (left := open_files(web, Path(folder))) and time.monotonic() < deadline:
            time.sleep(0.5)
        found |= {"temporary files left": left, "load": os.getloadavg()[0]}
    print(json.dumps(found, indent=1))
    return int(bool(found["5xx"] or left or max(found["mib"]) > MOST_MIB))


def measure(on: Stage, web: int, count: int) -> dict[str, Any]:
    """Send them one after the other."""
    draw = random.Random(SEED)
    statuses: Counter[str] = Counter()
    wrong: list[str] = []
    mib = [process(web)["mib"]]
    for number in range(count):
        kind = draw.choice(KINDS)
        request = kind(draw)
        status = ask(on, request)
        statuses[status] += 1
        if status.startswith("5") and status != NOT_IMPLEMENTED:
            wrong.append(f"{number} {kind.__name__} {status} {request[:300]!r}")
        if (number + 1) % max(1, count // LOOKS) == 0:
            mib.append(process(web)["mib"])
    return {"requests": count, "statuses": dict(sorted(statuses.items())), "5xx": wrong, "mib": mib}


def ask(on: Stage, request: bytes) -> str:
    """The status of an answer; ``none`` where the server waits for more, or has hung up."""
    with socket.create_connection((on.settings.host, on.settings.port), timeout=60) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            line = connection.makefile("rb").readline(200)
        except OSError:
            return "none"
    parts = line.split()
    return parts[1].decode() if len(parts) > 1 else "none"


def open_files(web: int, folder: Path) -> int:
    """Files in the folder for temporary ones, those among them that have no name any more."""
    named = len(list(folder.iterdir()))
    targets = [one.readlink() for one in Path("/proc", str(web), "fd").iterdir() if one.is_symlink()]
    return named + sum(target.is_relative_to(folder) for target in targets)


def message(draw: random.Random, path: str, body: bytes, kind: str, **headers: str) -> bytes:
    """A request in order, but for what it carries."""
    lines = {
        "Host": "127.0.0.1",
        "Content-Type": kind,
        "Content-Length": str(len(body)),
        "Connection": "close",
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return (
        f"{draw.choice(METHODS) if draw.random() < 0.1 else 'POST'} {path} HTTP/1.1\r\n{head}\r\n".encode(
            errors="replace"
        )
        + body
    )


def noise(draw: random.Random) -> bytes:
    return draw.randbytes(draw.randrange(1, 4000)) + b"\r\n\r\n"


def bad_line(draw: random.Random) -> bytes:
    path = (
        draw.choice(PATHS)
        + "?"
        + "&".join(f"{draw.choice(JUNK)}={draw.choice(JUNK)}" for _ in range(draw.randrange(4)))
    )
    version = draw.choice(("HTTP/1.1", "HTTP/1.0", "HTTP/9.9", "HTTP", ""))
    host = draw.choice(("127.0.0.1", "evil.example", "", "127.0.0.1\r\nHost: localhost"))
    text = f"{draw.choice(METHODS)} {path} {version}\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    return text.encode(errors="replace")


def bad_length(draw: random.Random) -> bytes:
    length = draw.choice(
        ("-1", "1e3", "abc", "99999999999999999999", "0x10", "5, 6", "", str(draw.randrange(1, 99999)))
    )
    more = draw.choice(
        ({}, {"Transfer-Encoding": "chunked"}, {"Transfer-Encoding": "gzip, chunked"}, {"Expect": "junk"})
    )
    return message(draw, "/api/v1/jobs", b"{}", "application/json", **{"Content-Length": length, **more})


def bad_header(draw: random.Random) -> bytes:
    name = draw.choice(
        (
            "Accept",
            "Authorization",
            "Cookie",
            "Idempotency-Key",
            "Range",
            "If-None-Match",
            "Origin",
            "X Y",
            "Last-Event-ID",
        )
    )
    value = draw.choice((*JUNK, "x" * 40_000, "Bearer " + "y" * 3000, "bytes=9-1", "session=%00"))
    return message(draw, draw.choice(PATHS), b"", "text/plain", **{name: value})


def bad_json(draw: random.Random) -> bytes:
    valid: dict[str, Any] = {"script": SCRIPT.decode(), "filename": "a.py", "options": {"budget": 60}}
    for _ in range(draw.randrange(1, 4)):
        valid[draw.choice(FIELDS)] = draw.choice(VALUES)
    texts = (
        json.dumps(valid),
        json.dumps(valid)[: draw.randrange(100)],
        "[" * draw.choice((10, 5000, 100_000)),
        '{"options": ' + '{"a":' * 2000,
        json.dumps({"jobs": [valid] * draw.randrange(1, 300)}),
        json.dumps(draw.choice(VALUES)),
    )
    kind = draw.choice(("application/json", "application/json", "text/plain", "application/json; charset=utf-16", "x"))
    return message(
        draw, draw.choice(("/api/v1/jobs", "/api/v1/batches")), draw.choice(texts).encode(errors="replace"), kind
    )


def bad_script(draw: random.Random) -> bytes:
    texts = (
        b"",
        b"\xff\xfe",
        b"\0",
        b"def f(:",
        b"(" * 5000,
        b"x = " + b"-" * 20_000 + b"1",
        b"a;" * 40_000,
        bytes(2 << 20),
        draw.randbytes(500),
    )
    return upload(draw, draw.choice(texts), draw.choice(("a.py", "..", "a\0.py", "../a.py", "x" * 5000, "", "a.zip")))


def bad_archive(draw: random.Random) -> bytes:
    buffer = io.BytesIO()
    how = draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(buffer, "w", how) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Duplicate name")
        for _ in range(draw.randrange(1, 6)):
            file.writestr(
                draw.choice(("main.py", "../x.py", "/etc/x", "a/b.py", "a", "lib//x", "é.py")),
                draw.choice((SCRIPT, b"", bytes(1 << 20))),
            )
    content = bytearray(buffer.getvalue())
    for _ in range(draw.randrange(0, 8)):
        content[draw.randrange(len(content))] = draw.randrange(256)
    return upload(draw, bytes(content[: draw.choice((len(content), draw.randrange(len(content))))]), "a.zip")


def upload(draw: random.Random, content: bytes, filename: str) -> bytes:
    """A form with a file, whose own structure may be wrong as well."""
    ends = draw.choice(("--\r\n", "--\r\n", "", "\r\n"))
    part = f'--b\r\nContent-Disposition: form-data; name="script"; filename="{filename}"\r\n\r\n'
    fields = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{draw.choice(FIELDS)}"\r\n\r\n{draw.choice(JUNK)}\r\n'
        for _ in range(draw.randrange(3))
    )
    body = (fields + part).encode(errors="replace") + content + f"\r\n--b{ends}".encode()
    kind = draw.choice(
        ("multipart/form-data; boundary=b",) * 4 + ("multipart/form-data", "multipart/form-data; boundary=" + "c" * 300)
    )
    return message(draw, draw.choice(("/api/v1/jobs", "/jobs", "/api/v1/batches")), body, kind)


def half(draw: random.Random) -> bytes:
    """Any of the others, broken off."""
    whole = draw.choice(KINDS[:-1])(draw)
    return whole[: draw.randrange(1, len(whole))]


KINDS: tuple[Callable[[random.Random], bytes], ...] = (
    noise, bad_line, bad_length, bad_header, bad_json, bad_script, bad_archive, half,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
