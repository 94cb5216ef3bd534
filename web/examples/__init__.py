"""Scripts to try the service with, shipped with it. They are data, hence ``.txt``: nothing imports them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Example:
    """A named script, with the expected result."""

    name: str
    title: str
    what: str

    @property
    def source(self) -> str:
        return (resources.files(__package__) / f"{self.name}.py.txt").read_text(encoding="utf-8")


EXAMPLES = (
    Example(
        "wrong_activation", "Wrong values", "A small transformer in which one activation of six is compiled wrongly."
    ),
    Example("compile_error", "Compile error", "A convolutional network that inductor cannot compile."),
    Example("healthy", "Nothing wrong", "A model that compiles well, to see what that looks like."),
)


def example(name: str) -> Example | None:
    """The example of this name."""
    return next((one for one in EXAMPLES if one.name == name), None)
