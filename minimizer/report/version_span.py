"""Since when a failure is there, read off a table of torch versions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion
from packaging.version import Version as Number

from minimizer.report.examined import Version


@dataclass(frozen=True)
class Span:
    """Torch versions between which a failure appeared and disappeared; None beyond the table's range.

    The first failing version is one of ``first_bad`` and ``since``: the latter if no lower good version was tried, so
    that it may not be the first. ``disagree`` is a version of which some builds fail and others do not.
    """

    last_good: str | None = None
    first_bad: str | None = None
    since: str | None = None
    fixed_in: str | None = None
    disagree: str | None = None

    def __str__(self) -> str:
        said = [
            sentence.format(version)
            for sentence, version in (
                ("last good: {}", self.last_good),
                ("first bad: {}", self.first_bad),
                ("fails since at least {}, the oldest that could be tried", self.since),
                ("fixed in {}", self.fixed_in),
                ("builds of {} disagree", self.disagree),
            )
            if version is not None
        ]
        return ", ".join(said)


@dataclass(frozen=True)
class _Build:
    """An interpreter whose torch could be tried."""

    number: Number
    named: str
    fails: bool


def span(versions: Sequence[Version]) -> Span:
    """The first failing version, the last passing one before it, and the first passing one after the last failing one.

    Versions that cannot run are ignored. Equal versions keep the table's order. The part after a ``+`` names a build
    (``cpu``, ``cu130``) and no later release: builds of one release have no order. If they disagree, only the same
    build of another release is a good neighbour of a bad one.
    """
    releases = _releases(versions)
    failing = [index for index, builds in enumerate(releases) if any(build.fails for build in builds)]
    if not failing:
        return Span()
    first, last = failing[0], failing[-1]
    bad, good = _beside(releases[first], releases[:first][::-1])
    _, fixed = _beside(releases[last], releases[last + 1 :])
    mixed = (releases[index] for index in failing if not all(build.fails for build in releases[index]))
    return Span(
        last_good=good.named if good else None,
        first_bad=bad.named if good else None,
        since=bad.named if first == 0 else None,
        fixed_in=fixed.named if fixed else None,
        disagree=next((builds[0].number.public for builds in mixed), None),
    )


def _releases(versions: Sequence[Version]) -> list[list[_Build]]:
    """The builds that could be tried, release by release, the oldest first; equal ones (a patched copy) in the table's order."""
    found: dict[Number, list[_Build]] = {}
    for version in versions:
        number = _number(version.torch)
        if number is not None and version.outcome != "cannot_run":
            build = _Build(number, _named(version, versions), version.outcome == "fails")
            found.setdefault(Number(number.public), []).append(build)
    apart = (
        [[b] for b in builds] if len({b.number.local for b in builds}) == 1 else [builds] for builds in found.values()
    )
    return sorted(itertools.chain.from_iterable(apart), key=lambda builds: Number(builds[0].number.public))


def _beside(release: Sequence[_Build], others: Sequence[Sequence[_Build]]) -> tuple[_Build, _Build | None]:
    """A failing build of a release, and a good one of the nearest of other releases, the same build if that is there."""
    bad = [build for build in release if build.fails]
    for builds in others:
        alike = [(one, other) for one in bad for other in builds if one.number.local == other.number.local]
        if alike:
            return alike[0]
        if len(bad) == len(release):
            return bad[0], builds[0]
    return bad[0], None


def _number(text: str) -> Number | None:
    try:
        return Number(text)
    except InvalidVersion:
        return None


def _named(version: Version, versions: Sequence[Version]) -> str:
    """The version, and the interpreter if several have the same."""
    is_unique = sum(other.torch == version.torch for other in versions) == 1
    return version.torch if is_unique else f"{version.torch} ({version.name})"
