"""Who is to blame, as the page of a job shows it: the pictures, the ladder, and how sure all of it is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from minimizer.report.ablation import Row, of_ladder, rows
from minimizer.report.confidence import Confidence, confidence
from minimizer.report.finding import headline
from minimizer.report.layer_rows import LayerRow, layer_rows
from minimizer.report.model import Report
from minimizer.report.traces import FILES
from minimizer.report.version_span import span
from minimizer.vocabulary import UNJUDGED, Status
from web.job_page.charts import Point, culprit_graph, layer_errors, loss_curves, trials_curve

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RungView:
    """A rung of the ladder; ``sign`` is one of ``good``, ``bad`` and ``unknown``."""

    row: Row
    sign: str


@dataclass(frozen=True)
class LayersPicture:
    """One picture of layers, and its rows."""

    title: str
    picture: Markup
    rows: list[LayerRow]


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis in the report, apart from culprit and repro."""

    confidence: Confidence
    ladder: list[RungView]
    ablated: list[Row]
    """The failure with parts of the compiler taken out."""
    traces: list[tuple[str, str]]
    """Files with traces of the script, and what each is."""
    layers: list[LayersPicture]
    graph: Markup | None
    trials: Markup | None
    losses: Markup | None
    span: str
    """Since when it fails, and whether it is fixed."""
    speed: str
    """Whether compiling pays; empty if it is not known."""
    costliest: str
    """Of a healthy script, a sentence on the costliest finding; empty if there is none."""


def diagnosis(report: Report) -> Diagnosis:
    """Gather the shown parts of a report."""
    return Diagnosis(
        confidence=confidence(report),
        ladder=_ladder(report),
        ablated=[row for row in rows(report) if row.how],
        traces=[(name, FILES[name]) for name in report.traces if name in FILES],
        layers=_layers(report),
        graph=drawn(lambda: culprit_graph(report.graph)) if _graph_tells(report) else None,
        trials=drawn(lambda: _trials(report)),
        losses=drawn(partial(loss_curves, report.drift)) if report.drift is not None else None,
        span=str(span(report.versions)),
        speed=_speed(report.health.eager_seconds, report.health.compiled_seconds),
        costliest=headline(report.findings) if report.status is Status.HEALTHY else "",
    )


def _graph_tells(report: Report) -> bool:
    """Whether the picture shows where values go wrong; for an error with every node right in isolation it does not."""
    is_numeric = report.failure is None or report.failure.kind.is_numeric
    return is_numeric or any(node.verdict in ("bad", "propagated") for node in report.graph)


def drawn(draw: Callable[[], Markup | None]) -> Markup | None:
    """A picture, or ``None`` if it cannot be drawn: figures come from the script's side, and must not break the page."""
    try:
        return draw()
    except Exception:
        log.exception("a picture of the report could not be drawn")
        return None


def sign(word: str) -> str:
    """``good``, ``bad`` or ``unknown``, for an outcome."""
    return "good" if word in ("passes", "pass", "ok") else "unknown" if word in UNJUDGED else "bad"


def _ladder(report: Report) -> list[RungView]:
    signs = {True: "bad", None: "unknown"}
    return [
        RungView(row, signs.get(rung.fails, "good" if rung.outcome == "passes" else "unknown"))
        for rung, row in zip(report.ladder, of_ladder(report), strict=True)
    ]


def _layers(report: Report) -> list[LayersPicture]:
    found, every = [], layer_rows(report.layers, report.culprits)
    for phase, title in (("forward", "Error of every layer"), ("backward", "Error of every layer's gradients")):
        rows = [row for row in every if row.layer.phase == phase]
        if (picture := drawn(partial(layer_errors, rows, title))) is not None:
            found.append(LayersPicture(title, picture, rows))
    return found


def _trials(report: Report) -> Markup | None:
    reduction = report.reduction
    if reduction is None or not reduction.history:
        return None
    start = [Point(0, reduction.nodes_before)] if reduction.level != "python" and reduction.nodes_before else []
    points = [*start, *(Point(step.trial, step.nodes) for step in reduction.history)]
    return trials_curve(points, until=max(reduction.trials, points[-1].at, 1))


def _speed(eager: float | None, compiled: float | None) -> str:
    if not eager or not compiled:
        return ""
    if compiled < eager:
        return f"Compiling pays: {eager / compiled:.2f} times as fast as eager."
    return f"Compiling does not pay here: {compiled / eager:.2f} times as slow as eager."
