"""The walk over a script's observable objects: each by the shortest path that leads to it, described by a few strings.

The walk runs none of the script's code: no ``__repr__``, ``__eq__``, ``__hash__``, property or ``__getattr__``. It keeps no
references afterwards. It is bounded, and reports the path at which it stopped.
"""

from __future__ import annotations

import collections
import enum
import functools
import io
import itertools
import random
import sys
import types
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

import torch

from .reach import (
    TEXT,
    asked,
    bounded,
    code_text,
    counts_scalars,
    dict_of,
    factory,
    hashed,
    is_shown,
    listed,
    locals_of,
    member,
    raw,
    scalar,
    slots_of,
)
from .tensors import TensorWords

Entry = dict[str, str]
Children = Iterable[tuple[str, Any]]

MOST_ENTRIES = 20_000
"""Most entries of one look."""
MOST_ITEMS = 1000
"""Most items of one container that are walked."""
MOST_SCALARS = 20_000
"""Most scalars of one container that are recorded; of a larger one, evenly spaced items."""
LONGEST_PATH = 1000
"""Characters; the walk does not follow longer paths."""
LONGEST_WORD = 1000
"""Characters of what an entry says of one thing; the other end refuses a log with more (`ExactLog`)."""
SCALARS = (int, float, complex, bool, str, bytes, type(None))
PLAIN_TEXT = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, range, slice, type(Ellipsis))
WITHOUT_IDENTITY = (tuple, frozenset, types.MethodType, types.BuiltinFunctionType, types.CellType)
"""Types whose identity is not observed: two equal objects may be one or two."""
UNSEEN = (
    "torch._", "torch.profiler", "torch.autograd.profiler", "torch.autograd.profiler_util", "_weakrefset", "torch.fx", "torch.utils.data", "torch.distributed", "logging", "threading", "_thread", "multiprocessing", "concurrent",
    "asyncio", "re", "socket", "ssl", "subprocess", "importlib", "_frozen_importlib", "ctypes", "weakref", "warnings", "tempfile", "inspect",
    "ast", "unittest", "gc", "queue", "selectors", "sqlite3", "pathlib", "triton",
)  # fmt: skip
"""Modules whose objects are not entered, since their state is the machine's or the compiler's."""
OF_MODULES = ("_parameters", "_buffers", "_modules")
REDUCIBLE: tuple[type, ...] = (
    type(iter([])), type(iter(())), type(iter(range(0))), type(iter("")), enumerate, zip, map, filter, reversed,
    type(iter({}.keys())), type(iter({}.items())), type(iter({}.values())),
)  # fmt: skip
"""Iterators whose position ``__reduce__`` gives without advancing them."""


