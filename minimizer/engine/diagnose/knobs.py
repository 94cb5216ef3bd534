"""The sweep of settings, each tried with another value: those of the failing stage, of the error and of the script."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from minimizer.engine.diagnose.sets import Setting
from minimizer.engine.user_script.syntax import full_name, imported
from minimizer.vocabulary import Stage

INDUCTOR, AOT, DYNAMO = "torch._inductor.config", "torch._functorch.config", "torch._dynamo.config"
CONFIGS = (INDUCTOR, AOT, DYNAMO)
REACHED: Mapping[Stage | None, tuple[str, ...]] = {
    Stage.DYNAMO: (DYNAMO,),
    Stage.AOT_AUTOGRAD: (AOT, DYNAMO),
    Stage.DECOMPOSITION: (AOT, DYNAMO),
    Stage.CUSTOM_BACKEND: (DYNAMO, AOT),
    Stage.CUSTOM_OP: (AOT, DYNAMO),
}
"""The config modules to try for a fault of a stage, its own first: later stages cannot have caused it."""
OTHER_GRAPHS = (f"{AOT}.cse", f"{DYNAMO}.assume_static_by_default", f"{DYNAMO}.specialize_float")
"""Settings of earlier stages that change Inductor's input graph; other settings of theirs cannot remove Inductor's own
fault.
"""
NAMED = re.compile(
    r"(?P<config>torch\._(?:dynamo|inductor|functorch)\.config\.)?\b(?P<name>[a-z_]\w*(?:\.[a-z]\w*)*)"
    r"(?:\s*=\s*(?P<value>True|False|None|\d+(?:\.\d+)?|'[^'\s]*'|\"[^\"\s]*\"))?"
)
"""Matches a setting in an error's message: by its full name, or by its last part and a value."""
MOST_NAMED = 60
INJECTING = "TESTING_ONLY"
"""Part of the names of switches with which PyTorch's own tests inject faults: resetting one is no workaround."""


@dataclass(frozen=True)
class Knob:
    """A setting. ``cost`` orders workarounds: 0 affects one rare feature, 3 slows everything down."""

    name: str
    values: tuple[str, ...]
    """Values as source text; the first that differs from the present one is tried."""
    cost: int = 1
    device: str = ""
    """The only device type on which it has an effect; empty for all."""
    rebuilds: bool = False
    """Whether it changes the C++ compiler's flags, so that the shared precompiled headers cannot be used."""
    by_hand: bool = False
    """Whether it comes from the error or the script instead of our tables."""

    def line(self, value: str) -> str:
        """The statement that sets it."""
        return SETTERS[self.name](value) if self.name in SETTERS else f"{self.name} = {value}"


