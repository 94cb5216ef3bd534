"""Where a failing node lies: its module from the root of the model, and the line of the user's, in whatever file."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import script, survey
from surveyed import RELU_BUG

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.sent_program import parse_program
from minimizer.engine.program.model import Node

MODEL = (
    RELU_BUG.format("accuracy")
    + """
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.feed_forward = nn.Sequential(nn.Linear(4, 4), act)
    def forward(self, x):
        return self.feed_forward(self.up(x))

class Model(nn.Module):
    def __init__(self, wrap=lambda layer: layer):
        super().__init__()
        acts = [nn.Tanh(), nn.Tanh(), nn.ReLU(), nn.Tanh()]
        self.layers = nn.ModuleList(wrap(Layer(act)) for act in acts)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

x = torch.randn(3, 4)
"""
)
CHECKPOINTED = """
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
model = torch.compile(Model(checkpoint_wrapper))
model(x)
"""
PARALLEL = """
import os
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", GLOO_SOCKET_IFNAME="lo")
dist.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{os.getcwd()}/ranks")
model = nn.parallel.DistributedDataParallel(Model())
"""
STEP = """
model = Model()
@torch.compile
def step(x):
    return model(x)
step(x)
"""
BLOCK = """
model = Model()
@torch.compile
def block(layer, x):
    return layer(x)
for layer in model.layers:
    x = block(layer, x)
"""


def relu(child: Executor, home: Path, text: str) -> Node:
    found = survey(child, script(home, text))
    assert found.held is not None, found.log
    assert found.held.program is not None
    nodes = [node for node in parse_program(found.held.program).nodes if "relu" in node.target]
    found.close()
    return nodes[0]


@pytest.mark.parametrize(
    ("how", "path"),
    [
        ("model = torch.compile(Model())\nmodel(x)\n", "layers.2.feed_forward.1"),
        ("model = Model(torch.compile)\nmodel(x)\n", "layers.2.feed_forward.1"),
        ("model = Model()\nfor layer in model.layers: layer.compile()\nmodel(x)\n", "layers.2.feed_forward.1"),
        (CHECKPOINTED, "layers.2.feed_forward.1"),
        (PARALLEL + "torch.compile(model)(x)\n", "layers.2.feed_forward.1"),
        (PARALLEL + "for layer in model.module.layers: layer.compile()\nmodel(x)\n", "layers.2.feed_forward.1"),
        (STEP, "model.layers.2.feed_forward.1"),
        (BLOCK, "layers.2.feed_forward.1"),
    ],
    ids=["whole", "wrapped", "in place", "checkpointed", "DDP", "layers below DDP", "a global", "an argument"],
)
@pytest.mark.examples(3)
def test_a_module_is_told_from_the_root(how: str, path: str, child: Executor, home: Path) -> None:
    node = relu(child, home, MODEL + how)
    assert (node.module, node.module_class) == (path, "ReLU")


def test_a_function_that_is_given_a_parameter_stands_for_the_module_that_owns_it(child: Executor, home: Path) -> None:
    """As the step of an optimizer does, which is compiled once and called for each parameter."""
    step = """
model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3)))
@torch.compile
def update(weight, at):
    return torch.relu(weight * at - (1 - at))
for module, at in (model[0], 0.0), (model[1][0], 1.0):
    update(module.weight, torch.tensor(at))
"""
    assert relu(child, home, MODEL + step).module == "1.0"


def test_a_line_of_another_file_of_the_project_is_known(child: Executor, home: Path) -> None:
    package = home / "pkg" / "nets"
    package.mkdir(parents=True, exist_ok=True)
    (package / "act.py").write_text("import torch\n\ndef act(x):\n    return torch.relu(x)\n")
    text = RELU_BUG.format("accuracy") + (
        "import torch\nfrom pkg.nets.act import act\ntorch.compile(lambda x: act(x) + 1)(torch.randn(3))\n"
    )
    node = relu(child, home, text)
    assert (node.source, node.library) == (("pkg/nets/act.py", 4, "return torch.relu(x)"), None)


LIBRARY = "import sys\nsys.path.append(__file__.replace('script.py', 'lib/site-packages'))\nfrom zoo import net\n"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("torch.compile(net)(torch.randn(3))", "torch.compile(net)(torch.randn(3))"),
        ("def mine(x):\n    return net(x)\ntorch.compile(mine)(torch.randn(3))", "return net(x)"),
    ],
    ids=["compiled as it is", "called by what is compiled"],
)
def test_a_line_of_a_library_stands_beside_the_users_that_leads_there(
    call: str, code: str, child: Executor, home: Path
) -> None:
    package = home / "lib" / "site-packages" / "zoo"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("import torch\n\ndef net(x):\n    return torch.relu(x) + 1\n")
    node = relu(child, home, f"{RELU_BUG.format('accuracy')}import torch\n{LIBRARY}{call}\n")
    assert node.source is not None and (node.source[0], node.source[2]) == ("script.py", code)
    assert node.library == ("zoo/__init__.py", 4, "return torch.relu(x) + 1")


def test_a_model_of_torchs_own_layers_has_the_line_that_calls_it(child: Executor, home: Path) -> None:
    text = RELU_BUG.format("accuracy") + (
        "import torch\nfrom torch import nn\nmodel = nn.Sequential(nn.Linear(4, 4), nn.ReLU())\n"
        "with torch.no_grad():\n    print(torch.compile(model)(torch.randn(3, 4)).sum())\n"
    )
    node = relu(child, home, text)
    assert node.source is not None and node.source[2] == "print(torch.compile(model)(torch.randn(3, 4)).sum())"
    assert (node.module, node.module_class, node.library) == ("1", "ReLU", None)
