"""Compile time by graph and equal blocks within a graph, from real runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import script, survey

from minimizer.engine.child import protocol
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.protocol import Compilation


def health(child: Executor, path: Path) -> protocol.Health:
    found = survey(child, path, values=False).finished
    assert found is not None and found.exception is None and found.health is not None
    return found.health


def compilations(child: Executor, path: Path) -> list[Compilation]:
    return health(child, path).compilations


TRAINED = """
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    compiled = torch.compile(net, dynamic=False)
    for size in (2, 3):
        compiled(torch.ones(size, 4)).sum().backward()
"""


def test_each_graph_has_its_phases_with_those_of_its_backward(child: Executor, tmp_path: Path) -> None:
    run = health(child, script(tmp_path, TRAINED))

    assert sorted(one.is_first for one in run.compilations) == [False, True]
    for one in run.compilations:
        assert one.place.line == 7 and one.nodes == 2
        assert one.seconds == pytest.approx(one.dynamo + one.aot + one.lowering + one.code, abs=0.2)
        assert min(one.dynamo, one.aot, one.lowering, one.code) > 0
        assert 0 < one.backward < one.seconds
    in_all = sum(one.seconds for one in run.compilations)
    assert in_all < run.seconds and run.compile_seconds == pytest.approx(in_all, abs=0.2)


LISTS = """
    import torch

    class Block(torch.nn.Module):
        def __init__(self, width, inner):
            super().__init__()
            self.parts = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(inner))

        def forward(self, x):
            for part in self.parts:
                x = part(x).relu()
            return x

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([*(Block(4, 2) for _ in range(3)), Block(4, 5)])
            self.heads = torch.nn.ModuleList(torch.nn.Linear(4, width) for width in (2, 3))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return [head(x) for head in self.heads]

    torch.compile(Net(), backend="eager")(torch.ones(1, 4))
"""


def test_equal_blocks_are_those_of_the_outer_list_that_compute_the_same(child: Executor, tmp_path: Path) -> None:
    (one,) = compilations(child, script(tmp_path, LISTS))
    assert [(each.path, each.count, each.of, each.nodes) for each in one.blocks] == [("layers", 3, 4, 12)]


CALLED = """
    import torch

    class Cell(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gates = torch.nn.Linear(8, 4)

        def forward(self, state, x):
            return self.gates(torch.cat([state, x], -1)).tanh()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = Cell(), torch.nn.Linear(4, 1)

        def forward(self, x):
            state = x[:, 0]
            for place in range(5):
                state = self.cell(state, x[:, place])
            return self.head(state)

    torch.compile(Net(), backend="eager")(torch.ones(2, 5, 4))
"""


def test_a_module_that_is_called_repeatedly_is_counted_by_its_calls(child: Executor, tmp_path: Path) -> None:
    (one,) = compilations(child, script(tmp_path, CALLED))
    assert [(each.path, each.count, each.of, each.nodes, each.is_one) for each in one.blocks] == [
        ("cell", 5, 5, 15, True)
    ]


def test_an_activation_that_blocks_share_is_none_of_them(child: Executor, tmp_path: Path) -> None:
    text = """
        import torch

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(5))
                self.activation = torch.nn.GELU()

            def forward(self, x):
                for layer in self.layers:
                    x = self.activation(layer(x))
                return x

        torch.compile(Net(), backend="eager")(torch.ones(1, 4))
    """
    (one,) = compilations(child, script(tmp_path, text))
    assert [each.path for each in one.blocks] == ["layers"]


@pytest.mark.parametrize("compiled", ['net.compile(backend="eager")', 'net = torch.compile(net, backend="eager")'])
def test_a_module_that_is_a_list_has_no_path(child: Executor, tmp_path: Path, compiled: str) -> None:
    text = f"""
        import torch
        net = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(5)))
        {compiled}
        net(torch.ones(1, 4))
    """
    (one,) = compilations(child, script(tmp_path, text))
    assert [(each.path, each.count) for each in one.blocks] == [("", 5)]


def test_what_a_global_holds_is_no_block_of_the_compiled_function(child: Executor, tmp_path: Path) -> None:
    text = """
        import torch
        net = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(5)))

        @torch.compile(backend="eager")
        def step(x):
            return net(x).sum()

        step(torch.ones(1, 4))
    """
    (one,) = compilations(child, script(tmp_path, text))
    assert one.nodes == 6 and one.blocks == []
