"""What the walk sees of each kind of object, item by item; and that no object of a script's can break it."""

from __future__ import annotations

import array
import collections
import ctypes
import datetime
import decimal
import enum
import fractions
import io
import itertools
import logging
import pathlib
import queue
import threading
import types
import unittest.mock
import uuid
import warnings
import weakref
from typing import Any, NamedTuple

import pytest
import torch

from minimizer.inside.exact.observe import Look
from minimizer.inside.exact.tensors import LARGE_BYTES, TensorWords
from minimizer.inside.exact.unseen import Unseen
from minimizer.inside.exact.walk import DENSE_ITEMS

Entries = dict[str, dict[str, str]]


def seen(_unseen: Unseen | None = None, _words: TensorWords | None = None, **roots: Any) -> Entries:
    return walked(Look(lambda file: file == __file__, _words or TensorWords(), _unseen), roots)


def walked(look: Look, roots: dict[str, Any]) -> Entries:
    entries = look.add(roots.items()).entries
    look.close()
    return entries


def moved(before: Entries, after: Entries) -> set[str]:
    return {path for path in {*before, *after} if before.get(path) != after.get(path)}


class Count(int):
    pass


class Total(float):
    pass


class Name(str):
    pass


class Colour(enum.IntFlag):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    left: int
    seen: list[int]


class Rows(list[int]):
    pass


class Code(ctypes.Structure):
    _fields_ = (("n", ctypes.c_int),)


def set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def called_mock() -> unittest.mock.Mock:
    mock = unittest.mock.Mock()
    mock(1)
    return mock


def released() -> memoryview:
    view = memoryview(b"a")
    view.release()
    return view


def started(iterator: Any) -> Any:
    next(iterator)
    return iterator


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # some tensors are in beta, others on their way out
    COMPRESSED = torch.eye(3).to_sparse_csr(), torch.eye(3).flip(0).to_sparse_csr()
    QUANTIZED = tuple(torch.quantize_per_tensor(torch.ones(3), scale, 0, torch.qint8) for scale in (0.1, 0.2))
    NESTED = torch.nested.nested_tensor([torch.ones(2)]), torch.nested.nested_tensor([torch.zeros(2)])
PAIRS: dict[str, Any] = {
    "subclass of int": (Count(3), Count(4)),
    "subclass of float": (Total(3), Total(4)),
    "subclass of str": (Name("a"), Name("b")),
    "flags": (Colour.RED, Colour.RED | Colour.BLUE),
    "long text": ("a" * 3_000_000, "a" * 1_500_000 + "b" + "a" * 1_499_999),
    "long bytes": (bytes(3_000_000), bytes(1_500_000) + b"b" + bytes(1_499_999)),
    "bytearray": (bytearray(b"a"), bytearray(b"b")),
    "array": (array.array("d", [1, 2]), array.array("d", [1, 3])),
    "long array": (array.array("q", range(100)), array.array("q", [*range(99), 0])),
    "memoryview": (memoryview(b"ab"), memoryview(b"ac")),
    "cycle": (itertools.cycle([1, 2, 3]), started(itertools.cycle([1, 2, 3]))),
    "chain": (itertools.chain([1, 2], [3]), started(itertools.chain([1, 2], [3]))),
    "islice": (itertools.islice(range(9), 4), started(itertools.islice(range(9), 4))),
    "count": (itertools.count(), started(itertools.count())),
    "set iterator": (iter({1, 2}), started(iter({1, 2}))),
    "proxy": (types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})),
    "keys": ({"a": 1}.keys(), {"b": 1}.keys()),
    "set of tuples": ({("a", 1), ("b", 2)}, {("a", 1), ("b", 3)}),
    "set of frozensets": ({frozenset({1, 2})}, {frozenset({1, 3})}),
    "set of objects": ({types.FunctionType, fractions.Fraction(1, 2)}, {types.FunctionType, fractions.Fraction(1, 3)}),
    "datetime": (datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2)),
    "timedelta": (datetime.timedelta(1), datetime.timedelta(2)),
    "decimal": (decimal.Decimal("1.10"), decimal.Decimal("1.1")),
    "fraction": (fractions.Fraction(1, 3), fractions.Fraction(2, 3)),
    "uuid": (uuid.UUID(int=1), uuid.UUID(int=2)),
    "path": (pathlib.Path("a/b"), pathlib.Path("a/c")),
    "number of C": (ctypes.c_int(1), ctypes.c_int(2)),
    "namespace": (types.SimpleNamespace(a=[1]), types.SimpleNamespace(a=[2])),
    "named tuple": (Pair(1, [2]), Pair(1, [3])),
    "subclass of list": (Rows([1]), Rows([2])),
    "key that is a tuple": ({("a", 1): 1}, {("a", 1): 2}),
    "buffer": (io.StringIO("a"), io.StringIO("b")),
    "adapter of a logger": (logging.LoggerAdapter(logging.getLogger("a"), {"n": 1}), logging.LoggerAdapter(logging.getLogger("a"), {"n": 2})),
    "event": (threading.Event(), set_event()),
    "mock": (unittest.mock.Mock(), called_mock()),
    "large tensor": (torch.zeros(5_000_000), torch.zeros(5_000_000).index_fill_(0, torch.tensor(3_123_457), 1)),
    "sparse": (torch.eye(3).to_sparse(), (torch.eye(3) * 2).to_sparse()),
    "places in a sparse": (torch.eye(3).to_sparse(), torch.eye(3).flip(0).to_sparse()),
    "compressed": COMPRESSED,
    "quantized": QUANTIZED,
    "nested": NESTED,
    "jagged": (torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), torch.nested.nested_tensor([torch.zeros(2)], layout=torch.jagged)),
    "storage": (torch.zeros(3).untyped_storage(), torch.ones(3).untyped_storage()),
    "graph": (torch.fx.symbolic_trace(torch.nn.ReLU()), torch.fx.symbolic_trace(torch.nn.GELU())),
}  # fmt: skip
"""Two objects each that differ in what they hold."""


