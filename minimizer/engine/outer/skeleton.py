"""Guesses the shortest script of a slice: the same graph calls and backwards, in order, around the smallest graph.

Many failures around graphs depend on the order of calls, and not on the graphs' content. A guess is worth a trial: it
saves those that take bodies, losses and shapes apart one by one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from minimizer.engine.outer.flat import Slice
from minimizer.engine.outer.program import BACKWARD, GRAPH, Event
from minimizer.engine.outer.write import compile_options
from minimizer.engine.user_script.bundle import Bundle
from minimizer.report.culprit import Line

BODIES = ("w.sin()", "(w @ w).exp() @ w")
"""A body that saves only its input for backward, and one that also saves an intermediate that is no output."""
START = ["import torch", "w = torch.ones(2, 2, requires_grad=True)"]
GRAD = "torch.autograd.grad"


def skeletons(slice_: Slice) -> Iterator[Bundle]:
    """Scripts that may raise like a slice, the simplest first: with one graph for all, then one for each of its graphs."""
    graphs = [name for name in dict.fromkeys(slice_.source.program.graph_of[i] for i in slice_.events) if name]
    together = dict.fromkeys(graphs, "f")
    apart = {graph: f"f{number or ''}" for number, graph in enumerate(graphs)}
    for functions in [together, apart] if len(graphs) > 1 else [together]:
        for body in BODIES:
            script = _written(slice_, functions, body)
            if script is not None:
                yield script


def _written(slice_: Slice, functions: Mapping[str, str], body: str) -> Bundle | None:
    """The script; None if an event has a form that the guess cannot express."""
    program = slice_.source.program
    options = {function: compile_options(program.graphs[graph]) for graph, function in functions.items()}
    lines = [
        *START,
        *(
            f"{function} = torch.compile({', '.join(filter(None, (f'lambda w: {body}', given)))})"
            for function, given in options.items()
        ),
    ]
    sources: dict[int, Line] = {}
    runs = 0
    results: dict[int, int] = {}
    """For each event, the number of the last graph call, or backward, that it derives from."""
    made: dict[str, int] = {}
    for index in slice_.events:
        event, graph = program.events[index], program.graph_of[index]
        origins = [results[made[name]] for name in event.reads if made.get(name) in results]
        origin = max(origins, default=None)
        base = f"out{origin}" if origin is not None else None
        made.update((name, index) for name in event.makes if name not in program.inputs)
        if event.kind not in (GRAPH, BACKWARD):
            if origin is not None:
                results[index] = origin
            continue
        runs += 1
        name = f"out{runs}"
        if event.kind == GRAPH:
            code = f"{name} = {functions[graph or '']}({base or 'w'})"
        else:
            code = _backward(event, base, name) or ""
        if not code:
            return None
        lines.append(code)
        results[index] = runs
        if event.source is not None:
            sources[len(lines)] = event.source
    return Bundle("\n".join([*lines, ""]), sources)


def _backward(event: Event, base: str | None, name: str) -> str | None:
    """A backward of the same form from the sum of a result, with constant settings; None for another form."""
    statement = ast.parse(event.code).body[0]
    call = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    if base is None or not isinstance(call, ast.Call):
        return None
    words = [
        f"{word.arg}={ast.unparse(word.value)}"
        for word in call.keywords
        if isinstance(word.value, ast.Constant) and word.value.value
    ]
    if ast.unparse(call.func) == GRAD:
        given = ", ".join([f"{base}.sum()", "w", *words])
        return f"{name} = {GRAD}({given})[0]" if isinstance(statement, ast.Assign) else f"{GRAD}({given})"
    if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
        return f"{base}.sum().backward({', '.join(words)})"
    return None
