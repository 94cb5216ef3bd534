"""Describes a tensor as text: dtype, shape, strides and the like, and its values to the bit.

None of the script's code runs: modes, and ``__torch_function__`` of subclasses, are off while values are read.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import weakref
from collections.abc import Callable, Iterator

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .unseen import SAMPLED, UNREADABLE, WALK, Unseen

FEW = 16
"""Elements of the largest tensor whose values are written out; a larger one is hashed."""
LARGE_BYTES = 1 << 20
"""Bytes; a larger tensor is not rehashed in the next look if neither its version nor a sample of it has changed."""
MOST_BYTES = 1 << 30
"""Most bytes of tensors that one look hashes in full; further ones above `LARGE_BYTES` are only sampled."""
MOST_AT_END = 8 << 30
"""The same in the look at the script's end."""
SAMPLE = 1 << 14
"""Elements of a sample, approximately."""
PART = 1 << 15
"""Elements per part of a norm: few enough for the processor's cache, and for torch to start no threads."""
SPARSE: dict[torch.layout, tuple[str, ...]] = {
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_coo: ("_indices", "_values"),
}
"""The methods that give the parts of a sparse tensor, by layout; those of the COO format do not coalesce it."""

Words = dict[str, str]


class TensorWords:
    """Describes tensors, and remembers the hashes of large ones until they change.

    ``unseen`` counts the tensors that cannot be read, or are too large to be read in full.
    """

    def __init__(self, unseen: Unseen | None = None) -> None:
        self._unseen = unseen if unseen is not None else Unseen()
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], int, str, Words]] = {}
        self._left = MOST_BYTES
        self._is_exact, self._is_last = True, False
        self._unit: int | None = None

    def begin(self, *, is_exact: bool, is_last: bool = False, unit: int | None = None) -> None:
        """Start a look. An exact one rehashes every tensor; the last one, at the script's end, is exact.

        ``unit``: the call or backward that it is of, by its number among both; 0 at the end. None: of none.
        """
        self._unit = unit
        self._left, self._is_exact, self._is_last = MOST_AT_END if is_last else MOST_BYTES, is_exact or is_last, is_last
        self._known = {key: known for key, known in self._known.items() if known[0]() is not None}

    def describe(self, tensor: torch.Tensor, path: str = "") -> Words:
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
                self._add(self._of_nested, tensor, path, words)
                return words
            if tensor.layout is not torch.strided:
                words["layout"] = str(tensor.layout)
                self._add(self._of_other_layout, tensor, path, words)
                return words
            steps = zip(tensor.shape, tensor.stride(), strict=True)
            words["stride"] = str([step for size, step in steps if size > 1] if tensor.numel() else [])
            self._add(self._of_strided, tensor, path, words)
            return words

    def _add(
        self, describe: Callable[[torch.Tensor, str], Words], tensor: torch.Tensor, path: str, words: Words
    ) -> None:
        """Add the description of a tensor's values, unless they cannot be read."""
        if not is_readable(tensor):
            if not _has_inner(tensor) and tensor.device.type != "meta":  # which has no values
                self._unseen.add(UNREADABLE, path)
            return
        try:
            words.update(describe(tensor, path))
        except (RuntimeError, NotImplementedError):  # an unreadable storage
            self._unseen.add(UNREADABLE, path)
            words["values"] = ""

    def _of_nested(self, tensor: torch.Tensor, path: str) -> Words:
        if not tensor.is_nested:
            return {}
        parts = [f"{list(part.shape)}: {_hashed(part)}" for part in tensor.detach().unbind()]
        return {"layout": "nested", "values": f"#{_joined(parts)}"}

    def _of_other_layout(self, tensor: torch.Tensor, path: str) -> Words:
        names = SPARSE.get(tensor.layout)
        if names is None:
            return self._of_strided(tensor.detach().to_dense(), path)
        *places, values = (getattr(tensor.detach(), name)() for name in names)
        return {"indices": f"#{_joined([_hashed(place) for place in places])}", **self._values(values, path)}

    def _of_strided(self, tensor: torch.Tensor, path: str) -> Words:
        size = tensor.numel() * tensor.element_size()
        if size <= LARGE_BYTES:
            return self._values(tensor, path)
        is_within, self._left = (
            size <= self._left,
            self._left - size,
        )  # count known ones too: both runs must stop at the same tensor
        sample = _hashed(_sample(tensor.detach()))
        if not is_within:
            self._unseen.add(WALK if self._is_last else SAMPLED, path)
            return {"values": f"#sample {sample}"}
        known = self._known.get(id(tensor))
        version = -1 if tensor.is_inference() else tensor._version
        if known and known[0]() is tensor and known[1:3] == (version, sample) and version >= 0 and not self._is_exact:
            return known[3]
        words = self._values(tensor, path)
        self._known[id(tensor)] = (weakref.ref(tensor), version, sample, words)
        return words

    def _values(self, tensor: torch.Tensor, path: str) -> Words:
        flat = tensor.detach().resolve_conj().resolve_neg()
        if flat.is_quantized:
            return {"values": f"#{_hashed(flat)}", "scale": _scale(flat)}
        if flat.numel() <= FEW:
            return {"values": str(flat.tolist())}
        return {"values": f"#{_hashed(flat)}", **_figures(flat)}