SETTERS: Mapping[str, Callable[[str], str]] = {
    "torch.get_float32_matmul_precision()": lambda value: f"torch.set_float32_matmul_precision({value})",
    "torch.get_num_threads()": lambda value: f"torch.set_num_threads({value})",
    "torch.are_deterministic_algorithms_enabled()": lambda value: (
        f"torch.use_deterministic_algorithms({value}, warn_only=True)"
    ),
}
OTHER_BOOL = ("True", "False")
KNOBS = (
    Knob(f"{INDUCTOR}.emulate_precision_casts", OTHER_BOOL),
    Knob(f"{INDUCTOR}.eager_numerics.division_rounding", OTHER_BOOL, device="cuda"),
    Knob(f"{INDUCTOR}.eager_numerics.disable_ftz", OTHER_BOOL, device="cuda"),
    Knob(f"{INDUCTOR}.eager_numerics.use_pytorch_libdevice", OTHER_BOOL, device="cuda"),
    Knob(f"{INDUCTOR}.use_fast_math", OTHER_BOOL, device="cuda"),
    Knob(f"{INDUCTOR}.online_softmax", OTHER_BOOL, 0),
    Knob(f"{INDUCTOR}.apply_gumbel_max_trick", OTHER_BOOL, 0),
    Knob(f"{INDUCTOR}.split_reductions", OTHER_BOOL),
    Knob(f"{INDUCTOR}.permute_fusion", OTHER_BOOL, 0),
    Knob(f"{INDUCTOR}.layout_optimization", OTHER_BOOL),
    Knob(f"{INDUCTOR}.comprehensive_padding", OTHER_BOOL),
    Knob(f"{INDUCTOR}.shape_padding", OTHER_BOOL),
    Knob(f"{INDUCTOR}.inplace_padding", OTHER_BOOL),
    Knob(f"{INDUCTOR}.keep_output_stride", OTHER_BOOL),
    Knob(f"{INDUCTOR}.cpp.fallback_scatter_reduce_sum", OTHER_BOOL, 0, "cpu"),
    Knob(f"{INDUCTOR}.cpp.weight_prepack", OTHER_BOOL, 0, "cpu"),
    Knob(f"{INDUCTOR}.cpp.enable_floating_point_contract_flag", ('"off"', '"fast"'), 1, "cpu", True),
    Knob(f"{INDUCTOR}.cpp.enable_unsafe_math_opt_flag", OTHER_BOOL, 1, "cpu", True),
    Knob(f"{INDUCTOR}.triton.persistent_reductions", OTHER_BOOL, device="cuda"),
    Knob(f"{INDUCTOR}.triton.cooperative_reductions", OTHER_BOOL, device="cuda"),
    Knob(f"{INDUCTOR}.triton.multi_kernel", ("0", "1"), device="cuda"),
    Knob(f"{INDUCTOR}.triton.mix_order_reduction", OTHER_BOOL, device="cuda"),
    Knob(f"{INDUCTOR}.triton.cudagraphs", ("False", "True"), 2, "cuda"),
    Knob("torch.backends.cuda.matmul.allow_tf32", OTHER_BOOL, 2, "cuda"),
    Knob("torch.backends.cudnn.allow_tf32", OTHER_BOOL, 2, "cuda"),
    Knob("torch.get_float32_matmul_precision()", ('"highest"', '"high"'), 2, "cuda"),
    Knob(f"{INDUCTOR}.inplace_buffers", OTHER_BOOL),
    Knob(f"{INDUCTOR}.allow_buffer_reuse", OTHER_BOOL),
    Knob(f"{INDUCTOR}.memory_planning", OTHER_BOOL),
    Knob(f"{INDUCTOR}.reorder_for_peak_memory", OTHER_BOOL),
    Knob(f"{INDUCTOR}.joint_graph_constant_folding", OTHER_BOOL),
    Knob(f"{INDUCTOR}.freezing", OTHER_BOOL),
    Knob(f"{INDUCTOR}.prologue_fusion", OTHER_BOOL, 2, "cuda"),
    Knob(f"{INDUCTOR}.epilogue_fusion", OTHER_BOOL, 2),
    Knob(f"{INDUCTOR}.max_autotune", OTHER_BOOL, 2, "cuda"),
    Knob(f"{INDUCTOR}.coordinate_descent_tuning", OTHER_BOOL, 2, "cuda"),
    Knob(f"{INDUCTOR}.fallback_random", OTHER_BOOL, 2),
    Knob(f"{AOT}.cse", OTHER_BOOL),
    Knob(f"{AOT}.donated_buffer", OTHER_BOOL),
    Knob(f"{AOT}.view_replay_for_aliased_outputs", OTHER_BOOL),
    Knob(f"{AOT}.treat_parameters_as_free_to_save", OTHER_BOOL),
    Knob(f"{AOT}.recompute_views", OTHER_BOOL),
    Knob(f"{AOT}.aggressive_recomputation", OTHER_BOOL, 2),
    Knob(f"{AOT}.functionalize_rng_ops", OTHER_BOOL),
    Knob(f"{AOT}.guess_tangent_strides_as_outputs", OTHER_BOOL),
    Knob(f"{AOT}.disable_guess_zero_tangent_for_mutated_input_subclass", OTHER_BOOL),
    Knob(f"{AOT}.static_weight_shapes", OTHER_BOOL),
    Knob(f"{AOT}.backward_pass_autocast", ('"off"', '"same_as_forward"'), 0),
    Knob(f"{AOT}.decompose_custom_triton_ops", OTHER_BOOL, 0),
    Knob(f"{DYNAMO}.assume_static_by_default", OTHER_BOOL, 2),
    Knob(f"{DYNAMO}.automatic_dynamic_shapes", OTHER_BOOL, 2),
    Knob(f"{DYNAMO}.specialize_float", OTHER_BOOL, 2),
    Knob(f"{DYNAMO}.specialize_int", OTHER_BOOL, 2),
    Knob(f"{DYNAMO}.allow_unspec_int_on_nn_module", OTHER_BOOL),
    Knob(f"{DYNAMO}.capture_scalar_outputs", OTHER_BOOL),
    Knob(f"{DYNAMO}.capture_dynamic_output_shape_ops", OTHER_BOOL),
    Knob(f"{DYNAMO}.capture_func_transforms", OTHER_BOOL),
    Knob(f"{DYNAMO}.capture_autograd_function", OTHER_BOOL),
    Knob(f"{DYNAMO}.guard_nn_modules", OTHER_BOOL),
    Knob(f"{DYNAMO}.skip_nnmodule_hook_guards", OTHER_BOOL),
    Knob(f"{DYNAMO}.skip_no_tensor_aliasing_guards_on_parameters", OTHER_BOOL),
    Knob(f"{DYNAMO}.skip_tensor_guards_with_matching_dict_tags", OTHER_BOOL),
    Knob(f"{DYNAMO}.use_recursive_dict_tags_for_guards", OTHER_BOOL),
    Knob(f"{DYNAMO}.force_parameter_static_shapes", OTHER_BOOL),
    Knob(f"{DYNAMO}.prefer_deferred_runtime_asserts_over_guards", OTHER_BOOL),
    Knob(f"{DYNAMO}.rewrite_assert_with_torch_assert", OTHER_BOOL),
    Knob(f"{DYNAMO}.enable_faithful_generator_behavior", OTHER_BOOL),
    Knob(f"{DYNAMO}.enable_trace_contextlib", OTHER_BOOL),
    Knob(f"{DYNAMO}.trace_numpy", OTHER_BOOL),
    Knob(f"{DYNAMO}.use_numpy_random_stream", OTHER_BOOL),
    Knob(f"{DYNAMO}.allow_rnn", OTHER_BOOL),
    Knob(f"{DYNAMO}.optimize_ddp", OTHER_BOOL, 2),
    Knob(f"{DYNAMO}.compiled_autograd", OTHER_BOOL, 2),
    Knob(f"{INDUCTOR}.pattern_matcher", OTHER_BOOL, 2),
    Knob(f"{INDUCTOR}.deterministic", OTHER_BOOL, 2),
    Knob("torch.are_deterministic_algorithms_enabled()", OTHER_BOOL, 2),
    Knob(f"{INDUCTOR}.batch_invariant", OTHER_BOOL, 2),
    Knob(f"{INDUCTOR}.cpp.threads", ("1", "2"), 3, "cpu"),
    Knob("torch.get_num_threads()", ("1", "2"), 3, "cpu"),
    Knob(f"{INDUCTOR}.cpp.simdlen", ("1", "None"), 3, "cpu", True),
    Knob(f"{INDUCTOR}.max_fusion_size", ("1", "64"), 3),
    Knob(f"{INDUCTOR}.cpp_wrapper", OTHER_BOOL, 2, rebuilds=True),
    Knob(f"{INDUCTOR}.fallback_by_default", OTHER_BOOL, 3),
)
DRASTIC = {f"{INDUCTOR}.fallback_by_default", f"{INDUCTOR}.cpp_wrapper"}
GROUP = 10
PLAIN_HEADERS = f"{INDUCTOR}.cpp_cache_precompile_headers = False"


