"""A prefix cache whose order the compiled code loses; the script compares its answers with eager's, and stops at the first that differs."""

import sys
from collections import OrderedDict

import torch


class Prefixes:
    def __init__(self, room):
        self.room = room
        self.entries = OrderedDict()

    def embed(self, key, x):
        if key in self.entries:
            self.entries.move_to_end(key)
        else:
            self.entries[key] = x.sum()
            if len(self.entries) > self.room:
                self.entries.popitem(last=False)
        return x * 2 + len(self.entries)


def main():
    torch.manual_seed(0)
    x = torch.randn(4)
    eager, fast = Prefixes(2), Prefixes(2)
    embed = torch.compile(fast.embed)
    for key in ("a", "b", "a", "c"):
        expected, actual = eager.embed(key, x), embed(key, x)
        torch.testing.assert_close(actual, expected)
        if list(fast.entries) != list(eager.entries):
            print("order", list(fast.entries), "and not", list(eager.entries))
            sys.exit(1)


main()
