"""Records what this process hears from other ranks, so that one rank can run a call again without the others.

All collectives of PyTorch, functional or not, in compiled code or in eager, end in the operators of the namespace ``c10d``. `watch` puts
kernels in front of theirs. Outside of the contexts of this module these pass everything on.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from .capturing import is_capturing, runs_cuda_graphs

KINDS = {
    "allreduce_": ("all_reduce", 0, 0),
    "allreduce_coalesced_": ("all_reduce", 0, 0),
    "broadcast_": ("broadcast", 0, 0),
    "_allgather_base_": ("all_gather", 0, 1),
    "allgather_into_tensor_coalesced_": ("all_gather", 0, 1),
    "_reduce_scatter_base_": ("reduce_scatter", 0, 1),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", 0, 1),
    "alltoall_base_": ("all_to_all", 0, 1),
}
"""Operators that can be replayed: what they do, and which arguments they write and read."""
IN_CUDA_GRAPHS = "its collectives may run in a CUDA graph, where nothing can be copied"


class Communicates(Exception):
    """A run of one rank alone would have to communicate."""


@dataclass(eq=False)
class Heard:
    """A collective as this rank has made it.

    ``kind``: one of `KINDS`, else the operator's name. ``details``: the reduction, the root, the sizes of parts. ``entered``,
    ``results``: its operands before, and what it has written, known once it was waited for. ``work``: PyTorch's handle.
    ``unknown``: why operands or results are not known, a clause; empty if they are.
    """

    kind: str
    group: str
    details: str
    entered: tuple[Tensor, ...]
    results: list[Tensor]
    work: Any
    unknown: str = ""

    @property
    def signature(self) -> tuple[str, str, str]:
        """What must be equal for two collectives to be the same."""
        return self.kind, self.group, self.details


Handler = Callable[[str, Any, Any, Callable[[], Any]], Any]
"""Makes a collective, given its operator, its arguments and the kernel that makes it."""
_handler: Handler | None = None
_thread = 0
"""The thread that has set the handler: others, of the script's own, communicate as ever."""
_waited: Callable[[Tensor], None] | None = None
"""Told of each tensor that functional collectives have written and that was waited for."""
_refused: list[list[str]] = []
"""For each `refusals` that is open, what it has seen."""
_current = threading.local()
"""``reduction``: that of the functional collective that a thread is making: an operator of ``c10d`` does not tell it."""
_libraries: list[Any] = []


def watch() -> None:
    """Put our kernels in front of PyTorch's, once in a process.

    They stand at a key of the dispatcher that no kernel of PyTorch's uses for these operators, and pass on with the interpreter's lock
    released: a rank may wait in them for others, for which other threads of the script have to run.
    """
    if _libraries:
        return
    from torch.distributed import _functional_collectives  # noqa: F401 (defines some of the operators)

    for namespace, kernel_of in (("c10d", _collective), ("_c10d_functional", _functional)):
        library = torch.library.Library(namespace, "IMPL")
        _libraries.append(library)
        names = {schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith(f"{namespace}::")}
        for short in sorted(name.partition("::")[2] for name in names):
            packet = getattr(getattr(torch.ops, namespace), short)
            for overload in packet.overloads():
                kernel = kernel_of(short, getattr(packet, overload))
                if kernel is not None:
                    name = short if overload == "default" else f"{short}.{overload}"
                    library.impl(name, kernel, "BackendSelect", with_keyset=True)


def before_leaving(look: Callable[[], None]) -> None:
    """Have a function called before the process leaves its groups: behind that compiled code cannot be replayed, since it looks them up."""
    places = torch.distributed, torch.distributed.distributed_c10d
    leave = places[0].destroy_process_group

    @functools.wraps(leave)
    def destroy_process_group(*args: Any, **kwargs: Any) -> None:
        look()
        leave(*args, **kwargs)

    for place in places:
        place.destroy_process_group = destroy_process_group  # type: ignore[attr-defined]


def _passed_on(operator: torch._ops.OpOverload, keys: Any, args: Any, kwargs: Any) -> Any:
    """Have PyTorch's own kernel make a call; releases the interpreter's lock."""
    behind = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
    return operator.redispatch(keys & behind, *args, **kwargs)


def _collective(short: str, operator: torch._ops.OpOverload) -> Callable[..., Any]:
    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        handler = _handler
        if handler is None or not _is_ours():
            return _passed_on(operator, keys, args, kwargs)
        return handler(short, args, kwargs, lambda: _passed_on(operator, keys, args, kwargs))

    return run


def _functional(short: str, operator: torch._ops.OpOverload) -> Callable[..., Any] | None:
    if short == "wait_tensor":
        # Its name in a stack is where a rank waits; see `engine/child/stacks.py`.
        def wait_tensor(keys: Any, tensor: Tensor) -> Any:
            result = _passed_on(operator, keys, (tensor,), {})
            waited = _waited
            if waited is not None and _is_ours():
                waited(tensor)
            return result

        return wait_tensor
    arguments = [argument.name for argument in operator._schema.arguments]
    if "reduce_op" not in arguments:
        return None
    place = arguments.index("reduce_op")

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        before = _reduction()
        _current.reduction = str(args[place]).lower()
        try:
            return _passed_on(operator, keys, args, kwargs)
        finally:
            _current.reduction = before

    return run


def _reduction() -> str:
    return getattr(_current, "reduction", "")


