"""Where it goes wrong: the culprit, its line, the layers and the nodes around it, and how far each is off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field

from minimizer.report.generated_code import GeneratedCode
from minimizer.report.instances import Instances, compared, others, places
from minimizer.report.part import Part

Line = tuple[str, int, str]
"""File, number and text."""
MOST_CULPRITS = 5
"""Operators that are named as the culprits of a program that was not shown to be minimal; of more, most are innocent."""
LayerVerdict = Literal["good", "bad", "propagated", "unknown"]


class SourceLine(Part):
    file: str
    line: int
    code: str = ""


class Source(SourceLine):
    """A line of the user's own code; ``file`` is its path in the project."""

    library: SourceLine | None = Field(None, description="The line of a library that is at fault, called from there.")

    @classmethod
    def of(cls, line: Line | None, library: Line | None = None) -> Source | None:
        """A line of the user's, and the one of a library that it calls."""
        if line is None:
            return None
        called = SourceLine(file=library[0], line=library[1], code=library[2]) if library is not None else None
        return cls(file=line[0], line=line[1], code=line[2], library=called)

    @property
    def words(self) -> str:
        """The same for a reader, see `line_of`."""
        return line_of(self.model_dump())


class Error(Part):
    """How far compiled is from eager; ``None`` where no number says it (discrete values, metadata)."""

    max_abs: float | None = None
    max_rel: float | None = None
    compiled_vs_fp64: float | None = None
    eager_vs_fp64: float | None = None
    required_atol: float | None = None
    required_rtol: float | None = None
    mismatched: int | None = None
    elements: int | None = None


class Culprit(Part):
    module: str = ""
    module_class: str = Field("", description="Its class.")
    instances: Instances | None = Field(None, description="Equal modules; null where none is known.")
    nodes: list[str] = Field(default_factory=list)
    ops: list[str] = Field(default_factory=list, description="aten packet names, such as aten.relu")
    what: str = ""
    source: Source | None = None
    local_error: Error | None = None
    propagated_error: Error | None = None
    root: bool = True
    further: bool = Field(False, description="A fault of its own, which `repro.py` does not show.")
    repro: str = Field("", description="Of a further fault: the file that shows it, such as repro-2.py.")
    generated_code: GeneratedCode | None = Field(
        None, description="Of a further fault: the code that Inductor generates for its repro."
    )

    @property
    def operators(self) -> list[str]:
        """The operators at fault, see `operators_of`."""
        return operators_of(vars(self))

    @property
    def module_name(self) -> str:
        """The module for a reader, see `module_of`."""
        return module_of(self.model_dump())

    @property
    def others(self) -> str:
        """Equal modules, see `instances.others`."""
        return others(self.model_dump())

    @property
    def compared(self) -> str:
        """How that is known, see `instances.compared`; empty if nothing is."""
        return compared(self.model_dump()) if self.instances else ""


def module_of(culprit: Mapping[str, Any]) -> str:
    """The path of a culprit's module, with its class if the path ends with a number: ``1 (ReLU)``; empty outside of
    any.

    For an entry known only by its equal modules, all of them.
    """
    if listed := places(culprit):
        return listed
    path, kind = str(culprit.get("module") or ""), str(culprit.get("module_class") or "")
    return f"{path} ({kind})" if kind and path.rpartition(".")[2].isdigit() else path


def line_of(source: Mapping[str, Any] | None) -> str:
    """A readable line, ``model.py:41``, with the line of a library that it calls; empty if unknown."""
    if not source:
        return ""
    library = source.get("library")
    file, _, rest = str(library["file"]).partition("/") if library else ("", "", "")
    short = f"{file}/…/{rest.rpartition('/')[2]}" if "/" in rest else f"{file}/{rest}".rstrip("/")
    return f"{source['file']}:{source['line']}" + (f" → {short}:{library['line']}" if library else "")


def operators_of(culprit: Mapping[str, Any]) -> list[str]:
    """The operators to name a culprit by; none if ``what`` names it, and the operators only ran with it.

    That is the case if the script itself was reduced: no node of a graph is at fault there.
    """
    return list(culprit.get("ops") or ()) if culprit.get("nodes") or not culprit.get("what") else []


class NonFinite(Part):
    """The first element that is NaN or infinite, and on which side."""

    side: Literal["eager", "compiled", "both"]
    what: Literal["nan", "inf"]
    index: list[int] = Field(default_factory=list)


class Layer(Part):
    """A module where it runs. Errors are absolute, those against float64 relative in the norm; ``None`` is unknown.

    *Local*: compiled alone, on eager's own inputs. *Propagated*: in the graph compiled as a whole. ``bad`` is a root: wrong on
    eager's inputs; ``propagated`` is right by itself, but made wrong values of what it was given. Rows of the ``backward`` are
    in the order in which it runs; their errors are those of gradients.
    """

    path: str
    cls: str = Field("", alias="class")
    order: int
    phase: Literal["forward", "backward"] = "forward"
    local_error: float | None = None
    propagated_error: float | None = None
    required_atol: float | None = None
    required_rtol: float | None = None
    compiled_vs_fp64: float | None = None
    eager_vs_fp64: float | None = None
    cosine: float | None = None
    nonfinite: NonFinite | None = None
    verdict: LayerVerdict = "unknown"

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class GraphNode(Part):
    """A node of the graph around the culprit, judged alone on eager's inputs; ``inputs`` are names of nodes shown with it."""

    name: str
    op: str
    module: str = ""
    shape: str = ""
    inputs: list[str] = Field(default_factory=list)
    local_error: float | None = None
    propagated_error: float | None = None
    verdict: LayerVerdict = "unknown"
    culprit: bool = False
