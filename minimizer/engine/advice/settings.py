"""The finding of changed settings: non-default settings, who sets them, and the failure's outcome without them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from minimizer.engine.child.protocol import Changed
from minimizer.engine.findings import Fault
from minimizer.engine.user_script.syntax import full_name, imported
from minimizer.report.culprit import Source
from minimizer.report.finding import Finding, Remedy
from minimizer.report.model import Flag
from minimizer.vocabulary import counted

MOST_SETTINGS = 20
"""Most shown settings of one list; all are counted."""
SETTERS = re.compile(
    r"torch\._(?:dynamo|inductor|functorch)\.config\.|torch\.set_float32_matmul_precision$|torch\.use_deterministic_algorithms$"
    r"|torch\.backends\.[\w.]+\.(?:fp32_precision|allow_tf32)$"
)
"""Matches the dotted paths that set a setting."""
OUTCOMES = {
    "passes": "The failure is gone.",
    "fails": "The failure stays.",
    "fails otherwise": "It fails in another way.",
}
PRECISIONS = ("float32_matmul_precision", "fp32_precision", "allow_tf32")
"""Words, one of which is in any statement that sets a precision of float32 arithmetic."""


@dataclass(frozen=True)
class PutBack:
    """What is known of a failure with settings reset. ``repro``: its verified repro; None without one.

    ``is_minimal``: whether the repro was shown to need each of its settings and options.
    """

    flags: Sequence[Flag] = ()
    repro: str | None = None
    is_minimal: bool = False

    @classmethod
    def of(cls, fault: Fault, repro: str | None) -> PutBack:
        """The results of a fault's diagnosis and verification."""
        is_minimal = fault.reduction is not None and fault.reduction.fails_only_together
        return cls(fault.flags, repro if fault.holds else None, is_minimal)

    def remedies(self, changed: Sequence[Changed]) -> list[Remedy]:
        """The settings that were tried with their defaults, and the outcomes."""
        return [
            Remedy(what=f"`{one.name}` put back to `{one.default}`", helped=outcome == "passes", note=OUTCOMES[outcome])
            for one in changed
            if (outcome := self._outcome(one)) is not None
        ]

    def sentence(self, changed: Sequence[Changed]) -> str:
        """What the repro shows of the others: the settings that it needs, and those without which it fails.

        Empty if nothing.
        """
        others = [one for one in changed if self._outcome(one) is None]
        if self.repro is None:
            return ""
        needed = [one.name for one in others if self._needs(one, changed)]
        absent = [one.name for one in others if not _may_be_in(one, self.repro)]
        said = [f"needs {_listed(needed)}"] if needed else []
        said += [f"fails without {_listed(absent)}"] if absent else []
        return f"The reproducer {', and '.join(said)}." if said else ""

    def _needs(self, one: Changed, changed: Sequence[Changed]) -> bool:
        """Whether the repro has a setting that could not be removed from it: options are removed together."""
        if not self.is_minimal or self.repro is None or one.by == "environment":
            return False
        code = "\n".join(line for line in self.repro.splitlines() if not line.lstrip().startswith("#"))
        if one.by:
            is_alone = sum(other.by == one.by for other in changed) == 1
            return is_alone and re.search(rf"options=\{{['\"]{re.escape(one.name)}['\"]:", code) is not None
        return f"{one.name} = " in code

    def _outcome(self, one: Changed) -> str | None:
        """The outcome of a setting reset to its default; None if that was not tried."""
        tried = (flag for flag in self.flags if flag.name == one.name and _plain(flag.value) == _plain(one.default))
        outcome = next((flag.outcome for flag in tried), None)
        return outcome if outcome in OUTCOMES else None


UNKNOWN = PutBack()


def finding(changed: Sequence[Changed], script: str, name: str, known: PutBack = UNKNOWN) -> Finding | None:
    """The finding for the script ``name`` with this text; None if all settings have their defaults."""
    if not changed:
        return None
    told = (_by_script(changed), _by_options(changed), _by_environment(changed), known.sentence(changed))
    return Finding(
        kind="settings",
        what=" ".join(filter(None, told)),
        source=_first_setting(script, name),
        remedies=known.remedies(changed),
    )


def _by_script(changed: Sequence[Changed]) -> str:
    own = [one for one in changed if not one.by]
    told = [
        f"`{one.name}` is {one.value}{' while graphs are compiled' if one.is_passing else ''}{f' (default {one.default})' if one.default else ''}"
        for one in own
    ]
    return (
        f"The script changes {counted(len(own), 'setting')} of the compiler from the default: {_first(told, '; ')}."
        if own
        else ""
    )


def _by_options(changed: Sequence[Changed]) -> str:
    told = [f"`{one.name}` is {one.value}" for one in changed if one.by == "torch.compile"]
    return f"`torch.compile` is called with {counted(len(told), 'option')}: {_first(told, '; ')}." if told else ""


def _by_environment(changed: Sequence[Changed]) -> str:
    told = [f"`{one.name}`, which sets `{one.value}`" for one in changed if one.by == "environment"]
    return f"The environment has {_first(told, '; ')}." if told else ""


def _may_be_in(one: Changed, repro: str) -> bool:
    """Whether a repro may have a setting: its last name, or another form of it, is somewhere in its text."""
    if one.name.endswith(("fp32_precision", "float32_matmul_precision()")):
        return any(word in repro for word in PRECISIONS)
    if "deterministic_algorithms" in one.name:
        return "deterministic_algorithms" in repro
    words = [one.name, *re.split(r",\s*", one.value)] if one.by == "environment" else [one.name]
    is_by_mode = one.by == "torch.compile" and "mode=" in repro
    return is_by_mode or any(word.rpartition(".")[2] in repro for word in words)


def _first_setting(script: str, name: str) -> Source | None:
    """The first line of the script that assigns to a setting of the compiler, or sets one by a call."""
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError):
        return None
    first = min(_lines_of_settings(tree), default=0)
    return Source(file=name, line=first, code=script.splitlines()[first - 1].strip()) if first else None


def _lines_of_settings(tree: ast.Module) -> Iterator[int]:
    names = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.Call):
            targets = node.targets if isinstance(node, ast.Assign) else [node.func]
            passes_options = isinstance(node, ast.Call) and any(one.arg in ("options", "mode") for one in node.keywords)
            found = [full_name(target, names) for target in targets]
            if any(SETTERS.match(one) or (passes_options and one == "torch.compile") for one in found):
                yield node.lineno


def _listed(names: Sequence[str]) -> str:
    return _first([f"`{name}`" for name in names], ", ")


def _first(told: Sequence[str], between: str) -> str:
    """As many as are shown, and the number of the rest."""
    more = len(told) - MOST_SETTINGS
    return between.join([*told[:MOST_SETTINGS], *([f"and {more} more"] if more > 0 else [])])


def _plain(value: str) -> str:
    return value.strip("'\"")
