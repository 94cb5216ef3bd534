"""Whether operators of the user's own keep what they promise: ``torch.library.opcheck`` on the arguments that eager gives them.

Compiled code believes an operator's schema (what it writes to, what its results share memory with) and its fake implementation
(dtypes, shapes and strides of its results). Where one of them is wrong, so is correct compiled code.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from ..outcome import Ending, Outcome
from ..values import bodies, snapshot
from ..values.rounding import is_inexact
from ..wire import Channel, Message
from .requests import OperatorsRequest
from .trial import Trial

MOST_CALLS = 3
"""Calls of one overload that are checked, the first ones: an operator may break its promise for some arguments only."""
FINDINGS = {
    "test_schema": re.compile(r"not defined as mutable but was mutated|not defined to alias output|alias unexpectedly"),
    "test_faketensor": re.compile(r"^When comparing the output of .+ on FakeTensor and concrete Tensors, found"),
    "test_autograd_registration": re.compile(r"does not have an autograd kernel defined at an autograd key"),
}
"""The tests, and what they say where the operator is at fault. Anything else that they raise says nothing of it: they run the
operator in modes and on copies that it may not be made for."""

Call = tuple[OpOverload, tuple[Any, ...], dict[str, Any]]


def check_operators(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer an `OperatorsRequest`.

    ``values`` hold, by operator, the test that fails and what it says; nothing where none does.
    """
    request = OperatorsRequest.read(message)
    function, inputs = Trial(request, channel).load()
    grad = torch.set_grad_enabled(request.grad)
    with Calls(request.operators) as calls, contextlib.suppress(Exception), grad:
        function(*inputs)
    tests = [test for test in FINDINGS if request.differentiates or test != "test_autograd_registration"]
    found: dict[str, str] = {}
    for call in calls.seen:
        name = _packet(call[0])
        if name not in found and (said := finding(call, tests)) is not None:
            found[name] = said
    channel.send(Outcome(Ending.SAME, values=found))


def finding(call: Call, tests: Sequence[str]) -> str | None:
    """The first of these tests that an operator fails in a call, and what it says; None if it passes, or they have no say."""
    operator, args, kwargs = call
    for test in tests:
        if test == "test_autograd_registration":
            args, kwargs = tree_map_only(torch.Tensor, _requiring_grad, (args, kwargs))
        copies = snapshot.clone([args, kwargs])
        try:
            torch.library.opcheck(operator, copies[0], copies[1], test_utils=(test,))
        except Exception as error:
            said = str(error.__cause__ or error)
            if FINDINGS[test].search(said):
                return f"{test}: {said}"
    return None


class Calls(TorchDispatchMode):
    """Keeps the arguments of the first calls of some operators (packet names), as they are before the call."""

    supports_higher_order_operators = True

    def __init__(self, operators: Sequence[str]) -> None:
        super().__init__()
        self._operators = operators
        self.seen: list[Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator):
            return bodies.call(self, func, args, kwargs or {})
        is_wanted = _packet(func) in self._operators and sum(call[0] is func for call in self.seen) < MOST_CALLS
        if is_wanted:
            with contextlib.suppress(Exception):  # what cannot be copied cannot be checked
                before = snapshot.clone([args, kwargs or {}])
                self.seen.append((func, tuple(before[0]), before[1]))
        return func(*args, **(kwargs or {}))


def _packet(operator: OpOverload) -> str:
    return operator._overloadpacket._qualified_op_name.replace("::", ".")


def _requiring_grad(value: torch.Tensor) -> torch.Tensor:
    return value.detach().requires_grad_() if is_inexact(value) else value
