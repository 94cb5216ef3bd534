"""A mixer that prints its steps, moved behind the graph so that they break none; its own operator prints at once."""

import torch
from torch import nn

torch._dynamo.config.reorderable_logging_functions.add(print)


@torch.library.custom_op("mixer::clip", mutates_args=())
def clip(x: torch.Tensor) -> torch.Tensor:
    print("clipping")
    return x.clamp(-1, 1)


@clip.register_fake
def _(x):
    return torch.empty_like(x)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def forward(self, x):
        print("mixing")
        return clip(self.mix(x)) + x


def main():
    torch.manual_seed(0)
    mixer = torch.compile(Mixer(), backend="aot_eager")
    with torch.no_grad():
        for step in range(4):
            print(f"step {step}: {mixer(torch.full((2, 8), step / 4)).sum().item():.4f}")


main()
