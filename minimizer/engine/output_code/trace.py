"""Reads a structured trace (``TORCH_TRACE``): the graphs for which Inductor generated code.

A record is a line (glog's prefix, then JSON with one key, its type), and a payload of lines indented by a tab. Of the
records in torch 2.11 to 2.15 these are read: ``dynamo_output_graph``, ``inductor_post_grad_graph`` and
``inductor_provenance_tracking_node_mappings`` (both originally artifacts of that name), and ``inductor_output_code``.
All of it comes from the sandbox: records of another form are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from minimizer.report.generated_code import Phase

HEAD = re.compile(r"^(?:\[rank\d+\]:\s*)?[VDIWEC]\d{4} [\d:.]+ \d+ [^\]\n]{1,500}\] (\{.*\})$")
MOST_GRAPHS = 64
AOT_ID = re.compile(r"^# AOT ID: \['\d+_(forward|backward|inference)'\]", re.MULTILINE)
NODE = re.compile(r'^\s*(\w+)(?:: "[^"\n]*")? = ([\w.]+)\(')
PHASES: dict[str, Phase] = {"forward": "forward", "backward": "backward"}


@dataclass
class Graph:
    """A graph for which Inductor generated code.

    ``aten`` is the text of its ATen graph, ``calls`` maps that graph's nodes to their targets
    (``torch.ops.aten.mul.Tensor``). ``traced`` maps the nodes of Dynamo's graph to their targets, ``became`` each of
    them to its ATen nodes, and ``computed`` each kernel to the ATen nodes that it computes. The last two are empty if
    torch does not record them: for a backward, or if a kernel does not compile.
    """

    code: str
    aten: str = ""
    traced: Mapping[str, str] = field(default_factory=dict)
    became: Mapping[str, frozenset[str]] = field(default_factory=dict)
    computed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def phase(self) -> Phase:
        """Whether it is a forward, a backward, or has none."""
        found = AOT_ID.search(self.code)
        return PHASES.get(found[1], "inference") if found else "inference"

    @cached_property
    def calls(self) -> dict[str, str]:
        """The targets of the ATen graph's nodes."""
        return calls_in(self.aten)


def graphs_in(text: str) -> list[Graph]:
    """The graphs of a trace, in the order in which code was generated for them."""
    found, aten, traced = list[Graph](), "", dict[str, str]()
    for name, payload in _records(text):
        if name == "dynamo_output_graph":
            traced = calls_in(payload)
        elif name == "inductor_post_grad_graph":
            aten = payload
        elif name == "inductor_output_code":
            if len(found) == MOST_GRAPHS:
                break
            found.append(Graph(payload, aten, traced))
            aten = ""
        elif name == "inductor_provenance_tracking_node_mappings" and found and not found[-1].computed:
            _add_mappings(found[-1], payload)
    return found


def calls_in(graph: str) -> dict[str, str]:
    """The target of each node in a graph written by ``print_readable``."""
    return {found[1]: found[2] for line in graph.splitlines() if (found := NODE.match(line))}


def _records(text: str) -> Iterator[tuple[str, str]]:
    """Names and payloads of all records."""
    name, payload = "", list[str]()
    for line in text.split("\n"):
        if line.startswith("\t"):
            payload.append(line[1:])
        elif (head := HEAD.match(line)) is not None:
            yield name, "\n".join(payload)
            name, payload = _name(head[1]), []
    yield name, "\n".join(payload)


def _name(head: str) -> str:
    """The type of a record; for an artifact its name."""
    data = _json(head)
    name = next(iter(data), "")
    artifact = data.get("artifact")
    return str(artifact.get("name", "")) if name == "artifact" and isinstance(artifact, dict) else name


def _add_mappings(graph: Graph, payload: str) -> None:
    data = _json(payload)
    graph.became = _sets(data.get("preToPost"))
    # A kernel that is called twice is listed twice, with a number after its name.
    merged: dict[str, frozenset[str]] = {}
    for handle, nodes in _sets(data.get("cppCodeToPost")).items():
        kernel = re.sub(r":\d+$", "", handle)
        merged[kernel] = merged.get(kernel, frozenset()) | nodes
    graph.computed = merged


def _sets(data: Any) -> dict[str, frozenset[str]]:
    items = data.items() if isinstance(data, dict) else ()
    return {name: frozenset(map(str, nodes)) for name, nodes in items if isinstance(nodes, list)}


def _json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
