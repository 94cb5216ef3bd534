"""The global state a graph was compiled in, as statements that recreate it: configs, default dtype, autocast, precision."""

from __future__ import annotations

import contextlib
import copy
import importlib
import operator
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..values.snapshot import Autocast, global_state, matmul_precision
from .literals import Opaque, literal
from .names import global_name, path_of_global

CONFIGS = ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config")
OURS = {
    "torch._inductor.config": {
        "compile_threads",
        "force_disable_caches",
        "fx_graph_cache",
        "worker_start_method",
    },
    "torch._functorch.config": {"enable_autograd_cache"},
}
"""Settings of our child, which are never reported as the user's.

Graph caches are off in every child except in two runs of the script; ``force_disable_caches`` also rebuilds equal
kernels.
"""

FALLBACK_RANDOM = "fallback_random"
"""Inductor's setting that makes compiled code draw eager's random numbers."""
DYNAMIC = {"torch._dynamo.config": {"assume_static_by_default", "automatic_dynamic_shapes"}}
"""Settings that ``torch.compile(dynamic=...)`` changes during compilation."""
IMPLIED = frozenset(f"{config}.{name}" for config, names in DYNAMIC.items() for name in names)
"""The same by their full names."""

PRECISIONS = {
    "cuda.matmul": "none", "cudnn.conv": "tf32", "cudnn.rnn": "tf32",
    "mkldnn.matmul": "none", "mkldnn.conv": "none", "mkldnn.rnn": "none",
}  # fmt: skip
"""Parts of ``torch.backends`` that have a ``fp32_precision``, with its value in a fresh process."""

INDUCTOR = ("inductor", "minimizer")
"""Names of backends that are Inductor: our own is Inductor with checks."""
MAX_SHOWN = 300
"""Most characters of a shown value."""

_baseline: dict[str, dict[str, Any]] = {}
_threads: int | None = None
_CHANGED = object()
"""An unknown value, unequal to every setting."""


def remember_baseline() -> None:
    """Save the configs and the number of threads before any of the user's code runs."""
    global _threads
    for name in CONFIGS:
        _baseline[name] = _settings(importlib.import_module(name))
    _threads = torch.get_num_threads()


def take_defaults_for_baseline() -> None:
    """Use torch's declared defaults as the baseline, for a process in which the user's code has already run."""
    for name in CONFIGS:
        config = importlib.import_module(name)
        _baseline[name] = {key: value for key, value in _settings(config).items() if config._is_default(key)}


def _settings(config: Any) -> dict[str, Any]:
    """Copies of all settings of a config; a value that cannot be copied, such as a pass with a lock, is returned itself."""
    try:
        return dict(config.get_config_copy())
    except Exception:
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reading a deprecated setting warns
        return {name: _copied(getattr(config, name)) for name, entry in config._config.items() if entry.alias is None}


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def setup_lines(dynamic: bool | None) -> tuple[list[str], list[str]]:
    """Statements for the state that differs from a fresh process, and the names of settings that no literal can express.

    ``dynamic`` is the argument of the ``torch.compile`` call in progress; the settings that it implies are left out.
    """
    lines, opaque = setting_lines(dynamic)
    return [*lines, *_torch_state()], opaque


def setting_lines(dynamic: bool | None = None) -> tuple[list[str], list[str]]:
    """The part of `setup_lines` that configures the compiler."""
    lines: list[str] = []
    opaque: list[str] = []
    for name, _, value in _changes():
        module, _, setting = name.partition(".config.")
        if dynamic is not None and setting in DYNAMIC.get(f"{module}.config", ()):
            continue
        try:
            lines.append(f"{name} = {literal_text(value)}")
        except Opaque:
            opaque.append(name)
    return lines, opaque


