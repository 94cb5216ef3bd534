"""Describes each type of object by a few strings, and lists what is reachable from it.

None of the script's code is run: no ``__repr__``, ``__eq__``, ``__hash__``, property or ``__getattr__``.
"""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch

from .leaves import BASES, Entry, leaf, plain
from .reach import (
    PLAIN_TEXT,
    SCALARS,
    TEXT,
    asked,
    bounded,
    code_text,
    counts_scalars,
    dict_of,
    factory,
    hashed,
    is_enum,
    is_shown,
    kind_name,
    label,
    locals_of,
    member,
    named,
    scalar,
    slots_of,
    written,
)
from .tensors import TensorWords
from .unseen import IN_THREADS, MACHINE, Unseen
from .walk import ITEMS, Walk

WITHOUT_IDENTITY = (tuple, frozenset, types.MethodType, types.BuiltinFunctionType, types.CellType)
"""Types whose identity is not observed: two equal objects may be one or two."""
UNSEEN = (
    "torch._", "torch.profiler.", "torch.autograd.profiler", "torch.fx.experimental.", "triton.",
    "threading.Thread", "threading._", "_thread.", "multiprocessing.", "concurrent.", "asyncio.", "_asyncio.", "socket.", "_socket.",
    "ssl.", "_ssl.", "subprocess.", "importlib.", "_frozen_importlib", "ctypes.CDLL", "_ctypes.", "weakref.", "_weakrefset.", "warnings.",
    "tempfile.", "gc.", "selectors.", "select.", "sqlite3.",
)  # fmt: skip
"""Name prefixes of types whose objects are not entered, since their state is the machine's or the compiler's."""
SEEN_ALL_THE_SAME = ("asyncio.queues.", "asyncio.locks.", "multiprocessing.dummy.")
WEAK_CONTAINERS = ("_weakrefset.WeakSet", "weakref.WeakValueDictionary", "weakref.WeakKeyDictionary")
OF_MODULES = ("_parameters", "_buffers", "_modules")
OF_LOGGERS = ("name", "level", "disabled", "propagate", "handlers", "filters")
"""The described attributes of a `logging` logger; the others are a cache, and the tree of all loggers."""
OF_THREADS = ("_target", "_args", "_kwargs", "_name")
"""A thread's arguments; its other private attributes are the machine's."""
VIEWS: tuple[type, ...] = (type({}.keys()), type({}.items()), type({}.values()), types.MappingProxyType)
"""Views of a mapping, described by reference to it."""
OF_LANGUAGE = ("builtins", "itertools", "collections", "_collections")
"""Modules of iterators whose position ``__reduce__`` gives without advancing them."""
PLAIN_CONTAINERS = (
    dict, collections.OrderedDict, collections.defaultdict, collections.Counter, list, tuple, collections.deque, set, frozenset,
)  # fmt: skip
"""Containers without attributes."""