class Look:
    """One walk over everything that can be reached from some roots; ``entries`` are the descriptions by path."""

    def __init__(self, is_own: Any, words: TensorWords) -> None:
        self._is_own, self._words = is_own, words
        self._paths: dict[int, str] = {}
        self._pending: collections.deque[tuple[str, Any]] = collections.deque()
        self._alive: list[Any] = []
        """Objects kept alive until the walk is over, so that no id is reused meanwhile."""
        self.entries: dict[str, Entry] = {}
        self.truncated = ""
        """The first path at which the walk stopped; empty if it was complete."""

    def add(self, roots: Children) -> Look:
        """Walk these roots and all that can be reached from them; an object seen before is recorded as an alias."""
        self._pending.extend(roots)
        while self._pending:
            if len(self.entries) >= MOST_ENTRIES:
                self.truncated = self.truncated or self._pending[0][0][:LONGEST_PATH]
                self._pending.clear()
                break
            path, value = self._pending.popleft()
            if len(path) > LONGEST_PATH:
                self.truncated = self.truncated or path[:LONGEST_PATH]
            elif path not in self.entries:
                self.put(path, self._enter(path, value))
        return self

    def put(self, path: str, entry: Entry) -> None:
        """Add an entry, each word of it bounded: names of the script's attributes and classes may be of any length."""
        self.entries[bounded(path, LONGEST_PATH)] = {
            bounded(name, LONGEST_WORD): bounded(word, LONGEST_WORD) for name, word in entry.items()
        }

    def close(self) -> None:
        """Drop all references that the walk has kept."""
        self._alive.clear()
        self._paths.clear()

    # one object ----------------------------------------------------------------------------------------------------------

    def _enter(self, path: str, value: Any) -> Entry:
        kind = type(value)
        if kind in SCALARS:
            return {"type": kind.__name__, "value": scalar(value)}
        if kind in PLAIN_TEXT:
            return {"type": kind.__name__, "value": str(value)[:TEXT]}
        if issubclass(kind, enum.Enum):
            return {"type": kind.__qualname__, "value": str(raw(value, "_name_"))}
        value = self._unwrapped(value)
        if type(value) not in WITHOUT_IDENTITY:
            if id(value) in self._paths:
                return {"alias": self._paths[id(value)]}
            self._paths[id(value)] = path
        self._alive.append(value)
        return self._describe(path, value, type(value))

    def _unwrapped(self, value: Any) -> Any:
        """The module inside an ``OptimizedModule``; other values unchanged."""
        fields = dict_of(value)
        if fields is not None and type(value).__name__ == "OptimizedModule" and "_modules" in fields:
            return fields["_modules"].get("_orig_mod", value)
        return value

    def _describe(self, path: str, value: Any, kind: type) -> Entry:
        if issubclass(kind, torch.Tensor):
            return self._tensor(path, value, kind)
        if issubclass(kind, dict):
            return self._dict(path, value, kind)
        if issubclass(kind, list | tuple | collections.deque):
            return self._sequence(path, value, kind)
        if issubclass(kind, set | frozenset):
            return self._set(path, value, kind)
        if issubclass(kind, torch.Generator):
            return {"type": "Generator", "state": hashed(bytes(value.get_state().tolist()))}
        if issubclass(kind, random.Random):
            return {"type": kind.__qualname__, "state": hashed(repr(random.Random.getstate(value)).encode())}
        if issubclass(kind, types.FunctionType):
            return self._function(path, value)
        if issubclass(kind, types.MethodType):
            self._pending.append((f"{path}.__self__", value.__self__))
            self._pending.append((f"{path}.__func__", value.__func__))
            return {"type": "method"}
        if issubclass(kind, functools.partial):
            self._pending.extend(
                [(f"{path}.func", value.func), (f"{path}.args", value.args), (f"{path}.keywords", value.keywords)]
            )
            return {"type": "partial"}
        if issubclass(kind, type):
            return self._class(path, value)
        if issubclass(kind, staticmethod | classmethod):
            self._pending.append((path + ".__func__", value.__func__))
            return {"type": kind.__name__}
        if issubclass(kind, types.GeneratorType | types.CoroutineType):
            return self._generator(path, value)
        if issubclass(kind, io.StringIO | io.BytesIO):
            closed = value.closed
            return {"type": kind.__name__, "value": "closed" if closed else scalar(value.getvalue())}
        if issubclass(kind, types.CellType):
            return self._cell(path, value)
        if kind in REDUCIBLE:
            return self._iterator(path, value, kind)
        if kind in (itertools.count, itertools.repeat):
            return {"type": kind.__name__, "value": repr(value)[:TEXT] if counts_scalars(value) else ""}
        return self._instance(path, value, kind)

    def _tensor(self, path: str, value: torch.Tensor, kind: type) -> Entry:
        entry = {"type": kind.__qualname__, **self._words.describe(value)}
        is_leaf = asked(value, "is_leaf")
        if (is_leaf or asked(value, "retains_grad")) and asked(value, "requires_grad"):
            grad = asked(value, "grad")
            self._pending.append((f"{path}.grad", grad))
            self._alive.append(grad)
        fields = {name: part for name, part in (dict_of(value) or {}).items() if is_shown(name)}
        if self._is_wrapper_of_library(kind):  # it keeps there what it was asked before, and the compiler asks too
            fields = {n: part for n, part in fields.items() if isinstance(part, torch.Tensor) or not n.startswith("_")}
        self._pending.extend((f"{path}.{name}", part) for name, part in fields.items())
        return entry

    def _is_wrapper_of_library(self, kind: type) -> bool:
        """Whether tensors of a class consist of other tensors, by code that is not the script's, as nested ones do."""
        return hasattr(kind, "__tensor_flatten__") and not self._is_of_script(kind)

    def _dict(self, path: str, value: dict[Any, Any], kind: type) -> Entry:
        if value is sys.modules:  # the compiler imports more of them
            return {"type": "modules"}
        if _is_namespace(value):  # those of the script are roots, and Dynamo adds its own globals
            return {"type": "namespace", "name": scalar(dict.get(value, "__name__"))}
        by_key = dict.items(value)
        order = list(by_key)
        if issubclass(kind, collections.OrderedDict):
            items = {id(key): (key, item) for key, item in order}
            order = [items[id(key)] for key in collections.OrderedDict.__iter__(value) if id(key) in items]
        self._alive.append(order)
        entry = {"type": kind.__qualname__, "length": str(len(order))}
        if issubclass(kind, collections.defaultdict):
            entry["default"] = getattr(factory(value), "__name__", "")
        is_plain = all(type(key) in SCALARS for key, _ in order)
        entry["keys"] = (
            listed(key for key, _ in self._some(path, order))
            if is_plain
            else ", ".join(type(k).__name__ for k, _ in order[:50])
        )
        if is_plain and all(type(item) in SCALARS for _, item in order):
            pairs = ", ".join(f"{scalar(key)}: {scalar(item)}" for key, item in self._some(path, order))
            return {**entry, "items": bounded(f"{{{pairs}}}")}
        for place, (key, item) in enumerate(order[:MOST_ITEMS]):
            if type(key) in SCALARS:
                self._pending.append((f"{path}[{scalar(key)}]", item))
            else:
                self._pending.append((f"list({path})[{place}]", key))
                self._pending.append((f"list({path}.values())[{place}]", item))
        if kind not in (dict, collections.OrderedDict, collections.defaultdict, collections.Counter):
            self._attributes(path, value, entry)
        return entry

    def _sequence(self, path: str, value: Any, kind: type) -> Entry:
        base = next(b for b in (list, tuple, collections.deque) if issubclass(kind, b))
        items = [item for item in base.__iter__(value) if type(item) is not warnings.WarningMessage]  # torch warns too
        self._alive.append(items)
        entry = {"type": kind.__qualname__, "length": str(len(items))}
        if base is collections.deque:
            entry["maxlen"] = str(collections.deque.maxlen.__get__(value))
        if all(type(item) in SCALARS for item in items):
            return {**entry, "items": listed(self._some(path, items))}
        self._pending.extend((f"{path}[{place}]", item) for place, item in enumerate(items[:MOST_ITEMS]))
        return entry

    def _some(self, path: str, items: list[Any]) -> list[Any]:
        """The items of a container; of one above `MOST_SCALARS`, evenly spaced ones."""
        if len(items) <= MOST_SCALARS:
            return items
        self.truncated = self.truncated or path
        return items[:: -(-len(items) // MOST_SCALARS)]

    def _set(self, path: str, value: Any, kind: type) -> Entry:
        items = list((set if issubclass(kind, set) else frozenset).__iter__(value))
        entry = {"type": kind.__qualname__, "length": str(len(items))}
        if all(type(item) in SCALARS for item in items):
            held = sorted(map(scalar, items)) if len(items) <= MOST_SCALARS else []
            self.truncated = self.truncated or ("" if held or not items else path)
            entry["items"] = bounded("{" + ", ".join(held) + "}")
        else:
            entry["items"] = ", ".join(sorted(type(item).__qualname__ for item in items[:50]))
        return entry

    def _function(self, path: str, value: types.FunctionType) -> Entry:
        fields = dict(value.__dict__)
        original = fields.get("_torchdynamo_orig_callable")
        entry = {"type": "function", "name": value.__qualname__}
        extra = [(f"{path}.{name}", part) for name, part in fields.items() if is_shown(name) and name != "__wrapped__"]
        self._pending.extend(item for item in extra if item[0] != f"{path}.get_compiler_config")
        if original is not None:
            self._pending.append((f"{path}.__wrapped__", original))
            return entry
        if not self._is_own(value.__code__.co_filename):
            return entry
        entry["code"] = hashed(code_text(value.__code__).encode())
        if value.__defaults__:
            self._pending.append((f"{path}.__defaults__", value.__defaults__))
        if value.__kwdefaults__:
            self._pending.append((f"{path}.__kwdefaults__", value.__kwdefaults__))
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            self._pending.append((f"{path}.<closure>.{name}", cell))
        return entry

    def _cell(self, path: str, value: types.CellType) -> Entry:
        try:
            held = value.cell_contents
        except ValueError:
            return {"type": "cell", "value": "empty"}
        return self._enter(path, held)

    def _class(self, path: str, value: type) -> Entry:
        entry = {"type": "class", "name": value.__qualname__}
        if not self._is_of_script(value):
            return entry
        fields = type.__dict__["__dict__"].__get__(value)
        names = [
            n for n in fields if is_shown(n) and not (n.startswith("__") and n.endswith("__")) and n != "_abc_impl"
        ]
        entry["attributes"] = bounded(", ".join(sorted(names)))
        self._pending.extend((f"{path}.{name}", fields[name]) for name in names)
        return entry

    def _is_of_script(self, kind: type) -> bool:
        module = sys.modules.get(str(type.__dict__["__dict__"].__get__(kind).get("__module__", "")))
        return module is not None and self._is_own(getattr(module, "__file__", None) or "")

    def _generator(self, path: str, value: Any) -> Entry:
        is_coroutine = isinstance(value, types.CoroutineType)
        frame = value.cr_frame if is_coroutine else value.gi_frame
        entry = {"type": type(value).__name__, "name": value.__qualname__}
        if frame is None:
            return {**entry, "state": "finished"}
        entry["state"] = f"line {frame.f_lineno}, instruction {frame.f_lasti}"
        if self._is_own(frame.f_code.co_filename):
            self._pending.extend((f"{path}.<local>.{name}", part) for name, part in locals_of(frame).items())
        return entry

    def _iterator(self, path: str, value: Any, kind: type) -> Entry:
        reduced = value.__reduce__()
        self._alive.append(reduced)
        for place, part in enumerate(reduced[1:]):
            self._pending.append((f"{path}.<{'of' if place == 0 else 'at'}>", part))
        return {"type": kind.__name__}

    def _instance(self, path: str, value: Any, kind: type) -> Entry:
        entry = {"type": kind.__qualname__}
        module = str(kind.__module__) if type(kind.__module__) is str else ""
        if issubclass(
            kind, weakref.ref | types.ModuleType | types.BuiltinFunctionType | types.CodeType | types.FrameType
        ):
            return entry
        if (
            any(module == m or module.startswith(m if m.endswith("_") else f"{m}.") for m in UNSEEN)
            and module != "_thread"
        ):
            return entry
        if module == "_thread" and kind.__name__ != "_local":
            return entry
        self._attributes(path, value, entry)
        return entry

    def _attributes(self, path: str, value: Any, entry: Entry) -> None:
        fields = {**slots_of(value), **(dict_of(value) or {})}
        if issubclass(type(value), torch.nn.Module):
            self._module(path, fields, entry)
            return
        names = [name for name in fields if type(name) is str and is_shown(name)]
        entry["attributes"] = bounded(", ".join(sorted(names)))
        entry["order"] = bounded(", ".join(names))
        self._pending.extend((f"{path}.{name}", fields[name]) for name in names)
        if issubclass(type(value), BaseException):
            self._pending.append((f"{path}.args", value.args))

    def _module(self, path: str, fields: dict[str, Any], entry: Entry) -> None:
        """Record a module: parameters, buffers and submodules as attributes; hooks by function name, without their handle numbers."""
        names = [name for name in fields if is_shown(name)]
        for name in names:
            part = fields[name]
            if name in OF_MODULES and type(part) in (dict, collections.OrderedDict):
                entry[name.strip("_")] = bounded(", ".join(part))
                self._pending.extend((member(path, inner), value) for inner, value in list(part.items()))
            elif "_hooks" in name:
                if part:
                    entry[name] = bounded(", ".join(getattr(h, "__qualname__", "hook") for h in part.values()))
            else:
                self._pending.append((f"{path}.{name}", part))
        entry["attributes"] = bounded(", ".join(sorted(name for name in names if "_hooks" not in name)))


def _is_namespace(value: dict[Any, Any]) -> bool:
    """Whether a dict is the globals of a module."""
    name = dict.get(value, "__name__")
    module = sys.modules.get(name) if type(name) is str else None
    return isinstance(module, types.ModuleType) and vars(module) is value
