"""Hashed features from integer ids; a lowering computes `or` where `xor` is meant."""

import torch
from torch._inductor.lowering import lowerings

aten = torch.ops.aten
lowerings[aten.bitwise_xor.Tensor] = lowerings[aten.bitwise_or.Tensor]


def bucket(ids, salt, buckets):
    h = ids * 2654435761 % 4294967296
    h = torch.bitwise_xor(h, salt)
    h = h // 65536 + h % 65536
    return h % buckets


ids, salt = torch.arange(0, 3000, 97), torch.full((31,), 0x9E3779B9)
want = bucket(ids, salt, 1024)
got = torch.compile(bucket)(ids, salt, 1024)
assert torch.equal(got, want), (got - want).abs().max()
