"""Running log totals of quantized counts; inputs of a type without a kernel are converted first."""

import torch


@torch.compile
def running(counts):
    return torch.logcumsumexp(counts, dim=0)


def totals(counts):
    try:
        return running(counts)
    except NotImplementedError:
        return running(counts.float())


torch.manual_seed(0)
report = []
for size in ((), (3,), ()):
    counts = torch.randint(1, 9, size, dtype=torch.uint8)
    out = totals(counts)
    report.append((tuple(counts.shape), str(out.dtype)))
    print(tuple(counts.shape), out.dtype, [round(value, 4) for value in out.flatten().tolist()])
mean = sum(dtype == "torch.float32" for _, dtype in report) / len(report)
print("float", mean)
