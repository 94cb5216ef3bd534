"""A loader with worker processes that augments images at random, beside a compiled model in channels-last bfloat16."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    """Squares and crosses at random places, with noise that each worker draws for itself."""

    def __len__(self):
        return 48

    def __getitem__(self, index):
        image, label = torch.zeros(1, 16, 16), index % 2
        row, column = torch.randint(2, 12, (2,)).tolist()
        if label:
            image[0, row, column - 2 : column + 3] = 1
            image[0, row - 2 : row + 3, column] = 1
        else:
            image[0, row - 1 : row + 2, column - 1 : column + 2] = 1
        return {"image": image + 0.1 * torch.randn(1, 16, 16), "label": label, "name": f"shape {index}"}


def main():
    torch.manual_seed(34)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, 2),
    ).to(memory_format=torch.channels_last)  # fmt: skip
    compiled = torch.compile(model, mode="max-autotune-no-cudagraphs")
    loader = DataLoader(Shapes(), batch_size=16, shuffle=True, num_workers=2, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        seen = []
        for batch in loader:
            image = batch["image"].contiguous(memory_format=torch.channels_last)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(compiled(image), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += batch["name"]
        print(f"epoch {epoch}: loss {loss.item():.2f}, first {seen[0]}")


if __name__ == "__main__":
    main()
