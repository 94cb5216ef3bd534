"""Which units of a layer matter: each is silenced in turn by a hook, and the loss is compared with that of all of them."""

import torch
from torch import nn
from torch.nn import functional as F


def silence(unit):
    """A forward hook that sets one unit of its layer's output to zero."""

    def hook(module, args, output):
        output = output.clone()
        output[:, unit] = 0
        return output

    return hook


torch.manual_seed(12)
first = nn.Linear(6, 5)
last = nn.Linear(5, 3)


@torch.compile
def scores(x):
    return last(torch.relu(first(x)))


x = torch.randn(40, 6)
labels = torch.randint(0, 3, (40,))
with torch.no_grad():
    whole = F.cross_entropy(scores(x), labels).item()
    print(f"all units  loss {whole:.4f}")
    losses = []
    for unit in range(5):
        handle = first.register_forward_hook(silence(unit))
        losses.append(F.cross_entropy(scores(x), labels).item())
        handle.remove()
        print(f"without unit {unit}  loss {losses[-1]:.4f}")

changed = [unit for unit, loss in enumerate(losses) if abs(loss - whole) > 1e-3]
print("units that matter", changed)
