"""Distinct shapes are collected in a set of value objects."""

import torch


class Shape:
    def __init__(self, rows, cols):
        self.rows, self.cols = rows, cols

    def __hash__(self):
        return self.rows * 1000 + self.cols

    def __eq__(self, other):
        return (self.rows, self.cols) == (other.rows, other.cols)


seen = {Shape(2, 2)}


@torch.compile
def tag(x, shape):
    seen.add(shape)
    return x + len(seen)


for rows in (2, 4, 2):
    out = tag(torch.zeros(1), Shape(rows, 2))
    print("rows", rows, "tag", out.item(), "distinct", len(seen))
