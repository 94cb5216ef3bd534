"""Fixed-point iteration with while_loop; the evaluations of the condition are counted for the budget."""

import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop


class FixedPoint(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.register_buffer("evaluations", torch.zeros(()))
        with torch.no_grad():
            self.mix.weight.mul_(0.5)

    def forward(self, x):
        self.evaluations.add_(1)

        def unfinished(step, state):
            self.evaluations.add_(1)
            return step < 4

        def advance(step, state):
            return step + 1, torch.tanh(self.mix(state) + x)

        _, state = while_loop(unfinished, advance, (torch.zeros((), dtype=torch.int64), torch.zeros_like(x)))
        return state


def main():
    torch.manual_seed(2)
    model = FixedPoint(4).eval()
    solve = torch.compile(model)
    with torch.no_grad():
        for request in range(3):
            answer = solve(torch.randn(3, 4))
            print(f"request {request}: {answer.mean().item():.5f} after {int(model.evaluations)} evaluations")


if __name__ == "__main__":
    main()
