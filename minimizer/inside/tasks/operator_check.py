"""Checks the user's custom operators with ``torch.library.opcheck``, on the arguments that they get in eager.

The compiler trusts an operator's schema (mutation and aliasing) and its fake implementation (dtypes, shapes and strides
of the results). If one of them is wrong, a correct compiler generates wrong code, and the operator is at fault.
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
from ..questions import OperatorsRequest
from ..values import bodies, snapshot
from ..values.rounding import is_inexact
from ..wire import Channel, Message
from .trial import Trial

MOST_CALLS = 3
"""Number of first calls of each overload to check: an operator may break its contract for some arguments only."""
FINDINGS = {
    "test_schema": re.compile(r"not defined as mutable but was mutated|not defined to alias output|alias unexpectedly"),
    "test_faketensor": re.compile(r"^When comparing the output of .+ on FakeTensor and concrete Tensors, found"),
    "test_autograd_registration": re.compile(r"does not have an autograd kernel defined at an autograd key"),
}
"""opcheck's tests, each with the messages that show a fault of the operator.

Other exceptions are ignored: the tests run the operator in modes and on copies that it may not support.
"""

Call = tuple[OpOverload, tuple[Any, ...], dict[str, Any]]


def check_operators(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer an `OperatorsRequest`.

    ``values`` holds the failing test and its message for each operator at fault.
    """
    request = OperatorsRequest.read(message)
    function, loaded = Trial(request, channel).load()
    inputs = snapshot.clone(loaded)  # a value that is mapped from a file keeps its size
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
    """The first of these tests that shows a fault of the operator in this call, with its message; None if none does."""
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
    """Records copies of the arguments of the first calls of some operators (packet names), taken before the call."""

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
            with contextlib.suppress(Exception):  # arguments that cannot be copied cannot be checked
                before = snapshot.clone([args, kwargs or {}])
                self.seen.append((func, tuple(before[0]), before[1]))
        return func(*args, **(kwargs or {}))


def _packet(operator: OpOverload) -> str:
    return operator._overloadpacket._qualified_op_name.replace("::", ".")


def _requiring_grad(value: torch.Tensor) -> torch.Tensor:
    return value.detach().requires_grad_() if is_inexact(value) else value
