"""Records and replays what a script's own code reads of the machine: clocks, memory, garbage, random bytes, times.

Each such read of the first run without the compiler is recorded; every later run gets the same answers, in order. So
values derived from them are equal on both sides, a loop by the clock takes the same course, and a remaining difference
is not the machine's. Only reads by the script's own frames are replayed: all others, and what the compiler runs, get
real values.

The functions are replaced before the script starts, since it may bind them early.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo import trace_rules

SOURCES: Mapping[str, Sequence[str]] = {
    "time": (
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns",
        "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns", "localtime", "gmtime", "ctime", "asctime", "strftime",
    ),
    "os": ("times", "urandom", "getloadavg"),
    "os.path": ("getmtime", "getatime", "getctime"),
    "resource": ("getrusage",),
    "gc": ("collect", "get_count", "get_stats"),
    "sys": ("getrefcount", "getallocatedblocks"),
    "tracemalloc": ("get_traced_memory", "get_tracemalloc_memory"),
    "uuid": ("uuid1", "uuid4"),
    "secrets": ("token_bytes", "token_hex", "token_urlsafe", "randbits", "randbelow"),
    "torch.cuda": (
        "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_stats", "mem_get_info",
        "memory_usage", "utilization", "temperature", "power_draw", "clock_rate",
    ),
    "torch._dynamo.utils": ("compile_times", "calculate_time_spent"),
}  # fmt: skip
"""Functions whose results depend on the machine or the compiler, by module."""
TAKES_OBJECTS = {"getrefcount"}
"""Functions of an object, which the record cannot identify."""
MOST_READS = 20_000
"""Most reads that one run records."""
MOST_CHARACTERS = 1 << 20
"""Most characters of all of them."""
LONGEST = 20_000
"""Characters of the longest recorded result."""
Reads = dict[str, list[Any]]
"""By name of a function: the arguments as text and the result (see `_packed`) of each read."""


class Unpackable(Exception):
    """A result that cannot be sent."""


class Machine:
    """Replaces `SOURCES` for the rest of this process.

    Args:
        is_own: whether a file is the script's own.
        replay: the reads of an earlier run as text (see `text`), to be replayed; None: this run records its own.
        is_compiling: whether the compiler is at work, whose reads are not the script's.
    """

    def __init__(self, *, is_own: Callable[[str], bool], replay: str | None, is_compiling: Callable[[], bool]) -> None:
        self._is_own, self._is_compiling = is_own, is_compiling
        self._replay: Reads | None = json.loads(replay) if replay is not None else None
        self._thread = threading.get_ident()
        self._given: dict[str, int] = {}
        self._behind: dict[str, float] = {}
        self._characters = self._count = 0
        self.reads: Reads = {}
        for module, names in SOURCES.items():
            if module not in sys.modules:
                try:
                    importlib.import_module(module)
                except ImportError:  # `resource` is missing on Windows
                    continue
            for name in names:
                self._replace(sys.modules[module], module, name)
        trace_rules.add(__name__)

    @property
    def text(self) -> str:
        """The record of this run, as JSON; empty if it read nothing."""
        return json.dumps(self.reads) if self.reads else ""

    def _replace(self, module: types.ModuleType, home: str, name: str) -> None:
        original = getattr(module, name, None)
        if not callable(original):
            return
        replaced = self._read(f"{home}.{name}", original)
        for place in (module, *([torch.cuda.memory] if home == "torch.cuda" else ())):
            if vars(place).get(name) is original:
                setattr(place, name, replaced)

    def _read(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def read(*args: Any, **kwargs: Any) -> Any:
            if not self._is_for_script():
                return original(*args, **kwargs)
            asked = "" if name.rpartition(".")[2] in TAKES_OBJECTS else repr((args, kwargs))[:200]
            result = original(*args, **kwargs)
            if self._replay is None:
                self._record(name, asked, result)
                return result
            return self._again(name, asked, result)

        return read

    def _is_for_script(self) -> bool:
        if threading.get_ident() != self._thread or self._is_compiling():
            return False
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None and (file := frame.f_code.co_filename).startswith("<"):
            frame = frame.f_back  # code generated for a dataclass
        return frame is not None and self._is_own(file)

    def _record(self, name: str, asked: str, result: Any) -> None:
        if self._count >= MOST_READS or self._characters >= MOST_CHARACTERS:
            return
        try:
            packed = _packed(result)
        except Unpackable:
            packed = None
        self._count += 1
        self._characters += len(repr(packed)) + len(asked)
        self.reads.setdefault(name, []).append([asked, packed])

    def _again(self, name: str, asked: str, result: Any) -> Any:
        assert self._replay is not None
        known, place = self._replay.get(name, []), self._given.get(name, 0)
        self._given[name] = place + 1
        if place >= len(known) or known[place][1] is None or known[place][0] != asked:
            return self._onward(name, result)
        value = _unpacked(known[place][1])
        if isinstance(value, int | float) and isinstance(result, int | float):
            self._behind[name] = result - value
        return value

    def _onward(self, name: str, result: Any) -> Any:
        """A read that the first run did not make: a clock continues from the last replayed value."""
        return type(result)(result - self._behind[name]) if name in self._behind else result


def _packed(value: Any) -> Any:
    """A result as JSON: [kind, text or parts]."""
    kind = type(value)
    if value is None or kind is bool:
        return ["plain", value]
    if kind is int:
        return ["int", str(value)]
    if kind is float:
        return ["float", value.hex()]
    if kind is str and len(value) <= LONGEST:
        return ["plain", value]
    if kind is bytes and len(value) <= LONGEST:
        return ["bytes", value.hex()]
    if kind is uuid.UUID:
        return ["uuid", value.hex]
    if kind in (tuple, list) and len(value) <= 1000:
        return [kind.__name__, [_packed(part) for part in value]]
    if isinstance(value, dict) and len(value) <= 1000 and all(type(key) is str for key in value):
        return ["dict", [[key, _packed(part)] for key, part in value.items()]]
    if kind in STRUCTS.values():
        name = next(name for name, known in STRUCTS.items() if known is kind)
        parts = [*value, value.tm_zone, value.tm_gmtoff] if kind is time.struct_time else [*value]
        return ["struct", name, [_packed(part) for part in parts]]
    raise Unpackable


def _unpacked(packed: Any) -> Any:
    kind, value = packed[0], packed[-1]
    if kind == "int":
        return int(value)
    if kind == "float":
        return float.fromhex(value)
    if kind == "bytes":
        return bytes.fromhex(value)
    if kind == "uuid":
        return uuid.UUID(hex=value)
    if kind in ("tuple", "list"):
        return (tuple if kind == "tuple" else list)(_unpacked(part) for part in value)
    if kind == "dict":
        return {key: _unpacked(part) for key, part in value}
    if kind == "struct":
        return STRUCTS[packed[1]]([_unpacked(part) for part in value])
    return value


STRUCTS: dict[str, type] = {"struct_time": time.struct_time, "times_result": os.times_result}
try:
    import resource

    STRUCTS["struct_rusage"] = resource.struct_rusage
except ImportError:  # Windows
    pass