def changed_settings() -> list[tuple[str, str, str]]:
    """Name, former value and value, as text, of each setting changed since before the script.

    Torch's own state is included if generated code depends on it: the precisions of float32 arithmetic and the
    deterministic mode.
    """
    found = [(name, shown(before), shown(now)) for name, before, now in _changes()]
    precision = matmul_precision()
    if precision not in (None, "highest"):
        found.append(("torch.get_float32_matmul_precision()", "'highest'", repr(precision)))
    found += [(f"torch.backends.{part}.fp32_precision", repr(usual), repr(now)) for part, usual, now in _precisions()]
    if torch.are_deterministic_algorithms_enabled():
        found.append(("torch.are_deterministic_algorithms_enabled()", "False", "True"))
    return found


def _changes() -> Iterator[tuple[str, Any, Any]]:
    """Full name, former value and value of each setting that differs from the baseline, except those of our child."""
    for module, before in _baseline.items():
        for name, value in _settings(importlib.import_module(module)).items():
            former = before.get(name, _CHANGED)
            if name not in OURS.get(module, ()) and not _same(former, value):
                yield f"{module}.{name}", former, value


def shown(value: Any) -> str:
    """A readable value; empty for an unknown one."""
    try:
        return "" if value is _CHANGED else literal_text(value)[:MAX_SHOWN]
    except Opaque:
        return repr(value)[:MAX_SHOWN]


def compile_kwargs(backend: Any, dynamic: Any) -> dict[str, str]:
    """The arguments of ``torch.compile`` from which a backend object was made, as source text.

    The user's own objects, such as a backend or a pass, are given by their global names: in the script, or of another
    module.
    """
    kwargs: dict[str, str] = {}
    name = getattr(backend, "compiler_name", None)
    compiler = getattr(backend, "compiler_fn", backend)
    if dynamic is not None:
        kwargs["dynamic"] = repr(dynamic)
    if name in INDUCTOR:
        asked = getattr(backend, "kwargs", {})
        if options := inductor_options(backend):
            kwargs["options"] = f"{{{', '.join(f'{key!r}: {_option(value)}' for key, value in options.items())}}}"
        if asked.get("mode"):
            kwargs["mode"] = repr(asked["mode"])
    elif bound := global_name(compiler):
        kwargs["backend"] = bound
    elif (registered := name or getattr(backend, "__name__", "")) in torch._dynamo.list_backends(exclude_tags=()):
        kwargs["backend"] = repr(registered)
    elif path := _path_of_own(compiler):
        kwargs["backend"] = path
    return kwargs


def is_inline(backend: Any) -> bool:
    """Whether a backend is an unnamed object, such as a lambda in the ``torch.compile`` call, so that `compile_kwargs`
    lacks it.
    """
    is_inductor = getattr(backend, "compiler_name", None) in INDUCTOR
    return backend is not None and not is_inductor and "backend" not in compile_kwargs(backend, None)


def inductor_options(backend: Any) -> dict[str, Any]:
    """The ``options`` of a backend object of Inductor, or of our own.

    Without our own options, and without a refusal of eager's random numbers, which the configuration decides
    (`without_refusal`).
    """
    options = getattr(backend, "config", None) or getattr(backend, "kwargs", {}).get("options") or {}
    if not isinstance(options, dict):  # the script's backend may have a configuration of any type
        return {}
    of_inductor = {k: value for k, value in options.items() if isinstance(k, str) and not k.startswith("minimizer.")}
    return {key: value for key, value in of_inductor.items() if (key, value) != (FALLBACK_RANDOM, False)}


def refuses_random(backend: Any) -> bool:
    """Whether a backend object of Inductor has an option that refuses eager's random numbers, whatever the
    configuration.
    """
    return getattr(backend, "compiler_name", None) == "inductor" and backend.config.get(FALLBACK_RANDOM) is False


