"""An embedding with a padding index; the decomposition of its backward has been replaced by one that forgets the padding."""

import torch
from torch import nn
from torch._inductor.decomposition import decompositions

aten = torch.ops.aten


def embedding_dense_backward(gradient, indices, rows, padding_index, scale_by_frequency):
    flat = gradient.reshape(-1, gradient.shape[-1])
    return gradient.new_zeros(rows, gradient.shape[-1]).index_add(0, indices.reshape(-1), flat)


decompositions[aten.embedding_dense_backward.default] = embedding_dense_backward

torch.manual_seed(0)
embed = nn.Embedding(12, 6, padding_idx=0)
classify = nn.Linear(6, 2)


def loss(ids, labels):
    return nn.functional.cross_entropy(classify(embed(ids).mean(1)), labels)


ids, labels = torch.randint(0, 12, (4, 7)) * (torch.rand(4, 7) > 0.4), torch.tensor([0, 1, 1, 0])
want = torch.autograd.grad(loss(ids, labels), embed.weight)
got = torch.autograd.grad(torch.compile(loss)(ids, labels), embed.weight)
torch.testing.assert_close(got, want)
