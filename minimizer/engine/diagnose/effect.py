"""The cost of a workaround: graphs, graph breaks, modules that run in eager with it, and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minimizer.engine.child.protocol import Finished
from minimizer.report.instances import listed
from minimizer.report.model import Workaround
from minimizer.vocabulary import counted


@dataclass(frozen=True)
class Effect:
    """The effect of a change; each pair is (without the change, with it).

    ``seconds``: one call of everything compiled, None if it could not be measured, for the reason ``untimed``; code
    that the change moves to eager counts with its time there. ``eager``: modules that no longer run compiled at all.
    """

    seconds: tuple[float, float] | None
    graphs: tuple[int, int]
    breaks: tuple[int, int]
    eager: tuple[str, ...]
    untimed: str = ""

    def told(self, workaround: Workaround, module: str) -> Workaround:
        """A workaround for a fault in ``module``, with its effect."""
        seconds, seconds_with = self.seconds or (workaround.seconds_before, workaround.seconds_with)
        changes = {
            "what": "; ".join([workaround.what, *self.sentences(module)]),
            "seconds_before": seconds,
            "seconds_with": seconds_with,
            "graphs_before": self.graphs[0],
            "graphs_with": self.graphs[1],
            "breaks_before": self.breaks[0],
            "breaks_with": self.breaks[1],
            "eager_modules": list(self.eager),
        }
        return workaround.model_copy(update=changes)

    def sentences(self, module: str) -> list[str]:
        """The effect in words; ``module``: the one at fault."""
        others = [path for path in self.eager if not _is_in(path, module)]
        (graphs, now), (breaks, breaks_now) = self.graphs, self.breaks
        is_same = graphs == now and breaks == breaks_now
        said = [
            f"as before {counted(graphs, 'graph')} and {counted(breaks, 'graph break')}"
            if is_same
            else f"{counted(now, 'graph')} in place of {graphs:,}, {counted(breaks_now, 'graph break')} in place of {breaks:,}"
        ]
        if others:
            again = "as well" if len(others) < len(self.eager) else "with it"
            said.append(f"{listed(others)} {'runs' if len(others) == 1 else 'run'} in eager {again}")
        if self.seconds is None:
            why = f", since {self.untimed}" if self.untimed else ""
            return [*said, f"what it costs in time was not measured{why}"]
        before, after = self.seconds
        return [*said, f"one call of what is compiled takes {_seconds(after)} with it and {_seconds(before)} without"]


def effect_of(before: Finished, after: Finished) -> Effect:
    """The effect of a change, from a run without it and one with it."""
    old, new = before.health, after.health
    seconds = None
    if old is not None and new is not None and old.compiled_seconds is not None and old.eager_seconds is not None:
        # A run with the change has no time if nothing is compiled, or if the machine was busy.
        is_timed = new.compiled_seconds is not None or not after.checked.calls_made
        left = max(0.0, old.eager_seconds - (new.eager_seconds or 0.0))
        seconds = (old.compiled_seconds, (new.compiled_seconds or 0.0) + left) if is_timed else None
    breaks = (0, 0) if old is None or new is None else (old.breaks, new.breaks)
    untimed = next((health.untimed for health in (old, new) if health is not None and health.untimed), "")
    return Effect(
        seconds,
        (before.checked.graphs, after.checked.graphs),
        breaks,
        _eager(before.modules, after.modules),
        untimed if seconds is None else "",
    )


def _eager(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """Modules that are no longer compiled; a module represents its submodules if none of them is."""
    gone = [path for path in before if not any(_is_in(left, path) for left in after)]
    return tuple(path for path in gone if not any(path != other and _is_in(path, other) for other in gone))


def _is_in(path: str, module: str) -> bool:
    return bool(module) and f"{path}.".startswith(f"{module}.")


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.2f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"
