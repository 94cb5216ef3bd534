"""The sweep of settings that change the compiler's numerics or code, each tried with another value than it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from minimizer.engine.diagnose.sets import Setting

INDUCTOR = "torch._inductor.config"


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
    Knob("torch._functorch.config.backward_pass_autocast", ('"off"', '"same_as_forward"'), 0),
    Knob("torch._functorch.config.cse", OTHER_BOOL),
    Knob("torch._dynamo.config.assume_static_by_default", OTHER_BOOL, 2),
    Knob("torch._dynamo.config.specialize_float", OTHER_BOOL, 2),
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


def turned(values: Mapping[str, str], device: str) -> list[Turned]:
    """The knobs of this torch that matter on this device, turned; ``values``: their present values as text, by name."""
    found = []
    for knob in KNOBS:
        if knob.name in values and knob.device in ("", device):
            other = next((value for value in knob.values if not _same(value, values[knob.name])), None)
            if other is not None:
                found.append(Turned(knob, other))
    return found


def groups(knobs: Sequence[Turned]) -> list[tuple[str, ...]]:
    """Their lines, in groups to try together; those with other headers form one, and each drastic one is alone."""
    alone = [knob for knob in knobs if knob.knob.name in DRASTIC]
    rebuilding = [knob for knob in knobs if knob.knob.rebuilds and knob not in alone]
    rest = [knob for knob in knobs if knob not in alone and knob not in rebuilding]
    found = [rest[at : at + GROUP] for at in range(0, len(rest), GROUP)] + [[knob] for knob in alone] + [rebuilding]
    return [tuple(knob.line for knob in group) for group in found if group]


def with_headers(setting: Setting, knobs: Sequence[Turned]) -> Setting:
    """The setting, without precompiled headers if flags change: building those takes longer than one kernel without."""
    rebuilds = any(knob.knob.rebuilds and knob.line in setting.lines for knob in knobs)
    return replace(setting, lines=(*setting.lines, PLAIN_HEADERS)) if rebuilds else setting


def _same(value: str, now: str) -> bool:
    return value.strip("'\"") == now.strip("'\"")


def names() -> Sequence[str]:
    """Expressions for the present values of the knobs."""
    return [knob.name for knob in KNOBS]
