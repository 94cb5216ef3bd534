"""An echo task for a recurrent net: the gain of its recurrence is far above one, and what rounding leaves grows from step to step."""

import torch


class Echo(torch.nn.Module):
    def __init__(self, width=32, gain=3.0):
        super().__init__()
        self.enter = torch.nn.Linear(4, width)
        self.again = torch.nn.Linear(width, width, bias=False)
        self.leave = torch.nn.Linear(width, 4)
        with torch.no_grad():
            self.again.weight.normal_(0, gain / width**0.5)

    def forward(self, sequence):
        state = torch.zeros(sequence.shape[1], self.again.in_features)
        for step in sequence:
            state = torch.tanh(self.enter(step) + self.again(state))
        return self.leave(state)


torch.manual_seed(0)
net = Echo()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
compiled = torch.compile(net)
for step in range(80):
    sequence = torch.randn(8, 16, 4)
    loss = (compiled(sequence) - sequence[2]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    if step % 10 == 9:
        print(step + 1, round(loss.item(), 4))
