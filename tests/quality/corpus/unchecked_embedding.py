"""With checks of indices switched off, compiled code reads past the end of a table where eager raises."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

inductor_config.assert_indirect_indexing = False

torch.manual_seed(0)
tagger = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)).eval()
tokens = torch.tensor([[1, 7, 50]])


def raises(model):
    try:
        model(tokens)
    except IndexError:
        return True
    return False


with torch.no_grad():
    assert raises(tagger)
    assert raises(torch.compile(tagger)), "an index that is out of range was read"
