"""The table of layers and the graph around the culprit, with local and propagated errors.

Rows are the modules in order of execution, and the nodes near the culprit. The local error is that of a part compiled
in isolation, the propagated one that of the compiled whole. Measured on the localized graph, once there is a repro.
Equal layers share one compilation, so that the cost grows with the number of *different* modules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from minimizer.engine.budget.patience import HALF, LAYER_SECONDS, TABLE_SECONDS
from minimizer.engine.child.outcome import Ending, Figures, Outcome
from minimizer.engine.child.watchdog import crowding
from minimizer.engine.findings import Described
from minimizer.engine.journal import Journal
from minimizer.engine.localize.behind_jumps import cuts
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import signature_of
from minimizer.engine.program import render
from minimizer.engine.program.model import Node, Program
from minimizer.engine.program.regions import Region, common_module
from minimizer.inside.questions import LayersRequest, TableLayer
from minimizer.report.culprit import GraphNode, Layer, LayerVerdict, NonFinite
from minimizer.vocabulary import Kind

MOST_LAYERS = 200
"""Most rows: if there are more modules, they are merged into their parents."""
AROUND, MOST_NODES = 3, 24
"""Most steps from the culprit, and most nodes, of the shown graph."""
MOST_ELEMENTS = 1 << 28
"""Most elements in the inputs and layers of a graph for which a table is made: the child holds them several times."""
ATTEMPTS = 4
"""Most starts of the child, each without the layers in which it died before."""


@dataclass(frozen=True)
class Row:
    """A region and its outcomes, by part (see `minimizer.inside.tasks.layers`)."""

    region: Region
    found: dict[str, Outcome]

    def verdict(self, backward: bool = False) -> LayerVerdict:
        """The verdict: ``bad`` (a root), ``propagated`` (it propagates wrong values), ``good`` or ``unknown``."""
        tail = " backward" if backward else ""
        local, whole = self.found.get(f"local{tail}"), self.found.get(f"whole{tail}")
        if local is not None and signature_of(local) is not None:
            return "bad"
        if whole is not None and whole.ending is Ending.DIFFERENT:
            return "propagated" if local is not None and local.ending is Ending.SAME else "unknown"
        return "good" if local is not None and local.ending is Ending.SAME else "unknown"

    @property
    def fails_only_backward(self) -> bool:
        """Whether only its gradients are wrong on eager's inputs: a fault of its own, whatever is wrong before it."""
        return self.verdict(backward=True) == "bad" and self.verdict() in ("good", "propagated")

    def figures(self, part: str) -> Figures:
        outcome = self.found.get(part)
        return (outcome.figures if outcome else None) or Figures()


@dataclass(frozen=True)
class Table:
    """The rows of a graph.

    ``observed``: whether the compiled whole still fails in the phase at fault (a forward with the values of all layers
    returned); None if unknown.
    """

    rows: tuple[Row, ...]
    observed: bool | None

    def layers(self) -> list[Layer]:
        """The rows of the report: the forward in order of execution, then the backward in its own order."""
        shown = [_layer(row, order, backward=False) for order, row in enumerate(self.rows)]
        behind = [row for row in reversed(self.rows) if any("backward" in part for part in row.found)]
        return shown + [_layer(row, len(shown) + order, backward=True) for order, row in enumerate(behind)]


def describe(
    program: Program,
    oracle: Oracle,
    journal: Journal,
    *,
    culprit: Sequence[str],
    known: Sequence[Layer],
    keep: Callable[[Described], None],
) -> list[Region]:
    """Make the table of layers and the graph around the culprit, each within `TABLE_SECONDS` or half of the time left.

    Args:
        program: the localized graph.
        oracle: judges its parts.
        journal: the job's record, for notes and its clock.
        culprit: names of the nodes at fault.
        known: the layers that localization has judged.
        keep: takes what is known, at each step.

    Returns the regions in which only the backward is wrong.

    Raises:
        BudgetExceeded: the time ended.
        ChildFailed: the child exited.
    """
    found = Described()
    if any(accepted.kind is Kind.HANG for accepted in oracle.accepts):
        return []  # every layer would cost a timeout
    table = tabulate(program, oracle, seconds=min(TABLE_SECONDS * crowding(), HALF * journal.clock.left))
    if table is not None:
        found = replace(found, layers=tuple(_with_known(table.layers(), known)))
        keep(found)
        for note in _doubts(table, program, culprit, oracle):
            journal.note(note)
    seconds = min(TABLE_SECONDS * crowding(), HALF * journal.clock.left)
    keep(replace(found, graph=tuple(neighbourhood(program, culprit, oracle, seconds=seconds))))
    return [row.region for row in (table.rows if table is not None else ()) if row.fails_only_backward]


def _with_known(table: Sequence[Layer], before: Sequence[Layer]) -> list[Layer]:
    """The table, with localization's row for each layer whose verdict it leaves unknown."""
    known = {(layer.path, layer.phase): layer for layer in before if layer.verdict != "unknown"}
    return [
        known[place].model_copy(update={"order": layer.order})
        if layer.verdict == "unknown" and (place := (layer.path, layer.phase)) in known
        else layer
        for layer in table
    ]


