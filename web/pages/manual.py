"""The pages of docs/ in the look of the service, without a network. They are Markdown; raw HTML in them stays text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from flask import Blueprint, abort, render_template, request, url_for
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup

from web.pages import highlight

manual = Blueprint("manual", __name__)

START = "index"
"""The page that leads to all others; their order in there is their order in the menu."""

ADDRESS = "http://127.0.0.1:8000"
"""The default address of the service in examples, for readers who have not set another."""

_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_LINK = re.compile(r"^- \[([^]]+)\]\(([a-z]+)\.md\)", re.MULTILINE)
_TABLE = '<div class="scroll" tabindex="0" role="region" aria-label="Table {}, scrolls sideways"><table>\n'
_NO_SLUG = re.compile(r"[^\w\- ]")


@dataclass(frozen=True)
class Section:
    """A heading that can be linked to."""

    anchor: str
    title: str


@dataclass(frozen=True)
class ManualPage:
    """A page as HTML, and its table of contents."""

    title: str
    html: Markup
    sections: list[Section]


@manual.get("/docs/<name>")
def page(name: str) -> str:
    source = _files().get(name) or abort(404, "There is no page of this name in the documentation.")
    text = source.read_text("utf-8").replace(ADDRESS, request.host_url.rstrip("/"))
    return render_template("manual.html", page=render(text), name=name, menu=_menu())


def render(text: str) -> ManualPage:
    """Turn Markdown into a page. Its anchors are those that GitHub would make."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("fence", _fence)
    number = itertools.count(1)
    markdown.add_render_rule("table_open", lambda *_: _TABLE.format(next(number)))
    markdown.add_render_rule("table_close", lambda *_: "</table></div>\n")
    tokens = markdown.parse(_COMMENT.sub("", text))
    title, sections = "", []
    anchors: set[str] = set()
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            words = _plain(following.children or ())
            anchor = _unused(_slug(words), anchors)
            token.attrSet("id", anchor)
            if token.tag == "h1":
                title = title or words
            elif token.tag == "h2":
                sections.append(Section(anchor, words))
        if token.attrs.pop("style", None):
            # The content security policy allows no inline style; the only one there is aligns a column to the right.
            token.attrSet("class", "num")
        if token.children:
            token.children = list(_linked(token.children))
    return ManualPage(title, Markup(markdown.renderer.render(tokens, markdown.options, {})), sections)  # all is escaped


def _files() -> dict[str, Path]:
    """The pages by name. Nothing else is ever opened, whatever the request."""
    # In a wheel they are in this package, in a checkout next to it.
    inside = Path(__file__).parents[1] / "docs"
    folder = inside if inside.is_dir() else Path(__file__).parents[2] / "docs"
    return {file.stem: file for file in folder.glob("*.md")}


def _menu() -> list[tuple[str, str]]:
    """The pages in the order of the first one: name and title."""
    return [(name, title) for title, name in _LINK.findall(_files()[START].read_text("utf-8"))]


def _fence(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Any) -> str:
    token = tokens[index]
    code = highlight.source(token.content, token.info.strip())
    env["snippets"] = number = env.get("snippets", 0) + 1
    button = f'<button type="button" class="small outline" data-copy="snippet-{number}">Copy</button>'
    return f'<div class="snippet"><pre class="code" tabindex="0"><code id="snippet-{number}">{code}</code></pre>{button}</div>\n'


def _plain(tokens: Sequence[Token]) -> str:
    return "".join(token.content for token in tokens if token.type in ("text", "code_inline"))


def _slug(words: str) -> str:
    return _NO_SLUG.sub("", words.lower()).replace(" ", "-")


def _unused(slug: str, taken: set[str]) -> str:
    anchor = next(name for name in (slug, *(f"{slug}-{number}" for number in range(1, 1000))) if name not in taken)
    taken.add(anchor)
    return anchor


def _linked(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens of a line with links that lead somewhere from here; a file that is no page of ours is only named."""
    target: str | None = None
    for token in tokens:
        if token.type == "link_open":
            target = _target(str(token.attrGet("href")))
            token.attrSet("href", target or "")
        if target is not None or token.type not in ("link_open", "link_close"):
            yield token


def _target(href: str) -> str | None:
    path, _, anchor = href.partition("#")
    if not path or ":" in path:
        return href
    name = PurePosixPath(path)
    if name.suffix == ".md" and len(name.parts) == 1:
        return url_for("manual.page", name=name.stem, _anchor=anchor or None)
    return None
