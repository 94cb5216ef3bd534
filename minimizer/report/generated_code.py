"""The code that Inductor has generated for the repro: the kernel at fault, its lines, and the ATen graph that it is made from."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from minimizer.report.part import Part
from minimizer.report.safe_markdown import block, code, escape
from minimizer.vocabulary import counted

Language = Literal["cpp", "triton", "extern"]
Phase = Literal["forward", "backward", "inference"]
HIGHLIGHTED: dict[Language, str] = {"cpp": "cpp", "triton": "python", "extern": "python"}
"""The language of a fenced block, or of a highlighter."""
Shown = Literal["all", "kernel", "lines", "none"]
"""How much of it a document shows: with the ATen graph or without, or the lines that are marked with those around them."""
AROUND = 3
COMMENTS = {"cpp": "//", "python": "#"}


class GeneratedCode(Part):
    """A kernel of the repro. ``marked`` is empty where no line can be told from those of other operators."""

    language: Language
    phase: Phase = Field("inference", description="The graph that it belongs to; `inference` has no backward.")
    kernel: str = Field(description="Its name; of a library's kernel what is called, such as `extern_kernels.mm`.")
    code: str = Field(description="Its source; of a library's kernel the call.")
    marked: list[int] = Field(
        default_factory=list,
        description="Lines of `code`, from 1, that compute the culprit; of a kernel that does not compile those with errors.",
    )
    why_marked: str = Field("", description="How that is known, or why no line is marked.")
    aten: str = Field("", description="The ATen graph that it is generated from, behind decompositions and passes.")
    aten_marked: list[int] = Field(
        default_factory=list,
        description="Lines of `aten`, from 1, that the culprit became, or those of the operator to blame; empty where unknown.",
    )
    others: list[str] = Field(default_factory=list, description="Other kernels that compute the culprit as well.")

    @property
    def highlighted(self) -> str:
        """The language that the code is highlighted in."""
        return HIGHLIGHTED[self.language]

    @property
    def what(self) -> str:
        """A description to follow the kernel's name."""
        of = "" if self.phase == "inference" else f" of the {self.phase} graph"
        if self.language == "extern":
            return f"called{of}: Inductor generates no code for it"
        return f"{'C++' if self.language == 'cpp' else 'Triton'} kernel{of}"

    @property
    def lines(self) -> str:
        """A sentence on the marked lines; empty without any."""
        if not self.why_marked:
            return ""
        said = f"{counted(len(self.marked), 'line')} marked" if self.marked else "No line is marked"
        return f"{said}: {self.why_marked}."


def blocks(found: GeneratedCode | None, shown: Shown = "all") -> str:
    """The code as Markdown, with its ATen graph if ``all`` is shown; empty without code."""
    if found is None or shown == "none":
        return ""
    said = [f"{code(found.kernel)}, {found.what}.", escape(found.lines)]
    if found.others:
        said.append(f"Other kernels of it: {', '.join(map(code, found.others))}.")
    text = _around_marks(found) if shown == "lines" else "\n".join(_with_marks(found))
    parts = [" ".join(filter(None, said)), block(text, found.highlighted)]
    if found.aten and shown == "all":
        parts += ["The ATen graph that it is generated from:", block(found.aten, "python")]
    return "\n\n".join(parts)


def of_all(found: GeneratedCode | None, further: Mapping[str, GeneratedCode]) -> str:
    """The code of ``repro.py``, followed by that of ``further`` repros by their files."""
    others = [f"Of {code(name)}: {blocks(one)}" for name, one in further.items()]
    return "\n\n".join(filter(None, (blocks(found), *others)))


def _with_marks(found: GeneratedCode) -> list[str]:
    """The lines of the code, with a comment after each marked one."""
    comment = COMMENTS[found.highlighted]
    return [
        f"{line}  {comment} <-- the culprit" if number in found.marked else line
        for number, line in enumerate(found.code.split("\n"), 1)
    ]


def _around_marks(found: GeneratedCode) -> str:
    """The marked lines with their surroundings; the first lines if none are marked."""
    near = {mark + offset for mark in found.marked or [1] for offset in range(-AROUND, AROUND + 1)}
    kept = [line if number in near else "" for number, line in enumerate(_with_marks(found), 1)]
    return re.sub(r"\n{2,}", "\n...\n", textwrap.dedent("\n".join(kept)).strip("\n"))