def _doubts(table: Table, program: Program, culprit: Sequence[str], oracle: Oracle) -> Iterator[str]:
    """Notes on the limits of the table; none for a flaky failure, of which a single pass proves nothing."""
    if oracle.sequential is not None:
        return
    phases = _phases(program, oracle)
    if table.observed is False:
        seen = (
            "Compiled once more after its layers, the graph has the right gradients."  # layers were not returned here
            if phases == (True,)
            else "With every layer's values returned, the compiled graph does not fail: observing it makes the failure vanish."
        )
        yield f"{seen} The propagated errors of the table are those of a graph that is right."
    places = {index for index, node in enumerate(program.nodes) if node.name in culprit}
    guilty = [row for row in table.rows if not places.isdisjoint(range(row.region.start, row.region.stop))]
    is_bad = any(row.verdict(backward) == "bad" for row in guilty for backward in (False, True))
    is_open = any(row.verdict(backward) == "unknown" for row in guilty for backward in {False, *phases})
    if guilty and not is_bad and not is_open:
        names = ", ".join(dict.fromkeys(row.region.path or "the code outside of modules" for row in guilty))
        yield (
            f"Compiled alone, {names} is right: the failure needs what is around it."
            if len(guilty) == 1
            else f"None of {names} is wrong when compiled alone: the failure needs them together."
        )


def _phases(program: Program, oracle: Oracle) -> tuple[bool, ...]:
    """The phases in which the failure may show: forward (False), backward (True), or both."""
    kinds = {accepted.kind for accepted in oracle.accepts}
    has_backward = program.grad and any(i.meta is not None and i.meta.requires_grad for i in program.inputs)
    if not has_backward or kinds <= {Kind.WRONG_OUTPUT, Kind.MISSING_ERROR}:
        return (False,)
    return (True,) if Kind.WRONG_GRADIENT in kinds else (False, True)


def _observed(whole: dict[str, Outcome], phases: Sequence[bool]) -> bool | None:
    """Whether the compiled whole failed in any of these phases; None if unknown."""
    ends = [whole.get("whole backward" if backward else "whole") for backward in phases]
    unknown = (None, Ending.SETUP_ERROR, Ending.EAGER_ERROR)
    endings = [None if end is None else end.ending for end in ends]
    if any(ending not in (Ending.SAME, *unknown) for ending in endings):
        return True
    return None if any(ending in unknown for ending in endings) else False


def tabulate(program: Program, oracle: Oracle, *, seconds: float) -> Table | None:
    """Judge every module of the graph; None if the graph is too large, or no answer came."""
    program = program.renamed()
    regions = modules(program.nodes)
    return _judged(program, regions, oracle, seconds)


def neighbourhood(program: Program, culprit: Iterable[str], oracle: Oracle, *, seconds: float) -> list[GraphNode]:
    """The graph around the nodes named ``culprit``, each node judged in isolation; empty if it has none of them."""
    places = {node.name: index for index, node in enumerate(program.nodes)}
    centre = {places[name] for name in culprit if name in places}
    near = _near(program, centre)
    if not near:
        return []
    table = _judged(program.renamed(), _singles(program, near), oracle, seconds, judged=near)
    rows = {row.region.start: row for row in table.rows} if table else {}
    shown = {program.nodes[index].name for index in near} | {i.name for i in program.inputs}
    nodes = []
    for index in sorted(near):
        node, row = program.nodes[index], rows.get(index)
        meta = node.meta
        nodes.append(
            GraphNode(
                name=node.name,
                op=node.target.removeprefix("torch.ops.").removeprefix("torch.nn.functional.").removeprefix("."),
                module=node.module,
                shape=f"{meta.dtype.removeprefix('torch.')}[{', '.join(map(str, meta.shape))}]" if meta else "",
                inputs=[name for name in dict.fromkeys(node.refs()) if name in shown and name in places],
                local_error=row.figures("local").max_abs if row else None,
                propagated_error=row.figures("whole").max_abs if row else None,
                verdict=row.verdict() if row else "unknown",
                culprit=index in centre,
            )
        )
    return nodes


def modules(nodes: Sequence[Node]) -> list[Region]:
    """The graph cut by module path, as fine as `MOST_LAYERS` allows."""
    depth = max((len(node.module.split(".")) for node in nodes), default=1)
    while True:
        regions, position = [], 0
        for _, group in groupby(nodes, key=_path(depth)):
            length = len(list(group))
            regions.append(Region(position, position + length, *common_module(nodes[position : position + length])))
            position += length
        if len(regions) <= MOST_LAYERS or depth == 0:
            return regions
        depth -= 1


def _path(depth: int) -> Callable[[Node], list[str]]:
    return lambda node: node.module.split(".")[:depth]


