"""Into an object without asking it: its dictionary, its slots, a frame's locals, and scalars as text."""

from __future__ import annotations

import collections
import hashlib
import itertools
import math
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

TEXT = 200
"""How much of a text is told; of a longer one there is a hash."""
LONG = 1 << 20
"""Characters or bytes of a text whose ends alone are looked at, if it is longer."""
HIDDEN = (
    "_dynamo",
    "_has_dynamo",
    "_specialize_on",
    "_torchdynamo",
    "__torch_compile",
    "_compiled_call_impl",
    "_isolate_recompiles_id",
    "_opt_mod_",
)
"""How names of attributes begin that torch's compiler writes on the script's objects."""


def member(path: str, name: str) -> str:
    """The path of a module's part; a name that is a number is an item."""
    return f"{path}[{name}]" if name.isdigit() else f"{path}.{name}"


def is_shown(name: object) -> bool:
    """Whether an attribute is the script's own, as far as its name tells."""
    return type(name) is str and not name.startswith(HIDDEN) and name not in ("__dict__", "__weakref__")


def dict_of(value: Any) -> dict[str, Any] | None:
    """An object's own ``__dict__``, without asking its class."""
    for base in type.__dict__["__mro__"].__get__(type(value)):
        found = type.__dict__["__dict__"].__get__(base).get("__dict__")
        if type(found) is types.GetSetDescriptorType:
            held = found.__get__(value)
            return held if type(held) is dict else None
    return None


def slots_of(value: Any) -> dict[str, Any]:
    """What an object holds in slots."""
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
    """The locals of a frame; where Python keeps a copy of them in it, that is emptied again and holds nothing."""
    held = frame.f_locals
    found = {name: part for name, part in held.items() if not name.startswith((".", "__"))}
    if frame.f_code.co_flags & 1 and sys.version_info < (3, 13):  # CO_OPTIMIZED
        held.clear()
    return found


def factory(value: Any) -> Any:
    """What a ``defaultdict`` makes its items with."""
    field: Any = vars(collections.defaultdict)["default_factory"]
    return field.__get__(value)


def asked(tensor: torch.Tensor, name: str) -> Any:
    """A property of a tensor, without asking its class."""
    return getattr(torch._C.TensorBase, name).__get__(tensor)


def raw(value: Any, name: str) -> Any:
    """What an object's own dictionary holds under a name."""
    return (dict_of(value) or {}).get(name, "")


def counts_scalars(value: Any) -> bool:
    """Whether an ``itertools.count`` counts by numbers of Python's own."""
    return isinstance(value, itertools.count) and value.__reduce__()[1][0].__class__ in (int, float)


def scalar(value: Any) -> str:
    """A scalar as Python writes it; NaN is NaN, whichever."""
    if type(value) is float and math.isnan(value):
        return "nan"
    if type(value) in (str, bytes) and len(value) > LONG:
        return bounded(f"{len(value)}: {value[: LONG // 2]!r} {value[-LONG // 2 :]!r}")
    return (
        bounded(repr(value)) if not isinstance(value, int) or value.bit_length() < 4096 else hashed(hex(value).encode())
    )


def listed(items: Iterable[Any]) -> str:
    """Scalars as a list."""
    return bounded("[" + ", ".join(map(scalar, items)) + "]")


def bounded(text: str) -> str:
    """A text, or its beginning with a hash of the whole."""
    return text if len(text) <= TEXT else f"{text[: TEXT - 40]}... #{hashed(text.encode('utf-8', 'surrogatepass'))}"


def hashed(raw: bytes) -> str:
    """A short hash."""
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def code_text(code: types.CodeType) -> str:
    """What a function does, as text that is equal for equal code."""
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
