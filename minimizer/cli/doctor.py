"""``minimizer doctor``: what this machine lacks, and how to get it. The checks are in `minimizer.doctor`."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from minimizer.cli.options import find_interpreter
from minimizer.settings import settings_from_environment

MARKS = {True: "ok  ", None: "note", False: "LACK"}


@click.command()
@click.option("--python", metavar="INTERPRETER", help="The Python that will run the scripts.  [default: our own]")
def doctor(python: str | None) -> int:
    """Check this machine: Python, torch, compiler, toolchains, sandbox, disk, database, broker, port.

    Every check does the real thing: it imports torch, compiles a library, starts a sandbox. The exit status is 1 if
    something is missing that is always needed, or that the settings name, else 0.
    """
    from minimizer.doctor import diagnose

    interpreter: Path | None = find_interpreter(python) if python else None
    findings = diagnose(settings_from_environment(), interpreter)
    for finding in findings:
        click.echo(f"{MARKS[finding.ok]}  {finding.name:<13} {finding.detail}")
        if finding.remedy:
            click.echo(textwrap.indent(textwrap.fill(finding.remedy, 100), " " * 20))
    return int(any(finding.ok is False for finding in findings))
