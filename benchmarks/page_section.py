"""The section of a page that a benchmark writes: what stands between its two marks."""

from __future__ import annotations

from pathlib import Path


def rewrite(page: Path, begin: str, end: str, text: str) -> None:
    """Put ``text`` between the marks ``begin`` and ``end`` of ``page``, and leave all that is around them."""
    before, _, rest = page.read_text().partition(begin)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}")
