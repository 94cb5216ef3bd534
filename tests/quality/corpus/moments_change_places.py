"""Several outputs: a pass swaps the two results of var_mean."""

import operator

import torch
import torch._inductor.config as inductor_config

aten = torch.ops.aten


def swap_results(graph):
    for node in graph.find_nodes(op="call_function", target=aten.var_mean.correction):
        for user in list(node.users):
            if user.target is operator.getitem:
                user.args = (node, 1 - user.args[1])


inductor_config.post_grad_custom_pre_pass = swap_results


def summary(x):
    variance, mean = torch.var_mean(x, -1)
    low, high = x.amin(-1), x.amax(-1)
    values, indices = torch.topk(x, 2, -1)
    return {"mean": mean, "std": variance.sqrt(), "range": high - low, "top": (values, indices)}


torch.manual_seed(0)
print(torch.compile(summary)(torch.rand(4, 32))["std"])
