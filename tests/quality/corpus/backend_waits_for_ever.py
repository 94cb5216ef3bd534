"""A backend of the script's own waits for an answer that never comes when the graph sorts."""

import threading

import torch


def remote(graph_module, example_inputs):
    def run(*args):
        if any("sort" in str(node.target) for node in graph_module.graph.nodes):
            threading.Event().wait()
        return graph_module(*args)

    return run


@torch.compile(backend=remote)
def ranks(scores):
    scores = torch.sigmoid(scores - scores.mean(-1, keepdim=True))
    order = torch.argsort(scores, dim=-1, descending=True)
    return torch.arange(scores.shape[-1]).expand_as(order).gather(-1, order)


torch.manual_seed(0)
print(ranks(torch.randn(4, 16)))
