"""Parses Inductor's output code: its kernel definitions, and calls of library kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from minimizer.report.generated_code import Language

KERNEL = re.compile(
    r"^(?P<name>\w{1,300}) = async_compile\.(?P<how>\w{1,40})\([^\n]{0,5000}?(?P<quote>'''|\"\"\")(?P<code>.*?)(?P=quote)",
    re.MULTILINE | re.DOTALL,
)
LANGUAGES: dict[str, Language] = {"cpp": "cpp", "cpp_pybinding": "cpp", "triton": "triton"}
MADE_OF = re.compile(r"^\s*# .{0,30}Source Nodes: \[[^\n]*\], Original ATen: \[(?P<ops>[^\]\n]*)\]")
BECAME = re.compile(r"^#   (\w+) => (\w+(?:, \w+)*)$")
EXTERN = re.compile(r"^(?:\w+ = )?(?P<name>(?:extern_kernels|torch\.ops|aten|inductor_ops)\.[\w.]+)\(")
FUSED = re.compile(r"^(?:cpp|triton_[a-z]{1,10})_fused_(?P<ops>\w+?)_\d+$")
MOST_KERNELS = 256
CALL_LINES = 20


@dataclass(frozen=True)
class Kernel:
    """A kernel, or the call of a library kernel (``extern``).

    ``code`` is its source as passed to the compiler. ``made_of`` are its operators without ``aten.``, if the output
    code lists them, and ``became`` maps each node of Dynamo's graph to its ATen nodes; ``fused`` is the list of
    operators in its name, joined by underscores.
    """

    name: str
    language: Language
    code: str
    made_of: frozenset[str] = frozenset()
    became: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def fused(self) -> str:
        """The fused operators of its name; empty without any."""
        found = FUSED.match(self.name)
        return found["ops"] if found else ""


def kernels_in(output_code: str) -> list[Kernel]:
    """The kernels of a graph in the order of their definitions, followed by the calls of library kernels."""
    found, end = list[Kernel](), 0
    for match in KERNEL.finditer(output_code):
        language = LANGUAGES.get(match["how"])
        if language is not None and len(found) < MOST_KERNELS:
            above = output_code[max(0, match.start() - 20_000) : match.start()]
            found.append(Kernel(match["name"], language, match["code"], *_described_above(above)))
        end = match.end()
    return [*found, *_calls(output_code[end:].split("\n"))][:MOST_KERNELS]


def _described_above(text: str) -> tuple[frozenset[str], dict[str, frozenset[str]]]:
    """The ``made_of`` and ``became`` in the comment directly above a definition."""
    made_of, became = frozenset[str](), dict[str, frozenset[str]]()
    for line in reversed(text.rstrip("\n").split("\n")):
        if not line.startswith("#"):
            break
        if (found := BECAME.match(line)) is not None:
            became[found[1]] = frozenset(found[2].split(", "))
        elif (found := MADE_OF.match(line)) is not None:
            made_of = _operators(found["ops"])
    return made_of, became


def _calls(lines: list[str]) -> Iterator[Kernel]:
    """The calls of library kernels, each below the comment that lists its operators."""
    made_of = frozenset[str]()
    for number, line in enumerate(lines):
        if (found := MADE_OF.match(line)) is not None:
            made_of = _operators(found["ops"])
        elif line.strip().startswith("#") or not made_of:
            continue
        else:
            if (called := EXTERN.match(line.strip())) is not None:
                yield Kernel(called["name"], "extern", _statement(lines[number : number + CALL_LINES]), made_of)
            made_of = frozenset()


def _statement(lines: list[str]) -> str:
    """The statement that begins in the first line."""
    opened, taken = 0, list[str]()
    for line in lines:
        taken.append(line.strip())
        opened += line.count("(") - line.count(")")
        if opened <= 0:
            break
    return "\n".join(taken)


def _operators(text: str) -> frozenset[str]:
    return frozenset(name.strip().rpartition(".")[2] for name in text.split(",") if name.strip())
