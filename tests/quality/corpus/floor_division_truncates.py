"""Calendar arithmetic on integers; a pass lets a division round towards zero."""

import torch
import torch._inductor.config as inductor_config

aten = torch.ops.aten


def truncate(graph):
    for node in graph.find_nodes(op="call_function", target=aten.div.Tensor_mode):
        if node.kwargs["rounding_mode"] == "floor":
            node.kwargs = {"rounding_mode": "trunc"}


inductor_config.joint_custom_post_pass = truncate


@torch.compile
def calendar(days):
    shifted = days + 719468
    era = torch.div(shifted - 800000, 146097, rounding_mode="floor")
    day = shifted - era * 146097
    year = torch.div(day, 365, rounding_mode="floor") + era * 400
    return year, day


print(calendar(torch.arange(-40000, 40000, 7919)))