def _has_inner(tensor: torch.Tensor) -> bool:
    """Whether a tensor consists of other tensors held as attributes, which the walk finds there."""
    return hasattr(type(tensor), "__tensor_flatten__")


def _scale(tensor: torch.Tensor) -> str:
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return f"{tensor.q_scale()!r}, {tensor.q_zero_point()}"
    return _joined([_hashed(tensor.q_per_channel_scales()), _hashed(tensor.q_per_channel_zero_points())])


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """A view of about `SAMPLE` elements, evenly spaced in all dimensions; copies nothing."""
    each = max(1, int(SAMPLE ** (1 / tensor.dim())))
    return tensor[tuple(slice(None, None, -(-size // each)) for size in tensor.shape)]


def _figures(tensor: torch.Tensor) -> Words:
    """Two norms of the finite elements of a floating-point tensor, and a hash of the positions of others; empty for
    other dtypes.

    The norms change little with other rounding and much with other values.
    """
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return {}
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    parts = real.reshape(-1).split(PART)
    weights = torch.arange(min(PART, real.numel()), dtype=torch.float64, device=real.device).mul_(1.2345).cos_()
    others: Words = {}
    norm = lean = torch.zeros((), dtype=torch.float64, device=real.device)
    for part in parts:
        norm, lean = _squares(part.double(), weights, norm, lean)
    if not norm.isfinite():
        norm, lean, where = _of_finite(parts, weights)
        others = {"not finite": where}
    return {**others, "norm": f"{norm.sqrt().item():.9g}", "lean": f"{lean.sqrt().item():.9g}"}


def _of_finite(parts: tuple[torch.Tensor, ...], weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, str]:
    """The squares of both norms over the finite elements, and a hash of which elements are NaN or infinite."""
    norm = lean = torch.zeros((), dtype=torch.float64, device=weights.device)
    hashes = []
    for part in parts:
        exact = part.double()
        finite = exact.isfinite()
        hashes.append(_hashed(exact.nan_to_num(2, 1, -1).masked_fill(finite, 0).to(torch.int8)))
        norm, lean = _squares(exact.masked_fill(~finite, 0), weights, norm, lean)
    return norm, lean, _joined(hashes)


def _squares(
    part: torch.Tensor, weights: torch.Tensor, norm: torch.Tensor, lean: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both sums, with the squares of these elements added. No ``dot``: it starts threads even for few elements."""
    return norm + part.square().sum(), lean + (part * weights[: part.numel()]).square_().sum()


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Turn off torch functions, modes, autograd and CPU autocast inside."""
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


def _joined(texts: list[str]) -> str:
    return hashlib.sha1(" ".join(texts).encode(), usedforsecurity=False).hexdigest()[:16]


def _hashed(tensor: torch.Tensor) -> str:
    """A hash of a tensor's elements. SHA-1 has processor instructions, and needs no resistance to attacks here."""
    data = tensor.detach().contiguous().cpu()
    if data.is_quantized:
        data = data.int_repr()
    size = data.numel() * data.element_size()
    raw = (ctypes.c_char * size).from_address(data.data_ptr()) if size else b""
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()[:16]
