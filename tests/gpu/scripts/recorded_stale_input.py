"""A backend that records a graph once, on buffers of its own, and forgets to copy the inputs of later calls into them."""

import sys

import torch


class Recorded:
    """A CUDA graph of a captured graph; on a CPU the same buffers, and the graph run again."""

    def __init__(self, module):
        self.module, self.buffers = module, None

    def __call__(self, *inputs):
        if self.buffers is None:
            self.buffers = [x.clone() for x in inputs]
            self.record()
        self.replay()
        return [output.clone() for output in self.outputs]

    def record(self):
        self.outputs = self.module(*self.buffers)
        if self.outputs[0].is_cuda:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.module(*self.buffers)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.outputs = self.module(*self.buffers)

    def replay(self):
        if self.outputs[0].is_cuda:
            self.graph.replay()
        else:
            self.outputs = self.module(*self.buffers)


def record(module, example_inputs):
    return Recorded(module)


def scores(query, key):
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1)


device = sys.argv[1]
torch.manual_seed(0)
compiled = torch.compile(scores, backend=record)
with torch.no_grad():
    for _ in range(3):
        query, key = torch.randn(2, 4, 8, 16, device=device)
        torch.testing.assert_close(compiled(query, key), scores(query, key))