class Look(Walk):
    """A walk over everything that a script can observe from some roots.

    Args:
        is_own: whether a file is the script's own.
        words: describes tensors.
        unseen: counts what is left out.
        items: items of one container with separate entries; see `ITEMS`.
        is_last: whether it is the look at the script's end, after a garbage collection, which also records live weak
            references.
        is_shared: whether other threads may change objects meanwhile: then no instance is entered.
    """

    def __init__(
        self,
        is_own: Callable[[str], bool],
        words: TensorWords,
        unseen: Unseen | None = None,
        *,
        items: int = ITEMS,
        is_last: bool = False,
        is_shared: bool = False,
    ) -> None:
        super().__init__(unseen if unseen is not None else Unseen(), items=items)
        self._is_own, self._words = is_own, words
        self._is_last, self._is_shared = is_last, is_shared

    # one object ----------------------------------------------------------------------------------------------------------

    def _enter(self, path: str, value: Any) -> Entry:
        kind = type(value)
        if kind in SCALARS:
            return {"type": kind.__name__, "value": scalar(value)}
        if kind in PLAIN_TEXT:
            return {"type": kind.__name__, "value": str(value)[:TEXT]}
        if is_enum(kind):
            return {"type": kind.__qualname__, "value": named(value)}
        if kind.__name__ == "OptimizedModule":
            value = self._unwrapped(value)
        if type(value) not in WITHOUT_IDENTITY:
            if id(value) in self._paths:
                return {"alias": self._paths[id(value)]}
            self._paths[id(value)] = path
        self._alive.append(value)
        return self._describe(path, value, type(value))

    def _unwrapped(self, value: Any) -> Any:
        """The module inside an ``OptimizedModule``; other values unchanged."""
        fields = dict_of(value) or {}
        return fields["_modules"].get("_orig_mod", value) if "_modules" in fields else value

    def _describe(self, path: str, value: Any, kind: type) -> Entry:
        if kind not in DESCRIBED:
            DESCRIBED[kind] = next((describe for base, describe in self.KINDS.items() if issubclass(kind, base)), None)
        describe = DESCRIBED[kind]
        if describe is not None:
            return describe(self, path, value, kind)
        if kind in VIEWS:
            return self._view(path, value, kind)
        if (entry_ := leaf(value, kind)) is not None:
            return self._leaf(path, value, kind, entry_)
        if issubclass(kind, tuple(BASES)):
            return self._leaf(path, value, kind, {"type": kind.__qualname__, "value": scalar(plain(value, kind))})
        if kind in (itertools.count, itertools.repeat) and counts_scalars(value):
            return {"type": kind.__name__, "value": repr(value)[:TEXT]}
        if _is_iterator(kind):
            return self._iterator(path, value, kind)
        return self._instance(path, value, kind)

    def _leaf(self, path: str, value: Any, kind: type, entry: Entry) -> Entry:
        """The entry of a value without parts, with the additions of a script's subclass."""
        if entry.get("dtype") == "object":
            self.hold(path, lambda place: f"{path}[{place}]", value.ravel().tolist())
        if self._is_of_script(kind):
            self._attributes(path, value, entry)
        return entry

    def _tensor(self, path: str, value: torch.Tensor, kind: type) -> Entry:
        entry = {"type": kind.__qualname__, **self._words.describe(value, path)}
        is_leaf = asked(value, "is_leaf")
        if (is_leaf or asked(value, "retains_grad")) and asked(value, "requires_grad"):
            grad = asked(value, "grad")
            self._pending.append((f"{path}.grad", grad))
            self._alive.append(grad)
        fields = {**slots_of(value), **(dict_of(value) or {})}
        fields = {name: part for name, part in fields.items() if is_shown(name)}
        if self._is_wrapper_of_library(kind):  # it caches answers there, and the compiler queries it too
            fields = {n: part for n, part in fields.items() if isinstance(part, torch.Tensor) or not n.startswith("_")}
        self._pending.extend((f"{path}.{name}", part) for name, part in fields.items())
        return entry

    def _is_wrapper_of_library(self, kind: type) -> bool:
        """Whether tensors of a class consist of other tensors, by code that is not the script's, such as nested
        tensors.
        """
        return hasattr(kind, "__tensor_flatten__") and not self._is_of_script(kind)

    # containers ----------------------------------------------------------------------------------------------------------

    def _dict(self, path: str, value: dict[Any, Any], kind: type) -> Entry:
        if value is sys.modules:  # the compiler imports more of them
            return {"type": "modules"}
        if _is_namespace(value):  # the script's are roots, and Dynamo adds its own globals
            return {"type": "namespace", "name": scalar(dict.get(value, "__name__"))}
        order = list(dict.items(value))
        if issubclass(kind, collections.OrderedDict):
            items = {id(key): (key, item) for key, item in order}
            order = [items[id(key)] for key in collections.OrderedDict.__iter__(value) if id(key) in items]
        self._alive.append(order)
        entry = {"type": kind.__qualname__, "length": str(len(order))}
        if issubclass(kind, collections.defaultdict):
            entry["default"] = getattr(factory(value), "__name__", "")
        keys, values = [key for key, _ in order], [item for _, item in order]
        labels = _labels(keys)
        if labels is None:
            entry["keys"] = bounded(", ".join(kind_name(type(key)) for key in keys))
            self.hold(path, lambda place: f"list({path})[{place}]", keys, "keys")
            self.hold(path, lambda place: f"list({path}.values())[{place}]", values)
        else:
            entry["keys"] = written(labels)
            self.hold(path, lambda place: f"{path}[{labels[place]}]", values)
        return self._with_fields(path, value, kind, entry)

    def _sequence(self, path: str, value: Any, kind: type) -> Entry:
        base = next(b for b in (list, tuple, collections.deque) if issubclass(kind, b))
        items = [item for item in base.__iter__(value) if type(item) is not warnings.WarningMessage]  # torch warns too
        self._alive.append(items)
        entry = {"type": kind.__qualname__, "length": str(len(items))}
        if base is collections.deque:
            entry["maxlen"] = str(collections.deque.maxlen.__get__(value))
        self.hold(path, lambda place: f"{path}[{place}]", items)
        return self._with_fields(path, value, kind, entry)

    def _set(self, path: str, value: Any, kind: type) -> Entry:
        items = list((set if issubclass(kind, set) else frozenset).__iter__(value))
        self._alive.append(items)
        entry = {"type": kind.__qualname__, "length": str(len(items))}
        labels = _labels(items)
        if labels is None:
            if self._digest is not None:
                self._hash_members(path, items)
            else:
                self._later.append(lambda: self._hash_members(f"{path}.<members>", items))
        elif len(labels) <= self._items and self._digest is None:
            for text in sorted(labels):
                self.put(f"{path}.<member>[{text}]", {"type": "member"})
        else:
            entry["items"] = f"#{hashed(repr(sorted(labels)).encode('utf-8', 'surrogatepass'))}"
        return self._with_fields(path, value, kind, entry)

    def _with_fields(self, path: str, value: Any, kind: type, entry: Entry) -> Entry:
        """The entry of a container, with the attributes of its subclass."""
        if kind not in PLAIN_CONTAINERS and (dict_of(value) or slots_of(value)):
            self._attributes(path, value, entry)
        return entry

    def _view(self, path: str, value: Any, kind: type) -> Entry:
        """A view of a dict: it refers to that alone. The proxy of a class's attributes is not entered: the class is."""
        held = gc.get_referents(value)
        if held and not (type(held[0]) is dict and "__module__" in held[0] and "__doc__" in held[0]):
            self._pending.append((f"{path}.<of>", held[0]))
        return {"type": kind.__name__}

    # functions, classes, iterators ---------------------------------------------------------------------------------------

    def _function(self, path: str, value: types.FunctionType, kind: type) -> Entry:
        fields = dict(value.__dict__)
        original = fields.get("_torchdynamo_orig_callable")
        entry = {"type": "function", "name": value.__qualname__}
        is_own = self._is_own(value.__code__.co_filename)
        extra = [
            (f"{path}.{n}", part) for n, part in fields.items() if is_shown(n) and (n != "__wrapped__" or not is_own)
        ]
        self._pending.extend(item for item in extra if item[0] != f"{path}.get_compiler_config")
        if original is not None:
            self._pending.append((f"{path}.__wrapped__", original))
            return entry
        if not is_own:
            return entry
        entry["code"] = hashed(code_text(value.__code__).encode())
        if value.__defaults__:
            self._pending.append((f"{path}.__defaults__", value.__defaults__))
        if value.__kwdefaults__:
            self._pending.append((f"{path}.__kwdefaults__", value.__kwdefaults__))
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            self._pending.append((f"{path}.<closure>.{name}", cell))
        return entry

    def _method(self, path: str, value: types.MethodType, kind: type) -> Entry:
        self._pending.append((f"{path}.__self__", value.__self__))
        self._pending.append((f"{path}.__func__", value.__func__))
        return {"type": "method"}

    def _partial(self, path: str, value: Any, kind: type) -> Entry:
        parts: Any = vars(functools.partial)
        self._pending.extend((f"{path}.{name}", parts[name].__get__(value)) for name in ("func", "args", "keywords"))
        return {"type": "partial"}

    def _wrapped_method(self, path: str, value: Any, kind: type) -> Entry:
        self._pending.append((path + ".__func__", value.__func__))
        return {"type": kind.__name__}

    def _cell(self, path: str, value: types.CellType, kind: type) -> Entry:
        try:
            held = value.cell_contents
        except ValueError:
            return {"type": "cell", "value": "empty"}
        return self._enter(path, held)

    def _class(self, path: str, value: type, kind: type) -> Entry:
        entry = {"type": "class", "name": value.__qualname__}
        if not self._is_of_script(value):
            return entry
        fields = type.__dict__["__dict__"].__get__(value)
        names = [
            n for n in fields if is_shown(n) and not (n.startswith("__") and n.endswith("__")) and n != "_abc_impl"
        ]
        entry["attributes"] = bounded(", ".join(sorted(names)))
        self._pending.extend((f"{path}.{name}", fields[name]) for name in names)
        self._pending.extend(
            (f"{path}.{name}", part) for name, part in fields.items() if self._is_own_special(name, part)
        )
        return entry

    def _is_own_special(self, name: object, part: Any) -> bool:
        """Whether it is a special method written by the script: its defaults and its closure outlive its calls."""
        is_function = type(name) is str and name.startswith("__") and type(part) is types.FunctionType
        return is_function and self._is_own(part.__code__.co_filename)

    def _is_of_script(self, kind: type) -> bool:
        module = sys.modules.get(str(type.__dict__["__dict__"].__get__(kind).get("__module__", "")))
        return module is not None and self._is_own(getattr(module, "__file__", None) or "")

    def _generator(self, path: str, value: Any, kind: type) -> Entry:
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from Python 3.12 on those of itertools warn
            reduced = value.__reduce__()
        self._alive.append(reduced)
        for place, part in enumerate(reduced[1:]):
            self._pending.append((f"{path}.<{'of' if place == 0 else 'at'}>", part))
        return {"type": kind.__name__}

    # instances -----------------------------------------------------------------------------------------------------------

    def _instance(self, path: str, value: Any, kind: type) -> Entry:
        entry = {"type": kind.__qualname__}
        name = kind_name(kind)
        if issubclass(kind, weakref.ref):
            return (
                {**entry, "state": "alive" if weakref.ref.__call__(value) is not None else "dead"}
                if self._is_last
                else entry
            )
        if name in WEAK_CONTAINERS:
            return {**entry, "length": str(_living(value))} if self._is_last else entry
        if issubclass(kind, types.ModuleType | types.BuiltinFunctionType | types.CodeType | types.FrameType):
            return entry
        if name.startswith(UNSEEN) and not name.startswith(SEEN_ALL_THE_SAME):
            self._unseen.add(MACHINE, path)
            return entry
        if self._is_shared:
            self._unseen.add(IN_THREADS, path)
            return entry
        self._attributes(path, value, entry)
        return entry

    def _attributes(self, path: str, value: Any, entry: Entry) -> None:
        fields = {**slots_of(value), **(dict_of(value) or {})}
        kind = type(value)
        if issubclass(kind, torch.nn.Module):
            self._module(path, fields, entry)
            return
        names = [name for name in fields if type(name) is str and is_shown(name)]
        if issubclass(kind, threading.Thread):
            names = [name for name in names if name in OF_THREADS or not name.startswith("_")]
        logging = sys.modules.get("logging")
        if logging is not None and issubclass(kind, logging.Logger):
            names = [name for name in names if name in OF_LOGGERS]
        entry["attributes"] = bounded(", ".join(sorted(names)))
        entry["order"] = bounded(", ".join(names))
        self._pending.extend((f"{path}.{name}", fields[name]) for name in names)
        if issubclass(kind, BaseException):
            self._pending.append((f"{path}.args", BaseException.args.__get__(value)))  # type: ignore[attr-defined]

    def _module(self, path: str, fields: dict[str, Any], entry: Entry) -> None:
        """Record a module: parameters, buffers and submodules as attributes; hooks by function name, without their handle numbers."""
        names = [name for name in fields if is_shown(name)]
        hooks = [
            name for name in names if name.endswith(HOOKS) and type(fields[name]) in (dict, collections.OrderedDict)
        ]
        for name in names:
            part = fields[name]
            if name in OF_MODULES and type(part) in (dict, collections.OrderedDict):
                entry[name.strip("_")] = bounded(", ".join(map(str, part)))
                self._pending.extend((member(path, str(inner)), value) for inner, value in list(part.items()))
            elif name in hooks:
                if part:
                    entry[name] = bounded(", ".join(map(_name_of_hook, part.values())))
                    self._pending.extend((f"{path}.{name}.<hook>[{i}]", h) for i, h in enumerate(list(part.values())))
            else:
                self._pending.append((f"{path}.{name}", part))
        entry["attributes"] = bounded(", ".join(sorted(name for name in names if name not in hooks)))

    KINDS: dict[Any, Callable[..., Entry]] = {
        torch.Tensor: _tensor,
        dict: _dict,
        (list, tuple, collections.deque): _sequence,
        (set, frozenset): _set,
        types.FunctionType: _function,
        types.MethodType: _method,
        functools.partial: _partial,
        type: _class,
        (staticmethod, classmethod): _wrapped_method,
        (types.GeneratorType, types.CoroutineType): _generator,
        types.CellType: _cell,
    }
    """The describing functions, by type or types."""


