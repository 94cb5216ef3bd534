"""Signed errors of a script's graphs: recorded calls are rerun on both sides and in double precision.

A graph with biased results is then taken apart: each of its nodes is compiled separately and judged on the values of
the same calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_leaves

from ..compiler.backend_place import Compile, Compiled, take_place
from ..failures import describe
from ..graph.modules import module_of
from ..messages import StackLine
from ..outcome import Ending, Outcome
from ..places import place_of
from ..questions import ErrorsRequest
from ..referee.bias import LEAST_CALLS, Bias, Sample, bias, sample
from ..referee.call import Call, Side
from ..referee.distance import same_bits
from ..referee.reruns import Reruns
from ..values import snapshot
from ..values.boundary import places
from ..values.capturing import is_capturing
from ..watch.captured import CapturedGraph
from ..watch.largest import maker_of, op_of
from ..wire import Channel, Message
from .training import Training

Run = Callable[[Call], Side]
MOST_FOUND = 20
MOST_NODES = 200
"""Most nodes of a graph to compile separately."""


def signed_errors(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer an `ErrorsRequest` with one `Outcome`, whose ``errors`` are biased results.

    ``examined`` is the extent of the search.
    """
    request = ErrorsRequest.read(message)
    kept = KeptCalls(request)

    def finish(error: BaseException | None = None) -> None:
        kept.end()
        found, examined = _examined(kept, time.monotonic() + request.examining)
        outcome = Outcome(Ending.SAME, errors=found, examined=asdict(examined))
        if error is not None:
            outcome = replace(outcome, ending=Ending.RUNTIME_ERROR, exception=describe(error))
        channel.send(outcome)

    finish(Training(request, finish).run(channel))


@dataclass
class Examined:
    """The extent of the search. The torch-free side has the same fields (``engine/child/curves.py``)."""

    results: int = 0
    few: int = 0
    failed: int = 0
    is_late: bool = False


def _examined(kept: KeptCalls, until: float) -> tuple[list[Message], Examined]:
    """The biased results of all graphs, and the extent of the search for them."""
    found, examined = list[Message](), Examined()
    for graph, calls in kept.graphs:
        if len(calls) < LEAST_CALLS:
            examined.few += graph.calls >= LEAST_CALLS
            continue
        if len(found) >= MOST_FOUND:
            break
        if time.monotonic() > until:
            examined.is_late = True
            break
        try:
            of_graph = list(_of_graph(graph, calls, until, examined))
        except Exception:  # what cannot be rerun on copies proves nothing
            examined.failed += 1
            continue
        try:
            of_nodes = list(_of_nodes(graph, [call for call, _ in calls], until)) if of_graph else []
        except Exception:  # then the graph's answer is the best available
            of_nodes = []
        found += of_nodes or of_graph
    return found[:MOST_FOUND], examined


class KeptCalls:
    """Keeps the inputs of calls of each graph compiled from now on."""

    def __init__(self, request: ErrorsRequest) -> None:
        self._request, self._bytes = request, 0
        self.graphs: list[tuple[CapturedGraph, list[tuple[Call, Run]]]] = []
        self.end = take_place(self._compile)
        """Stop keeping calls, and restore the compiler."""

    def _compile(self, backend: Any, module: fx.GraphModule, inputs: list[Any], compile_: Compile) -> Compiled:
        graph = CapturedGraph(len(self.graphs), module, backend, inputs)
        compiled, calls = compile_(), list[tuple[Call, Run]]()
        if graph.communicates or graph.lifted.is_backward:
            return compiled
        self.graphs.append((graph, calls))
        return lambda *args: self._call(graph, compiled, args, calls)

    def _call(self, graph: CapturedGraph, compiled: Callable[..., Any], args: Sequence[Any], calls: Any) -> Any:
        number, graph.calls = graph.calls, graph.calls + 1
        if number % self._request.every == 0 and len(calls) < self._request.calls and not is_capturing():
            inputs = graph.lifted.inputs(args)
            size = sum(leaf.nbytes for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor))
            if self._bytes + size <= self._request.bytes:
                self._bytes += size
                before, rng = snapshot.clone(inputs), snapshot.rng_state()
                call = Call(graph.module, before, rng, snapshot.state_of_a_graph(), random=True)
                calls.append((call, lambda each: graph.lifted.run(each, compiled)))
        return compiled(*args)


def _of_graph(
    graph: CapturedGraph, calls: Sequence[tuple[Call, Run]], until: float, examined: Examined
) -> Iterator[Message]:
    place, drawn = graph.called_at, torch.Generator().manual_seed(0)
    if place is None:
        examined.failed += 1
        return
    both = (each for call, run in calls for each in _both(call, run, drawn))
    for where, dtype, found in _biased(both, until, examined):
        module, op = ("", "") if where.startswith("grad") else maker_of(graph.module.graph, where)
        yield _told(found, place, module=module, op=op, where=where, dtype=dtype, is_node=False)


