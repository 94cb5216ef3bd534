"""What the requests of `contract.py` need beyond the document: texts of its formats, and ids of what there is. Loaded by schemathesis."""

from __future__ import annotations

import itertools
import os
from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis.core.parameters import ParameterLocation

JOB, SIGNATURE = os.environ["CONTRACT_JOB"], os.environ["CONTRACT_SIGNATURE"]
PYTHON = st.integers(0, 10**6).map("x = {}".format)
_numbers = itertools.count()

schemathesis.openapi.format("python", PYTHON)
schemathesis.openapi.format("binary", PYTHON)  # a file is any bytes to a schema, and a script to us
schemathesis.openapi.format("project", st.just("default"))
schemathesis.openapi.format("cursor", st.just("YmVmb3JlIDc"))


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Let half of the requests for a job, or for a group, be for the one that there is; and none wait for a job that never ends."""
    number = next(_numbers)
    if case.method != "DELETE" and number % 2:
        known = {"job_id": JOB, "signature": SIGNATURE}
        case.path_parameters = {name: known.get(name, value) for name, value in (case.path_parameters or {}).items()}
    if isinstance(case.query, dict) and "wait" in case.query:
        case.query = {**case.query, "wait": 0} if _is_positive(case.query["wait"]) else case.query
    # Legal in its body: illegal headers may come out as ones that no schema forbids.
    body = case.meta.components.get(ParameterLocation.BODY) if case.meta is not None else None
    is_legal = body is not None and body.mode is schemathesis.GenerationMode.POSITIVE
    if case.media_type == "multipart/form-data" and is_legal and {"script", "archive"} & case.body.keys():
        # One of the two, which schemathesis does not see; and an archive is a zip file, which no schema says.
        rest = {name: value for name, value in case.body.items() if name not in ("archive", "main")}
        case.body = {**rest, "script": "x = 1"}
    if "Idempotency-Key" in (case.headers or {}):  # each its own: one that was used before has an answer of its own
        case.headers["Idempotency-Key"] = f"{case.headers['Idempotency-Key'][:100]}-{number}"


def _is_positive(value: Any) -> bool:
    try:
        return float(value) > 0
    except (TypeError, ValueError):
        return False
