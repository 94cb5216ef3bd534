"""A bfloat16 network: every result is rounded to eight bits."""

import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 64)).bfloat16()
compiled = torch.compile(model)
compiled(torch.randn(32, 64, dtype=torch.bfloat16)).float().sum().backward()
