"""What a graph enters and does not leave, since its run ended halfway, is left for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from minimizer.inside.values.snapshot import global_state

functorch: Any = torch._C._functorch


def captured(function: Callable[[Tensor], Tensor], x: Tensor) -> fx.GraphModule:
    """The graph that Dynamo makes of a function, with the calls by which it enters and leaves its transforms."""
    found: list[fx.GraphModule] = []

    def backend(module: fx.GraphModule, example: list[Tensor]) -> Callable[..., Any]:
        found.append(module)
        return module.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, fullgraph=True)(x)
    return found[0]


class Fails(fx.Interpreter):
    """Raises at the first call of ``torch.sin``."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is torch.sin:
            raise ZeroDivisionError
        return super().call_function(target, args, kwargs)


FUNCTIONS = {
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))[1],
    "grad": lambda x: torch.func.grad(lambda v: torch.sin(v).sum())(x),
    "vmap": lambda x: torch.func.vmap(torch.sin)(x),
    "grad of vmap": lambda x: torch.func.grad(lambda v: torch.func.vmap(torch.sin)(v).sum())(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_run_that_ends_halfway_leaves_nothing_behind(name: str) -> None:
    x = torch.ones(3)
    module = captured(FUNCTIONS[name], x)
    expected = module(x)

    with contextlib.suppress(ZeroDivisionError), global_state().applied():
        Fails(module).run(x)
        raise AssertionError("it was to end halfway")

    assert functorch.peek_interpreter_stack() is None
    torch.testing.assert_close(module(x), expected)
    assert torch.ones(3).sin().sum().ndim == 0


def test_what_was_entered_outside_is_not_left() -> None:
    def inside(x: Tensor) -> Tensor:
        with global_state().applied():
            pass
        return torch.sin(x)

    x = torch.ones(3)
    _, tangent = torch.func.jvp(inside, (x,), (torch.ones(3),))
    torch.testing.assert_close(tangent, x.cos())
