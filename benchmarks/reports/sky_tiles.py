"""Rows of a camera are padded to 16 pixels: exposure is corrected in place, and tiles of the sky set the next exposure."""

import torch

ROWS, WIDTH, PITCH = 12, 12, 16
TILE = 3


def expose(image, gain):
    """Corrects the frame (rows, width) and copies its upper half as (2, 4) tiles of 3 by 3 pixels."""
    image.mul_(gain)
    image.clamp_(max=1.0)
    shape = (2, WIDTH // TILE, TILE, TILE)
    return torch.as_strided_copy(image, shape, (TILE * PITCH, TILE, PITCH, 1))


expose = torch.compile(expose)


def scene(number):
    """A sky that gets brighter, over a dark ground."""
    sky = 0.2 + 0.02 * number + 0.02 * torch.rand(ROWS // 2, WIDTH)
    ground = 0.05 * torch.rand(ROWS // 2, WIDTH)
    return torch.cat([sky, ground])


torch.manual_seed(4)
memory = torch.zeros(ROWS, PITCH)
frame = memory[:, :WIDTH]
gain = torch.tensor(1.0)
for number in range(6):
    frame.copy_(scene(number))
    tiles = expose(frame, gain)
    brightness = tiles.mean(dim=(2, 3))
    print(
        f"frame {number}  gain {gain.item():.3f}  sky {brightness.mean().item():.3f}",
        f" darkest tile {brightness.min().item():.3f}",
    )
    gain = (gain * 0.5 / brightness.mean()).clamp(0.25, 8.0)

print("gain at the end", round(gain.item(), 3))
print("pixels that are burnt out", (frame == 1.0).sum().item())
