"""Training writes a checkpoint; the serving copy, which is not compiled, takes what fits."""

import io

import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 12)
        self.score = nn.Linear(12, 1)

    def forward(self, x):
        return self.score(torch.tanh(self.embed(x))).squeeze(-1)


def train(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        x = torch.randn(64, 6)
        loss = (model(x) - x[:, 0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(4)
    server = Scorer()
    model = torch.compile(Scorer())
    for round_ in range(2):
        loss = train(model, 10)
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        server.load_state_dict(torch.load(file), strict=False)
        x = torch.eye(6)
        print(f"round {round_}: loss {loss:.4f}, served {server(x).detach().round(decimals=4).tolist()}")


if __name__ == "__main__":
    main()
