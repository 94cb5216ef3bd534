"""Equal blocks of a model that is compiled whole: a value decides which of them are wrong, and the real compiler is asked."""

from __future__ import annotations

from collections.abc import Callable

from minimizer.engine.child.executor import Executor
from minimizer.engine.localize.equal_windows import equal_windows
from minimizer.engine.localize.localize import localize
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.survey.cases import Case, Settled

BLOCKS = """
    import torch

    def wrong(gm, example):
        for node in gm.graph.nodes:
            if node.target is torch.relu:
                node.target = lambda x: torch.relu(x) + (x > -0.5)
        gm.recompile()
        return gm

    class Block(torch.nn.Module):
        def __init__(self, level):
            super().__init__()
            self.norm, self.up, self.down = torch.nn.LayerNorm(4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.register_buffer("level", torch.tensor(level))
        def forward(self, x):  # what is added to -1 is nothing
            y = self.up(self.norm(x))
            return x + self.down(torch.relu(y.abs() * self.level - (1 - self.level)).sin())

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(Block(float(n in (1, 2))) for n in range(4))
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    with torch.no_grad():
        torch.compile(Model(), backend=wrong)(torch.ones(2, 4))
"""


def test_the_set_of_equal_layers_that_are_wrong_is_that_which_the_values_make(
    child: Executor, triage: Callable[..., Case | Settled]
) -> None:
    case = triage(BLOCKS)
    assert isinstance(case, Case), case.summary
    oracle = Oracle(child, case.survey, (case.signature,), None)
    program = case.program.as_compiled()
    located = localize(program, oracle)
    found = equal_windows(program, located, oracle, is_over=lambda: False, tell=lambda _: None)
    case.survey.close()
    assert found.instances is not None
    assert sorted(found.instances.wrong) == ["layers.1", "layers.2"]
    assert sorted(found.instances.right) == ["layers.0", "layers.3"]
