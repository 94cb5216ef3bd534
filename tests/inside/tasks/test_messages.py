"""Messages between the torch-free side and the child: both sides have the same words and the same fields."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any

import pytest
import torch

from minimizer.engine.child import outcome as answers
from minimizer.engine.child import protocol, trouble
from minimizer.engine.child.bounded import Loose, parse
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.errors import ChildFailed
from minimizer.inside import failures, messages, outcome, wire
from minimizer.inside.questions import LayersRequest, ScriptRequest, TrialRequest
from minimizer.inside.referee.verdict import Verdict
from minimizer.inside.rulings import Ruling, Unlike
from minimizer.inside.values.boundary import Difference
from minimizer.inside.wire import Said, plain

OURS = {Ending.CRASH, Ending.TIMEOUT, Ending.LOST}
"""Of a process that cannot speak for itself."""
FILLED_IN = {"Outcome": {"log", "parts", "phase", "places", "seconds", "signal", "stacks"}}
"""What is known of an answer that the child does not say."""
NO_MODEL = (Said, messages.Broken)
"""The base, and a sentence that is read by whoever waits for a child to be ready."""
SAID = [
    kind
    for kind in (outcome.Outcome, failures.ExceptionInfo, *vars(messages).values())
    if inspect.isclass(kind) and dataclasses.is_dataclass(kind) and kind not in NO_MODEL
]


@pytest.mark.parametrize("kind", dict.fromkeys(SAID))
def test_each_message_has_a_model_of_its_name_and_its_fields(kind: Any) -> None:
    fields = {field.name for field in dataclasses.fields(kind)}
    model = getattr(answers, kind.__name__, None) or getattr(protocol, kind.__name__)
    assert fields == set(model.model_fields) - FILLED_IN.get(kind.__name__, set())


@pytest.mark.parametrize(("model", "kind"), [(answers.Verdict, Verdict), (answers.Difference, Difference)])
def test_what_is_read_of_a_verdict_is_sent(model: type[Loose], kind: Any) -> None:
    assert set(model.model_fields) <= {field.name for field in dataclasses.fields(kind)}


def test_a_verdict_arrives_as_it_was_sent() -> None:
    shared = Difference("output", "wrong_metadata", "aliasing", "", "", unlike=Unlike.CLASS, actual_alias="input[0]")
    verdict = Verdict(True, "wrong_output", Ruling.CASTS, "a cast", differences=[shared], eager_error=float("inf"))
    sent = outcome.Outcome(outcome.Ending.DIFFERENT, verdict=verdict)

    got = parse(Outcome, json.loads(json.dumps(plain(sent)))).verdict

    assert got is not None
    assert (got.fault, got.kind, got.eager_error, got.compiled_error) == (True, "wrong_output", float("inf"), None)
    assert (got.rule, got.why) == (Ruling.CASTS, "a cast")
    (difference,) = got.differences
    assert (difference.unlike, difference.expected_alias, difference.actual_alias) == (Unlike.CLASS, "", "input[0]")


def test_a_ruling_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ChildFailed, match="malformed Verdict"):
        parse(answers.Verdict, {"rule": "exact: every producer is exact"})


def test_the_words_of_an_ending_are_the_same() -> None:
    assert {word.value for word in outcome.Ending} == {word.value for word in set(Ending) - OURS}


def test_an_outcome_arrives_as_it_was_sent() -> None:
    sent = outcome.Outcome.of_error(outcome.Ending.EAGER_ERROR, ValueError("no"))
    sent.writes, sent.values = [1], {"a": "b"}

    got = parse(Outcome, json.loads(json.dumps(plain(sent))))

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
    assert (request.regions[0].function, request.regions[0].judged, request.threads) == ("g", True, None)


def test_a_process_and_its_exceptions_run_out_of_gpu_memory_in_the_same_words() -> None:
    """The child has an exception, and compares its type; a process that died has left text."""
    assert failures.OUT_OF_MEMORY.pattern in trouble.GPU_FULL.pattern
    assert failures.device_error(torch.OutOfMemoryError("no")) == trouble.OUT_OF_MEMORY
    assert trouble.GPU_FULL.search("torch.OutOfMemoryError: no")
    assert (failures.LOST, wire.FAILED) == (trouble.CONTEXT_LOST, trouble.OWN_CODE)
