"""Snapshots of everything a compiled callable can see: tensors with shared storages, random state, global switches.

A golden value has to be a copy. PyTorch's own tool keeps aliases, so its values are changed by later in-place ops, and its search
changes the caller's inputs. A copy that loses sharing is no better: aliasing and reinplacing faults vanish with it. So each
storage is copied once, and the tensors become views of the copies. What is a view of another tensor for autograd is one of its copy:
AOTAutograd regenerates such inputs from their base.
"""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from ..gpu import has_gpu, runtime
from . import pages, saved_hooks, transforms, views

_ATOMS = (
    type(None), bool, int, float, complex, str, bytes, range, slice, type, type(Ellipsis),
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size,
)  # fmt: skip

INLINED = "torch_function_subclass_inlined"
"""Dynamo's note of a graph that contains the effect of a ``__torch_function__``; it calls such a graph with that off."""
PRECISIONS = (
    ("generic", "all"),
    ("cuda", "all"), ("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn"),
    ("mkldnn", "all"), ("mkldnn", "matmul"), ("mkldnn", "conv"), ("mkldnn", "rnn"),
)  # fmt: skip
"""Places of a float32 precision setting in ``torch.backends``; an operator without its own setting inherits its backend's."""


def clone(values: Any, *, notes: list[str] | None = None, is_kept: bool = False) -> Any:
    """A deep copy of nested tuples, lists, dicts and sets of tensors and plain values; the source is never changed.

    Tensors that share a storage share one copied storage afterwards, with the same sizes, strides and offsets; an object that
    occurs twice is one object in the copy too. A view (``_base``) without gradients is a view of the copy of its base, be that among the values or not.
    Also preserved: dtype, conj and neg bits, ``requires_grad``, leaf or non-leaf,
    ``nn.Parameter``, the user's own subclasses, inference tensors, ``.grad``, and Dynamo's marks on a tensor (dynamic dimensions).

    Args:
        values: the values to copy.
        notes: receives a line for each part that could not be copied faithfully.
        is_kept: the copy is not written to, and never resized, nor are its copies: large ones lie in a file, and a copy of them takes
            memory where it is written to.
    """
    copier = _Copier([] if notes is None else notes)
    copier.use_files(values, is_kept=is_kept)
    return copier.copy(values)


def kept(value: Tensor | None) -> Tensor | None:
    """A tensor that the caller goes on with: a copy in a file (`pages`), where it takes no memory, if it is large and plain."""
    if value is None or value.requires_grad or type(value) is not Tensor or (storage := _large_storage(value)) is None:
        return value
    if storage.nbytes() > value.nbytes or (copy := pages.put(storage)) is None:  # others may lie in the same storage
        return value
    with torch.no_grad():
        result = torch.empty(0, dtype=value.dtype, device=value.device)
        result.set_(copy, value.storage_offset(), value.size(), value.stride())
    torch._C._set_conj(result, value.is_conj())
    torch._C._set_neg(result, value.is_neg())
    return result


