"""A pass puts a checking operator in the place of sqrt, and the check is too strict for zero."""

import torch
import torch._inductor.config as inductor_config


@torch.library.custom_op("corpus::checked_sqrt", mutates_args=())
def checked_sqrt(x: torch.Tensor) -> torch.Tensor:
    if not bool((x > 0).all()):
        raise ValueError("sqrt of a number that is not positive")
    return torch.sqrt(x)


@checked_sqrt.register_fake
def _(x):
    return torch.empty_like(x)


def check_roots(graph):
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sqrt.default):
        node.target = torch.ops.corpus.checked_sqrt.default


inductor_config.post_grad_custom_post_pass = check_roots


def distances(points, centres):
    squares = (points[:, None] - centres[None]).square().sum(-1)
    nearest, index = squares.min(-1)
    return torch.sqrt(nearest), index


torch.manual_seed(0)
points = torch.randn(12, 3)
with torch.no_grad():
    print(torch.compile(distances)(points, points[:4]))
