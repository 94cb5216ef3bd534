"""A backend that hands out the same output buffer at every call: the outputs of earlier calls, which the script keeps, change."""

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
        for buffer, x in zip(self.buffers, inputs, strict=True):
            buffer.copy_(x)
        self.replay()
        return list(self.outputs)

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
            return
        for output, result in zip(self.outputs, self.module(*self.buffers), strict=True):
            output.copy_(result)


def record(module, example_inputs):
    return Recorded(module)


def scores(query, key):
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1)


device = sys.argv[1]
torch.manual_seed(0)
compiled = torch.compile(scores, backend=record)
batches = [torch.randn(2, 4, 8, 16, device=device) for _ in range(3)]
with torch.no_grad():
    kept = [compiled(query, key) for query, key in batches]
    expected = [scores(query, key) for query, key in batches]
torch.testing.assert_close(kept, expected)
