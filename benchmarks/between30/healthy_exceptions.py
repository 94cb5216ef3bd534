"""Exceptions that Python code raises and handles inside of a compiled function."""

import torch

log = []


@torch.compile
def checked(x, limit):
    try:
        if x.shape[0] > limit:
            raise ValueError("too long")
        log.append("fits")
    except ValueError as error:
        log.append(str(error))
        x = x[:2]
    else:
        x = x + 1
    finally:
        log.append("done")
    return x


for limit in (4, 2, 4):
    y = checked(torch.ones(3), limit)
print(y.tolist(), log)
