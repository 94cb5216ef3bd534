"""Takes the place of Dynamo's wrapper around backends, which sees every graph before the compiler and decides how to
compile it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx
from torch._dynamo.repro import after_dynamo

from ..hooks import required

Compiled = Callable[..., Any]
Compile = Callable[[], Compiled]
CompileGraph = Callable[[Any, fx.GraphModule, list[Any], Compile], Compiled]
"""Arguments: the script's backend, a graph, example inputs, and the unhooked compile function."""


def take_place(compile_graph: CompileGraph) -> Callable[[], None]:
    """Let a function compile all graphs of this process from now on; returns a callback that ends this."""
    wrapping: Any = after_dynamo.WrapBackendDebug
    original = required(wrapping, "__call__")
    required(wrapping, "_torchdynamo_orig_backend")

    def call(wrapper: Any, module: fx.GraphModule, inputs: list[Any], **kwargs: Any) -> Compiled:
        backend = wrapper._torchdynamo_orig_backend
        return compile_graph(backend, module, inputs, lambda: original(wrapper, module, inputs, **kwargs))

    def give_back() -> None:
        wrapping.__call__ = original

    wrapping.__call__ = call
    return give_back