class _Copier:
    """One copy in progress; maps the objects and storages seen so far to their copies."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes
        self._objects: dict[int, Any] = {}
        self._bodies: dict[int, Tensor] = {}
        """The copies of tensors, and of the bases of views, without their attributes."""
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._alive: list[Any] = []  # keeps the sources alive, so that no id is reused

    def use_files(self, values: Any, *, is_kept: bool) -> None:
        """Copy the large storages of tensors among the values in files, as far as they come from one or ``is_kept``."""
        if not is_kept and not pages.has_kept():
            return
        try:
            found = {
                storage._cdata: storage for storage in map(_large_storage, _tensors(values)) if storage is not None
            }
        except RecursionError:  # a container that contains itself, which pytree cannot walk
            return
        if found:
            copies = pages.put_for_copies([*found.values()]) if is_kept else pages.copies([*found.values()])
            self._storages |= {key: copy for key, copy in zip(found, copies or (), strict=False) if copy is not None}

    def copy(self, value: Any) -> Any:
        if isinstance(value, _ATOMS):
            return value
        if id(value) not in self._objects:
            self._alive.append(value)
            # Lists and dicts register themselves before they are filled: they may contain themselves.
            self._objects[id(value)] = self._copy_new(value)
        return self._objects[id(value)]

    def _copy_new(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, tuple):
            items = [self.copy(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, list):
            result = self._objects[id(value)] = copy.copy(value)
            result[:] = [self.copy(item) for item in value]
            return result
        if isinstance(value, dict):
            filled = self._objects[id(value)] = copy.copy(value)
            for key, item in value.items():
                filled[key] = self.copy(item)
            return filled
        if isinstance(value, (set, frozenset, bytearray)):
            return copy.copy(value)
        if isinstance(value, torch.Generator):
            return value.clone_state()
        if not callable(value):
            self.notes.append(f"{type(value).__qualname__} is kept by reference, not copied")
        return value

    def _tensor(self, source: Tensor) -> Tensor:
        result = self._body(source)
        self._objects[id(source)] = result  # before its attributes, which may refer back to it
        if source.is_leaf and source.grad is not None:
            result.grad = self.copy(source.grad)
        for name, mark in source.__dict__.items():
            if name not in result.__dict__:
                result.__dict__[name] = self._mark(mark)
        return result

    def _body(self, source: Tensor) -> Tensor:
        """A tensor's copy without its attributes; made once, as the tensor itself or as the base of a view."""
        if id(source) not in self._bodies:
            self._alive.append(source)
            # Inference tensors can only be made in inference mode, and ordinary ones only outside.
            with torch.inference_mode(source.is_inference()):
                result = self._view(source)
                self._bodies[id(source)] = self._plain(source) if result is None else result
        return self._bodies[id(source)]

    def _view(self, source: Tensor) -> Tensor | None:
        """The copy of a view as a view of its base's copy; None for what has no base for autograd, or requires gradients.

        Each input has a gradient of its own: that of a base would contain those of its views, which no compiled call returns.
        """
        if type(source) is not Tensor or not has_plain_storage(source) or (base := views.base_of(source)) is None:
            return None
        if type(base) not in (Tensor, torch.nn.Parameter) or not has_plain_storage(base):
            return None
        if source.requires_grad or base.requires_grad:
            return None
        # Not without gradients: into a view that is made so nothing may be written that requires one.
        with torch.enable_grad(), torch._C.DisableTorchFunctionSubclass():
            try:
                return views.applied(views.steps(source, base), self._body(base))
            except (IndexError, RuntimeError):  # a base that was resized since, or whose memory was given back
                return None

    def _plain(self, source: Tensor) -> Tensor:
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            result = self._detached(source)
        if source.requires_grad and not source.is_leaf:
            return _as_non_leaf(result)
        if isinstance(source, torch.nn.Parameter) and not isinstance(result, torch.nn.Parameter):
            return torch.nn.Parameter(result, requires_grad=source.requires_grad)
        return result.requires_grad_() if source.requires_grad else result

    def _mark(self, mark: Any) -> Any:
        if isinstance(mark, Tensor):
            return self.copy(mark)
        try:
            return copy.copy(mark)
        except Exception:  # tensor subclasses may have attributes of any kind
            return mark

    def _detached(self, source: Tensor) -> Tensor:
        if source._is_zerotensor():
            return torch._efficientzerotensor(source.shape, dtype=source.dtype, device=source.device)
        if is_traceable_wrapper_subclass(source):
            names, context = source.__tensor_flatten__()
            inner = {name: self.copy(getattr(source, name)) for name in names}
            return type(source).__tensor_unflatten__(inner, context, source.size(), source.stride())
        if not has_plain_storage(source):
            self.notes.append(f"{_describe(source)} is copied by clone(): storage sharing is lost")
            return source.detach().clone()
        storage = source.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = storage.clone()
        result = torch.empty(0, dtype=source.dtype, device=source.device)
        result.set_(self._storages[storage._cdata], source.storage_offset(), source.size(), source.stride())
        torch._C._set_conj(result, source.is_conj())
        torch._C._set_neg(result, source.is_neg())
        if type(source) not in (Tensor, torch.nn.Parameter):
            result = Tensor._make_subclass(type(source), result)
        return result


def has_plain_storage(tensor: Tensor) -> bool:
    """Whether a tensor is a plain strided view of a storage, so that its copy can share storages in the same way."""
    with torch._C.DisableTorchFunctionSubclass():
        return (
            type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__
            and tensor.layout is torch.strided
            and not tensor.is_quantized
            and tensor.device.type != "meta"
            and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        )


