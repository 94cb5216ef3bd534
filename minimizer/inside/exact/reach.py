"""Reads an object's parts without running its code: its dictionary, slots, a frame's locals; and writes scalars as text."""

from __future__ import annotations

import collections
import enum
import gc
import hashlib
import math
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

TEXT = 200
"""Most characters of a recorded text; a longer one is cut and gets a hash."""
SCALARS = frozenset((int, float, complex, bool, str, bytes, type(None)))
PLAIN_TEXT = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, range, slice, type(Ellipsis))
"""Types whose ``str`` is complete."""
HIDDEN = (
    "_dynamo",
    "__dynamo",
    "_has_dynamo",
    "_specialize_on",
    "_torchdynamo",
    "__torch_compile",
    "_compiled_call_impl",
    "_isolate_recompiles_id",
    "_opt_mod_",
)
"""Prefixes of attributes that torch's compiler sets on the script's objects; not observed."""


def member(path: str, name: str) -> str:
    """The path of a submodule or parameter; a numeric name is written as an index."""
    return f"{path}[{name}]" if name.isdigit() else f"{path}.{name}"


def is_shown(name: object) -> bool:
    """Whether an attribute is the script's own, judged by its name."""
    return type(name) is str and not name.startswith(HIDDEN) and name not in ("__dict__", "__weakref__")


def dict_of(value: Any) -> dict[str, Any] | None:
    """An object's own ``__dict__``, read without running code of its class; None if it has none."""
    for base in type.__dict__["__mro__"].__get__(type(value)):
        found = type.__dict__["__dict__"].__get__(base).get("__dict__")
        if type(found) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            held = found.__get__(value)
            return held if type(held) is dict else None
    return None


def slots_of(value: Any) -> dict[str, Any]:
    """The values in an object's ``__slots__``, by name."""
    held: dict[str, Any] = {}
    for base in type.__dict__["__mro__"].__get__(type(value)):
        fields = type.__dict__["__dict__"].__get__(base)
        if "__slots__" not in fields:
            continue
        for name, part in list(fields.items()):
            if type(part) is types.MemberDescriptorType:
                try:
                    held.setdefault(name, part.__get__(value))
                except AttributeError:
                    continue
    return held


def locals_of(frame: types.FrameType) -> dict[str, Any]:
    """The locals of a frame. Before Python 3.13 ``f_locals`` is a cached copy, which is cleared so that it keeps nothing alive."""
    held = frame.f_locals
    found = {name: part for name, part in held.items() if not name.startswith((".", "__"))}
    if frame.f_code.co_flags & 1 and sys.version_info < (3, 13):  # CO_OPTIMIZED
        held.clear()
    return found


def factory(value: Any) -> Any:
    """The ``default_factory`` of a ``defaultdict``, read without running code of a subclass."""
    field: Any = vars(collections.defaultdict)["default_factory"]
    return field.__get__(value)


def asked(tensor: torch.Tensor, name: str) -> Any:
    """A property of a tensor, read without running code of a subclass."""
    return getattr(torch._C.TensorBase, name).__get__(tensor)


def raw(value: Any, name: str) -> Any:
    """The value of a name in an object's own ``__dict__``; an empty string if it has none."""
    return (dict_of(value) or {}).get(name, "")


def counts_scalars(value: Any) -> bool:
    """Whether an ``itertools.count`` or ``repeat`` holds nothing but scalars."""
    return SCALARS.issuperset(map(type, gc.get_referents(value)))


def label(value: Any) -> str | None:
    """A text for a key or a member of a set: equal for equal values of built-in types; None for all other values."""
    kind = type(value)
    if kind in SCALARS:
        return scalar(value)
    if kind in PLAIN_TEXT:
        return str(value)
    if is_enum(kind):
        return f"{kind.__qualname__}.{named(value)}"
    if kind in (tuple, frozenset):
        inner = [label(part) for part in value]
        known = [text for text in inner if text is not None]
        if len(known) < len(inner):
            return None
        return (
            f"({', '.join(known)}{',' * (len(known) == 1)})"
            if kind is tuple
            else f"frozenset({', '.join(sorted(known))})"
        )
    return kind_name(value) if issubclass(kind, type) else None


def is_enum(kind: type) -> bool:
    """Whether a type is an enumeration."""
    return issubclass(kind, enum.Enum)


def named(member: Any) -> str:
    """The name of a member of an enumeration; of a combination of flags, its value."""
    name, value = raw(member, "_name_"), raw(member, "_value_")
    return name if type(name) is str else label(value) or ""


def kind_name(kind: type) -> str:
    """A class's module and qualified name, read without running code of its metaclass."""
    module = type.__dict__["__dict__"].__get__(kind).get("__module__", "")
    name: str = type.__dict__["__qualname__"].__get__(kind)
    return f"{module}.{name}" if type(module) is str else name


def scalar(value: Any) -> str:
    """A scalar's ``repr``, bounded; all NaN are equal."""
    if type(value) is float and math.isnan(value):
        return "nan"
    return (
        bounded(repr(value)) if not isinstance(value, int) or value.bit_length() < 4096 else hashed(hex(value).encode())
    )


def written(labels: list[str]) -> str:
    """The text of a list of keys, bounded, from the texts of each."""
    return bounded("[" + ", ".join(labels) + "]")


def bounded(text: str, most: int = TEXT) -> str:
    """A text; if it is longer than ``most`` characters, its beginning and a hash of the whole."""
    return text if len(text) <= most else f"{text[: most - 40]}... #{hashed(text.encode('utf-8', 'surrogatepass'))}"


def hashed(raw: bytes) -> str:
    """A hash of 16 hex digits."""
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def code_text(code: types.CodeType) -> str:
    """A text that is equal for equal code objects, nested ones included."""
    consts = [
        code_text(c) if isinstance(c, types.CodeType) else repr(c)
        for c in code.co_consts
        if not isinstance(c, frozenset)
    ]
    return f"{code.co_code!r} {code.co_names} {code.co_varnames} {consts}"


def user_frames(frame: types.FrameType | None, is_own: Any) -> Iterator[types.FrameType]:
    """The frames of the script's own functions, innermost first."""
    while frame is not None:
        if frame.f_code.co_flags & 1 and is_own(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back