def _near(program: Program, centre: set[int]) -> set[int]:
    """Indices of nodes at most `AROUND` steps from these; the nearest `MOST_NODES` if there are more."""
    places = {node.name: index for index, node in enumerate(program.nodes)}
    users: dict[int, list[int]] = {}
    for index, node in enumerate(program.nodes):
        for name in node.refs():
            if name in places:
                users.setdefault(places[name], []).append(index)
    near = dict.fromkeys(sorted(centre))
    edge = list(near)
    for _ in range(AROUND):
        step = [places[n] for i in edge for n in program.nodes[i].refs() if n in places]
        step += [user for i in edge for user in users.get(i, ())]
        edge = [index for index in dict.fromkeys(step) if index not in near]
        near.update(dict.fromkeys(edge))
    return set(list(near)[:MOST_NODES])


def _singles(program: Program, near: set[int]) -> list[Region]:
    """The graph cut into regions: one for each near node, and one for each run of other nodes between them."""
    regions, position = [], 0
    for index in [*sorted(near), len(program.nodes)]:
        if index > position:
            regions.append(Region(position, index))
        if index < len(program.nodes):
            regions.append(Region(index, index + 1))
        position = index + 1
    return regions


def _judged(
    program: Program,
    regions: Sequence[Region],
    oracle: Oracle,
    seconds: float,
    judged: set[int] | None = None,
) -> Table | None:
    """The table of a program with canonical names; ``judged``: the starts of the regions to compile, all if None."""
    parts = cuts(program, regions, oracle)
    if _elements(program, parts) > MOST_ELEMENTS:
        return None
    request = _request(program, regions, parts, oracle, judged)
    found: dict[int, dict[str, Outcome]] = {}
    stop = time.monotonic() + seconds
    for _ in range(ATTEMPTS):
        left = stop - time.monotonic()
        if left <= 0:
            break
        (outcomes,) = oracle.executor.repeat([replace(request, seconds=left, nice=10)], timeout=left + LAYER_SECONDS)
        for outcome in outcomes:
            if outcome.layer is not None:
                found.setdefault(outcome.layer, {})[outcome.part] = outcome
        died = outcomes[-1]
        if died.layer is not None or died.ending is not Ending.CRASH:
            break
        # The child died in the first layer without an answer; in the compiled whole, if all have one.
        open_ = [i for i, r in enumerate(request.regions) if r.judged and "local" not in found.get(i, {})]
        open_ = [i for i in open_ if request.regions[i].function not in request.skip]
        if not open_:
            if request.observed is None:
                break
            request = replace(request, observed=None)
            continue
        found.setdefault(open_[0], {})["local"] = died
        request = replace(request, skip=[*request.skip, request.regions[open_[0]].function])
    if not found:
        return None
    rows = tuple(Row(region, found.get(index, {})) for index, region in enumerate(regions))
    return Table(rows, _observed(found.get(-1, {}), _phases(program, oracle)))


def _request(
    program: Program,
    regions: Sequence[Region],
    parts: Sequence[Program],
    oracle: Oracle,
    judged: set[int] | None,
) -> LayersRequest:
    request = oracle.request(program)
    families: dict[str, str] = {}
    sources = [request.source]
    listed = []
    for region, part in zip(regions, parts, strict=True):
        form = part.fingerprint(values=False)
        if form not in families:
            families[form] = f"layer_{len(families)}"
            sources.append(render.function(part.renamed(), families[form]))
        listed.append(
            TableLayer(
                function=families[form],
                inputs=[i.name for i in part.inputs],
                outputs=part.outputs,
                returned=len(_tensors(part)),
                judged=judged is None or region.start in judged,
            )
        )
    observed = [*program.outputs, *(name for part in parts for name in _tensors(part))]
    sources.append(render.function(replace(program, outputs=tuple(observed)), "observed"))
    whole = replace(request, source="\n\n".join(sources))
    return LayersRequest(**vars(whole), outputs=program.outputs, regions=listed, observed="observed", skip=())


def _elements(program: Program, parts: Sequence[Program]) -> int:
    metas = program.metas
    names = [i.name for i in program.inputs] + [name for part in parts for name in part.outputs]
    return sum(meta.numel for name in names if (meta := metas.get(name)) is not None)


def _tensors(part: Program) -> list[str]:
    """The outputs of a part that are tensors, not tuples of them."""
    metas = part.metas
    return [name for name in part.outputs if metas[name] is not None]


def _layer(row: Row, order: int, *, backward: bool) -> Layer:
    tail = " backward" if backward else ""
    local, whole = row.figures(f"local{tail}"), row.figures(f"whole{tail}")
    lost = whole.nonfinite or local.nonfinite
    return Layer(
        path=row.region.path,
        cls=row.region.module_class,
        order=order,
        phase="backward" if backward else "forward",
        local_error=local.max_abs,
        propagated_error=whole.max_abs,
        required_atol=local.required_atol,
        required_rtol=local.required_rtol,
        compiled_vs_fp64=local.compiled_vs_fp64,
        eager_vs_fp64=local.eager_vs_fp64,
        cosine=local.cosine,
        nonfinite=NonFinite(side=lost.side, what=lost.what, index=lost.index) if lost else None,
        verdict=row.verdict(backward),
    )
