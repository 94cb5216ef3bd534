"""Speech with an LSTM and CTC loss: blank paths of -inf, clipped gradients near their threshold, a schedule by plateau."""

import torch
from torch import nn


class Listener(nn.Module):
    def __init__(self, bands, width, letters):
        super().__init__()
        self.front = nn.Conv1d(bands, width, 5, stride=2, padding=2)
        self.norm = nn.LayerNorm(width)
        self.body = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, letters + 1)

    def forward(self, sound):
        x = nn.functional.gelu(self.front(sound)).mT
        x, _ = self.body(self.norm(x))
        return self.head(x).log_softmax(-1)


def speak(batch, letters):
    """Words of three to six letters; each letter is a few frames of its own band, with noise."""
    sizes = torch.randint(3, 7, (batch,))
    words = torch.randint(1, letters + 1, (batch, 6))
    sound = 0.3 * torch.randn(batch, 12, 48)
    for row in range(batch):
        for place in range(int(sizes[row])):
            sound[row, words[row, place], 8 * place : 8 * place + 6] += 1
    return sound, words, sizes


def read(log_probs):
    """Greedy letters without repeats and blanks."""
    best = log_probs.argmax(-1)
    return [[int(x) for x in torch.unique_consecutive(row) if x] for row in best]


def main():
    torch.manual_seed(8)
    model = Listener(bands=12, width=24, letters=10)
    listen = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    ctc = torch.compile(nn.CTCLoss(zero_infinity=True))
    clipped = 0
    for step in range(14):
        sound, words, sizes = speak(8, 10)
        log_probs = listen(sound)
        lengths = torch.full((8,), log_probs.shape[1])
        lengths[0] = 3  # too short for its word
        loss = ctc(log_probs.transpose(0, 1), words, lengths, sizes)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        clipped += norm.item() > 1.0
        optimizer.step()
        plateau.step(loss.item())
        if step % 5 == 4:
            print(f"step {step}: loss {loss.item():.3f}, norm {norm.item():.3f}, rate {plateau.get_last_lr()[0]:.4f}")
    model.eval()
    with torch.no_grad():
        print("clipped", clipped, "heard", read(listen(speak(2, 10)[0])))


main()
