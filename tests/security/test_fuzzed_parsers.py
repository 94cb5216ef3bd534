"""Whatever comes from outside as a message, a script or an archive: it is taken, or refused as it should be, and nothing else.

``FUZZ_SECONDS=120`` asks for new examples for so long; by default each is asked a hundred times.
"""

from __future__ import annotations

import ast
import io
import json
import os
import time
import warnings
import zipfile
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from checkout import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minimizer.engine.child import protocol, wire
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.outcome import Outcome
from minimizer.engine.child.sent_program import parse_program
from minimizer.engine.output_code.choose import choose
from minimizer.engine.output_code.trace import graphs_in
from minimizer.errors import Busy, ChildFailed, InvalidScript
from minimizer.report.generated_code import blocks
from minimizer.script_text import check_script
from minimizer.service import archive

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
pytestmark = pytest.mark.timeout(300 + 2 * SECONDS)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
MODELS = [Outcome, protocol.Finished, protocol.Held, protocol.MadeCalls, protocol.End, protocol.Ready]
META = {"shape": [2], "dtype": "torch.float32", "stride": [1], "device": "cpu", "requires_grad": False}
NODE = {"name": "y", "target": "torch.relu", "args": [{"ref": "x"}], "kwargs": {}, "meta": META}
PROGRAM = {"inputs": [{"name": "x", "meta": META, "golden": "x"}], "nodes": [NODE], "outputs": ["y"], "functions": [],
           "level": "dynamo", "setup": [], "compile_kwargs": {}, "grad": False}  # fmt: skip
TOKENS = st.sampled_from(["def f(x):\n", "class A:\n ", "    ", "\n", "(", ")", "[", "]", "{", "}", "'", '"""', "f'{", "\\", "\t", ";", ":",
                          "=", "lambda ", "async ", "await ", "match x:\n case ", "try:\n", "finally:\n", "0x", "1e999", "a.b", "*", "@", "\0", "\ufeff"])  # fmt: skip
NAMES = st.sampled_from(["main.py", "a.py", "lib/b.py", "lib", "../x", "/x", "a//b", "é.py", "x" * 300]) | st.text(
    min_size=1, max_size=30
)
TRACES = [path.read_text() for path in sorted((ROOT / "tests/unit/engine/output_code/traces").glob("*.log"))]
PIECES = st.text(max_size=20) | st.sampled_from(
    ["\n", "\n\t", "'''", '"""', "] {", "async_compile.triton(", "# AOT ID", " = ", "tmp0", "aten."]
)
slow_is_fine = settings(suppress_health_check=list(HealthCheck))


def for_as_long_as_asked(examples: Callable[[], None]) -> Callable[[], None]:
    """Run a property's examples once, or again and again until the time that was asked for is over."""

    @wraps(examples, assigned=("__name__", "__doc__", "__module__"), updated=())
    def test() -> None:
        until = time.monotonic() + SECONDS
        examples()
        while time.monotonic() < until:
            examples()

    del test.__wrapped__  # or pytest takes what hypothesis fills in for fixtures
    return test


@st.composite
def changed(draw: st.DrawFn, base: Any) -> Any:
    """A message with something else in one place of it."""
    copy = json.loads(json.dumps(base))
    place = copy
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or draw(st.booleans()):
            place[key] = draw(JSON)
            return copy
        place = place[key]


@for_as_long_as_asked
@slow_is_fine
@given(st.binary(max_size=500) | JSON.map(lambda value: json.dumps(value).encode()))
def test_a_line_of_the_child(line: bytes) -> None:
    message = wire.parse(line)
    assert message is None or isinstance(message["id"], int)


@for_as_long_as_asked
@slow_is_fine
@given(st.sampled_from(MODELS), st.data())
def test_a_message_of_the_child(model: Any, data: st.DataObject) -> None:
    names = st.sampled_from(list(model.model_fields))
    message = data.draw(JSON | st.dictionaries(names, JSON, max_size=6))
    try:
        assert isinstance(parse(model, message), model)
    except ChildFailed as refused:
        assert str(refused)


@for_as_long_as_asked
@slow_is_fine
@given(changed(PROGRAM) | JSON)
def test_a_graph_of_the_child(message: Any) -> None:
    try:
        assert parse_program(message).outputs is not None
    except ChildFailed as refused:
        assert str(refused)


@for_as_long_as_asked
@slow_is_fine
@given(
    st.binary(max_size=2000)
    | st.lists(TOKENS | st.text(max_size=10), max_size=60).map(
        lambda parts: "".join(parts).encode("utf-8", "surrogatepass")
    )
)
def test_a_script(content: bytes) -> None:
    try:
        text = check_script(content, "a.py")
    except (InvalidScript, Busy) as refused:
        assert str(refused)
    else:
        compile(text, "a.py", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)


@for_as_long_as_asked
@slow_is_fine
@given(
    st.lists(st.tuples(NAMES, st.binary(max_size=200)), max_size=6),
    st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=8),
    st.integers(0, 10**6),
)
def test_an_archive(entries: list[tuple[str, bytes]], how: int, flips: list[tuple[int, int]], cut: int) -> None:
    content = zipped(entries, how)
    for place, value in flips:
        content[place % len(content)] = value
    packed = bytes(content[: cut if cut < len(content) else None])
    try:
        files = archive.read(packed)
    except InvalidScript as refused:
        assert str(refused)
    else:
        assert all(isinstance(data, bytes) for data in files.values())
        assert sum(map(len, files.values())) <= archive.MAX_BYTES


def zipped(entries: list[tuple[str, bytes]], how: int) -> bytearray:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", how) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Duplicate name")
        for name, content in entries:
            file.writestr(zipfile.ZipInfo(name.replace("\0", "0") or "0"), content, how)
    return bytearray(buffer.getvalue())


@for_as_long_as_asked
@slow_is_fine
@given(
    st.sampled_from(TRACES),
    st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 200), PIECES), max_size=8),
    st.sampled_from(["relu", "_softmax", "gelu", "mm", "cos"]),
    st.booleans(),
)
def test_a_trace_of_the_compiler(
    trace: str, changes: list[tuple[int, int, str]], operator: str, backward: bool
) -> None:
    for at, length, piece in changes:
        trace = trace[:at] + piece + trace[at + length :]
    found = choose(graphs_in(trace), [f"aten.{operator}"], is_backward=backward, blamed=["tanh"], output=trace[-5000:])
    if found is not None:
        assert all(0 < line <= len(found.code.split("\n")) for line in found.marked)
        assert all(0 < line <= len(found.aten.split("\n")) for line in found.aten_marked)
        assert len(found.code) + len(found.aten) <= 40_000 and blocks(found)