@contextlib.contextmanager
def without_refusal(backend: Any) -> Iterator[None]:
    """Let a backend object draw random numbers as configured in compilations inside, and later in their backwards.

    Afterwards the object is unchanged: Dynamo compares backends by their options, and recompiles for another one.
    """
    if not refuses_random(backend):
        yield
        return
    options = backend.config
    backend.config = {key: value for key, value in options.items() if key != FALLBACK_RANDOM}
    try:
        yield
    finally:
        backend.config = options


def _option(value: Any) -> str:
    try:
        return literal_text(value)
    except Opaque:
        return _path_of_own(value) or repr(value)


def _path_of_own(value: Any) -> str | None:
    return global_name(value) or path_of_global(value, str(getattr(value, "__module__", "")))


def _torch_state() -> list[str]:
    lines = []
    if torch.get_default_dtype() is not torch.float32:
        lines.append(f"torch.set_default_dtype({torch.get_default_dtype()})")
    if torch.are_deterministic_algorithms_enabled():
        warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        lines.append(f"torch.use_deterministic_algorithms(True{', warn_only=True' if warn_only else ''})")
    if (of_all := matmul_precision()) not in (None, "highest"):
        lines.append(f'torch.set_float32_matmul_precision("{of_all}")')
    lines += [f'torch.backends.{part}.fp32_precision = "{now}"' for part, _, now in _precisions()]
    if _threads not in (None, torch.get_num_threads()):  # generated code depends on it
        lines.append(f"torch.set_num_threads({torch.get_num_threads()})")
    if torch.is_inference_mode_enabled():  # bound to a name, since the mode ends when its object dies
        lines.append("inference = torch.inference_mode(); inference.__enter__()")
    return [*lines, *autocast_lines(global_state().autocast)]


def autocast_lines(casts: Sequence[Autocast]) -> list[str]:
    """Statements that switch autocast on where it is on."""
    lines = []
    for cast in casts:
        if cast.enabled:
            lines.append(f'torch.set_autocast_enabled("{cast.device_type}", True)')
            lines.append(f'torch.set_autocast_dtype("{cast.device_type}", {cast.dtype})')
    return lines


def contexts(inside: Sequence[Autocast], outside: Sequence[Autocast]) -> list[str]:
    """Expressions for the contexts that switch autocast to ``inside`` from ``outside``."""
    other = [cast for cast, around in zip(inside, outside, strict=True) if cast != around]
    return [
        f'torch.autocast("{cast.device_type}", {f"dtype={cast.dtype}" if cast.enabled else "enabled=False"})'
        for cast in other
        if cast.enabled or any(around.enabled for around in outside if around.device_type == cast.device_type)
    ]


def _precisions() -> Iterator[tuple[str, str, str]]:
    """Part of ``torch.backends``, default and present precision, for parts changed other than by the global matmul
    precision.
    """
    of_all = matmul_precision()
    for part, usual in PRECISIONS.items():
        now = operator.attrgetter(f"{part}.fp32_precision")(torch.backends)
        is_said = of_all is not None and part.endswith("matmul")
        if not is_said and _effect(now) != _effect(usual):
            yield part, usual, now


def _effect(precision: str) -> str:
    return "ieee" if precision == "none" else precision


def literal_text(value: Any) -> str:
    """Source text of a config value made of literals, and of functions that torch or Python names.

    Raises:
        Opaque: it holds another object.
    """
    if isinstance(value, (list, tuple, set)) and value:
        inner = ", ".join(literal_text(item) for item in value)
        if isinstance(value, tuple):
            return f"({inner},)"
        return f"[{inner}]" if isinstance(value, list) else f"{{{inner}}}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal_text(key)}: {literal_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple, set)):
        return repr(value)
    form = literal(value)
    text = str(form["code"]) if isinstance(form, dict) else repr(form)
    if callable(value) and "." in text and not text.startswith("torch."):
        raise Opaque(f"{text}, which is not torch's")
    return text


def _same(before: Any, now: Any) -> bool:
    try:
        return before is now or bool(before == now)
    except Exception:
        return False
