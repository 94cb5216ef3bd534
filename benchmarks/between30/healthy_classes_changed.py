"""Class attributes, properties and descriptors that change between calls, where Dynamo guards them."""

import torch


class Rate:
    value = 1.0

    def __get__(self, owner, kind=None):
        return self.value


class Layer:
    rate = Rate()
    calls = 0

    @property
    def doubled(self):
        return self.rate * 2


layer = Layer()


@torch.compile
def update(w):
    Layer.calls += 1
    return w - layer.doubled


w = torch.zeros(1)
for value in (1.0, 2.0, 2.0):
    Layer.__dict__["rate"].value = value
    w = update(w)
print(w.tolist(), Layer.calls)
