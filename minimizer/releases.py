"""Since when a failure is there, read off a table of torch versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion
from packaging.version import Version as Number

from minimizer.report import Version


@dataclass(frozen=True)
class Span:
    """Torch versions between which a failure came and went; None where the table does not reach so far."""

    last_good: str | None = None
    first_bad: str | None = None
    fixed_in: str | None = None

    def __str__(self) -> str:
        said = [
            f"{word} {version}"
            for word, version in (
                ("last good:", self.last_good),
                ("first bad:", self.first_bad),
                ("fixed in", self.fixed_in),
            )
            if version is not None
        ]
        return ", ".join(said)


def span(versions: Sequence[Version]) -> Span:
    """The first failing version, the one that passed last before it, and the first that passes after the last failing one.

    Versions that cannot run say nothing. Equal ones (a patched build) stand in the order of the table.
    """
    known = [(number, v) for v in versions if v.outcome != "cannot_run" and (number := _number(v.torch)) is not None]
    known.sort(key=lambda pair: pair[0])
    fails = [index for index, (_, version) in enumerate(known) if version.outcome == "fails"]
    if not fails:
        return Span()
    named = [_named(version, versions) for _, version in known]
    return Span(
        last_good=named[fails[0] - 1] if fails[0] > 0 else None,
        first_bad=named[fails[0]],
        fixed_in=named[fails[-1] + 1] if fails[-1] + 1 < len(named) else None,
    )


def _number(text: str) -> Number | None:
    try:
        return Number(text)
    except InvalidVersion:
        return None


def _named(version: Version, versions: Sequence[Version]) -> str:
    """The version, and the interpreter where several have the same."""
    is_unique = sum(other.torch == version.torch for other in versions) == 1
    return version.torch if is_unique else f"{version.torch} ({version.name})"
