"""GitHub-flavoured Markdown from untrusted text.

Text from the user's script or the compiler is put into code spans and fenced blocks that it cannot end, or is escaped,
so that a message never becomes markup, a mention or a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

EVERYWHERE = re.compile(
    r"/usr/local|(/usr(/local)?)?/(s?bin|lib(32|64|exec)?|include|share)|/(usr/local|opt)/(cuda|rocm)[\w.-]*|/(dev|proc|sys)/\w+"
)
"""Folders and devices that every machine has, or that a toolkit's own installer makes."""


def escape(text: str) -> str:
    """Text for literal display in a paragraph or a table cell: one line, no markup, no HTML, no mentions, no links."""
    text = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # The remaining characters are special at the beginning of a line only, and an underscore not within a word.
    text = re.sub(r"([\\`*{}\[\]#!|~$]|(?<=\])\(|^[+-]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", text)
    return re.sub(r"(?<=@)(?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)", "\u200b", text)


def code(text: str) -> str:
    """A code span that its content cannot end, fit for a table cell."""
    text = _one_line(text).replace("|", "\u00a6")
    if not text:
        return ""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def block(text: str, language: str) -> str:
    """A fenced block that its content cannot end."""
    text = "".join(c for c in text if c.isprintable() or c in "\n\t").rstrip("\n")
    fence = "`" * max(3, max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def without_folders(line: str) -> str:
    """A line of a log without the machine's folders; those that every machine has stay, since they reveal nothing."""
    line = re.sub(r"(?<![\w.])/[^\s\"':]*/(?:site|dist)-packages/", "", line)
    return re.sub(
        r"(?<![\w.])(?:/[\w.+-]+)+/([\w.+-]+)", lambda path: path[0] if EVERYWHERE.fullmatch(path[0]) else path[1], line
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; empty without rows."""
    if not rows:
        return ""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def folded(summary: str, body: str) -> str:
    """A collapsible block; both parts are Markdown that is already safe."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def bullets(items: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {item}" for item in items)


def _one_line(text: str, limit: int = 500) -> str:
    text = re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in text)).strip()
    return text if len(text) <= limit else f"{text[:limit]}..."
