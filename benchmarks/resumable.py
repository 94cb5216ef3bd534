"""What benchmarks of single programs share: options, and rows of a results file, each of which is measured once."""

from __future__ import annotations

import argparse
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

Key = TypeVar("Key")


def parser_of(
    doc: str | None, results: Path, *, limit: int, of: str = "program", writes_page: bool = False
) -> argparse.ArgumentParser:
    """The options of a benchmark: names, ``--limit``, ``--fresh``, ``--table`` and ``--results``.

    Args:
        doc: the benchmark's docstring.
        results: the results file, one row a line.
        limit: seconds that one program may take.
        of: what a row is of.
        writes_page: whether the table is written to a page of docs/, and not only printed.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"how the names of {of}s begin (default: all)")
    parser.add_argument(
        "--limit", type=int, default=limit, metavar="SECONDS", help=f"budget of a {of} (default {limit})"
    )
    parser.add_argument("--fresh", action="store_true", help="run again what is known")
    parser.add_argument("--table", action="store_true", help=f"only {'write' if writes_page else 'print'} the table")
    parser.add_argument(
        "--results",
        type=Path,
        default=results,
        metavar="FILE",
        help="another one leaves the page alone" if writes_page else None,
    )
    return parser


def is_named(name: str, arguments: argparse.Namespace) -> bool:
    """Whether a program is among those that were asked for."""
    return name.startswith(tuple(arguments.names or [""]))


def due(keys: Iterable[Key], rows: Container[Key], arguments: argparse.Namespace) -> Iterator[Key]:
    """The programs to run now: those without a row, or all where they are to be run again; none where only the table is asked for."""
    for key in () if arguments.table else keys:
        if arguments.fresh or key not in rows:
            yield key
