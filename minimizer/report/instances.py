"""Equal modules in words: in which of them the same is wrong, and in which it is not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field

from minimizer.report.part import Part

MOST_GROUPS = 5
"""Parts of a list of modules that are written out."""
HOW = {
    "calls": "each in its own calls of the script, compared with eager",
    "operators": "there the same operators were compiled alone, on eager's inputs",
    "modules": "each was compiled alone, on eager's inputs",
}
"""The compared objects, by `Instances.compared`."""


class Instances(Part):
    """Modules that are equal to a culprit's, as far as they were compared: paths from the root of the model."""

    wrong: list[str] = Field(default_factory=list, description="Where the same is wrong, the culprit's own included.")
    right: list[str] = Field(default_factory=list, description="Where all that was compared is right.")
    unclear: list[str] = Field(default_factory=list, description="Where it can be called neither.")
    compared: Literal["calls", "operators", "modules"] = Field(
        "calls",
        description="What was compared: their own calls in the script; the culprit's operators, or the whole modules, compiled alone.",
    )


def others(culprit: Mapping[str, Any]) -> str:
    """What is known of a culprit's equal modules: ``the same in layers 1 to 11, and not in layers 12 to 63``.

    Empty if nothing is.
    """
    known = culprit.get("instances")
    if not known or places(culprit):
        return ""
    own = str(culprit.get("module") or "")
    same = "the same" if known["compared"] != "modules" else "fails by itself too"
    more = [path for path in known["wrong"] if not _is_in(own, path)]
    said = [f"{same} in {listed(more)}"] if more else []
    said += [f"not in {listed(known['right'])}"] if known["right"] else []
    said += [f"unclear in {listed(known['unclear'])}"] if known["unclear"] else []
    return ", and ".join(said)


def compared(culprit: Mapping[str, Any]) -> str:
    """The objects compared for that."""
    return HOW[culprit["instances"]["compared"]]


def places(culprit: Mapping[str, Any]) -> str:
    """The modules of an entry that is known by nothing else: ``layers 1 to 11, and not layer 12``; empty for any other."""
    known = culprit.get("instances")
    if not known or culprit.get("nodes") or culprit.get("ops"):
        return ""
    right = f", and not {listed(known['right'])}" if known["right"] else ""
    return listed(known["wrong"]) + right


def listed(paths: Sequence[str]) -> str:
    """Paths of modules, those that differ in their last number taken together: ``layers 0 to 11 and 14``."""
    groups: dict[tuple[str, str], list[int]] = {}
    for path in paths:
        found = re.fullmatch(r"(?:(.*)\.)?(\d+)((?:\.\D[^.]*)*)", path)
        key = (found[1] or "", found[3]) if found else (path, "")
        groups.setdefault(key, []).extend([int(found[2])] if found else [])
    said = [_group(head, tail, sorted(set(numbers))) for (head, tail), numbers in groups.items()]
    rest = [f"{len(said) - MOST_GROUPS} more"] if len(said) > MOST_GROUPS else []
    return _joined([*said[:MOST_GROUPS], *rest])


def _group(head: str, tail: str, numbers: Sequence[int]) -> str:
    if len(numbers) < 2:
        return ".".join(filter(None, (head, *map(str, numbers)))) + tail
    where = f" ({tail.removeprefix('.')})" if tail else ""
    runs = list(_runs(numbers))
    rest = [f"{len(runs) - MOST_GROUPS} more"] if len(runs) > MOST_GROUPS else []
    return f"{head or 'modules'} {_joined([*runs[:MOST_GROUPS], *rest])}{where}"


def _runs(numbers: Sequence[int]) -> Iterator[str]:
    """Numbers in ascending order, those that follow each other as one."""
    ends = [i for i, (a, b) in enumerate(pairwise(numbers)) if b != a + 1]
    for first, last in zip([0, *(end + 1 for end in ends)], [*ends, len(numbers) - 1], strict=True):
        if last - first > 1:
            yield f"{numbers[first]} to {numbers[last]}"
        else:
            yield from map(str, dict.fromkeys((numbers[first], numbers[last])))


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _is_in(module: str, path: str) -> bool:
    return f"{module}.".startswith(f"{path}.")
