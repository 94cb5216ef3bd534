"""A custom pass whose cache key does not say what it inlines: the cache of compiled graphs gives back code of an earlier scale."""

import torch
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass

SCALE = [1.0]


@torch.library.custom_op("scaled::by", mutates_args=())
def by(x: torch.Tensor) -> torch.Tensor:
    return x * SCALE[0]


@by.register_fake
def _(x):
    return torch.empty_like(x)


class InlineScale(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.find_nodes(op="call_function", target=torch.ops.scaled.by.default):
            with graph.inserting_before(node):
                value = graph.call_function(torch.ops.aten.mul.Tensor, (node.args[0], SCALE[0]))
                value.meta.update(node.meta)
            node.replace_all_uses_with(value)
            graph.erase_node(node)

    def uuid(self):
        return "inline-scale"


config.post_grad_custom_post_pass = InlineScale()

for scale in (1.0, 3.0):
    SCALE[0] = scale
    torch._dynamo.reset()
    y = torch.compile(lambda x: torch.ops.scaled.by(x) + 1)(torch.ones(4))
    print(scale, y)
