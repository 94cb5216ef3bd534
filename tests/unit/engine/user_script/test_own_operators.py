"""Custom operators of a graph, and the statements of a setup that are there for others."""

from __future__ import annotations

from minimizer.engine.user_script.own_operators import own_operators, without_operators

SCALE = '@torch.library.custom_op("lib::scale", mutates_args=())\ndef scale(x: Tensor) -> Tensor:\n    return twice(x)'
FAKE = "@scale.register_fake\ndef _(x):\n    return torch.empty_like(x)"
HELPER = "def twice(x):\n    return x * FACTOR"
FACTOR = "FACTOR = 2"
LIBRARY = 'library = torch.library.Library("lib", "FRAGMENT")'
SHIFT = 'library.define("shift(Tensor x) -> Tensor")'
KERNEL = 'library.impl("shift", lambda x: x + 1, "CPU")'
OUTSIDE = '@torch.library.register_fake("lib::shift")\ndef _(x):\n    return x'
CONFIG = 'torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"'
SETUP = ("from torch import Tensor", FACTOR, HELPER, SCALE, FAKE, LIBRARY, SHIFT, KERNEL, OUTSIDE, CONFIG)


def test_only_operators_that_are_not_pytorchs_own_are_meant() -> None:
    targets = [
        "torch.relu",
        "torch.ops.lib.scale.default",
        "torch.ops.aten.sin.default",
        ".add_",
        "torch.ops.lib.shift",
    ]
    assert own_operators([*targets, "torch.ops.lib.scale"]) == ["lib.scale", "lib.shift"]


def test_without_any_operator_in_use_all_that_only_they_need_goes() -> None:
    assert without_operators(SETUP, [], []) == (CONFIG,)


def test_an_operator_in_use_stays_with_all_that_it_needs() -> None:
    assert without_operators(SETUP, ["lib.scale"], []) == (
        "from torch import Tensor",
        FACTOR,
        HELPER,
        SCALE,
        FAKE,
        CONFIG,
    )
    assert without_operators(SETUP, ["lib.shift"], []) == (LIBRARY, SHIFT, KERNEL, OUTSIDE, CONFIG)
    assert without_operators(SETUP, ["lib.scale", "lib.shift"], []) == SETUP


def test_what_is_read_elsewhere_stays() -> None:
    assert without_operators(SETUP, [], ["FACTOR"]) == (FACTOR, CONFIG)


def test_what_calls_an_operator_that_goes_goes_with_it() -> None:
    """As a pass that puts it there: a trial decides whether the failure can do without."""
    caller = "def sweep(graph):\n    return scale(graph)"
    assert without_operators((SCALE, caller), [], []) == ()


def test_a_setup_without_operators_stays() -> None:
    setup = ("import math", CONFIG, "def pass_(graph):\n    print('a::b')")
    assert without_operators(setup, [], []) == setup
