"""A subclass of a layer overrides the rate of its base after the first step."""

import torch


class Layer:
    rate = 0.1


class Embedding(Layer):
    pass


embedding = Embedding()


@torch.compile
def update(weight):
    return weight - embedding.rate * 10


w = torch.zeros(2)
w = update(w)
print("base rate", w.tolist())
Embedding.rate = 0.5
w = update(w)
print("own rate ", w.tolist())
