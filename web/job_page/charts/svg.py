"""Small parts of SVG text. Everything except numbers is escaped here."""

from __future__ import annotations

import zlib

from markupsafe import Markup, escape


def picture(kind: str, width: float, height: float, title: str, description: str, body: str) -> Markup:
    """A whole picture; ``body`` is SVG, the words are plain text.

    Redrawing gives the same text, so that a page keeps it.
    """
    name = f"picture-{zlib.crc32(f'{title} {description} {body}'.encode()):x}"
    return Markup(  # body consists of numbers and of output of `text` and `tip`
        f'<svg class="{kind}" width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="{name} {name}-d">'
        f'<title id="{name}">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>{body}</svg>'
    )


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def tip(words: str) -> str:
    """The tooltip of a part."""
    return f"<title>{escape(words)}</title>"


def shorten(words: str, most: int) -> str:
    """The end of a long path, which is more informative than its beginning."""
    return words if len(words) <= most else f"\N{HORIZONTAL ELLIPSIS}{words[1 - most :]}"


def figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"