@dataclass(frozen=True)
class Turned:
    """A knob and the value it is tried with."""

    knob: Knob
    value: str

    @property
    def line(self) -> str:
        return self.knob.line(self.value)


def turned(values: Mapping[str, str], device: str, stage: Stage | None = None) -> list[Turned]:
    """The knobs of this torch that matter on this device and for a fault of this stage, turned, those of the stage
    first.

    ``values``: their present values as text, by name.
    """
    found = []
    for knob in KNOBS:
        if knob.name in values and knob.device in ("", device):
            other = next((value for value in knob.values if not _same(value, values[knob.name])), None)
            if other is not None:
                found.append(Turned(knob, other))
    if stage in (Stage.INDUCTOR, Stage.CUDAGRAPHS):
        return [k for k in found if not k.knob.name.startswith((AOT, DYNAMO)) or k.knob.name in OTHER_GRAPHS]
    reached = REACHED.get(stage)
    if reached is None:
        return found
    return [knob for config in reached for knob in found if knob.knob.name.startswith(f"{config}.")]


def groups(knobs: Sequence[Turned]) -> list[tuple[str, ...]]:
    """Their lines, in groups to try together.

    First those from the error or the script; those with other headers form one group, and each drastic one is alone.
    """
    read = [knob for knob in knobs if knob.knob.by_hand]
    alone = [knob for knob in knobs if knob.knob.name in DRASTIC and knob not in read]
    rebuilding = [knob for knob in knobs if knob.knob.rebuilds and knob not in alone]
    rest = [knob for knob in knobs if knob not in alone and knob not in rebuilding and knob not in read]
    tens = [rest[at : at + GROUP] for at in range(0, len(rest), GROUP)]
    found = [*tens[:1], *([knob] for knob in read), *tens[1:], *([knob] for knob in alone), rebuilding]
    return [tuple(knob.line for knob in group) for group in found if group]