def storage_of(tensor: Tensor) -> torch.UntypedStorage | None:
    """The storage of a tensor; None if it has none, like a sparse or a wrapped one."""
    try:
        return tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return None


def _tensors(values: Any) -> Iterator[Tensor]:
    """The tensors among values, and the gradients that leaves hold."""
    for leaf in tree_leaves(values):
        if isinstance(leaf, Tensor):
            yield leaf
            if leaf.is_leaf and leaf.grad is not None:
                yield leaf.grad


def _large_storage(tensor: Tensor) -> torch.UntypedStorage | None:
    """The storage of a tensor, if it is worth a file and can lie in one."""
    if not has_plain_storage(tensor) or tensor._is_zerotensor():
        return None
    storage = tensor.untyped_storage()
    return storage if pages.is_large(storage) else None


def _describe(tensor: Tensor) -> str:
    if type(tensor) not in (Tensor, torch.nn.Parameter):
        return f"tensor subclass {type(tensor).__qualname__}"
    if tensor.is_quantized:
        return "quantized tensor"
    return f"{str(tensor.layout).removeprefix('torch.')} tensor on {tensor.device.type}"


class _NonLeaf(torch.autograd.Function):
    """Gives a tensor an autograd history without making it a view, so that the same in-place ops are allowed as on its source."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, result: Callable[[], Tensor]) -> Tensor:
        return result()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[None, None]:
        return None, None


def _as_non_leaf(detached: Tensor) -> Tensor:
    with torch.enable_grad():
        return _NonLeaf.apply(torch.empty(0, requires_grad=True), lambda: detached)


def returned(value: Tensor, *, requires_grad: bool) -> Tensor:
    """A tensor as an operator returns it: one that requires a gradient is no leaf, so that it may be changed in place."""
    return _as_non_leaf(value) if requires_grad else value


def rng_state() -> dict[str, Any]:
    """The states of all global random generators: torch on CPU and CUDA, ``random``, and numpy if it is loaded."""
    state: dict[str, Any] = {"torch": torch.get_rng_state(), "random": random.getstate()}
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy.random" in sys.modules:
        state["numpy"] = sys.modules["numpy.random"].get_state()
    return state


def set_rng_state(state: dict[str, Any]) -> None:
    """Restore the states that ``rng_state`` returned."""
    torch.set_rng_state(state["torch"])
    random.setstate(state["random"])
    if "cuda" in state:
        torch.cuda.set_rng_state_all(state["cuda"])
    if "numpy" in state:
        sys.modules["numpy.random"].set_state(state["numpy"])


@dataclass(frozen=True)
class Autocast:
    """Autocast settings of one device type."""

    device_type: str
    enabled: bool
    dtype: torch.dtype


@dataclass(frozen=True)
class GlobalState:
    """Global switches that change what a program computes: grad mode, autocast, precision and others."""

    grad: bool
    inference: bool
    autocast: tuple[Autocast, ...]
    autocast_cache: bool
    torch_function: bool
    """Whether ``__torch_function__`` of subclasses is on; see `state_of_a_graph`."""
    default_dtype: torch.dtype
    default_device: torch.device
    deterministic: bool
    deterministic_warn_only: bool
    matmul_precision: str | None
    """None if the backends' precisions differ."""
    precisions: tuple[str, ...]
    """The float32 precision of each place in `PRECISIONS`."""
    threads: int

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Run the body under these switches, and restore the previous ones.

        Compiled autograd is off for the body: it would compile the backward passes that serve as eager's side. So are the script's hooks on
        saved tensors.
        """
        before = global_state()
        with contextlib.ExitStack() as stack:
            stack.callback(_leave_autocast, _autocast_nesting())
            stack.callback(_set_plain_switches, before)
            _set_plain_switches(self)
            stack.enter_context(_no_compiled_autograd())
            stack.enter_context(saved_hooks.left())
            stack.enter_context(torch.inference_mode(self.inference))
            stack.enter_context(torch.set_grad_enabled(self.grad))
            stack.enter_context(self.casting())
            stack.enter_context(self.dispatching())
            if self.default_device != before.default_device:
                stack.enter_context(self.default_device)
            stack.enter_context(transforms.left_again())
            yield

    def dispatching(self) -> contextlib.AbstractContextManager[object]:
        """Run the body with ``__torch_function__`` of subclasses as under these switches, and leave all others as they are."""
        return contextlib.nullcontext() if self.torch_function else torch._C.DisableTorchFunctionSubclass()

    @contextlib.contextmanager
    def casting(self) -> Iterator[None]:
        """Run the body under these switches of autocast, of all devices, and leave all others as they are."""
        with contextlib.ExitStack() as stack:
            for cast in self.autocast:
                stack.enter_context(
                    torch.autocast(
                        cast.device_type, dtype=cast.dtype, enabled=cast.enabled, cache_enabled=self.autocast_cache
                    )
                )
            yield


def _autocast_nesting() -> int:
    """How many blocks of autocast the current thread is in."""
    nesting: int = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return nesting


def _leave_autocast(nesting: int) -> None:
    """Leave the blocks of autocast inside of these many: a graph that raises in the middle of one does not.

    Else the script's own blocks would never be the outermost one, at whose end the casts of weights are forgotten.
    """
    for left in range(_autocast_nesting() - 1, nesting - 1, -1):
        torch.autocast_decrement_nesting()
        if left == 0:
            torch.clear_autocast_cache()


@contextlib.contextmanager
def _no_compiled_autograd() -> Iterator[None]:
    compiled_autograd: Any = torch._dynamo.compiled_autograd
    was_disabled = compiled_autograd.active_disable_ctx
    with compiled_autograd._disable():
        yield
    compiled_autograd.active_disable_ctx = was_disabled  # torch resets it to False at the end of any such block


def global_state() -> GlobalState:
    """The current global switches."""
    devices = ["cpu", "cuda"] if runtime() is torch.cuda and has_gpu() else ["cpu"]
    return GlobalState(
        grad=torch.is_grad_enabled(),
        inference=torch.is_inference_mode_enabled(),
        autocast=tuple(Autocast(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in devices),
        autocast_cache=torch.is_autocast_cache_enabled(),
        torch_function=torch._C._is_torch_function_enabled(),
        default_dtype=torch.get_default_dtype(),
        default_device=torch.get_default_device(),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        deterministic_warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
        matmul_precision=matmul_precision(),
        precisions=tuple(torch._C._get_fp32_precision_getter(*place) for place in PRECISIONS),
        threads=torch.get_num_threads(),
    )


def state_of_a_graph() -> GlobalState:
    """The switches for a Dynamo graph that is called or compiled now: `global_state`, with ``__torch_function__`` of subclasses as there.

    It is off around a graph that already contains its effect, which must not happen twice. A graph whose subclass Dynamo takes for a plain
    tensor, as those of torchao, contains the calls as they are written, and runs with it on. Where torch cannot tell the two apart it leaves
    it on for both, and it is off here.
    """
    from torch._dynamo.output_graph import OutputGraph

    before, is_told = global_state(), INLINED in OutputGraph.__init__.__code__.co_names
    return replace(before, torch_function=before.torch_function and is_told and not _is_inlined())


def _is_inlined() -> bool:
    """Whether the graph that is being compiled contains the effect of a ``__torch_function__``; False where none is being compiled."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    try:
        tracer: Any = InstructionTranslator.current_tx()
    except AttributeError:
        return False
    return bool(getattr(tracer.output, INLINED))


def matmul_precision() -> str | None:
    """``torch.get_float32_matmul_precision()``, or None if it raises, since the backends were set one by one."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def _set_plain_switches(state: GlobalState) -> None:
    torch.set_default_dtype(state.default_dtype)
    torch.use_deterministic_algorithms(state.deterministic, warn_only=state.deterministic_warn_only)
    if state.matmul_precision not in (None, matmul_precision()):
        torch.set_float32_matmul_precision(state.matmul_precision)
    for place, precision in zip(PRECISIONS, state.precisions, strict=True):
        # An operator without its own setting inherits its backend's; setting it to the same value would end that.
        if torch._C._get_fp32_precision_getter(*place) != precision:
            torch._C._set_fp32_precision_setter(*place, precision)
    if torch.get_num_threads() != state.threads:
        torch.set_num_threads(state.threads)
