"""Describes values of built-in and library types whose whole state is a text, a number or a row of bytes.

Only functions of the types themselves run, never overrides of the script's subclasses.
"""

from __future__ import annotations

import array
import ctypes
import datetime
import decimal
import hashlib
import io
import math
import pathlib
import queue
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import torch

from .reach import bounded, hashed, scalar

Entry = dict[str, str]

FEW = 16
"""Elements of the largest array whose values are written out; a larger one is hashed."""
C_NUMBERS = "bBhHiIlLqQfdgc?"
"""Type codes of ctypes for numbers, without those for addresses."""
BASES: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    complex: complex.__pos__,
}
"""For each scalar type that can have subclasses: the conversion of a subclass instance to the plain value."""


def leaf(value: Any, kind: type) -> Entry | None:
    """The entry of such a value, without additions of a subclass; None for other types."""
    for base, describe in DESCRIBED.items():
        if issubclass(kind, base):
            return describe(value, kind)
    return _of_numpy(value, kind)


def plain(value: Any, kind: type) -> Any:
    """The plain int, float, str, bytes or complex number of a subclass instance; None for other values."""
    base = next((base for base in BASES if issubclass(kind, base)), None)
    return None if base is None else BASES[base](value)


def _text(of: Callable[[Any], str]) -> Callable[[Any, type], Entry]:
    return lambda value, kind: {"type": kind.__qualname__, "value": bounded(of(value))}


def _bytes(of: Callable[[Any], bytes]) -> Callable[[Any, type], Entry]:
    def describe(value: Any, kind: type) -> Entry:
        raw = of(value)
        return {"type": kind.__qualname__, "length": str(len(raw)), "value": scalar(raw)}

    return describe


def _state(of: Callable[[Any], bytes]) -> Callable[[Any, type], Entry]:
    return lambda value, kind: {"type": kind.__qualname__, "state": hashed(of(value))}


def _array(value: Any, kind: type) -> Entry:
    items = array.array.tolist(value) if array.array.__len__(value) <= FEW else []
    said = str(items) if items else hashed(array.array.tobytes(value))
    return {"type": kind.__qualname__, "dtype": value.typecode, "length": str(len(value)), "value": said}


def _view(value: memoryview, kind: type) -> Entry:
    try:
        return {
            "type": "memoryview",
            "dtype": value.format,
            "shape": str(value.shape),
            "value": scalar(value.tobytes()),
        }
    except ValueError:
        return {"type": "memoryview", "value": "released"}


def _buffer(value: Any, kind: type) -> Entry:
    held = (
        "closed"
        if value.closed
        else scalar((io.StringIO if issubclass(kind, io.StringIO) else io.BytesIO).getvalue(value))
    )
    return {"type": kind.__name__, "value": held}


def _c_number(value: Any, kind: Any) -> Entry:
    code = type.__dict__["__dict__"].__get__(kind).get("_type_", "")
    is_number = type(code) is str and code in C_NUMBERS
    return {"type": kind.__qualname__, **({"value": scalar(bytes(memoryview(value)))} if is_number else {})}


def _storage(value: torch.UntypedStorage, kind: type) -> Entry:
    size = value.nbytes()
    entry = {"type": kind.__qualname__, "device": str(value.device), "length": str(size)}
    if value.device.type == "cpu" and size and value.data_ptr():
        entry["value"] = hashed(ctypes.string_at(value.data_ptr(), size))
    return entry


DESCRIBED: dict[type, Callable[[Any, type], Entry]] = {
    bytearray: _bytes(bytes),
    array.array: _array,
    memoryview: _view,
    datetime.datetime: _text(datetime.datetime.__repr__),
    datetime.date: _text(datetime.date.__repr__),
    datetime.time: _text(datetime.time.__repr__),
    datetime.timedelta: _text(datetime.timedelta.__repr__),
    decimal.Decimal: _text(decimal.Decimal.__repr__),
    pathlib.PurePath: _text(pathlib.PurePath.__str__),
    re.Pattern: lambda value, kind: {
        "type": "Pattern",
        "value": bounded(repr(value.pattern)),
        "state": str(value.flags),
    },
    queue.SimpleQueue: lambda value, kind: {"type": "SimpleQueue", "length": str(value.qsize())},
    io.StringIO: _buffer,
    io.BytesIO: _buffer,
    random.Random: _state(lambda value: repr(random.Random.getstate(value)).encode()),
    torch.Generator: _state(lambda value: bytes(torch.Generator.get_state(value).tolist())),
    torch.UntypedStorage: _storage,
    ctypes._SimpleCData: _c_number,
}
"""The types described here, each with its function; subclasses come before their base types."""


def _of_numpy(value: Any, kind: type) -> Entry | None:
    """The entry of an array, scalar or generator of NumPy, which is not imported here: without it there are none."""
    numpy: Any = sys.modules.get("numpy")
    if not hasattr(numpy, "ndarray"):
        return None
    if issubclass(kind, numpy.ndarray):
        return _of_array(numpy, value, kind)
    if issubclass(kind, numpy.generic):
        return {"type": kind.__qualname__, "dtype": str(value.dtype), "value": bounded(repr(numpy.generic.item(value)))}
    random_ = sys.modules.get("numpy.random")
    if random_ is not None and issubclass(kind, random_.RandomState):
        return {"type": kind.__qualname__, "state": hashed(_whole(random_.RandomState.get_state(value, legacy=False)))}
    if random_ is not None and issubclass(kind, random_.Generator):
        return {"type": kind.__qualname__, "state": hashed(_whole(value.bit_generator.state))}
    return None


def _of_array(numpy: Any, value: Any, kind: type) -> Entry:
    dtype, shape = numpy.ndarray.dtype.__get__(value), numpy.ndarray.shape.__get__(value)
    entry = {"type": kind.__qualname__, "dtype": str(dtype), "shape": str(list(shape))}
    if dtype.hasobject:
        return entry  # its items are walked
    if math.prod(shape) <= FEW:
        return {**entry, "values": bounded(str(numpy.ndarray.tolist(value)))}
    return {**entry, "values": f"#{hashlib.blake2b(numpy.ndarray.tobytes(value), digest_size=8).hexdigest()}"}


def _whole(state: Any) -> bytes:
    """A generator's state as bytes, with its arrays in full: ``repr`` would shorten them."""
    if isinstance(state, dict):
        return b",".join(str(key).encode() + b":" + _whole(part) for key, part in state.items())
    return state.tobytes() if hasattr(state, "tobytes") else repr(state).encode()
