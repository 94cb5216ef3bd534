"""The words for what the referee rules: sent by the child, and read by the engine, so that no sentence is ever parsed.

Both sides load this module, as they do `questions`: it needs the standard library only.
"""

from __future__ import annotations

import enum

CASTS = frozenset(("_to_copy", "bfloat16", "convert_element_type", "double", "float", "half", "to", "type", "type_as"))
"""The names of explicit casts: methods of tensors, and operators of aten and prims."""


class Ruling(str, enum.Enum):
    """The rule that decided on a difference; the reasons are in ``referee/referee.py``, whose numbers these are."""

    EQUAL = "equal"
    """There is no difference to decide on."""
    OWN_TOLERANCE = "the script's own tolerance"
    """Rule 1."""
    METADATA = "metadata"
    """Rule 2, for what is no value."""
    NEVER_LEGAL = "no legal difference"
    """Rule 2, for plain values, and for results of another structure."""
    NONDETERMINISTIC = "nondeterministic"
    """Rule 3."""
    RANDOM_STREAM = "random stream"
    """Rule 4."""
    UNDEFINED = "undefined"
    """Rule 5."""
    EXACT = "exact"
    """Rule 6."""
    DISCRETE = "discrete"
    """Rule 7."""
    NAN_BEHIND_JUMP = "NaN behind a jump"
    """Rule 7, where compiled code has NaN and eager a number."""
    FP64 = "fp64"
    """Rule 8."""
    ULPS = "ulps"
    """Rule 9."""
    CASTS = "casts"
    """Rule 10."""
    DTYPES = "dtypes"
    """Rule 11."""

    @property
    def is_of_rounding(self) -> bool:
        """Whether it judges values that differ by more than the last bits, and may do so legally."""
        return self in (Ruling.DISCRETE, Ruling.FP64, Ruling.ULPS)


class Unlike(str, enum.Enum):
    """The first thing that differs between two values of another type."""

    ABSENT = "absent"
    """One side has None in the place of a tensor."""
    CLASS = "class"
    LAYOUT = "layout"
    DEVICE = "device"
