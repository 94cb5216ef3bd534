"""Plain words for the passes of a reduction, whose names are meaningful only to those who know the passes."""

from __future__ import annotations

WORDS = {
    "annotations": "annotations left out",
    "arguments": "arguments left at their defaults",
    "blocks": "blocks without their head",
    "bypass": "operations bypassed",
    "classes": "classes left out",
    "compile arguments": "arguments of torch.compile left out",
    "contexts": "fewer blocks of autocast around the call",
    "dimensions": "fewer dimensions",
    "drop nodes": "operations taken out",
    "dtypes": "float32 in place of other dtypes",
    "dynamic marks": "marks of dynamic sizes left out",
    "events": "calls around the graphs left out",
    "expressions": "simpler expressions",
    "forms": "containers and comprehensions of one written as what they hold",
    "functions": "functions written out where they are called",
    "gradients": "gradients left out",
    "guess": "the simplest inputs tried first",
    "inside of bodies": "less within bodies",
    "inputs": "numbers in place of inputs",
    "inputs to code": "inputs made in the code",
    "relations": "inputs that are no views of others",
    "items": "parts of expressions left out",
    "layout": "lines that say the same in fewer words",
    "list arguments": "shorter lists",
    "names": "values in place of names",
    "numbers": "smaller numbers",
    "objects": "simpler objects",
    "open bodies": "bodies written out",
    "operands": "fewer operands",
    "operations": "simpler operations",
    "operators": "operators of the script left out",
    "outputs": "fewer outputs",
    "rounds": "loops written out, and less of each round",
    "setup": "lines of the setup left out",
    "shapes": "smaller shapes",
    "statements": "statements taken out",
    "strides": "contiguous inputs",
    "sweep": "one more part left out",
    "threads": "calls in place of threads",
    "values": "simpler values",
    "variables": "values in place of variables",
    "window": "operations at the front taken out",
}
"""The words by pass name, as in a report's `history`."""


def said(by: str) -> str:
    """The effect of the pass with this name, in plain words."""
    return WORDS.get(by, by)