def named_in(error: str) -> dict[str, str]:
    """The settings that an error may name, by their full names, with the advised value as text, or an empty one.

    Not all of them exist: a partial name with a value, such as ``retain_graph=False``, may mean something else.
    """
    found: dict[str, str] = {}
    for match in NAMED.finditer(error):
        config, name, value = match.group("config", "name", "value")
        if config is None and (value is None or name.startswith("torch.")):
            continue
        for prefix in [config] if config else [f"{each}." for each in CONFIGS]:
            if INJECTING not in name:
                found.setdefault(f"{prefix}{name}", value or "")
    whole = {name: value for name, value in found.items() if name in error}
    return dict(list((whole | found).items())[:MOST_NAMED])


def set_in(script: str) -> list[str]:
    """The compiler settings that a script assigns; none if our own Python cannot parse it."""
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError):
        return []
    names = imported(tree)
    targets = [one for node in ast.walk(tree) if isinstance(node, ast.Assign) for one in node.targets]
    found = [full_name(target, names) for target in targets if isinstance(target, ast.Attribute)]
    return [
        name
        for name in dict.fromkeys(found)
        if name.startswith(tuple(f"{c}." for c in CONFIGS)) and INJECTING not in name
    ]


def default_of(name: str) -> str:
    """An expression for the default of a setting."""
    config = next(each for each in CONFIGS if name.startswith(f"{each}."))
    return f"{config}._config[{name.removeprefix(f'{config}.')!r}].default"


def advised(named: Mapping[str, str], values: Mapping[str, str]) -> list[Turned]:
    """The settings that an error names and this torch has, with the advised value, else with the other truth value."""
    found = []
    for name, value in named.items():
        other = value or {"True": "False", "False": "True"}.get(values.get(name, ""), "")
        if name in values and other and not _same(other, values[name]):
            found.append(Turned(Knob(name, (other,), 0, by_hand=True), other))
    return found


def put_back(names: Sequence[str], values: Mapping[str, str]) -> list[Turned]:
    """The settings changed by a script, reset to their defaults; ``values`` may be those before the script."""
    found = []
    for name in names:
        default = values.get(default_of(name), "")
        if default and not default.startswith("<"):
            found.append(Turned(Knob(name, (default,), by_hand=True), default))
    return found


def with_headers(setting: Setting, knobs: Sequence[Turned]) -> Setting:
    """The setting, without precompiled headers if flags change: building those takes longer than one kernel without."""
    rebuilds = any(knob.knob.rebuilds and knob.line in setting.lines for knob in knobs)
    return replace(setting, lines=(*setting.lines, PLAIN_HEADERS)) if rebuilds else setting


def _same(value: str, now: str) -> bool:
    return value.strip("'\"") == now.strip("'\"")


def names() -> Sequence[str]:
    """Expressions for the present values of the knobs."""
    return [knob.name for knob in KNOBS]
