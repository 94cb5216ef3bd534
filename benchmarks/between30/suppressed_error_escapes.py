"""Optional lookup: a missing row is skipped by contextlib.suppress."""

import contextlib

import torch


@torch.compile
def optional_row(table, index):
    row = table[:1] * 0
    with contextlib.suppress(IndexError):
        row = table.index_select(0, index)
    return row


table = torch.arange(1.0, 4.0)
served = failed = 0
for ids in ([0], [7], [2]):
    try:
        optional_row(table, torch.tensor(ids))
        served += 1
    except IndexError:
        failed += 1
print("served", served, "failed", failed)
