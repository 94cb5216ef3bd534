"""What both sides of a graph keep for the backward, from real runs: eager's own figure, whatever holds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import script, survey

from minimizer.engine.child.executor import Executor

ROWS, WIDTH, HIDDEN = 128, 8, 64
HIDDEN_BYTES = 4 * ROWS * HIDDEN
"""Of the hidden values of a layer; all else that is kept of both layers is less."""
FUNCTIONS = """
    import torch
    from torch.utils.checkpoint import checkpoint

    def plain(x, up, down):
        return torch.relu(x @ up) @ down

    def checkpointed(x, up, down):
        return checkpoint(plain, x, up, down, use_reentrant=False)

    class Lean(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, up, down):
            ctx.save_for_backward(x, up, down)
            return torch.relu(x @ up) @ down

        @staticmethod
        def backward(ctx, grad):
            x, up, down = ctx.saved_tensors
            hidden = x @ up
            inner = (grad @ down.T) * (hidden > 0)
            return inner @ up.T, x.T @ inner, torch.relu(hidden).T @ grad

    class Stashed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, up, down):
            ctx.hidden = x @ up
            ctx.save_for_backward(x, up, down)
            return torch.relu(ctx.hidden) @ down

        @staticmethod
        def backward(ctx, grad):
            x, up, down = ctx.saved_tensors
            inner = (grad @ down.T) * (ctx.hidden > 0)
            return inner @ up.T, x.T @ inner, torch.relu(ctx.hidden).T @ grad

    x = torch.ones({rows}, {width})
    up, down = torch.randn({width}, {hidden}, requires_grad=True), torch.randn({hidden}, {width}, requires_grad=True)

    @torch.compile(backend="aot_eager_decomp_partition")
    def compiled(x, up, down):
        for _ in range(2):
            x = x + {function}(torch.nn.functional.layer_norm(x, (8,)), up, down)
        return x

    {call}
"""


def kept(child: Executor, tmp_path: Path, function: str, call: str) -> list[tuple[int, int]]:
    """What eager and compiled keep of each graph."""
    text = FUNCTIONS.format(rows=ROWS, width=WIDTH, hidden=HIDDEN, function=function, call=call)
    found = survey(child, script(tmp_path, text), measure=True, values=False).finished
    assert found is not None and found.exception is None and found.health is not None and not found.notes
    return [(one.eager, one.compiled) for one in found.health.kept]


@pytest.mark.parametrize(
    ("function", "eager", "compiled"),
    [("plain", 2, 2), ("checkpointed", 0, 0), ("Lean.apply", 0, 1), ("Stashed.apply", 2, 1)],
)
@pytest.mark.examples(2)
def test_each_side_keeps_the_hidden_values_that_its_backward_takes(
    child: Executor, tmp_path: Path, function: str, eager: int, compiled: int
) -> None:
    ((in_eager, in_compiled),) = kept(child, tmp_path, function, "compiled(x, up, down).sum().backward()")
    assert (in_eager // HIDDEN_BYTES, in_compiled // HIDDEN_BYTES) == (eager, compiled), "of two layers"
    assert in_eager > 0, "the inputs of a normalization and its statistics"


def test_nothing_is_counted_where_nothing_is_differentiated(child: Executor, tmp_path: Path) -> None:
    assert not kept(child, tmp_path, "plain", "torch.set_grad_enabled(False); compiled(x, up, down)")


def test_a_result_that_eagers_backward_takes_counts_as_what_compiled_code_keeps_in_its_place(
    child: Executor, tmp_path: Path
) -> None:
    """The backward of relu takes the result itself, and a mask of it when it is decomposed."""
    text = f"""
        import torch
        x, w = torch.ones({ROWS}, {WIDTH}), torch.randn({WIDTH}, {HIDDEN}, requires_grad=True)
        f = torch.compile(lambda x, w: torch.relu(x @ w), backend="aot_eager_decomp_partition")
        f(x, w).sum().backward()
    """
    found = survey(child, script(tmp_path, text), measure=True, values=False).finished
    assert found is not None and found.health is not None
    ((in_eager, in_compiled),) = [(one.eager, one.compiled) for one in found.health.kept]
    assert in_eager == HIDDEN_BYTES and 0 < in_compiled <= HIDDEN_BYTES