def _both(call: Call, run: Run, drawn: torch.Generator) -> Iterator[tuple[Call, Run]]:
    """A call, and the same with its backward, if any; from random cotangents, since normalized values have no gradient
    of a sum.
    """
    yield call, run
    if call.switches.grad and any(leaf.requires_grad for leaf in places(list(call.inputs)).values()):
        try:
            outputs = [one for one in places(call.run(call.function).result).values() if one.requires_grad]
        except Exception:  # it is left out like the call itself
            return
        yield call.behind([torch.randn(one.shape, generator=drawn).to(one) for one in outputs]), run


def _biased(calls: Iterable[tuple[Call, Run]], until: float, examined: Examined) -> Iterator[tuple[str, str, Bias]]:
    """The places of these calls of one function whose compiled values are biased, with their dtypes.

    Raises:
        Exception: a call cannot be rerun on copies.
    """
    samples: dict[str, list[tuple[Sample, Sample]]] = {}
    dtypes: dict[str, str] = {}
    for call, run in calls:
        if time.monotonic() > until:
            examined.is_late = True
            break
        before = places(None, call.inputs)
        expected, actual, truth = call.run(call.function).places(), run(call).places(), Reruns(call).truth
        for where, value in (truth or {}).items():
            one, other = expected.get(where), actual.get(where)
            if one is None or other is None or not one.is_floating_point():
                continue
            if where in before and same_bits(before[where], one):
                continue  # an input that the call does not write to
            pair = sample(one, value), sample(other, value)
            if pair[0] is not None and pair[1] is not None and one.dtype == other.dtype:
                samples.setdefault(where, []).append((pair[0], pair[1]))
                dtypes[where] = str(one.dtype).removeprefix("torch.")
    for where, pairs in samples.items():
        examined.results += len(pairs) >= LEAST_CALLS
        eager, compiled = zip(*pairs, strict=True)
        if (found := bias(eager, compiled)) is not None:
            yield where, dtypes[where], found


def _told(found: Bias, place: StackLine, **more: Any) -> Message:
    return {**asdict(found), "place": place, **more}


# node by node -----------------------------------------------------------------------------------------------------------


def _of_nodes(graph: CapturedGraph, calls: Sequence[Call], until: float) -> Iterator[Message]:
    """The nodes of a graph that are biased when compiled separately, on eager's values, in order."""
    if graph.called_at is None:
        return
    for node in [node for node in graph.module.graph.nodes if _is_computed(node)][:MOST_NODES]:
        if time.monotonic() > until:
            return
        alone, drawn = _alone(graph.module, node), torch.Generator().manual_seed(0)
        run: Run = partial(_run_on, torch.compile(alone, backend=graph.backend, dynamic=False))
        of_node = (_call_of(graph.module, call, node, alone) for call in calls)
        both = (each for call in of_node if call is not None for each in _both(call, run, drawn))
        try:
            found = next(_biased(both, until, Examined()), None)
        except Exception:  # the next one may run separately
            continue
        if found is not None:
            where, dtype, what = found
            place, module, op = _line_of(node) or graph.called_at, module_of(node)[0], op_of(node)
            yield _told(what, place, module=module, op=op, where=where, dtype=dtype, is_node=True)


def _run_on(compiled: Callable[..., Any], call: Call) -> Side:
    return call.run(compiled)


def _is_computed(node: fx.Node) -> bool:
    value = node.meta.get("example_value")
    return node.op.startswith("call_") and isinstance(value, Tensor) and value.is_floating_point()


def _call_of(module: fx.GraphModule, call: Call, node: fx.Node, alone: fx.GraphModule) -> Call | None:
    """The call of a single node in an eager run of a call; None if any input is not a tensor.

    Only one node's inputs of one call are held at a time: those of all nodes may be many times the script's memory.
    """
    found: list[Any] = []

    class Noting(fx.Interpreter):
        def run_node(self, at: fx.Node) -> Any:
            if at is node:
                found.extend(self.env[used] for used in node.all_input_nodes)
                if all(isinstance(value, Tensor) for value in found):
                    found[:] = [_leaf(value) for value in found]
            return super().run_node(at)

    with call.started():
        Noting(module).run(*snapshot.clone(list(call.inputs)))
    return replace(call, function=alone, inputs=found) if all(isinstance(value, Tensor) for value in found) else None


def _leaf(value: Tensor) -> Tensor:
    return value.detach().clone().requires_grad_(value.requires_grad)


def _alone(module: fx.GraphModule, node: fx.Node) -> fx.GraphModule:
    """A graph of one node, with the node's inputs."""
    graph, inputs = fx.Graph(), dict[fx.Node, fx.Node]()
    for used in node.all_input_nodes:
        inputs[used] = graph.placeholder(used.name)
    graph.output((graph.node_copy(node, lambda used: inputs[used]),))
    return fx.GraphModule(module, graph)


def _line_of(node: fx.Node) -> StackLine | None:
    """The user's innermost line that calls it."""
    lines = str(node.meta.get("stack_trace") or "").splitlines()
    found = None
    for head, code in zip(lines, [*lines[1:], ""], strict=False):
        if head.startswith('  File "') and '", line ' in head:
            path, _, rest = head.removeprefix('  File "').partition('", line ')
            number, _, function = rest.partition(", in ")
            if (place := place_of(path)).is_users and number.isdecimal():
                found = StackLine(place.name, int(number), code.strip(), function)
    return found