DESCRIBED: weakref.WeakKeyDictionary[type, Callable[..., Entry] | None] = weakref.WeakKeyDictionary()
"""The describing function of each type met so far, by `Look.KINDS`; None: none applies."""
HOOKS = ("_hooks", "_hooks_with_kwargs", "_hooks_always_called")
"""Name suffixes of module attributes that hold hooks by handle number."""


def _labels(keys: list[Any]) -> list[str] | None:
    """Texts for keys, or for the members of a set; None if one of them is an object without a label."""
    if SCALARS.issuperset(map(type, keys)):
        return [scalar(key) for key in keys]
    labels = [label(key) for key in keys]
    known = [text for text in labels if text is not None]
    return known if len(known) == len(labels) else None


def _is_iterator(kind: type) -> bool:
    """Whether a type is a built-in iterator that reports its position."""
    fields = type.__dict__["__dict__"].__get__(kind)
    return fields.get("__module__", "builtins") in OF_LANGUAGE and "__next__" in fields and "__reduce__" in fields


def _living(value: Any) -> int:
    """The number of live objects in a weak container."""
    held = (dict_of(value) or {}).get("data", ())
    parts = [part for pair in held.items() for part in pair] if type(held) is dict else list(held)
    return sum(isinstance(part, weakref.ref) and weakref.ref.__call__(part) is not None for part in parts)


def _name_of_hook(hook: Any) -> str:
    kind = type(hook)
    if kind is types.MethodType:
        return _name_of_hook(hook.__func__)
    return str(hook.__qualname__) if kind is types.FunctionType else str(kind.__qualname__)


def _is_namespace(value: dict[Any, Any]) -> bool:
    """Whether a dict is the globals of a module."""
    name = dict.get(value, "__name__")
    module = sys.modules.get(name) if type(name) is str else None
    return isinstance(module, types.ModuleType) and vars(module) is value
