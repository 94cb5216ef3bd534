"""The kernel that computes the culprit, among all that a repro has."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from minimizer.engine.output_code import marks
from minimizer.engine.output_code.kernels import Kernel, kernels_in
from minimizer.engine.output_code.trace import NODE, Graph
from minimizer.report.generated_code import GeneratedCode
from minimizer.report.safe_markdown import without_folders

MOST_CHARS, MOST_LINES = 20_000, 500
"""Of a kernel that a report shows, and of its ATen graph."""
MOST_OTHERS = 5
BESIDE = marks.SAYS_NOTHING | marks.CASTS
"""Operators that may stand beside the culprit in a kernel that computes nothing else."""


@dataclass(frozen=True)
class Candidate:
    """A kernel of a graph, with the ATen nodes that it computes: those of the culprit, and the others."""

    graph: Graph
    kernel: Kernel
    own: frozenset[str]
    others: frozenset[str]
    is_named: bool
    """Whether it says itself that it is made of the culprit."""
    errors: tuple[int, ...]

    @property
    def packets(self) -> tuple[set[str], set[str]]:
        """The ATen operators of both, such as ``mul``."""
        calls = self.graph.calls
        own, others = ({packet_of(calls[n]) for n in nodes if n in calls} for nodes in (self.own, self.others))
        return own, others


def choose(
    graphs: Sequence[Graph], operators: Collection[str], *, is_backward: bool, output: str = ""
) -> GeneratedCode | None:
    """The kernel of the culprit; None where no kernel can be told to be it.

    Args:
        graphs: all of the repro.
        operators: the culprit's, as aten packets (``aten.relu``).
        is_backward: whether a gradient is wrong.
        output: what the repro has printed, with what a C++ compiler may have said.
    """
    names = frozenset(name.rpartition(".")[2] for name in operators)
    names |= {f"{name}_backward" for name in names} | ({"threshold_backward"} if "relu" in names else set())
    every = [one for graph in graphs for one in _candidates(graph, names, output)]
    found = [one for one in every if one.is_named or one.own or one.errors] or (every if len(every) == 1 else [])
    if not found:
        return None

    def rank(one: Candidate) -> tuple[bool, bool, bool, bool]:
        is_generated = one.kernel.language != "extern"
        return bool(one.errors), (one.graph.phase == "backward") == is_backward, is_generated, one.is_named

    first = max(found, key=rank)  # the first of those that are as good
    alike = [one.kernel.name for one in found if rank(one)[1:] == rank(first)[1:] and one is not first]
    others = [name for name in dict.fromkeys(alike) if name != first.kernel.name]
    return _described(first, names, others[:MOST_OTHERS])


def packet_of(call: str) -> str:
    """``mul`` of ``torch.ops.aten.mul.Tensor``; of other calls the last part, ``gelu`` of ``torch._C._nn.gelu``."""
    parts = call.split(".")
    return parts[3] if call.startswith("torch.ops.") and len(parts) > 3 else parts[-1].strip("_")


def _candidates(graph: Graph, names: frozenset[str], output: str) -> list[Candidate]:
    """The kernels of a graph, with what they have of the culprit."""
    calls, kernels, found = graph.calls, kernels_in(graph.code), list[Candidate]()
    stripped = {name.strip("_") for name in names}
    for kernel in kernels:
        became = graph.became or kernel.became
        computed = graph.computed.get(kernel.name) or frozenset[str]().union(*kernel.became.values())
        if not computed and len(kernels) == 1:
            computed = frozenset(calls)  # a single kernel computes all
        traced = (nodes for node, nodes in became.items() if packet_of(graph.traced.get(node, "")) in stripped)
        own = computed & {*(node for node, call in calls.items() if packet_of(call) in names)}.union(*traced)
        is_named = bool(names & kernel.made_of) or any(f"_{name}_" in f"_{kernel.fused}_" for name in names)
        errors = marks.errors_in(kernel.code, output) if kernel.language == "cpp" else []
        found.append(Candidate(graph, kernel, own, computed - own, is_named, tuple(errors)))
    return found


def _described(one: Candidate, names: frozenset[str], others: list[str]) -> GeneratedCode:
    kernel, graph = one.kernel, one.graph
    lines, why = _marked(one, names)
    code, first = _shown(kernel)
    aten = _cut(graph.aten)
    nodes = [NODE.match(line) for line in aten.split("\n")]
    return GeneratedCode(
        language=kernel.language,
        phase=graph.phase,
        kernel=kernel.name,
        code=code,
        marked=[line - first for line in lines if 0 < line - first <= code.count("\n") + 1],
        why_marked=why,
        aten=aten,
        aten_marked=[number for number, node in enumerate(nodes, 1) if node is not None and node[1] in one.own],
        others=others,
    )


def _marked(one: Candidate, names: frozenset[str]) -> tuple[list[int], str]:
    """Lines of the kernel, and why they are marked; or why none is."""
    kernel = one.kernel
    if kernel.language == "extern":
        return [], ""
    if one.errors:
        return list(one.errors), "the C++ compiler rejects what is marked"
    own, others = one.packets
    if _is_all(one, names):
        if lines := marks.all_of(kernel.code, kernel.language, names):
            return lines, "the kernel computes nothing but the culprit"
    elif lines := marks.told_apart(kernel.code, kernel.language, own, others):
        return lines, f"written as {' or '.join(sorted(own - others))} is, and as nothing else in the kernel"
    return [], "what computes the culprit cannot be told from the rest of the kernel"


def _is_all(one: Candidate, names: frozenset[str]) -> bool:
    """Whether a kernel computes nothing but the culprit, by what it is made of."""
    kernel, allowed = one.kernel, names | BESIDE
    if kernel.made_of:
        return kernel.made_of <= allowed
    listed = "|".join(map(re.escape, sorted(allowed, key=len, reverse=True)))
    return re.fullmatch(rf"(?:{listed})(?:_(?:{listed}))*", kernel.fused) is not None


def _shown(kernel: Kernel) -> tuple[str, int]:
    """The source for a reader, and how many lines of it are left out at the top: imports, headers and hints to the autotuner."""
    lines = kernel.code.split("\n")
    begins = "@triton.jit" if kernel.language == "triton" else 'extern "C"' if kernel.language == "cpp" else ""
    first = next((number for number, line in enumerate(lines) if begins and line.startswith(begins)), 0)
    return _cut("\n".join(lines[first:])), first


def _cut(text: str) -> str:
    """Text without the folders of the machine, as long as a report may have it."""
    lines = [without_folders(line) for line in text[:MOST_CHARS].rstrip().split("\n")]
    return "\n".join("".join(c for c in line if c.isprintable() or c == "\t") for line in lines[:MOST_LINES])
