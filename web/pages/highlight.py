"""Source as highlighted HTML, with classes only: the colours are in the style sheet, for light and dark."""

from __future__ import annotations

from collections.abc import Collection

from markupsafe import Markup
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

# Beyond this a page would be slow to make and to read; the file itself is one click away.
MAX_CHARS = 200_000


def python(source: str, marked: Collection[int] = ()) -> Markup:
    """Highlight Python; see `numbered`."""
    return numbered(source, "python", marked)


def numbered(text: str, language: str, marked: Collection[int] = ()) -> Markup:
    """Highlight ``text``; the lines ``marked`` (from 1) are emphasised. Line numbers come from a CSS counter."""
    lexer = get_lexer_by_name(language, stripnl=False)
    html = highlight(text[:MAX_CHARS].rstrip("\n"), lexer, HtmlFormatter(nowrap=True))
    # Pygments closes its spans at the end of every line, so that each line can be wrapped.
    lines = html.removesuffix("\n").split("\n")
    return Markup("\n".join(_line(line, number in marked) for number, line in enumerate(lines, 1)))  # Pygments escapes


def source(text: str, language: str) -> Markup:
    """Highlight a few lines in any language; one that is not known stays plain."""
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        lexer = TextLexer()
    return Markup(highlight(text, lexer, HtmlFormatter(nowrap=True)))  # Pygments escapes


def _line(html: str, is_marked: bool) -> str:
    return f'<span class="{"ln marked" if is_marked else "ln"}">{html}</span>'
