"""A small trace, written by hand: two steps of training around one compiled graph."""

from __future__ import annotations

from typing import Any

from minimizer.engine.child.traced import Traced

GRAPH: dict[str, Any] = {
    "inputs": [{"name": "x", "code": "0"}, {"name": "w", "code": "0"}],
    "nodes": [
        {"name": "y", "target": "torch.nn.functional.relu", "args": [{"ref": "x"}], "kwargs": {}, "meta": None},
        {"name": "z", "target": "operator.mul", "args": [{"ref": "y"}, {"ref": "w"}], "kwargs": {}, "meta": None},
    ],
    "outputs": ["z"],
    "functions": [],
    "level": "dynamo",
    "setup": [],
    "compile_kwargs": {"dynamic": "True"},
    "grad": True,
}


def event(code: str, kind: str = "call", makes: str = "", **facts: Any) -> dict[str, Any]:
    """An event on a line of ``train.py`` that is its code."""
    return {"code": code, "kind": kind, "makes": makes.split(), "source": ("train.py", 3, code), **facts}


EVENTS = [
    event("torch.manual_seed(5)", "state", draws=True),
    event("x = torch.rand(3)", makes="x", draws=True),
    event("out = graph_0(x, w)", "graph", "out"),
    event("loss = out.sum()", makes="loss"),
    event("loss.backward()", "backward", grads=["w"]),
    event("w_grad = w.grad", makes="w_grad"),
    event("w.sub_(w_grad)", writes=["w"], under=["torch.no_grad()"]),
    event("w.grad = None", "state", grads=["w"], under=["torch.no_grad()"]),
    event("part = w[1:]", makes="part", under=['torch.autocast("cpu", dtype=torch.bfloat16)', "torch.no_grad()"]),
    event("part.zero_()", writes=["part"], under=['torch.autocast("cpu", dtype=torch.bfloat16)']),
    event("out_1 = graph_0(x, w)", "graph", "out_1"),
    event("torch.mm(x, x)", raises="RuntimeError"),
    event("loss_1 = out_1.mean()", makes="loss_1"),
    event("loss_1.backward(retain_graph=True)", "backward", grads=["w"]),
]
STORAGES = {"x": 1, "w": 2, "out": 3, "loss": 4, "w_grad": 5, "part": 2, "out_1": 6, "loss_1": 7}
INPUTS = [
    {"name": "w", "stored": True, "requires_grad": True},
    {"name": "idle", "exact": "torch.ones(3)"},
]


def traced(**changes: Any) -> Traced:
    whole = {"inputs": INPUTS, "events": EVENTS, "storages": STORAGES, "graphs": [GRAPH], **changes}
    return Traced.model_validate(whole)
