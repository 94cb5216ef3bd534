"""The walk over a script's objects: what it sees, what it leaves alone, and that it stays within bounds."""

from __future__ import annotations

import collections
import random
import sys
import types
import warnings
import weakref
from typing import Any

import pytest
import torch

from minimizer.engine.child.exact_log import ExactLog
from minimizer.inside.exact import walk
from minimizer.inside.exact.observe import Look
from minimizer.inside.exact.tensors import TensorWords
from minimizer.inside.exact.unseen import Unseen


def seen(**roots: Any) -> dict[str, dict[str, str]]:
    look = Look(lambda file: file == __file__, TensorWords())
    entries = look.add(roots.items()).entries
    look.close()
    return entries


class Slotted:
    __slots__ = ("inside", "never")

    def __init__(self) -> None:
        self.inside = [1, 2]


class Touchy:
    """Counts what is asked of it."""

    asked = 0

    def __repr__(self) -> str:
        raise AssertionError

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    def __hash__(self) -> int:
        Touchy.asked += 1
        return 7

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    @property
    def steps(self) -> int:
        raise AssertionError


def counter() -> Any:
    n = 0

    def step() -> int:
        nonlocal n
        n += 1
        return n

    return step


def items() -> Any:
    yield from range(5)


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ([1, 2], lambda x: x.reverse()),
        ({"a": 1, "b": 2}, lambda x: x.update(a=x.pop("a"))),
        (collections.OrderedDict(a=[], b=[]), lambda x: x.move_to_end("a")),
        (collections.deque([1], maxlen=2), lambda x: x.append(2)),
        ({1, 2}, lambda x: x.add(3)),
        (random.Random(0), lambda x: x.random()),
        (torch.Generator(), lambda x: torch.rand(1, generator=x)),
        (torch.zeros(3), lambda x: x.add_(1)),
        (torch.zeros(100), lambda x: x[99].fill_(1)),
        (torch.zeros(2, 3), lambda x: x.t_()),
        (torch.zeros(3), lambda x: setattr(x, "tag", 1)),
        (torch.zeros(3), lambda x: x.requires_grad_()),
        (torch.nn.Linear(2, 2), lambda x: x.eval()),
        (torch.nn.Linear(2, 2), lambda x: x.register_forward_hook(print)),
        (Slotted(), lambda x: x.inside.append(3)),
        (counter(), lambda x: x()),
        (items(), next),
        (iter([1, 2]), next),
        (enumerate([1, 2]), next),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_change_is_seen(before: Any, change: Any) -> None:
    first = seen(x=before)
    assert seen(x=before) == first
    change(before)
    assert seen(x=before) != first


def test_gradients_are_seen() -> None:
    x = torch.ones(2, requires_grad=True)
    x.sum().backward()
    assert seen(x=x)["x.grad"]["values"] == "[1.0, 1.0]"


def test_objects_have_the_shortest_path_and_others_are_aliases() -> None:
    inner = [1]
    entries = seen(deep={"a": {"b": inner}}, near=inner)
    assert entries["near[0]"]["value"] == "1"
    assert entries["deep['a']['b']"] == {"alias": "near"}


def test_nothing_of_the_script_runs() -> None:
    touchy = Touchy()
    entries = seen(x=touchy, held={touchy: 1})
    asked = Touchy.asked
    entries = seen(x=touchy, held={"k": touchy})
    assert Touchy.asked == asked
    assert entries["held['k']"] == {"alias": "x"}


def test_what_the_compiler_writes_is_not_seen() -> None:
    x = torch.zeros(3)
    first = seen(x=x)
    torch._dynamo.mark_dynamic(x, 0)
    assert seen(x=x) == first


