"""The private parts of torch that we replace or observe, with what rests on each.

A missing one must never be skipped: a hook that does not fire looks like a program that did nothing. So the zygote refuses a torch
without the parts that are `NEEDED`, before any script runs, and code that replaces one asks for it with `required`. What is `WISHED`
only costs time or detail. All of them were looked up in torch 2.11 to 2.15. `minimizer doctor` loads this file by its path.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SUPPORTED = "torch 2.11 to 2.15"
RUNS_IN_EAGER, SWITCHES = "lets a call run without the compiler", "switches a part of the compiler off"
"""Keys of `NEEDED` for what is replaced together."""
NEEDED: Mapping[str, Sequence[str]] = {
    "tells whether Dynamo was given a frame": (
        "torch._dynamo.convert_frame:_compile", "torch._dynamo.convert_frame:compile_frame",
    ),
    "tells which graphs are compiled": (
        "torch._dynamo.repro.after_dynamo:WrapBackendDebug.__call__",
        "torch._dynamo.repro.after_dynamo:WrapBackendDebug._torchdynamo_orig_backend",
    ),
    "tells where calls of compiled code begin and end": (
        "torch._dynamo.eval_frame:_TorchDynamoContext.__init__",
        "torch._dynamo.eval_frame:_TorchDynamoContext.enter_exit_hooks",
    ),
    "tells which functions Dynamo inlines": ("torch._dynamo.symbolic_convert:InliningInstructionTranslator.inline_call",),
    RUNS_IN_EAGER: (
        "torch._dynamo.eval_frame:_set_stance", "torch._dynamo.eval_frame:_stance", "torch._dynamo.eval_frame:DynamoStance",
        "torch._dynamo.decorators:_set_stance",
        "torch.compiler:is_compiling", "torch.compiler:is_dynamo_compiling",
    ),
    "tells which thread communicates for us": (
        "torch._C:_stash_obj_in_tls", "torch._C:_get_obj_in_tls", "torch._C:_is_key_in_tls",
    ),
    "tells whether a script looks at the wrapper of a module": ("torch._dynamo.eval_frame:OptimizedModule",),
    "tells when a backward runs": ("torch.autograd:_engine_run_backward", "torch.autograd.graph:_engine_run_backward"),
    "tells whether hooks change the tensors saved for a backward, and leaves them in our own runs": (
        "torch._C._autograd:_top_saved_tensors_default_hooks", "torch._C._autograd:_pop_saved_tensors_default_hooks",
        "torch._C._autograd:_push_saved_tensors_default_hooks",
        "torch._C._autograd:_saved_tensors_hooks_get_disabled_error_message",
    ),
    "tells which random numbers a checkpoint draws again": (
        "torch._higher_order_ops.wrap:TagActivationCheckpoint.__call__",
        "torch._higher_order_ops.wrap:WrapActivationCheckpoint.__call__",
    ),
    "tells whether a graph contains the effect of a __torch_function__": (
        "torch._dynamo.output_graph:OutputGraph.torch_function_subclass_inlined",
        "torch._dynamo.symbolic_convert:InstructionTranslator.current_tx",
    ),
    "turns the compiler's caches on": (
        "torch.utils._config_module:_ConfigEntry.env_value_force", "torch.utils._config_module:_UNSET_SENTINEL",
    ),
    "tells which settings the script has changed": ("torch._higher_order_ops.utils:_in_hop_compile",),
    "tells which functions were compiled again, and why": (
        "torch._dynamo.utils:CompilationMetrics.recompile_reason", "torch._dynamo.utils:CompilationMetrics.stack_trace",
    ),
    SWITCHES: (
        "torch._inductor.compiler_bisector:CompilerBisector.disable_subsystem",
        "torch._inductor.compiler_bisector:CompilerBisector.get_backend",
        "torch._inductor.compiler_bisector:CompilerBisector.get_config_change",
        "torch._inductor.graph:make_fallback",
        "torch.fx.passes.graph_transform_observer:GraphTransformObserver.apply_gm_pass",
        "torch.fx.passes.graph_transform_observer:GraphTransformObserver.apply_graph_pass",
        "torch._inductor.pattern_matcher:LoweringPatternEntry.apply",
        "torch._inductor.pattern_matcher:GraphPatternEntry.apply",
        "torch._inductor.pattern_matcher:ReplacementPatternEntry.apply",
        "torch._inductor.pattern_matcher:PatternMatcherPass",
        "torch._inductor.scheduler:Scheduler.can_fuse",
    ),
}  # fmt: skip
"""By what each does; names are written ``module:name``, an attribute that instances get as one of the class."""
WISHED: Mapping[str, Sequence[str]] = {
    "saves every trial the probes of the processor": ("torch._inductor.cpu_vec_isa:VecISA.check_build",),
    "saves every trial the preprocessing of the header of all kernels": ("torch._inductor.codecache:_precompile_header",),
    "tells the module of an operator in a backward": (
        "torch._functorch._aot_autograd.logging_utils:setup_stacktrace_preservation_hooks",
    ),
}  # fmt: skip
"""As above."""
FORMS: Mapping[str, type] = {
    "torch._dynamo.symbolic_convert:InliningInstructionTranslator.inline_call": classmethod,
    "torch.compiler:is_compiling": types.FunctionType,
    "torch.compiler:is_dynamo_compiling": types.FunctionType,
}
"""The form in which we can replace it, where only one will do."""
SINCE: Mapping[str, tuple[int, int]] = {
    "torch._dynamo.output_graph:OutputGraph.torch_function_subclass_inlined": (2, 12),
}
"""The first release that has it; earlier ones do without what rests on it."""
OPERATOR = re.compile(r"op='([^']+)', overload='([^']+)'")
"""An overload as torch writes it, which is all that `CompilerBisector` is told of a decomposition."""


class MissingHook(Exception):
    """This torch lacks a private part, or has it in another form. The message names both."""


def required(owner: Any, name: str) -> Any:
    """A private part of torch: an attribute of a module or class. None for one that only instances have.

    Raises:
        MissingHook: it is missing, or has another form than the one that we replace.
    """
    home = f"{owner.__module__}:{owner.__qualname__}." if isinstance(owner, type) else f"{owner.__name__}:"
    if why := _trouble(owner, name, home + name):
        raise _missing(why)
    return getattr(owner, name, None)


def required_for(use: str) -> None:
    """Ask for all parts of `NEEDED` that have this use, by its key.

    Raises:
        MissingHook: one is missing, or has another form.
    """
    for why in _troubles(NEEDED[use]):
        raise _missing(why)


def absent(table: Mapping[str, Sequence[str]]) -> list[str]:
    """A sentence without its period for each part of `NEEDED` or `WISHED` that this torch lacks, with what it is for."""
    return [f"torch {_version()} {why}, which {use}" for use, names in table.items() for why in _troubles(names)]


def lacks() -> list[str]:
    """As `absent`, for the parts that are `NEEDED`, and for the form in which torch writes an overload."""
    import torch

    known = OPERATOR.search(repr(torch.ops.aten.relu.default))
    found = absent(NEEDED)
    if known is None or known.groups() != ("aten.relu", "default"):
        found.append(
            f"torch {_version()} writes an overload as {torch.ops.aten.relu.default!r}, where its name cannot be read"
        )
    return found


def _missing(why: str) -> MissingHook:
    return MissingHook(f"torch {_version()} {why}: minimizer is made for {SUPPORTED}")


def _troubles(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if _release() < SINCE.get(name, (0, 0)):
            continue
        module, _, path = name.partition(":")
        *classes, last = path.split(".")
        try:
            owner: Any = importlib.import_module(module)
            for part in classes:
                owner = getattr(owner, part)
        except (ImportError, AttributeError):
            yield _has_no(name)
            continue
        if why := _trouble(owner, last, name):
            yield why


def _trouble(owner: Any, name: str, whole: str) -> str:
    """Why an attribute cannot be replaced; empty if it can."""
    if isinstance(owner, type):
        own = [base for base in owner.__mro__ if base is not object]
        is_there = any(name in vars(base) for base in own) or _is_set_when_made(owner, name)
    else:
        is_there = hasattr(owner, name)
    if not is_there:
        return _has_no(whole)
    form = FORMS.get(whole)
    if form is not None and not isinstance(inspect.getattr_static(owner, name), form):
        return f"has {whole.replace(':', '.')} in another form"
    return ""


def _is_set_when_made(kind: Any, name: str) -> bool:
    """Whether the instances of a class get an attribute when they are made."""
    code = getattr(inspect.unwrap(kind.__init__), "__code__", None)
    return code is not None and name in code.co_names


def _has_no(name: str) -> str:
    return f"has no {name.replace(':', '.')}"


def _version() -> str:
    return str(sys.modules["torch"].__version__)


def _release() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", _version())[:2])
