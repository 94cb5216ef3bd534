"""The colours of the pages can be told apart by everybody: WCAG 2, level AA, in light and in dark."""

from __future__ import annotations

import re

import pytest
from checkout import ROOT

CSS = (ROOT / "web" / "static" / "app.css").read_text()
TONES = ("waiting", "working", "found", "well", "unsure", "failed", "stopped")
WORDS = ("ink", "ink-2", "ink-3", "accent", *TONES)


def tokens(dark: bool) -> dict[str, str]:
    """The colour tokens of a scheme; a dark one takes what it does not name from the light one."""
    light, night = CSS.split("@media (prefers-color-scheme: dark)")[:2]
    # The last of a name wins, as in the browser.
    return dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})\b", light + night.split("/* Pico")[0] if dark else light))


def contrast(one: str, other: str) -> float:
    low, high = sorted((_light(one), _light(other)))
    return (high + 0.05) / (low + 0.05)


def _light(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_can_be_read_on_what_is_behind_them(dark: bool) -> None:
    colours = tokens(dark)
    syntax = [name for name in colours if name.startswith("syn-")]
    pairs = [
        *((word, behind) for word in WORDS for behind in ("paper", "card")),
        *((tone, f"{tone}-bg") for tone in TONES),
        *((word, f"{tone}-bg") for word in ("ink", "ink-2") for tone in TONES),
        *((word, "code-bg") for word in ("ink", "ink-2", "ink-3", "accent", *syntax)),
        *((word, "mark") for word in ("ink", *syntax)),
        *((word, "accent-soft") for word in ("ink", "accent")),
    ]
    faint = {pair: contrast(*map(colours.__getitem__, pair)) for pair in pairs}
    assert {pair: ratio for pair, ratio in faint.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_fields_marks_and_lines_can_be_seen(dark: bool) -> None:
    colours = tokens(dark)
    pairs = [(mark, behind) for mark in ("edge", "accent", "series-1", "series-2") for behind in ("card", "paper")]
    assert {pair for pair in pairs if contrast(*map(colours.__getitem__, pair)) < 3} == set()


def test_buttons_can_be_read() -> None:
    colours = re.findall(r"--pico-primary(?:-hover)?-background: (#[0-9a-f]{6})", CSS)
    assert len(colours) >= 2
    assert all(contrast("#ffffff", colour) >= 4.5 for colour in colours)