@pytest.mark.parametrize("name", PAIRS)
def test_another_content_is_seen(name: str) -> None:
    one, two = PAIRS[name]
    unseen = Unseen()
    first = seen(unseen, x=one)
    assert seen(unseen, x=one) == first
    assert seen(unseen, x=two) != first
    assert not unseen.stacks


def test_a_queue_is_seen() -> None:
    held: queue.Queue[int] = queue.Queue()
    first = seen(x=held)
    held.put(3)
    assert {"x.queue", "x.queue[0]", "x.unfinished_tasks"} <= moved(first, seen(x=held))


def test_what_numpy_holds_is_seen() -> None:
    numpy = pytest.importorskip("numpy")
    for one, change in (
        (numpy.zeros(3), lambda x: x.fill(1)),
        (numpy.zeros((40, 40)).T, lambda x: x.__setitem__((39, 3), 1)),
        (numpy.array([[1], [2]], dtype=object), lambda x: x[0].__setitem__(0, [3])),
        (numpy.random.default_rng(0), lambda x: x.random()),
        (numpy.random.RandomState(0), lambda x: x.rand()),
    ):
        first = seen(x=one)
        change(one)
        assert seen(x=one) != first
    assert seen(x=numpy.float32(1)) != seen(x=numpy.float32(2))
    assert seen(x=numpy.float32(1)) != seen(x=numpy.float64(1))


def test_each_item_is_by_itself_and_so_are_keys_order_and_length() -> None:
    first = seen(d={"a": 1.5, "b": 2}, xs=[1, 2, 3], s={1, "a"}, q=collections.deque([1]))
    assert moved(first, seen(d={"a": 1.25, "b": 2}, xs=[1, 0, 3], s={1, "a"}, q=collections.deque([1]))) == {
        "d['a']", "xs[1]",
    }  # fmt: skip
    assert moved(first, seen(d={"b": 2, "a": 1.5}, xs=[1, 2, 3], s={1, "b"}, q=collections.deque([1]))) == {
        "d", "s.<member>['a']", "s.<member>['b']",
    }  # fmt: skip
    assert moved(first, seen(d={"a": 1.5, "b": 2}, xs=[1, 2, 3, 4], s={1, "a"}, q=collections.deque([2], 1))) == {
        "xs", "xs[3]", "q", "q[0]",
    }  # fmt: skip


@pytest.mark.parametrize("place", [999, 1000, 19_999])
@pytest.mark.parametrize("kind", ["list", "dict", "objects"])
def test_items_far_back_in_a_large_container_are_seen(kind: str, place: int) -> None:
    def held(changed: int) -> Any:
        items = [int(n == changed) for n in range(20_000)]
        if kind == "objects":
            return [[n] for n in items]
        return items if kind == "list" else dict(enumerate(items))

    paths = moved(seen(x=held(-1)), seen(x=held(place)))
    start = place // 1000 * 1000
    inside = f"x[{place}][0]" if kind == "objects" else f"x[{place}]"
    assert paths == {inside if place < 1000 else f"x.<items>[{start}:{start + 1000}]"}


def test_a_dense_look_names_the_item() -> None:
    def look(changed: int) -> Entries:
        unnamed = Look(lambda file: False, TensorWords(), items=DENSE_ITEMS)
        return walked(unnamed, {"x": [int(n == changed) for n in range(15_000)]})

    assert moved(look(-1), look(14_321)) == {"x[14321]"}


def test_large_sets_are_seen() -> None:
    assert seen(x=set(range(100_000))) != seen(x={*range(99_999), -1})


def test_what_a_hook_of_a_module_holds_is_seen() -> None:
    module, counts = torch.nn.ReLU(), [0]
    module.register_forward_hook(lambda *_: counts.append(1))
    first = seen(m=module)
    module(torch.ones(1))
    assert seen(m=module) != first


