"""Residuals of bytes, as an image codec writes them, with a checksum over each block."""

import torch


@torch.compile
def block_sum(block):
    """Sum over the header and the trailer of a block, which are both its negative, byte by byte."""
    negative = -block.abs()
    return torch.cat([negative, negative]).sum()


def residuals(image):
    """Each row less the row above it, modulo 256."""
    above = torch.cat([torch.zeros_like(image[:1]), image[:-1]])
    return image - above


torch.manual_seed(5)
image = torch.randint(0, 256, (24, 15), dtype=torch.uint8)
coded = residuals(image)

checksums = []
for number, block in enumerate(coded.split(8)):
    checksum = block_sum(block.flatten()).item()
    checksums.append(checksum % 65521)
    print(f"block {number}: mean {block.float().mean().item():7.2f}  checksum {checksum}")

decoded = coded.clone()
for row in range(1, len(decoded)):
    decoded[row] += decoded[row - 1]
print("lossless", torch.equal(decoded, image))
print("file checksum", sum(checksums) % 65521)
