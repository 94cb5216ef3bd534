"""Messages between the torch-free side and the child: both sides have the same words and the same fields."""

from __future__ import annotations

import json

from minimizer.engine.child import protocol
from minimizer.inside import outcome
from minimizer.inside.tasks.requests import LayersRequest, ScriptRequest, TrialRequest

OURS = {protocol.Ending.CRASH, protocol.Ending.TIMEOUT, protocol.Ending.LOST}
"""Of a process that cannot speak for itself."""


def test_the_child_says_nothing_that_is_not_understood() -> None:
    assert {word.value for word in outcome.Ending} == {word.value for word in set(protocol.Ending) - OURS}
    fields = set(outcome.Outcome.__dataclass_fields__)
    assert fields <= set(protocol.Outcome.model_fields)


def test_an_outcome_arrives_as_it_was_sent() -> None:
    sent = outcome.Outcome.of_error(outcome.Ending.EAGER_ERROR, ValueError("no"))
    sent.writes, sent.values = [1], {"a": "b"}

    got = protocol.parse(protocol.Outcome, json.loads(json.dumps(sent.to_message())))

    assert (got.ending, got.writes, got.values) == ("eager_error", [1], {"a": "b"})
    assert got.exception is not None
    assert (got.exception.type, got.exception.message) == ("ValueError", "no")


def test_a_request_takes_its_own_fields_and_leaves_the_zygotes() -> None:
    request = ScriptRequest.read(
        {"id": 3, "timeout": 5, "text": None, "script": "a.py", "args": ["-v"], "compile": False}
    )

    assert request == ScriptRequest(text=None, script="a.py", args=["-v"], compile=False)


def test_a_table_of_layers_is_asked_for_like_a_trial() -> None:
    trial = {"setup": "", "source": "", "name": "f", "inputs": [], "golden_files": [], "compile_kwargs": ""}
    region = {"function": "g", "inputs": ["x"], "outputs": ["y"], "returned": 1, "judged": True}
    table = {"regions": [region], "outputs": ["y"], "observed": None, "skip": []}

    request = LayersRequest.read({**trial, "grad": True, "tolerance": None, **table})

    assert isinstance(request, TrialRequest)
    assert (request.regions[0].function, request.regions[0].judged, request.threads) == ("g", True, 1)
