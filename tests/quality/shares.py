"""What one commit runs of the real reductions, and of long examples: the same on every day, another part for the next commit.

A test says by its mark, ``@pytest.mark.quality("corpus")``, which share of `make quality` it is in. One of `make test` whose examples
take seconds each says, ``@pytest.mark.examples(3)``, how many of them a commit runs.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

DRAWN = {
    "docs": 1,
    "slow": 15,
    "ranks": 5,
    "gpu twins": 1,
    "corpus": 5,
    "whole jobs": 3,
    "between": 2,
    "unexplained": 1,
    "healthy": 2,
    "findings": 1,
    "jumps": 1,
    "exact runs": 10,
}
"""How many tests of each share a commit runs, the share with the longest ones first: together 25 minutes on 2 cores at most."""


def commit() -> str:
    """The commit that is checked out; the empty text where there is no history, as in an unpacked archive."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def drawn(tests: Mapping[str, str], commit: str) -> list[str]:
    """The tests that this commit runs, of those whose shares are given; all if WHOLE_CORPUS is set. The longest come first."""
    names = {share: [name for name, own in tests.items() if own == share] for share in DRAWN}
    if unknown := set(tests.values()) - set(DRAWN):
        raise ValueError(f"{', '.join(sorted(unknown))}: no share of {', '.join(DRAWN)}")
    if "WHOLE_CORPUS" in os.environ:
        return [name for share in DRAWN for name in names[share]]
    return [name for share, count in DRAWN.items() for name in _draw(names[share], count, commit)]


def drawn_examples(counts: Mapping[str, int], commit: str) -> set[str]:
    """The examples that this commit runs, by their names, of which each test has as many as it says; all if WHOLE_CORPUS is set."""
    if "WHOLE_CORPUS" in os.environ:
        return set(counts)
    tests = defaultdict[str, list[str]](list)
    for name in counts:
        tests[name.partition("[")[0]].append(name)
    return {name for names in tests.values() for name in _draw(names, counts[names[0]], commit)}


def _draw(names: Iterable[str], count: int, commit: str) -> list[str]:
    """By the hash of the commit and of each name: neither the order of the tests nor how many there are matters to the others."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{commit} {name}".encode()).digest())[:count]
