"""Letters of all lengths as one jagged nested tensor: attention over the words of each letter without padding, and gates of one letter size."""

import torch
from torch import nn


class Postman(nn.Module):
    def __init__(self, words, width, districts):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.ask, self.tell = nn.Linear(width, 1), nn.Linear(width, width)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(2 * width, districts)

    def forward(self, letters):
        x = self.table(letters)
        weight = self.ask(torch.tanh(x)).softmax(1)
        heard = (weight * nn.functional.gelu(self.tell(x))).to_padded_tensor(0.0).sum(1)
        sizes = letters.offsets().diff()[:, None].to(heard.dtype)
        mean = self.norm(x).to_padded_tensor(0.0).sum(1) / sizes
        return self.head(torch.cat([heard, mean], -1))


def letters(count, longest):
    sizes = torch.randint(1, longest + 1, (count,)).tolist()
    texts = [torch.randint(0, 50, (size,)) for size in sizes]
    district = torch.tensor([int((text < 10).sum() > (text > 40).sum()) for text in texts])
    return torch.nested.nested_tensor(texts, layout=torch.jagged), district


def main():
    torch.manual_seed(90)
    model = Postman(words=50, width=16, districts=2)
    sort = torch.compile(model, dynamic=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for turn in range(10):
        batch, district = letters(12 + turn % 3, 14)
        loss = nn.functional.cross_entropy(sort(batch), district)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if turn % 3 == 2:
            print(f"turn {turn}: {len(batch.values())} words, loss {loss.item():.4f}")
    with torch.no_grad():
        chances = sort(letters(8, 6)[0]).softmax(-1)
    print("first district", [f"{x:.3f}" for x in chances[:, 0].tolist()])


main()
