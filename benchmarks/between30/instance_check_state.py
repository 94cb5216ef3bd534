"""A metaclass decides which layers count as frozen."""

import torch


class Frozen(type):
    active = True

    def __instancecheck__(cls, thing):
        return Frozen.active


class FrozenLayer(metaclass=Frozen):
    pass


class Layer:
    rate = 0.5


@torch.compile
def step(weight, layer):
    if isinstance(layer, FrozenLayer):
        return weight * 1
    return weight - layer.rate


layer = Layer()
w = torch.ones(2)
w = step(w, layer)
print("frozen  ", w.tolist())
Frozen.active = False
w = step(w, layer)
print("unfrozen", w.tolist())
