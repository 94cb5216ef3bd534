"""What a line of the log shows of an exception."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

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
