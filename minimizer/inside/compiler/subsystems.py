"""Switches for parts of the compiler: each decomposition, pass, pattern, fusion and lowering can be switched off by name.

PyTorch asks `CompilerBisector` before it uses a part. `Switches` answers instead, by name and not by count, so that any set of
parts can be off at once, independent of the bisector's files and environment variables.

Names are ``kind/name``: ``post_grad_passes/remove_noop_ops``, ``joint_graph_passes/pass_pattern_1:bmm_to_mm`` (one pattern of
a pass), ``decomposition/aten.silu.default``, ``lowerings/aten.relu.default``, ``fusion/aten.mul+aten.sum``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._inductor import graph, pattern_matcher
from torch._inductor.compiler_bisector import CompilerBisector
from torch._inductor.scheduler import Scheduler
from torch._inductor.virtualized import V
from torch.fx.passes.graph_transform_observer import GraphTransformObserver

from ..hooks import OPERATOR, SWITCHES, required_for
from ..messages import Part
from ..questions import Switches
from ..wire import Channel

ENTRIES: tuple[Any, ...] = (
    pattern_matcher.LoweringPatternEntry,
    pattern_matcher.GraphPatternEntry,
    pattern_matcher.ReplacementPatternEntry,
)
"""What applies a pattern."""


def install(switches: Switches | None, channel: Channel) -> None:
    """Apply switches for the rest of this process; None changes nothing.

    A `Part` reports the first use of each part, and the start of every pass, since a pass that hangs or crashes has
    made a difference too.
    """
    if switches is not None:
        Switchboard(switches, channel).install()


class Switchboard:
    """Decides which parts are on, and reports parts that are used. ``acted``: the part changed the compiler's result."""

    def __init__(self, switches: Switches, channel: Channel) -> None:
        self._off = frozenset(switches.off)
        self._only = {kind: frozenset(names) for kind, names in switches.only.items()}
        self._channel = channel
        self._told: set[tuple[str, bool]] = set()
        self._matcher: str | None = "patterns/"
        """Current prefix of pattern names; None inside a pass that is switched as a whole, whose patterns have no switches."""

    def install(self) -> None:
        """Replace PyTorch's own answers for the rest of the process.

        Raises:
            MissingHook: a part of the compiler has no such switch in this torch.
        """
        required_for(SWITCHES)
        CompilerBisector.disable_subsystem = classmethod(  # type: ignore[method-assign, assignment]
            lambda cls, backend, subsystem, debug_info=None: self._disables(subsystem, debug_info)
        )
        CompilerBisector.get_backend = classmethod(lambda cls: None)  # type: ignore[method-assign, assignment]
        CompilerBisector.get_config_change = classmethod(lambda cls, name: None)  # type: ignore[method-assign, assignment]
        if any(name.startswith("decomposition/") for name in self._off):
            # By default inductor refuses a fallback kernel for an operator that has a decomposition.
            graph.make_fallback = functools.partial(graph.make_fallback, override_decomp=True)  # type: ignore[attr-defined]
        self._watch_passes()
        self._watch_patterns()
        self._watch_fusion()

    def _is_on(self, name: str) -> bool:
        kind = name.partition("/")[0]
        return name not in self._off and (kind not in self._only or name in self._only[kind])

    def _tell(self, name: str, acted: bool) -> None:
        if (name, acted) not in self._told:
            self._told.add((name, acted))
            self._channel.send(Part(name, acted))

    def _use(self, name: str) -> bool:
        """Whether a part is on; reports its use. For parts that make a difference wherever they are used."""
        is_on = self._is_on(name)
        self._tell(name, is_on)
        return is_on

    @contextlib.contextmanager
    def _naming(self, matcher: str | None) -> Iterator[None]:
        outer, self._matcher = self._matcher, matcher
        try:
            yield
        finally:
            self._matcher = outer

    def _disables(self, subsystem: str, debug_info: Callable[[], str] | None) -> bool:
        """Whether to skip a decomposition, a lowering or CUDA graphs; answers the question PyTorch asks before each."""
        if subsystem == "decomposition" and debug_info is not None:
            match = OPERATOR.search(debug_info())
            return match is not None and not self._use(f"decomposition/{match[1]}.{match[2]}")
        if subsystem == "lowerings":
            target = V.current_node.target
            return not _is_fallback(target) and not self._use(f"lowerings/{target}")
        if subsystem == "cudagraphs":
            return not self._use("cudagraphs/cudagraphs")
        return False

    def _watch_passes(self) -> None:
        for method, graph_of in (("apply_gm_pass", lambda gm: gm.graph), ("apply_graph_pass", lambda graph: graph)):
            setattr(GraphTransformObserver, method, self._watched(getattr(GraphTransformObserver, method), graph_of))

    def _watched(self, original: Callable[..., Any], graph_of: Callable[[Any], torch.fx.Graph]) -> Callable[..., Any]:
        switches = self

        def apply(observer: Any, pass_fn: Callable[..., Any]) -> Any:
            name = f"{observer.subsystem or 'passes'}/{observer.passname}"

            def run(graph: Any) -> Any:
                before, acted = str(graph_of(graph)), True
                switches._channel.send(Part(name, None))
                try:
                    with switches._naming(None):
                        result = pass_fn(graph)
                    acted = str(graph_of(graph)) != before
                finally:
                    switches._channel.send(Part(name, acted))
                return result

            if _is_matcher(pass_fn):  # its patterns are switched one by one
                with switches._naming(f"{name}:"):
                    return original(observer, pass_fn)
            if not switches._is_on(name):
                switches._tell(name, False)
                return None
            return original(observer, run)

        return apply

    def _watch_patterns(self) -> None:
        for kind in ENTRIES:

            def apply(entry: Any, *args: Any, _original: Callable[..., Any] = kind.apply, **kwargs: Any) -> Any:
                is_on = self._matcher is None or self._use(f"{self._matcher}{_pattern_name(entry)}")
                return _original(entry, *args, **kwargs) if is_on else None

            kind.apply = apply

    def _watch_fusion(self) -> None:
        original = Scheduler.can_fuse

        def can_fuse(scheduler: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> bool:
            if not original(scheduler, node1, node2, *args, **kwargs):
                return False
            return self._use(f"fusion/{_operators(node1)}+{_operators(node2)}")

        Scheduler.can_fuse = can_fuse  # type: ignore[method-assign, assignment]


def _is_matcher(pass_fn: Callable[..., Any]) -> bool:
    return isinstance(getattr(pass_fn, "__self__", None), pattern_matcher.PatternMatcherPass)


def _is_fallback(target: Any) -> bool:
    """Whether inductor calls the operator's own kernel anyway, so that there is no lowering to switch off."""
    from torch._inductor.lowering import lowerings

    return target not in lowerings or getattr(lowerings[target], "_is_fallback_handler", False)


def _pattern_name(entry: Any) -> str:
    handler = getattr(entry, "handler", None)
    return getattr(handler, "__name__", None) or getattr(entry, "pattern_name", None) or "replacement"


def _operators(node: Any) -> str:
    """The packet names of the operators that a scheduler node comes from."""
    names = []
    for part in node.get_nodes():
        origins = part.node.get_origins() if part.node is not None else ()
        names += sorted(str(getattr(o.target, "overloadpacket", o.target)) for o in origins if o.op == "call_function")
    return "*".join(dict.fromkeys(names)) or "constant"