def _is_ours() -> bool:
    """Whether the current thread has set the handler, or is one of autograd's, which Python does not know."""
    return threading.get_ident() == _thread or isinstance(threading.current_thread(), threading._DummyThread)


@contextlib.contextmanager
def _handled(handler: Handler | None) -> Iterator[None]:
    global _handler, _thread
    before = _handler, _thread
    _handler, _thread = handler, threading.get_ident()
    try:
        yield
    finally:
        _handler, _thread = before


@contextlib.contextmanager
def refusals() -> Iterator[list[str]]:
    """Yields a list of the collectives that are refused inside, a clause each: the code may catch the exception or raise another one."""
    refused: list[str] = []
    _refused.append(refused)
    try:
        yield refused
    finally:
        _refused.remove(refused)


def _refusal(why: str) -> Communicates:
    for refused in _refused:
        refused.append(why)
    return Communicates(why)


def alone() -> contextlib.AbstractContextManager[None]:
    """Inside, a collective raises `Communicates`: the other ranks do not make it."""

    def refuse(operator: str, args: Any, kwargs: Any, make: Callable[[], Any]) -> Any:
        raise _refusal(f"a rerun by one rank would wait for the others in {operator.strip('_')}")

    return _handled(refuse)


def together() -> contextlib.AbstractContextManager[None]:
    """Inside, this rank communicates as ever: what runs there all ranks run."""
    return _handled(None)


@contextlib.contextmanager
def recorded() -> Iterator[list[Heard]]:
    """Inside, this rank communicates as ever; yields the list of what it hears, which is complete behind.

    What a collective has written is copied where the code waits for it: to wait elsewhere could be to wait for ever, where the others make
    theirs in another order. An error of the copying makes it `Heard.unknown`.
    """
    global _waited
    heard: list[Heard] = []
    under_way: list[tuple[Heard, list[Tensor]]] = []

    def record(operator: str, args: Any, kwargs: Any, make: Callable[[], Any]) -> Any:
        one = Heard(operator, "", "", (), [], None)
        try:
            _note_operands(one, operator, args)
        except Exception as error:  # of ours: it must not reach the script
            one.unknown = _uncopied(error)
        made = make()
        heard.append(one)
        try:
            one.work = made[-1] if isinstance(made, (tuple, list)) else made
            if isinstance(one.work, torch._C.ScriptObject):
                under_way.append((one, _tensors(args[KINDS.get(operator, ("", 0, 0))[1]])))
        except Exception as error:
            one.unknown = _uncopied(error)
        return made

    def waited(tensor: Tensor) -> None:
        try:
            memory = tensor.untyped_storage().data_ptr()
            for at, (one, written) in enumerate(under_way):
                if any(each.untyped_storage().data_ptr() == memory for each in written):
                    del under_way[at]
                    if not one.unknown:
                        one.results.extend(_copies(written))
                    return
        except Exception as error:
            for one, _ in under_way:
                one.unknown = _uncopied(error)

    before, _waited = _waited, waited
    try:
        with _handled(record):
            yield heard
    finally:
        _waited = before
        for one, _ in under_way:  # handed on, or forgotten: the script may wait for it later
            one.unknown = one.unknown or "it does not wait for what one of its collectives returns"


def replayed(heard: Sequence[Heard]) -> contextlib.AbstractContextManager[None]:
    """Inside, a collective returns what was heard of the next one that is the same; `Communicates` where there is none."""
    left = list(heard)

    def replay(operator: str, args: Any, kwargs: Any, make: Callable[[], Any]) -> Any:
        kind, written, read = KINDS.get(operator, ("", 0, 0))
        signature, shapes = (kind, _group(args), _details(operator, args)), _shapes(args[read])
        for at, one in enumerate(left):
            if kind and one.signature == signature and _shapes(one.entered) == shapes:
                del left[at]
                with torch.no_grad():
                    for tensor, value in zip(_tensors(args[written]), one.results, strict=True):
                        tensor.copy_(value)
                is_alone = len(getattr(torch.ops.c10d, operator).default._schema.returns) == 1
                return one.work if is_alone else (args[written], one.work)
        raise _refusal(f"nothing was heard of another {operator.strip('_')}")

    return _handled(replay)


def _note_operands(one: Heard, operator: str, args: Sequence[Any]) -> None:
    one.kind, _, read = KINDS.get(operator, (operator, 0, 0))
    one.group, one.details = _group(args), _details(operator, args)
    if is_capturing() or runs_cuda_graphs():
        one.unknown = IN_CUDA_GRAPHS
    else:
        one.entered = tuple(_copies(args[read]))


def _uncopied(error: Exception) -> str:
    return f"one of its collectives could not be recorded: {type(error).__name__}: {error}"


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _copies(value: Any) -> list[Tensor]:
    return [tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in _tensors(value)]


def _shapes(value: Any) -> list[Any]:
    return [tuple(tensor.shape) for tensor in _tensors(value)]


def _group(args: Sequence[Any]) -> str:
    """The name of the group among the arguments of an operator of ``c10d``."""
    for arg in args:
        if isinstance(arg, torch._C.ScriptObject) and arg._type().name() == "ProcessGroup":  # type: ignore[attr-defined]
            return str(torch._C._distributed_c10d.ProcessGroup.unbox(arg).group_name)
    return ""


def _details(operator: str, args: Sequence[Any]) -> str:
    if operator == "broadcast_":
        return str(args[2])
    if operator == "alltoall_base_":
        return f"{list(args[3])} {list(args[4])}"
    return _reduction()
