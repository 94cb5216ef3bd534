"""A character model is trained on one rhyme and then writes text, drawn from its softmax by a generator of its own."""

import torch
from torch import nn

RHYME = "jack and jill went up the hill to fetch a pail of water jack fell down and broke his crown "
LETTERS = sorted(set(RHYME))


class Writer(nn.Module):
    def __init__(self, letters, width):
        super().__init__()
        self.table = nn.Embedding(letters, width)
        self.cell = nn.GRUCell(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters)

    def forward(self, letter, state):
        state = self.cell(self.table(letter), state)
        return self.head(self.norm(state)), state


def train(writer, text, steps=12, window=8):
    optimizer = torch.optim.AdamW(writer.parameters(), lr=1e-2)
    for step in range(steps):
        starts = torch.randint(0, len(text) - window - 1, (16,))
        pieces = torch.stack([text[start : start + window + 1] for start in starts])
        state, loss = torch.zeros(16, 32), 0.0
        for position in range(window):
            logits, state = writer(pieces[:, position], state)
            loss = loss + nn.functional.cross_entropy(logits, pieces[:, position + 1])
        optimizer.zero_grad()
        (loss / window).backward()
        nn.utils.clip_grad_norm_(writer.parameters(), 1.0)
        optimizer.step()
        if step % 4 == 3:
            print(f"step {step}: {loss.item() / window:.3f} nats a letter")


@torch.no_grad()
def write(writer, count, temperature):
    generator = torch.Generator().manual_seed(5)
    letter, state, written = torch.tensor([LETTERS.index("j")]), torch.zeros(1, 32), ["j"]
    for _ in range(count):
        logits, state = writer(letter, state)
        letter = torch.multinomial(torch.softmax(logits / temperature, -1), 1, generator=generator)[:, 0]
        written.append(LETTERS[int(letter)])
    return "".join(written)


torch.manual_seed(0)
model = torch.compile(Writer(len(LETTERS), 32))
train(model, torch.tensor([LETTERS.index(letter) for letter in RHYME]))
print(write(model, 40, temperature=0.8))
