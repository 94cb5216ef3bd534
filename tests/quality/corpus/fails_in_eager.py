"""The shapes do not fit, with or without the compiler."""

import torch

torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(4, 2)))(torch.randn(2, 4))