def test_the_globals_of_a_module_are_not_walked_from_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kernel of Triton holds those of the script, among which Dynamo puts its own."""
    module = types.ModuleType("own")
    held = Slotted()
    held.inside = [vars(module), sys.modules]
    exec("n = 1", vars(module))
    alone = seen(held=held)
    monkeypatch.setitem(sys.modules, "own", module)
    first = seen(held=held)
    vars(module)["__compiled_fn_1"] = 2
    assert seen(held=held) == first != alone
    assert first["held.inside[1]"] == {"type": "modules"}


def test_a_dict_that_code_was_run_in_is_no_module() -> None:
    scope: dict[str, Any] = {}
    exec("counts = [0]", scope)
    first = seen(scope=scope)
    scope["counts"][0] = 1
    assert seen(scope=scope) != first


def test_a_kernel_of_triton_keeps_what_it_has_compiled() -> None:
    kernel = type("JITFunction", (), {"__module__": "triton.runtime.jit"})()
    first = seen(kernel=kernel)
    kernel.device_caches = {0: "compiled"}
    assert seen(kernel=kernel) == first


def test_a_compiled_module_is_the_module() -> None:
    module = torch.nn.Linear(2, 2)
    assert seen(m=torch.compile(module))["m.weight"] == seen(m=module)["m.weight"]


def test_warnings_and_what_is_held_weakly_are_not_counted() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        held: Any = weakref.WeakSet()
        first = seen(caught=caught, held=held)
        warnings.warn("compiling", stacklevel=1)
        held.add(torch.nn.ReLU)
        assert len(caught) == 1
        assert seen(caught=caught, held=held) == first


def test_what_is_not_finite_in_a_large_tensor_is_seen_apart_from_its_norms() -> None:
    holes = [torch.ones(20).index_fill(0, torch.tensor(place, dtype=torch.int64), value) for place, value in (
        ([3], torch.nan), ([4], torch.nan), ([3], torch.inf), ([3], -torch.inf), ([], 0.0)
    )]  # fmt: skip
    told = [seen(x=x)["x"] for x in holes]
    assert len({entry.get("not finite") for entry in told}) == len(told)
    assert all(float(entry["norm"]) > 4 for entry in told)
    assert seen(x=torch.ones(20) * 1j)["x"]["norm"] == seen(x=torch.ones(20))["x"]["norm"]


def test_nan_equals_itself() -> None:
    assert seen(x=float("nan"), t=torch.tensor([float("nan")])) == seen(x=-float("nan"), t=torch.tensor([float("nan")]))


def test_what_a_look_has_no_room_for_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MOST_ENTRIES", 10)
    held = [[n] for n in range(100)]
    first = seen(x=held)
    assert len(first) < 20 and first["x.<rest>"]["type"] == "items"
    held[99][0] = 7
    after = seen(x=held)
    assert {path for path in first if first[path] != after[path]} == {"x.<rest>"}


def test_a_walk_is_bounded_and_says_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MOST_ENTRIES", 10)
    monkeypatch.setattr(walk, "MOST_VISITS", 50)
    unseen = Unseen()
    Look(lambda file: False, TensorWords(), unseen).add([("x", [[n] for n in range(100)])]).close()
    assert [(row["rule"], row["object"][:2]) for row in unseen.told()] == [("walk", "x[")]


def test_an_object_that_holds_itself_ends_the_walk() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert seen(x=loop)["x[0]"] == {"alias": "x"}


def test_whatever_a_script_names_the_log_of_it_is_read() -> None:
    long = type("C" * 5000, (), {})
    held = [long() for _ in range(50)]
    setattr(held[0], "a" * 5000, 1)
    roots = {
        "keyed": dict.fromkeys(held),
        "set": set(held),
        "box": held[0],
        "cut" * 5000: 1,
        "t": torch.zeros([1] * 800),
    }
    entries = seen(**roots)
    log = ExactLog.model_validate({"looks": [{"event": "end", "unit": 1, "full": True, "changed": entries}]})
    ((_, state),) = log.states()
    assert {"keyed", "set", "box", "t"} <= state.keys()

    assert seen(keyed=dict.fromkeys(held))["keyed"] != seen(keyed=dict.fromkeys([*held[:49], ""]))["keyed"]
