"""What a line of the log shows of an exception."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from minimizer.service import logs
from minimizer.settings import Settings


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_tracebacks_hold_no_local_variables(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Settings(log_format=log_format))

    def sign_in(password: str) -> None:
        raise OSError("the database is away")

    try:
        sign_in("-".join(["correct", "horse"]))
    except OSError:
        logging.getLogger("web").exception("request failed")
    told = capsys.readouterr().err
    assert "request failed" in told and "Traceback" in told and "OSError: the database is away" in told
    assert "correct-horse" not in told


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_nothing_that_is_logged_forges_a_line_or_commands_a_terminal(
    log_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(Settings(log_format=log_format))
    forged = "2026-01-01T00:00:00Z [info     ] forged"
    hostile = f"\x1b[2J\x9b2J\r\u202e\u2028\n{forged}\n{{}}"

    with structlog.contextvars.bound_contextvars(job=hostile):
        logging.getLogger("web").error("no such path: %s", hostile)
        try:
            raise ValueError(hostile)
        except ValueError:
            logging.getLogger("web").exception("request failed")

    told = capsys.readouterr().err
    assert "forged" in told and not set(told) & set("\x1b\x9b\r\u202e\u2028")
    begun = [line for line in told.splitlines() if not line.startswith("  ")]
    assert len(begun) == 2, "one for each record"
    assert all(first in line for first, line in zip(("no such path", "request failed"), begun, strict=True))
