"""Faults to inject, in the manner of FLiT: one or two wrong parts of the compiler at seeded places of small models of six families.

Each model uses every operator of interest in one module only, so that the module at fault is known. Run nothing here; see
``truth_table.py``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import dedent

SEED = 20261121


@dataclass(frozen=True)
class Place:
    """Where a fault can be: ``part`` of the compiler, as reports name it, and what a right answer names."""

    part: str
    ops: tuple[str, ...]
    module: str
    backward: bool = False
    dropped: str = ""
    """For a pass: the call that it takes for one of its own operands."""

    @property
    def stage(self) -> str:
        return "decomposition" if self.part.startswith("decomposition/") else "inductor"


@dataclass(frozen=True)
class Case:
    """A script with one or two faults."""

    name: str
    script: str
    places: tuple[Place, ...]


def lowering(name: str, module: str, *ops: str) -> Place:
    return Place(f"lowerings/aten.{name}.default", ops or (f"aten.{name}",), module)


def decomposition(name: str, module: str, *ops: str) -> Place:
    return Place(
        f"decomposition/aten.{name}.default",
        ops or (f"aten.{name.removesuffix('_backward')}",),
        module,
        "backward" in name,
    )


def passing(when: str, name: str, module: str, *ops: str) -> Place:
    part = (
        f"{when}_grad_passes/post_grad_custom_post_pass"
        if when == "post"
        else "joint_graph_passes/joint_custom_post_pass"
    )
    return Place(part, ops or (f"aten.{name}",), module, dropped=f"aten.{name}.default")


FAMILIES: dict[str, tuple[str, tuple[Place, ...]]] = {
    "mlp": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second, self.third = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)
                self.tanh, self.gelu, self.softplus = nn.Tanh(), nn.GELU(), nn.Softplus()

            def forward(self, x):
                return self.softplus(self.third(self.gelu(self.second(self.tanh(self.first(x))))))

        inputs = (torch.randn(6, 8),)
        """,
        (
            lowering("tanh", "tanh"),
            lowering("erf", "gelu", "aten.gelu"),
            lowering("log1p", "softplus", "aten.softplus"),
            decomposition("gelu", "gelu"),
            decomposition("softplus", "softplus"),
            decomposition("tanh_backward", "tanh"),
            decomposition("gelu_backward", "gelu"),
            decomposition("softplus_backward", "softplus"),
            passing("post", "tanh", "tanh"),
            passing("joint", "tanh", "tanh"),
        ),
    ),
    "cnn": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.norm, self.second = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3)
                self.relu, self.silu, self.pool = nn.ReLU(), nn.SiLU(), nn.AvgPool2d(2)
                self.head, self.sigmoid = nn.Linear(36, 2), nn.Sigmoid()

            def forward(self, x):
                h = self.silu(self.second(self.relu(self.norm(self.conv(x)))))
                return self.sigmoid(self.head(self.pool(h).flatten(1)))

        inputs = (torch.randn(2, 3, 10, 10),)
        """,
        (
            lowering("relu", "relu"),
            lowering("avg_pool2d", "pool"),
            decomposition("silu", "silu"),
            decomposition("silu_backward", "silu"),
            decomposition("sigmoid_backward", "sigmoid"),
            decomposition("threshold_backward", "relu", "aten.relu"),
            passing("post", "relu", "relu"),
            passing("joint", "relu", "relu"),
        ),
    ),
    "transformer": (
        """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

            def forward(self, x):
                q, k, v = self.qkv(x).chunk(3, -1)
                return self.out(torch.softmax(q @ k.transpose(1, 2) / 4, -1) @ v)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.attention = nn.LayerNorm(16), Attention()
                self.up, self.gelu, self.down = nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)

            def forward(self, x):
                x = x + self.attention(self.norm(x))
                return x + self.down(self.gelu(self.up(x)))

        inputs = (torch.randn(2, 5, 16),)
        """,
        (
            lowering("exp", "attention", "aten._softmax", "aten.softmax"),
            lowering("erf", "gelu", "aten.gelu"),
            lowering("rsqrt", "norm", "aten.native_layer_norm", "aten.layer_norm"),
            decomposition("_softmax", "attention", "aten._softmax", "aten.softmax"),
            decomposition("native_layer_norm", "norm", "aten.native_layer_norm", "aten.layer_norm"),
            decomposition("gelu", "gelu"),
            decomposition("gelu_backward", "gelu"),
            decomposition("_softmax_backward_data", "attention", "aten._softmax", "aten.softmax"),
            decomposition("native_layer_norm_backward", "norm", "aten.native_layer_norm", "aten.layer_norm"),
        ),
    ),
    "rnn": (
        """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.gates, self.sigmoid, self.tanh = nn.Linear(12, 16), nn.Sigmoid(), nn.Tanh()

            def forward(self, x, h):
                keep, new = self.gates(torch.cat([x, h], -1)).chunk(2, -1)
                return h * self.sigmoid(keep) + self.tanh(new)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell, self.head, self.elu = Cell(), nn.Linear(8, 3), nn.ELU()

            def forward(self, x):
                h = torch.zeros(x.shape[0], 8)
                for step in range(x.shape[1]):
                    h = self.cell(x[:, step], h)
                return self.elu(self.head(h))

        inputs = (torch.randn(4, 3, 4),)
        """,
        (
            lowering("sigmoid", "cell.sigmoid"),
            lowering("tanh", "cell.tanh"),
            lowering("expm1", "elu", "aten.elu"),
            decomposition("elu", "elu"),
            decomposition("elu_backward", "elu"),
            decomposition("sigmoid_backward", "cell.sigmoid"),
            decomposition("tanh_backward", "cell.tanh"),
            passing("post", "tanh", "cell.tanh"),
            passing("joint", "sigmoid", "cell.sigmoid"),
        ),
    ),
    "recommender": (
        """
        class Dense(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(5, 6)

            def forward(self, x):
                return self.linear(torch.log1p(x.abs()))

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.users, self.dense, self.top = nn.Embedding(20, 6), Dense(), nn.Linear(12, 8)
                self.swish, self.out, self.prob = nn.Hardswish(), nn.Linear(8, 1), nn.Sigmoid()

            def forward(self, ids, x):
                h = torch.cat([self.users(ids), self.dense(x)], -1)
                return self.prob(self.out(self.swish(self.top(h))))

        inputs = (torch.randint(0, 20, (7,)), torch.randn(7, 5))
        """,
        (
            lowering("log1p", "dense"),
            lowering("abs", "dense"),
            lowering("embedding", "users"),
            lowering("sigmoid", "prob"),
            decomposition("hardswish", "swish"),
            decomposition("embedding_dense_backward", "users", "aten.embedding"),
            decomposition("sigmoid_backward", "prob"),
            passing("post", "log1p", "dense"),
            passing("joint", "abs", "dense"),
        ),
    ),
    "gnn": (
        """
        class Messages(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.mish = nn.Linear(6, 6), nn.Mish()

            def forward(self, x, source, target):
                sent = self.mish(self.linear(x))[source]
                return torch.zeros_like(x).scatter_add(0, target[:, None].expand_as(sent), sent)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.messages, self.update, self.leaky, self.head = Messages(), nn.Linear(6, 6), nn.LeakyReLU(), nn.Linear(6, 2)

            def forward(self, x, source, target):
                h = self.leaky(self.update(x + self.messages(x, source, target)))
                return torch.cos(self.head(h))

        inputs = (torch.randn(9, 6), torch.randint(0, 9, (14,)), torch.randint(0, 9, (14,)))
        """,
        (
            lowering("cos", ""),
            lowering("scatter_add", "messages"),
            decomposition("mish", "messages.mish"),
            decomposition("leaky_relu", "leaky"),
            decomposition("leaky_relu_backward", "leaky"),
            passing("post", "cos", ""),
        ),
    ),
}
PREAMBLE = """
import torch
import torch.nn as nn
from torch._inductor import config, lowering
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.decomposition import decompositions
"""
LOWERING = """
right_{n} = lowering.lowerings[torch.ops.{op}]


def wrong_{n}(*args, **kwargs):
    return lowering.lowerings[torch.ops.aten.{change}.Tensor](right_{n}(*args, **kwargs), {factor})


lowering.lowerings[torch.ops.{op}] = wrong_{n}
"""
DECOMPOSITION = """
right_{n} = decompositions[torch.ops.{op}]


def wrong_{n}(*args, **kwargs):
    result = right_{n}(*args, **kwargs)
    return (result[0] * {factor}, *result[1:]) if isinstance(result, tuple) else result * {factor}


decompositions[torch.ops.{op}] = wrong_{n}
"""
PASS = """

class Drops_{n}(CustomGraphPass):
    def __call__(self, graph):
        for node in list(graph.nodes):
            if node.target is torch.ops.{op}:
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)

    def uuid(self):
        return b"drops-{n}"


config.{setting} = Drops_{n}()
"""
RUN = """
torch.manual_seed(0)
model = torch.compile({net}())
"""
STEP = """

def step(x):
    return x + torch.round(x.mean(-1, keepdim=True) * 8) / 8


class Jumped(Net):
    def forward(self, *inputs):
        return {forward}

"""
JUMPS = {
    "front": "super().forward(*(step(x) if x.is_floating_point() else x for x in inputs))",
    "behind": "step(super().forward(*inputs))",
}
"""Where a jump is put that depends on rounded values, and the forward that has it there."""


def cases(singles: int = 52, doubles: int = 12, *, jump: str = "") -> list[Case]:
    """The cases, always the same; with a ``jump`` in one of the places of `JUMPS`, or none."""
    chance = random.Random(SEED)
    every = [(family, place) for family, (_, places) in FAMILIES.items() for place in places]
    chosen: list[tuple[str, tuple[Place, ...]]] = [(f, (p,)) for f, p in chance.sample(every, min(singles, len(every)))]
    while len(chosen) < singles + doubles:
        family = chance.choice(list(FAMILIES))
        two = tuple(chance.sample(FAMILIES[family][1], 2))
        if two[0].module != two[1].module and two[0].part != two[1].part and (family, two) not in chosen:
            chosen.append((family, two))
    return [_case(number, family, places, chance, jump) for number, (family, places) in enumerate(chosen)]


def _case(number: int, family: str, places: Sequence[Place], chance: random.Random, jump: str) -> Case:
    faults = "".join(_fault(n, place, round(chance.uniform(1.05, 1.6), 3)) for n, place in enumerate(places))
    source = dedent(FAMILIES[family][0])
    model, _, inputs = source.partition("inputs = ")
    end = (
        "model(*inputs).square().sum().backward()\n"
        if any(p.backward for p in places)
        else "with torch.no_grad():\n    model(*inputs)\n"
    )
    if jump:
        model += STEP.format(forward=JUMPS[jump])
    run = RUN.format(net="Jumped" if jump else "Net")
    script = f"{PREAMBLE.lstrip()}{faults}{model}{run}inputs = {inputs}{end}"
    return Case("-".join(filter(None, (f"{number:02}", family, jump))), script, tuple(places))


def _fault(n: int, place: Place, factor: float) -> str:
    kind, _, op = place.part.partition("/")
    if place.dropped:
        return PASS.format(n=n, op=place.dropped, setting=op)
    if kind == "decomposition":
        return DECOMPOSITION.format(n=n, op=op, factor=factor)
    change = "add" if op == "aten.exp.default" else "mul"  # softmax divides by the sum, and any factor with it
    return LOWERING.format(n=n, op=op, change=change, factor=factor)
