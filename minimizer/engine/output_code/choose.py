"""Chooses the kernel that computes the culprit among all kernels of a repro."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from minimizer.engine.output_code import marks
from minimizer.engine.output_code.kernels import Kernel, kernels_in
from minimizer.engine.output_code.trace import NODE, Graph
from minimizer.report.generated_code import GeneratedCode
from minimizer.report.safe_markdown import without_folders

MOST_CHARS, MOST_LINES = 20_000, 500
"""Most characters and lines of a kernel, and of its ATen graph, in a report."""
MOST_OTHERS = 5
NOISE = re.compile(r";  (?:\w+ = )+None$|^ *# No stacktrace found for following nodes\n", re.MULTILINE)
"""Matches uninformative parts of a graph: deletions of names, and notes on unknown lines."""
BESIDE = marks.SAYS_NOTHING | marks.ALL_CASTS
"""Operators allowed next to the culprit in a kernel that counts as computing nothing else."""


@dataclass(frozen=True)
class Candidate:
    """A kernel of a graph, with its ATen nodes: those of the culprit, and the others."""

    graph: Graph
    kernel: Kernel
    own: frozenset[str]
    others: frozenset[str]
    is_named: bool
    """Whether its own metadata lists the culprit."""
    errors: tuple[int, ...]

    def packets(self, nodes: Iterable[str]) -> set[str]:
        """The ATen operators of nodes, such as ``mul``."""
        return {packet_of(self.graph.calls[node]) for node in nodes if node in self.graph.calls}

    def blamed(self, operators: Collection[str]) -> Candidate:
        """The same, narrowed to the part of the culprit to blame, if it has several."""
        of_both = self.own | self.others
        wrong = {node for node in of_both if self.packets([node]) & set(operators)}
        return replace(self, own=frozenset(wrong), others=of_both - wrong) if wrong else self


def choose(
    graphs: Sequence[Graph],
    operators: Collection[str],
    *,
    is_backward: bool,
    blamed: Collection[str] = (),
    output: str = "",
) -> GeneratedCode | None:
    """The kernel of the culprit; None if no kernel can be identified.

    Args:
        graphs: all of the repro.
        operators: the culprit's, as aten packets (``aten.relu``).
        is_backward: whether a gradient is wrong.
        blamed: ATen operators with blamed lowerings, such as ``tanh``: the rest of the culprit's decomposition may be
            right.
        output: the output of the repro, perhaps with errors of a C++ compiler.
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

    first = max(found, key=rank)  # the first of equally ranked ones
    alike = [one.kernel.name for one in found if rank(one)[1:] == rank(first)[1:] and one is not first]
    others = [name for name in dict.fromkeys(alike) if name != first.kernel.name]
    return _described(first, names, blamed, others[:MOST_OTHERS])


def packet_of(call: str) -> str:
    """``mul`` of ``torch.ops.aten.mul.Tensor``; of other calls the last part, ``gelu`` of ``torch._C._nn.gelu``."""
    parts = call.split(".")
    return parts[3] if call.startswith("torch.ops.") and len(parts) > 3 else parts[-1].strip("_")


def _candidates(graph: Graph, names: frozenset[str], output: str) -> list[Candidate]:
    """The kernels of a graph, with their parts of the culprit."""
    calls, kernels, found = graph.calls, kernels_in(graph.code), list[Candidate]()
    stripped = {name.strip("_") for name in names}
    for kernel in kernels:
        became = graph.became or kernel.became
        computed = graph.computed.get(kernel.name) or frozenset[str]().union(*kernel.became.values())
        if not computed and len(kernels) == 1:
            computed = frozenset(calls)  # a single kernel computes everything
        traced = (nodes for node, nodes in became.items() if packet_of(graph.traced.get(node, "")) in stripped)
        own = computed & {*(node for node, call in calls.items() if packet_of(call) in names)}.union(*traced)
        is_named = bool(names & kernel.made_of) or any(f"_{name}_" in f"_{kernel.fused}_" for name in names)
        errors = marks.errors_in(kernel.code, output) if kernel.language == "cpp" else []
        found.append(Candidate(graph, kernel, own, computed - own, is_named, tuple(errors)))
    return found


def _described(found: Candidate, names: frozenset[str], blamed: Collection[str], others: list[str]) -> GeneratedCode:
    one = found.blamed(blamed)
    kernel, graph = one.kernel, one.graph
    lines, why = _of_blamed(one) if one is not found else ([], "")
    if not lines:
        lines, why = _marked(found, names)
    code, first = _shown(kernel)
    aten = _cut(NOISE.sub("", graph.aten))
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
    """Lines of the kernel with the reason for marking them, or the reason why none are marked."""
    kernel = one.kernel
    if kernel.language == "extern":
        return [], ""
    if one.errors:
        return list(one.errors), "the compiler rejects what is marked"
    if _is_all(one, names):
        if lines := marks.all_of(kernel.code, kernel.language, names):
            return lines, "the kernel computes nothing but the culprit"
    elif (said := _told_apart(one))[0]:
        return said
    return [], "what computes the culprit cannot be told from the rest of the kernel"


def _told_apart(one: Candidate) -> tuple[list[int], str]:
    own, others = one.packets(one.own), one.packets(one.others)
    lines = marks.told_apart(one.kernel.code, one.kernel.language, own, others)
    return lines, f"written as {' or '.join(sorted(own - others))} is, and as nothing else in the kernel"


def _of_blamed(one: Candidate) -> tuple[list[int], str]:
    """The lines of the operators with blamed lowerings, in a kernel that computes others as well."""
    kernel = one.kernel
    if one.errors or kernel.language == "extern" or not one.others:
        return [], ""
    lines, why = _told_apart(one)
    if lines:
        return lines, why
    wrong = ", ".join(sorted(f"aten.{name}" for name in one.packets(one.own)))
    lines = marks.left_over(kernel.code, kernel.language, one.packets(one.others))
    return lines, f"it computes none of the other operators, so that it is {wrong}, whose lowering is to blame"


def _is_all(one: Candidate, names: frozenset[str]) -> bool:
    """Whether a kernel computes nothing but the culprit, according to its operators."""
    kernel, allowed = one.kernel, names | BESIDE
    if kernel.made_of:
        return kernel.made_of <= allowed
    listed = "|".join(map(re.escape, sorted(allowed, key=len, reverse=True)))
    return re.fullmatch(rf"(?:{listed})(?:_(?:{listed}))*", kernel.fused) is not None


def _shown(kernel: Kernel) -> tuple[str, int]:
    """The readable source, and the number of lines dropped at the top: imports, headers and hints to the autotuner."""
    lines = kernel.code.split("\n")
    begins = "@triton.jit" if kernel.language == "triton" else 'extern "C"' if kernel.language == "cpp" else ""
    first = next((number for number, line in enumerate(lines) if begins and line.startswith(begins)), 0)
    return _cut("\n".join(lines[first:])), first


def _cut(text: str) -> str:
    """Text without the machine's folders, shortened for a report."""
    lines = [without_folders(line) for line in text[:MOST_CHARS].rstrip().split("\n")]
    return "\n".join("".join(c for c in line if c.isprintable() or c == "\t") for line in lines[:MOST_LINES])