def test_a_list_of_a_modules_whose_name_says_hooks_is_a_list() -> None:
    unseen = Unseen()
    module: Any = torch.nn.ReLU()
    module.own_hooks = [1, 2]
    assert seen(unseen, m=module)["m.own_hooks[1]"]["value"] == "2"
    assert not unseen.told()


def test_a_tensor_whose_version_stands_is_hashed_anew_where_a_sample_differs_or_it_must_be_exact() -> None:
    held = torch.zeros(LARGE_BYTES)
    words = TensorWords()
    words.begin(is_exact=False)
    first = seen(_words=words, x=held)
    held[12_345] = 1
    assert (second := seen(_words=words, x=held)) != first
    held.data[12_347] = 1  # moves no version, and is not in the sample
    assert seen(_words=words, x=held) == second
    words.begin(is_exact=True)
    assert seen(_words=words, x=held) != second
    words.begin(is_exact=False)
    held.data.fill_(3)
    assert seen(_words=words, x=held) != second


def test_a_tensor_beyond_the_bytes_of_a_look_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimizer.inside.exact.tensors.MOST_BYTES", 6 * LARGE_BYTES)
    unseen = Unseen()
    words = TensorWords(unseen)
    words.begin(is_exact=True)
    entries = seen(unseen, words, x=torch.zeros(LARGE_BYTES), y=torch.zeros(LARGE_BYTES))
    assert [(row["rule"], row["object"]) for row in unseen.told()] == [("sampled", "y")]
    assert entries["y"]["values"].startswith("#sample")


class Lying:
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return dict


class Refusing:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise SystemError(name)

    __reduce__ = __repr__ = __eq__ = __hash__ = __len__ = __iter__ = None  # type: ignore[assignment]


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(name)


class WithMeta(metaclass=Meta):
    n = 3


class Strange(dict[Any, Any]):
    def items(self) -> Any:
        raise RuntimeError

    __iter__ = keys = values = __len__ = items  # type: ignore[assignment]


class Shouting:
    def __init__(self) -> None:
        self.__dict__[1] = 2  # type: ignore[index]
        self.__dict__["own_hooks"] = self


class BrokenModule(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.__dict__["_modules"] = {1: None, "a": 3}
        self.__dict__["_forward_hooks"] = [1]


HOSTILE = {
    "lies about its class": Lying,
    "refuses": Refusing,
    "class that refuses": WithMeta,
    "class": lambda: WithMeta,
    "dict that refuses": lambda: Strange(a=1),
    "attributes without a name": Shouting,
    "broken module": BrokenModule,
    "released view": released,
    "dead proxy": lambda: weakref.proxy(collections.OrderedDict()),
    "huge int": lambda: [10**5000] * 5000,
    "surrogate": lambda: {"\ud800": "\udfff"},
    "exception": lambda: ValueError("a", [1]),
    "uninitialised": lambda: object.__new__(logging.Logger),
    "bare exception": lambda: torch.nn.Linear.__new__(torch.nn.Linear),
    "lazy": lambda: torch.nn.LazyLinear(3),
    "meta": lambda: torch.zeros(3, device="meta"),
}
"""Makers of objects that break those who are not careful."""


@pytest.mark.parametrize("name", HOSTILE)
def test_no_object_breaks_the_walk(name: str) -> None:
    made = HOSTILE[name]()
    entries = seen(first=made, then=[1])
    assert "first" in entries and entries["then[0]"]["value"] == "1"
    assert seen(first=made, then=[1]) == entries


def test_an_error_of_ours_costs_one_object_and_is_told_with_its_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise AttributeError("'list' object has no attribute 'values'")

    monkeypatch.setattr(Look, "_module", broken)
    unseen = Unseen()
    entries = seen(unseen, m=torch.nn.ReLU(), n=1)
    assert entries["m"] == {"unseen": "observer"} and entries["n"]["value"] == "1"
    assert unseen.told() == [{"rule": "observer", "object": "m", "count": 1}]
    assert "has no attribute 'values'" in unseen.stacks[0] and "in broken" in unseen.stacks[0]


def test_weak_references_are_asked_at_the_end_only() -> None:
    held: Any = torch.nn.ReLU()
    reference = weakref.ref(held)
    several = weakref.WeakSet([held])
    mapped = weakref.WeakValueDictionary({"a": held})

    def looks() -> list[Entries]:
        roots = {"r": reference, "s": several, "v": mapped}
        return [walked(Look(lambda _: False, TensorWords(), is_last=last), dict(roots)) for last in (False, True)]

    first = looks()
    del held
    after = looks()
    assert after[0] == first[0]
    assert moved(first[1], after[1]) == {"r", "s", "v"}


class Recorder:
    def __init__(self, items: list[int] = []) -> None:  # noqa: B006
        self.items = items
        items.append(1)


def test_what_a_special_method_holds_outlives_its_calls() -> None:
    before = seen(kind=Recorder)
    Recorder()
    assert any(path.startswith("kind.__init__.__defaults__[0]") for path in moved(before, seen(kind=Recorder)))
