"""Edits that let objects give way to what they hold."""

from __future__ import annotations

import pytest
from one_pass import reduced

from minimizer.engine.between import passes


def test_an_object_gives_way_to_the_one_thing_it_holds() -> None:
    text = """
        class Cache:
            def __init__(self, entries):
                self.entries = OrderedDict(entries)
        def f(cache):
            return cache.entries
        cache = Cache(1)
        f(cache)
    """
    expected = "def f(cache):\n    return cache\ncache = OrderedDict(1)\nf(cache)"
    assert reduced(text, passes.objects, ["OrderedDict", "f(cache"]) == expected


def test_a_method_that_is_called_once_is_written_where_it_is_called() -> None:
    text = """
        class Cache:
            def put(self, key, value):
                self.entries[key] = value
        cache = Cache()
        cache.put('a', 1)
    """
    assert "cache.entries['a'] = 1" in reduced(text, passes.objects, ["cache.entries"])


def test_a_constructor_without_arguments_becomes_attributes_of_the_class() -> None:
    text = """
        class Meter:
            def __init__(self):
                self.updates = 0
                self.rows = []
        m = Meter()
    """
    assert reduced(text, passes.objects, ["class Meter", "updates = 0", "rows"]).startswith(
        "class Meter:\n    updates = 0"
    )


@pytest.mark.parametrize(
    ("text", "needs", "expected"),
    [
        ("def f(x):\n    return proj(x) + table[k]", ["return"], "return x + 1"),
        ("f = lambda x: proj(x, 3, 4)", ["lambda"], "lambda x: x + 1"),
        ("class K:\n    def __eq__(self, other):\n        return (2,) == (2,)", ["return"], "return True"),
        ("y = f(torch.randn(2, 4))", ["f("], "f(torch.ones(1))"),
        ("y = f(torch.randint(1, (2, n + 1, m)))", ["n + 1"], "f(torch.ones(n + 1))"),
        ("import torch\nnet = nn.Sequential(nn.Linear(3, 3))", ["Sequential"], "Sequential(torch.nn.ReLU())"),
    ],
)  # fmt: skip
def test_the_least_operation_stands_for_what_is_computed(text: str, needs: list[str], expected: str) -> None:
    assert expected in reduced(text, passes.operations, needs)


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        (["f(torch.ones(1), torch.ones(1)"], "f(torch.ones(1), torch.ones(1), generator())"),
        (["(2, 3"], "f(torch.ones(2, 3), torch.ones(2, 3, dtype=d), generator())"),
        (["randn", "seed"], "torch.manual_seed(0)\nf(torch.randn(2, 3), torch.ones(1), generator())"),
    ],
)
def test_what_is_drawn_becomes_ones_all_at_once_and_needs_no_seed(needs: list[str], expected: str) -> None:
    """One tensor after the other would not do where two must have one shape."""
    text = "torch.manual_seed(0)\nf(torch.randn(2, 3), torch.rand(2, 3, dtype=d), generator())"
    assert reduced(text, passes.operations, needs) == expected
