"""Describes a tensor as text: dtype, shape, strides and the like, and its values to the bit.

None of the script's code runs: modes, and ``__torch_function__`` of subclasses, are off while values are read.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import _disable_current_modes

FEW = 16
"""Elements of the largest tensor whose values are written out; a larger one is hashed."""
WHOLE_BYTES = 16 << 20
"""Bytes; of a larger tensor only a sample is hashed."""
SAMPLE = 1 << 18
"""Elements of such a sample, approximately."""


class TensorWords:
    """Describes tensors, and remembers whether one was sampled."""

    def __init__(self) -> None:
        self.sampled = False
        """Whether a large tensor was hashed by a sample only."""

    def describe(self, tensor: torch.Tensor) -> dict[str, str]:
        """Dtype, ``requires_grad``, device, shape, layout or strides, and ``values`` if they can be read."""
        with plain():
            words = {
                "dtype": str(tensor.dtype),
                "requires_grad": str(tensor.requires_grad),
                "device": str(tensor.device),
            }
            try:
                words["shape"] = str(list(tensor.shape))
            except (RuntimeError, NotImplementedError):  # nested tensors, lazy parameters that are not materialised
                return words
            if tensor.layout is not torch.strided:
                return {**words, "layout": str(tensor.layout)}
            steps = zip(tensor.shape, tensor.stride(), strict=True)
            words["stride"] = str([step for size, step in steps if size > 1] if tensor.numel() else [])
            if is_readable(tensor):
                try:
                    self._add_values(tensor.detach(), words)
                except (RuntimeError, NotImplementedError):  # an unreadable storage
                    words["values"] = ""
            return words

    def _add_values(self, tensor: torch.Tensor, words: dict[str, str]) -> None:
        flat = tensor.resolve_conj().resolve_neg()
        count = flat.numel()
        if count <= FEW and not flat.is_quantized:
            words["values"] = str(flat.tolist())
            return
        if count * flat.element_size() > WHOLE_BYTES:
            self.sampled = True
            flat = _sample(flat)
        words.update({"values": f"#{_hashed(flat)}", **_figures(flat)})


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """A view of about `SAMPLE` elements, evenly spaced in all dimensions; copies nothing."""
    each = max(1, int(SAMPLE ** (1 / tensor.dim())))
    return tensor[tuple(slice(None, None, -(-size // each)) for size in tensor.shape)]


def _figures(tensor: torch.Tensor) -> dict[str, str]:
    """Two norms of the finite elements of a floating tensor, which change little with other rounding and much with other values, and
    a hash of where others are; empty for other dtypes."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return {}
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    exact = real.reshape(-1).double()
    finite = exact.isfinite()
    others = (
        {}
        if finite.all()
        else {"not finite": _hashed(exact.nan_to_num(2, 1, -1).masked_fill(finite, 0).to(torch.int8))}
    )
    exact = exact.masked_fill(~finite, 0)
    weights = torch.arange(exact.numel(), dtype=torch.float64, device=exact.device).mul_(1.2345).cos_()
    return {**others, "norm": f"{exact.norm().item():.9g}", "lean": f"{(exact * weights).norm().item():.9g}"}


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Turns off torch functions, modes, autograd and CPU autocast for the body."""
    unhooked = torch._C.DisableTorchFunction(), _disable_current_modes()
    with unhooked[0], unhooked[1], torch.no_grad(), torch.autocast("cpu", enabled=False):
        yield


def is_readable(tensor: torch.Tensor) -> bool:
    """Whether a tensor's values are in memory, and can be read without running code of a subclass."""
    functorch = torch._C._functorch
    return not (
        tensor.device.type == "meta"
        or functorch.is_functorch_wrapped_tensor(tensor)
        or torch._is_functional_tensor(tensor)
        or torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python)
    )


def _hashed(tensor: torch.Tensor) -> str:
    data = tensor.detach().contiguous().cpu()
    if data.is_quantized:
        data = data.int_repr()
    size = data.numel() * data.element_size()
    raw = ctypes.string_at(data.data_ptr(), size) if size else b""
    return hashlib.blake2b(raw, digest_size=8).hexdigest()
