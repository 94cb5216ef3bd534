"""The exception to tell of: the compiler's, whatever the script makes of it, and no other that was handled before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._dynamo import guards
from torch._dynamo.exc import TorchDynamoException

from minimizer.inside.failures import describe, raised_while_compiling

CAUSE = "torch._dynamo.exc.TorchDynamoException"


def compiled() -> None:
    raise TorchDynamoException("no such line")


def in_its_place() -> None:
    try:
        compiled()
    except Exception:
        raise RuntimeError("step failed")  # noqa: B904  (as many scripts do)


def for_good() -> None:
    try:
        compiled()
    except Exception:
        raise RuntimeError("step failed") from None


def twice() -> None:
    try:
        for_good()
    except RuntimeError:
        raise KeyError("epoch failed")  # noqa: B904


async def one() -> None:
    compiled()


async def tasks() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(one())


def in_a_group() -> None:
    with ThreadPoolExecutor(1) as thread:  # this one may have a loop already, of a test in a browser
        thread.submit(asyncio.run, tasks()).result()


def beside_another() -> None:
    raise ExceptionGroup("several", [ValueError("another"), TorchDynamoException("no such line")])


def one_of_a_group() -> None:
    try:
        raise ExceptionGroup("several", [TorchDynamoException("no such line")])
    except ExceptionGroup as group:
        raise group.exceptions[0]  # noqa: B904


def many_times() -> None:
    """Each try fails in the handler of the one before."""

    def one_more(left: int) -> None:
        try:
            compiled() if left == 0 else one_more(left - 1)
        except Exception:
            raise RuntimeError(f"try {left}")  # noqa: B904

    one_more(60)


def eager() -> None:
    raise ValueError("wrong in eager too")


def in_eager_too() -> None:
    try:
        compiled()
    except Exception:
        eager()


def in_eager_and_told() -> None:
    try:
        in_eager_too()
    except ValueError:
        raise RuntimeError("step failed")  # noqa: B904


def without_the_compiler() -> None:
    try:
        eager()
    except ValueError:
        raise RuntimeError("step failed") from None


def ended(by: Callable[[], None]) -> BaseException:
    try:
        by()
    except BaseException as error:
        return error
    raise AssertionError("it ends well")


@pytest.mark.parametrize("by", [in_its_place, for_good, twice, in_a_group, beside_another])
def test_the_cause_is_the_compilers_error(by: Callable[[], None]) -> None:
    error = ended(by)
    assert raised_while_compiling(error)
    said = describe(error)
    assert (said.root_type, said.root_message) == (CAUSE, "no such line")
    assert f"{CAUSE}: no such line" in said.stack
    assert f"It reached the script as {type(error).__module__}.{type(error).__qualname__}" in said.stack
    if by is not beside_another:
        assert "in compiled" in said.stack


def test_an_error_of_pythons_own_kind_that_dynamo_raises_is_the_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(guards.CheckFunctionManager, "__init__", broken)
    assert raised_while_compiling(ended(lambda: torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))))
    monkeypatch.undo()


@pytest.mark.parametrize(
    "does",
    [
        lambda x: x.sum(5),
        lambda x: x[99],
        lambda x: torch._assert(x.dim() > 2, "too few"),
        lambda x: [x][x.int().item()],
    ],
    ids=["dimension", "index", "assertion", "list"],
)
def test_an_error_that_eager_raises_as_well_is_the_functions_own(does: Callable[[torch.Tensor], object]) -> None:
    """Dynamo passes these on as they are, through its own frames."""
    x = torch.ones(1)
    raised = ended(lambda: torch.compile(does, backend="eager")(x))
    assert type(raised) is type(ended(lambda: does(x))) and not raised_while_compiling(raised)


def test_the_only_one_of_a_group_that_is_raised_again_is_the_cause() -> None:
    error = ended(one_of_a_group)
    assert raised_while_compiling(error)
    assert describe(error).root_type == CAUSE


def test_one_of_a_group_that_says_nothing_of_the_compiler_is_itself_the_cause() -> None:
    def by() -> None:
        try:
            raise ExceptionGroup("several", [ValueError("wrong"), KeyError("wrong too")])
        except ExceptionGroup as group:
            raise group.exceptions[0]  # noqa: B904

    assert not raised_while_compiling(ended(by))
    assert describe(ended(by)).root_type == "ValueError"


def test_a_cause_behind_many_errors_is_found_at_once() -> None:
    assert describe(ended(many_times)).root_type == CAUSE


@pytest.mark.parametrize(
    ("by", "cause"),
    [(in_eager_too, "ValueError"), (in_eager_and_told, "RuntimeError"), (without_the_compiler, "RuntimeError")],
)
def test_an_error_that_was_dealt_with_before_is_not_the_cause(by: Callable[[], None], cause: str) -> None:
    assert describe(ended(by)).root_type == cause
