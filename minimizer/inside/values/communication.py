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

DEVICES = ("CPU", "CUDA")
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


class Communicates(Exception):
    """A run of one rank alone would have to communicate."""


@dataclass(frozen=True, eq=False)
class Heard:
    """A collective as this rank has made it.

    ``kind``: one of `KINDS`, else the operator's name. ``details``: the reduction, the root, the sizes of parts. ``entered``,
    ``results``: its operands before, and what it has written, known once it was waited for. ``work``: PyTorch's handle.
    """

    kind: str
    group: str
    details: str
    entered: tuple[Tensor, ...]
    results: list[Tensor]
    work: Any

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
_reduction = ""
"""The reduction of the functional collective that is being made: an operator of ``c10d`` does not tell it."""
_libraries: list[Any] = []


def watch() -> None:
    """Put our kernels in front of PyTorch's, once in a process."""
    if _libraries:
        return
    from torch.distributed import _functional_collectives  # noqa: F401 (defines some of the operators)

    for namespace, put in (("c10d", _put_kernel), ("_c10d_functional", _put_functional)):
        library = torch.library.Library(namespace, "IMPL")
        _libraries.append(library)
        names = {schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith(f"{namespace}::")}
        for name in sorted(names):
            for device in DEVICES:
                put(library, name.partition("::")[2], name, device)


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


def _put_kernel(library: Any, short: str, name: str, device: str) -> None:
    if not torch._C._dispatch_has_kernel_for_dispatch_key(name, device):
        return
    kernel = torch.library.get_kernel(name, device)

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if _handler is None or not _is_ours():
            return kernel.call_boxed(keys, *args, **kwargs)
        return _handler(short, args, kwargs, lambda: kernel.call_boxed(keys, *args, **kwargs))

    library.impl(short, run, device, with_keyset=True)


def _put_functional(library: Any, short: str, name: str, device: str) -> None:
    kernel = torch.library.get_kernel(name, device)
    if short == "wait_tensor":

        def wait(keys: Any, tensor: Tensor) -> Any:
            result = kernel.call_boxed(keys, tensor)
            if _waited is not None and _is_ours():
                _waited(tensor)
            return result

        library.impl(short, wait, device, with_keyset=True)
    arguments = [argument.name for argument in getattr(torch.ops._c10d_functional, short).default._schema.arguments]
    if "reduce_op" not in arguments:
        return
    place = arguments.index("reduce_op")

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        global _reduction
        before, _reduction = _reduction, str(args[place]).lower()
        try:
            return kernel.call_boxed(keys, *args, **kwargs)
        finally:
            _reduction = before

    library.impl(short, run, device, with_keyset=True)


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


def alone() -> contextlib.AbstractContextManager[None]:
    """Inside, a collective raises `Communicates`: the other ranks do not make it."""

    def refuse(operator: str, args: Any, kwargs: Any, make: Callable[[], Any]) -> Any:
        raise Communicates(f"a rerun by one rank would wait for the others in {operator.strip('_')}")

    return _handled(refuse)


def together() -> contextlib.AbstractContextManager[None]:
    """Inside, this rank communicates as ever: what runs there all ranks run."""
    return _handled(None)


@contextlib.contextmanager
def recorded() -> Iterator[list[Heard]]:
    """Inside, this rank communicates; yields the list of what it hears, which is complete behind.

    What a collective has written is copied where the code waits for it: to wait earlier could be to wait for ever, where the others make
    theirs in another order.
    """
    global _waited
    heard: list[Heard] = []
    under_way: list[tuple[Heard, list[Tensor]]] = []

    def record(operator: str, args: Any, kwargs: Any, make: Callable[[], Any]) -> Any:
        kind, written, read = KINDS.get(operator, (operator, 0, 0))
        entered = _copies(args[read])
        made = make()
        work = made[-1] if isinstance(made, (tuple, list)) else made
        heard.append(Heard(kind, _group(args), _details(operator, args), tuple(entered), [], work))
        if isinstance(work, torch._C.ScriptObject):
            under_way.append((heard[-1], _tensors(args[written])))
        return made

    def waited(tensor: Tensor) -> None:
        memory = tensor.untyped_storage().data_ptr()
        for at, (one, written) in enumerate(under_way):
            if any(each.untyped_storage().data_ptr() == memory for each in written):
                one.results.extend(_copies(written))
                del under_way[at]
                return

    before, _waited = _waited, waited
    try:
        with _handled(record):
            yield heard
        for one, written in under_way:  # what the code hands on without having waited for it
            torch._C._distributed_c10d.Work.unbox(one.work).wait()
            one.results.extend(_copies(written))
    finally:
        _waited = before


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
        raise Communicates(f"nothing was heard of another {operator.strip('_')}")

    return _handled(replay)


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
    return _reduction
