"""The subject of a repro: the function that both sides run, its inputs, and how each side is called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from minimizer.engine.emit.details import Details
from minimizer.engine.program import render
from minimizer.engine.program.arguments import Code, Ref, substitution
from minimizer.engine.program.model import Node, Program

HELPERS = (
    "average",
    "compiled",
    "constants",
    "data",
    "describe",
    "fn",
    "kept",
    "out",
    "raised",
    "run",
    "saved",
    "seconds",
    "times",
)
"""Names that the idioms bind, and that would shadow names of the script in the compiled code."""
WAIT_FOR_GPU = "torch.cuda.synchronize()"


@dataclass(frozen=True)
class Subject:
    """The subject of a repro. ``program`` has the final names."""

    program: Program
    function: str
    """The function to compile: one that the repro defines, or the torch function that the program consists of."""
    is_own: bool
    """Whether the repro defines that function; then it takes the inputs and nothing else."""
    settings: Sequence[str]
    inputs: Sequence[str]
    details: Details
    telltale: str
    attempts: int
    copied: frozenset[str]
    """Inputs that the function mutates: eager gets a clone of each."""
    fresh_inputs: bool
    """Whether each side must make its own inputs: clones are not enough, or random numbers are drawn."""
    helpers: Mapping[str, str]
    """The actual names for `HELPERS`: renamed if the script's own statements use them."""

    @property
    def eager(self) -> str:
        return self.function

    @property
    def compiled(self) -> str:
        options = "".join(f", {key}={value}" for key, value in self.program.compile_kwargs)
        function = self.function
        if self.program.freezes:
            function = render.reading_constants(self.program, function, self.helpers["constants"])
        return f"torch.compile({function}{options})"

    def call(self, side: str) -> str:
        """The call of one side, ``eager`` or ``compiled``."""
        given = substitution({name: Code(f"{name}.clone()") for name in self.copied if side == self.eager})
        (call,) = [Node("", "", tuple(Ref(i.name) for i in self.program.inputs))] if self.is_own else self.program.nodes
        return f"{side}({render.call_args(call.mapped(given))})"

    def backward(self, side: str) -> str:
        """The expression for the gradients of one side."""
        return self.gradients(self.call(side))

    def gradients(self, call: str) -> str:
        """The expression for the gradients of the result of a call."""
        wanted = self.details.get("gradients") or [
            i.name for i in self.program.inputs if i.meta and i.meta.requires_grad
        ]
        inputs = wanted[0] if len(wanted) == 1 else f"({', '.join(wanted)})"
        unused = ", allow_unused=True" if self.details.get("unused") else ""
        return f"torch.autograd.grad({self._loss(call)}, {inputs}{unused})"

    def run(self, side: str) -> str:
        """The call of one side, with the backward if that is what fails."""
        return self.backward(side) if self.details.get("backward") else self.call(side)

    @property
    def waits(self) -> Sequence[str]:
        """Statements that wait for the GPU, whose kernels fail, or never end, after their launch; none on a CPU."""
        devices = {meta.device for meta in self.program.metas.values() if meta}
        texts = (*self.inputs, render.function(self.program))
        return [WAIT_FOR_GPU] if "cuda" in devices or any("cuda" in text for text in texts) else []

    def _loss(self, call: str) -> str:
        """The sum of all differentiated outputs, whose gradients are those that the referee compared."""
        starts = self._differentiated()
        total = "sum().real" if any("complex" in dtype for dtype in starts.values()) else "sum()"
        if len(starts) == 1:
            return f"{call}{next(iter(starts))}.{total}"
        if any(place.count("[") > 1 for place in starts):
            call = f"torch.utils._pytree.tree_leaves({call})"
        suffix = "" if len(starts) == len(self.program.outputs) else " if out.requires_grad"
        return f"sum(out.{total} for out in {call}{suffix})"

    def _differentiated(self) -> Mapping[str, str]:
        """The dtypes of the outputs that a backward starts from, by index path; by metadata if no run recorded them."""
        if found := self.details.get("differentiated"):
            return found
        metas = [self.program.metas[name] for name in self.program.outputs]
        dtypes = ["torch.float32" if meta is None else meta.dtype for meta in metas]
        if len(dtypes) == 1:
            return {"": dtypes[0]}
        return {f"[{i}]": name for i, name in enumerate(dtypes) if re.search("float|half|double|complex", name)}


def may_copy(program: Program, details: Details) -> bool:
    """Whether clones of mutated inputs serve as well as fresh inputs.

    Not if the inputs themselves are compared, if they must be leaves, if a clone has other strides, or if they may
    share a storage, as a view does with its base, and as inputs read from a file may.
    """
    if (
        any(item.view is not None for item in program.inputs)
        or sum(item.stored is not None for item in program.inputs) > 1
    ):
        return False
    if details.keys() & {"alias_of", "input"} or not set(details.get("mutated", ())) <= set(program.outputs):
        return False
    metas = [i.meta for i in program.inputs if i.meta is not None]
    return all(meta.is_contiguous and not (program.grad and meta.requires_grad) for meta in metas)
