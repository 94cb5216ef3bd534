"""The words for each kind of failure: on the terminal and the pages, in reports, issues and CI formats, at the top of a repro."""

from __future__ import annotations

from dataclasses import dataclass

from minimizer.report.model import Failure
from minimizer.vocabulary import Kind


@dataclass(frozen=True)
class Words:
    """The words for one kind of failure, none with a full stop."""

    heading: str
    """A standalone sentence."""
    does: str
    """The fault of an operator under torch.compile, in the style of titles in PyTorch's tracker."""
    does_for: str
    """The fault of torch.compile with ``{what}``: a predicate with the culprit as its object."""
    searched: str
    """A typical word in titles of such issues."""


WORDS = {
    Kind.CRASH: Words("The process dies", "crashes the process", "crashes the process when it runs {what}", "segfault"),
    Kind.HANG: Words("Compilation or the compiled call never ends", "never returns", "never returns for {what}", "hang"),
    Kind.COMPILE_ERROR: Words("Compilation fails", "fails to compile", "fails to compile {what}", "error"),
    Kind.RUNTIME_ERROR: Words("The compiled code raises an error that eager does not raise",
        "raises an error that eager does not raise", "raises for {what}, eager does not", "error"),
    Kind.MISSING_ERROR: Words("The compiled code does not raise the error that eager raises",
        "does not raise the error that eager raises", "does not raise the error that eager raises for {what}", "error"),
    Kind.WRONG_OUTPUT: Words("The compiled code returns wrong values", "returns wrong values", "computes wrong values for {what}", "wrong"),
    Kind.WRONG_GRADIENT: Words("The compiled code computes wrong gradients",
        "has a wrong gradient", "computes wrong gradients for {what}", "gradient"),
    Kind.WRONG_METADATA: Words("The compiled code returns tensors of another dtype, shape, stride or aliasing",
        "returns a tensor with wrong metadata", "returns tensors with wrong metadata for {what}", "metadata"),
    Kind.RECOMPILES: Words("A function is compiled again and again", "recompiles", "compiles a function again and again, since {what}", "recompile"),
    Kind.GRAPH_BREAK: Words("The compiled function is split by a graph break", "breaks the graph", "breaks the graph, since {what}", "graph break"),
    Kind.COMPILE_TIME: Words("A graph takes long to compile", "takes long to compile", "takes long to compile {what}", "compile time"),
    Kind.MEMORY: Words("The compiled code keeps more for its backward than eager does",
        "keeps more for its backward than eager does", "keeps more than eager does for the backward of {what}", "memory"),
    Kind.SLOW: Words("The compiled code is slower than eager", "is slower than eager", "is slower than eager for {what}", "slow"),
}  # fmt: skip
LAYOUT_ONLY = Words("Values equal, memory layout differs",
    "returns a tensor in another memory layout", "changes only the strides for {what}", "metadata")  # fmt: skip


def words_of(failure: Failure) -> Words:
    """The words for a failure: those of its kind, unless only the memory layout differs."""
    return LAYOUT_ONLY if failure.layout_only else WORDS[failure.kind]
