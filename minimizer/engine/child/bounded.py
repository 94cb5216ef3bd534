"""Types for untrusted messages of the child: bounded text and numbers, and models that drop unknown fields."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from minimizer.errors import ChildFailed

Model = TypeVar("Model", bound="Loose")

Text = Annotated[str, StringConstraints(max_length=20_000)]
Name = Annotated[str, StringConstraints(max_length=1000)]
Long = Annotated[str, StringConstraints(max_length=300_000)]
"""For a stack, or the stacks of all threads."""
Line = tuple[Name, Annotated[int, Field(ge=0, le=10**9)], Name]
"""File, number and text."""
Count = Annotated[int, Field(ge=0, le=10**12)]
Number = float | None
Amount = Annotated[float, Field(ge=0, le=10**15, allow_inf_nan=False)]
"""Seconds or bytes."""
Seconds = Annotated[float, Field(ge=0, le=10**9, allow_inf_nan=False)]

MOST_FIELD = 200
"""Characters of a field's path, whose keys are the child's, in an error."""


class Loose(BaseModel):
    """A model that drops unknown fields: the child may be newer, or hostile."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=True)


def parse(model: type[Model], data: Any) -> Model:
    """Validate a message.

    Raises:
        ChildFailed: it does not fit the model.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])[:MOST_FIELD]
        raise ChildFailed(f"the child sent a malformed {model.__name__}: {field}: {first['msg']}") from None
