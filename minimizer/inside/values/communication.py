"""Records what this process hears from other ranks, so that one rank can run a call again without the others.

All collectives of PyTorch, functional or not, in compiled code or in eager, end in the operators of the namespace ``c10d``. `watch` puts
kernels in front of theirs. Outside of the contexts of this module these pass everything on.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from . import snapshot
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
MOST_BYTES = 1 << 30
"""Bytes of operands and results that are copied of one call; what goes beyond is `Heard.unknown`."""
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


@dataclass(frozen=True)
class _Mode:
    """What a thread does with its collectives. ``handler``: makes them; None: as ever. ``is_rerun``: see `reruns`. ``waited``: told of each tensor
    that functional collectives have written and that was waited for. ``refused``: the lists of the `refusals` that are open.
    """

    handler: Handler | None = None
    is_rerun: bool = False
    waited: Callable[[Tensor], None] | None = None
    refused: tuple[list[str], ...] = ()


_KEY = "minimizer_communication"
"""Key of the number of the current `_Mode` in torch's own state of a thread. It belongs to the thread that set it, and to autograd's threads while
these run a backward that it began, as no state of Python's does: other threads of the script communicate as ever.
"""
_modes: dict[int, _Mode] = {}
"""Those that are open, by their numbers: handles of collectives keep the state of a thread that they were made in, and must not keep more."""
_numbers = itertools.count(1)
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
    made: list[Any] = []  # an exception on the way takes back what was registered, since it lets go of these
    from torch.distributed import _functional_collectives  # noqa: F401 (defines some of the operators)

    for namespace, kernel_of in (("c10d", _collective), ("_c10d_functional", _functional)):
        library = torch.library.Library(namespace, "IMPL")
        made.append(library)
        names = {schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith(f"{namespace}::")}
        for short in sorted(name.partition("::")[2] for name in names):
            packet = getattr(getattr(torch.ops, namespace), short)
            for overload in packet.overloads():
                kernel = kernel_of(short, getattr(packet, overload))
                if kernel is not None:
                    name = short if overload == "default" else f"{short}.{overload}"
                    library.impl(name, kernel, "BackendSelect", with_keyset=True)
    _libraries.extend(made)


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
        handler = _mode().handler
        if handler is None:
            return _passed_on(operator, keys, args, kwargs)
        return handler(short, args, kwargs, lambda: _passed_on(operator, keys, args, kwargs))

    return run


def _functional(short: str, operator: torch._ops.OpOverload) -> Callable[..., Any] | None:
    if short == "wait_tensor":
        # Its name in a stack is where a rank waits; see `engine/child/stacks.py`.
        def wait_tensor(keys: Any, tensor: Tensor) -> Any:
            result = _passed_on(operator, keys, (tensor,), {})
            if (waited := _mode().waited) is not None:
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


def _mode() -> _Mode:
    number = torch._C._get_obj_in_tls(_KEY) if torch._C._is_key_in_tls(_KEY) else 0
    return _modes.get(number, _Mode())


@contextlib.contextmanager
def _in_mode(mode: _Mode) -> Iterator[None]:
    before = torch._C._get_obj_in_tls(_KEY) if torch._C._is_key_in_tls(_KEY) else 0
    number = next(_numbers)
    _modes[number] = mode
    torch._C._stash_obj_in_tls(_KEY, number)
    try:
        yield
    finally:
        torch._C._stash_obj_in_tls(_KEY, before)
        del _modes[number]


@contextlib.contextmanager
def refusals() -> Iterator[list[str]]:
    """Yields a list of the collectives that are refused inside, a clause each: the code may catch the exception or raise another one."""
    refused: list[str] = []
    mode = _mode()
    with _in_mode(replace(mode, refused=(*mode.refused, refused))):
        yield refused


def _refusal(why: str) -> Communicates:
    for refused in _mode().refused:
        refused.append(why)
    return Communicates(why)


def refusing_collectives() -> contextlib.AbstractContextManager[None]:
    """Inside, a collective raises `Communicates`: the other ranks do not make it."""

    def refuse(operator: str, args: Any, kwargs: Any, make: Callable[[], Any]) -> Any:
        raise _refusal(f"a rerun by one rank would wait for the others in {operator.strip('_')}")

    return _in_mode(replace(_mode(), handler=refuse, is_rerun=True))


def reruns() -> bool:
    """Whether this thread runs something once more that no other rank does."""
    return _mode().is_rerun


def together() -> contextlib.AbstractContextManager[None]:
    """Inside, this rank communicates as ever: what runs there all ranks run."""
    return _in_mode(replace(_mode(), handler=None, is_rerun=False))


@contextlib.contextmanager
def recorded() -> Iterator[list[Heard]]:
    """Inside, this rank communicates as ever; yields the list of what it hears, which is complete behind.

    What a collective has written is copied where the code waits for it: to wait elsewhere could be to wait for ever, where the others make
    theirs in another order. An error of the copying makes it `Heard.unknown`, and so does too much to copy.
    """
    heard: list[Heard] = []
    under_way: list[tuple[Heard, list[Tensor]]] = []
    left = MOST_BYTES

    def copies(value: Any) -> list[Tensor]:
        nonlocal left
        tensors = _tensors(value)
        left -= sum(tensor.nbytes for tensor in tensors)
        if left < 0:
            raise _TooMuch
        return [_copy(tensor) for tensor in tensors]

    def record(operator: str, args: Any, kwargs: Any, make: Callable[[], Any]) -> Any:
        one = Heard(operator, "", "", (), [], None)
        try:
            one.kind, _, read = KINDS.get(operator, (operator, 0, 0))
            one.group, one.details = _group(args), _details(operator, args)
            if is_capturing() or runs_cuda_graphs():
                one.unknown = IN_CUDA_GRAPHS
            else:
                one.entered = tuple(copies(args[read]))
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
                        one.results.extend(copies(written))
                    return
        except Exception as error:
            for one in heard:
                one.unknown = one.unknown or _uncopied(error)

    try:
        with _in_mode(replace(_mode(), handler=record, is_rerun=False, waited=waited)):
            yield heard
    finally:
        for one, _ in under_way:  # handed on, or forgotten: the script may wait for it later
            one.unknown = one.unknown or "it does not wait for what one of its collectives returns"


class Replay:
    """What a call has heard, to be heard again in the same order by the same compiled code; keeps no operands."""

    def __init__(self, heard: Sequence[Heard]) -> None:
        self._heard = [
            (one.signature, [_outline(each) for each in one.entered], tuple(one.results), one.work) for one in heard
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of all results."""
        return sum(result.nbytes for _, _, results, _ in self._heard for result in results)

    @property
    def has_groups(self) -> bool:
        """Whether the process is still in all groups: compiled code looks them up by name before it communicates."""
        return all(_is_in(group) for (_, group, _), *_ in self._heard)

    @contextlib.contextmanager
    def played(self) -> Iterator[None]:
        """Inside, each collective returns what was heard; `Communicates` for another than the next one that was heard."""
        left = list(self._heard)

        def play(operator: str, args: Any, kwargs: Any, make: Callable[[], Any]) -> Any:
            kind, written, read = KINDS.get(operator, ("", 0, 0))
            entered = [_outline(each) for each in _tensors(args[read])]
            into = _tensors(args[written])
            if not kind or not left or left[0][:2] != ((kind, _group(args), _details(operator, args)), entered):
                raise _refusal(f"nothing was heard of another {operator.strip('_')}")
            _, _, results, work = left.pop(0)
            if [_outline(each) for each in into] != [_outline(each) for each in results]:
                raise _refusal(f"what was heard of {operator.strip('_')} has another shape")
            with torch.no_grad():
                for tensor, value in zip(into, results, strict=True):
                    tensor.copy_(value)
            is_alone = len(getattr(torch.ops.c10d, operator).default._schema.returns) == 1
            return work if is_alone else (args[written], work)

        with _in_mode(replace(_mode(), handler=play, is_rerun=True)):
            yield


class _TooMuch(Exception):
    """The operands and results of a call are too large to copy."""


def _uncopied(error: Exception) -> str:
    if isinstance(error, _TooMuch):
        return f"what its collectives are given and return is more than {MOST_BYTES >> 30} GiB"
    return f"one of its collectives could not be recorded: {type(error).__name__}: {error}"


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _copy(tensor: Tensor) -> Tensor:
    """A contiguous copy, in a file if it is large."""
    copy = snapshot.kept(tensor.detach().clone(memory_format=torch.contiguous_format))
    assert copy is not None
    return copy


def _outline(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.dtype


def _is_in(group: str) -> bool:
    try:
        torch._C._distributed_c10d._resolve_process_group(group)  # type: ignore[arg-type]
    except Exception:
        return False
    return True


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
