"""The headline of a job's page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from minimizer.store import Job
from minimizer.vocabulary import Status
from web.job_page.verdict import verdict


@pytest.mark.parametrize(
    ("more", "title"),
    [
        ({}, "The compiled code returns tensors of another dtype, shape, stride or aliasing"),
        ({"layout_only": False}, "The compiled code returns tensors of another dtype, shape, stride or aliasing"),
        ({"layout_only": True}, "Values equal, memory layout differs"),
    ],
)
def test_another_memory_layout_is_the_headline(more: dict[str, Any], title: str) -> None:
    failure = {"kind": "wrong_metadata", **more}
    job = SimpleNamespace(status=Status.MINIMIZED, failure=failure, summary="", cancel_requested=False)
    assert verdict(cast(Job, job)).title == title
