"""Observable process state: modes, global switches, random streams and environment variables, by the expressions that read them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .reach import bounded

QUESTIONS: dict[str, Callable[[], Any]] = {
    "torch.is_grad_enabled()": torch.is_grad_enabled,
    "torch.is_inference_mode_enabled()": torch.is_inference_mode_enabled,
    "torch.is_autocast_enabled('cpu')": lambda: torch.is_autocast_enabled("cpu"),
    "torch.is_autocast_enabled('cuda')": lambda: torch.is_autocast_enabled("cuda"),
    "torch.get_autocast_dtype('cpu')": lambda: torch.get_autocast_dtype("cpu"),
    "torch.get_autocast_dtype('cuda')": lambda: torch.get_autocast_dtype("cuda"),
    "torch.is_autocast_cache_enabled()": torch.is_autocast_cache_enabled,
    "torch.get_default_dtype()": torch.get_default_dtype,
    "torch.get_default_device()": torch.get_default_device,
    "torch._C._is_torch_function_enabled()": lambda: torch._C._is_torch_function_enabled(),
    "torch._C._len_torch_function_stack()": lambda: torch._C._len_torch_function_stack(),
    "torch._C._len_torch_dispatch_stack()": lambda: torch._C._len_torch_dispatch_stack(),
    "torch._C._functorch.get_dynamic_layer_stack_depth()": lambda: torch._C._functorch.get_dynamic_layer_stack_depth(),
    "torch.backends.cuda.flash_sdp_enabled()": torch.backends.cuda.flash_sdp_enabled,
    "torch.backends.cuda.mem_efficient_sdp_enabled()": torch.backends.cuda.mem_efficient_sdp_enabled,
    "torch.backends.cuda.math_sdp_enabled()": torch.backends.cuda.math_sdp_enabled,
    "torch.backends.cuda.cudnn_sdp_enabled()": torch.backends.cuda.cudnn_sdp_enabled,
    "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled,
    "torch.is_deterministic_algorithms_warn_only_enabled()": torch.is_deterministic_algorithms_warn_only_enabled,
    "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision,
    "torch.is_anomaly_enabled()": torch.is_anomaly_enabled,
    "torch.get_num_threads()": torch.get_num_threads,
    "torch.backends.cudnn.enabled": lambda: torch.backends.cudnn.enabled,
    "torch.backends.cudnn.benchmark": lambda: torch.backends.cudnn.benchmark,
    "torch.backends.mkldnn.enabled": lambda: torch.backends.mkldnn.enabled,
    "sys.getrecursionlimit()": sys.getrecursionlimit,
}
"""Expressions without side effects, with their functions; one that raises in this version is left out."""
OURS = ("TORCHINDUCTOR_", "TORCHDYNAMO_", "TRITON_", "PYTORCH_", "MINIMIZER_", "HOME", "TMPDIR", "PWD", "XDG_")
"""Prefixes of environment variables that torch or we set, some to another value in each run; not observed."""


def modes() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name and entry of each mode and switch of the current thread."""
    for name, ask in QUESTIONS.items():
        with contextlib.suppress(Exception):  # some are private, and differ between versions
            yield name, {"type": "process", "value": repr(ask())}


def state() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name and entry of each piece of process state."""
    yield from modes()
    for name, value in streams():
        yield name, {"type": "stream", "value": hashlib.blake2b(value, digest_size=8).hexdigest()}
    for name, text in list(os.environ.items()):
        if not name.startswith(OURS):
            yield f"os.environ[{name!r}]", {"type": "environment", "value": bounded(text)}


def streams() -> Iterator[tuple[str, bytes]]:
    """Yield the states of the global random generators: Python's, torch's, and NumPy's if it is loaded."""
    yield "random.getstate()", repr(random.getstate()).encode()
    yield "torch.get_rng_state()", bytes(torch.get_rng_state().tolist())
    if torch.cuda.is_initialized():
        for device, generator in enumerate(torch.cuda.default_generators):
            yield f"torch.cuda.get_rng_state({device})", bytes(generator.get_state().tolist())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        with contextlib.suppress(Exception):
            yield "numpy.random.get_state()", repr(numpy.random.get_state(legacy=False)).encode()
