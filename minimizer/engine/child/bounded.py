"""Bounded text and numbers, and models that drop what they do not know: the forms in which the child's word is taken."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from minimizer.errors import ChildFailed

Model = TypeVar("Model", bound="Loose")

Text = Annotated[str, StringConstraints(max_length=20_000)]
Name = Annotated[str, StringConstraints(max_length=1000)]
Long = Annotated[str, StringConstraints(max_length=300_000)]
"""A stack, or the stacks of all threads."""
Line = tuple[Name, Annotated[int, Field(ge=0, le=10**9)], Name]
"""File, number and text."""
Count = Annotated[int, Field(ge=0, le=10**12)]
Number = float | None


class Loose(BaseModel):
    """Fields we do not know are dropped: the child may be newer, or hostile."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=True)


def parse(model: type[Model], data: Any) -> Model:
    """Validate a message.

    Raises:
        ChildFailed: it is not what was agreed.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ChildFailed(f"the child sent a malformed {model.__name__}: {error.errors()[0]['msg']}") from None
