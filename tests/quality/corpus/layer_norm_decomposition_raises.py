"""A transformer block; the decomposition of layer_norm has been replaced by one for two dimensions."""

import torch
from torch import nn
from torch._inductor.decomposition import decompositions


def layer_norm_2d(x, shape, weight, bias, eps):
    if x.dim() != 2:
        raise ValueError(f"layer_norm takes two dimensions, not {x.dim()}")
    mean = x.mean(1, keepdim=True)
    rstd = torch.rsqrt((x - mean).square().mean(1, keepdim=True) + eps)
    return (x - mean) * rstd * weight + bias, mean, rstd


decompositions[torch.ops.aten.native_layer_norm.default] = layer_norm_2d

torch.manual_seed(0)
block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
x = torch.randn(2, 5, 16)
torch.testing.assert_close(torch.compile(block)(x), block(x))
