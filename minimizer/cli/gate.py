"""Output for a CI system: whether a failure counts, and the result in the formats that such systems read.

``--fail-on`` turns the exit status of a search, where 0 means that a repro was found, into that of a gate, where 0 lets
the build continue.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from minimizer.cli import ci_formats
from minimizer.cli.exit_status import exit_status, gate_status
from minimizer.cli.options import require_place
from minimizer.errors import InvalidOption
from minimizer.report.identity import fingerprint
from minimizer.report.model import Verification
from minimizer.vocabulary import Reason, Status

Command = TypeVar("Command", bound=Callable[..., Any])
FailOn = Literal["any", "new", "layout"]


@dataclass(frozen=True)
class Gate:
    """The options of the command line that concern CI."""

    fail_on: FailOn | None
    baseline: Path | None
    junit: Path | None
    sarif: Path | None

    def check(self) -> None:
        """Refuse what could not be read or written in the end.

        Raises:
            InvalidOption: a file cannot be used.
        """
        self.known()
        require_place("--junit", self.junit)
        require_place("--sarif", self.sarif)

    def known(self) -> frozenset[str]:
        """The fingerprints of the baseline.

        Raises:
            InvalidOption: it cannot be read.
        """
        if self.baseline is None:
            return frozenset()
        try:
            lines = self.baseline.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidOption(f"--baseline {self.baseline} cannot be read: {error}") from None
        return frozenset(name for line in lines if (name := line.partition("#")[0].strip()))


def gate_options(command: Command) -> Command:
    """Add the options that `Gate` holds."""
    options = (
        click.option(
            "--fail-on",
            type=click.Choice(("any", "new", "layout")),
            help="Exit as a gate: 6 for a verified failure (new: unless it is known; layout: also where only memory layout differs), "
            "0 for any other verdict on the compiler.",
        ),
        click.option(
            "--baseline",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Fingerprints of known failures, one a line; what follows # is a comment.",
        ),
        click.option(
            "--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write JUnit XML."
        ),
        click.option(
            "--sarif", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write SARIF 2.1.0."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def conclude(
    gate: Gate, script: Path, report: dict[str, Any], folder: Path, *, url: str | None = None, on_server: bool = False
) -> int:
    """Report the final result to the CI system, as requested; returns the exit status.

    Args:
        gate: the requested formats and conditions.
        script: its path as the user gave it, which CI systems resolve in the repository.
        report: in its contract form.
        folder: the folder of the results.
        url: the job's page, if there is one.
        on_server: the failure has a note or an issue on the server.
    """
    status, reason = Status(report["status"]), Reason(report["reason"]) if report.get("reason") else None
    name = fingerprint(report)
    is_known = on_server or (name is not None and name in gate.known())
    is_verified = _is_verified(report)
    is_passed_by = (gate.fail_on == "new" and is_known) or (gate.fail_on != "layout" and _is_layout_only(report))
    counts = is_verified and not is_passed_by
    finding = ci_formats.Finding(script, report, name, counts=counts, is_known=is_known, url=url, repro=_repro(folder))
    if gate.junit is not None:
        _write(gate.junit, ci_formats.junit(finding))
    if gate.sarif is not None:
        _write(gate.sarif, ci_formats.sarif(finding))
    if os.environ.get("GITHUB_ACTIONS") == "true" and (line := ci_formats.annotation(finding)):
        click.echo(line, err=True)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(summary), ci_formats.step_summary(finding))
    if gate.fail_on is None:
        return exit_status(status, reason)
    if name is not None and is_verified:
        # With "any" a baseline changes nothing, so there is nothing to be put into one.
        accept = f"; to accept it, put this line into a --baseline file: {name}" if gate.fail_on == "new" else ""
        click.echo(f"fingerprint {name} ({'known' if is_known else f'new{accept}'})", err=True)
    return gate_status(status, reason, counts=counts)


def _is_verified(report: dict[str, Any]) -> bool:
    """Whether there is a failure whose repro holds."""
    # Not validated: a newer service may have more fields.
    return bool(report.get("failure")) and Verification.model_construct(**(report.get("verification") or {})).holds


def _is_layout_only(report: dict[str, Any]) -> bool:
    """Whether all values are equal, and only strides differ."""
    return bool((report.get("failure") or {}).get("layout_only"))


def _repro(folder: Path) -> str:
    path = folder / "repro.py"
    return path.read_text() if path.exists() else ""


def _append(summary: Path, text: str) -> None:
    try:
        with summary.open("a") as file:
            file.write(text)
    except OSError as error:  # it is CI's own file, and not worth the verdict
        click.echo(f"GITHUB_STEP_SUMMARY cannot be written: {error}", err=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
