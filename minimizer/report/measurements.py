"""The sections of `report.md` with measurements and counts: layers, the reduction, and the coverage."""

from __future__ import annotations

from minimizer.report.layer_rows import LayerRow, layer_rows
from minimizer.report.model import Report
from minimizer.report.safe_markdown import bullets, code, escape, table
from minimizer.vocabulary import counted

MAX_LAYERS = 20


def layers(report: Report) -> str:
    """The layers that are not good: roots first, since what follows from them may be the rest of the model."""
    suspects = [row for row in layer_rows(report.layers, report.culprits) if row.layer.verdict != "good"]
    suspects.sort(key=lambda row: row.layer.verdict != "bad")
    rows = [
        (
            str(layer.order),
            (code(row.name) or "(no module)") + (f", {row.part}" if row.part else ""),
            code(layer.cls),
            layer.phase,
            _number(layer.local_error),
            _number(layer.propagated_error),
            _number(layer.compiled_vs_fp64),
            _number(layer.eager_vs_fp64),
            _layer_verdict(row),
        )
        for row in suspects[:MAX_LAYERS]
        for layer in [row.layer]
    ]
    errors = ("local error", "propagated error", "compiled vs fp64", "eager vs fp64")
    head = ("order", "layer", "class", "phase", *errors, "verdict")
    good = sum(layer.verdict == "good" for layer in report.layers)
    said = [f"{_more_layers(len(suspects) - len(rows))} not good."] if len(suspects) > len(rows) else []
    said += [f"{_more_layers(good)} good."] if good and rows else []
    lost = next((layer for layer in sorted(report.layers, key=lambda layer: layer.order) if layer.nonfinite), None)
    if lost is not None and lost.nonfinite is not None:
        sides = {"both": "on both sides", "eager": "in eager", "compiled": "in the compiled code"}
        said.append(
            f"The first NaN or Inf is {lost.nonfinite.what} at {lost.nonfinite.index} of {code(lost.path)}, {sides[lost.nonfinite.side]}."
        )
    return "\n\n".join(filter(None, (table(head, rows), " ".join(said))))


def _layer_verdict(row: LayerRow) -> str:
    said = f"{row.layer.verdict} (root)" if row.layer.verdict == "bad" else row.layer.verdict
    return f"**{said}, the culprit**" if row.is_culprit else said


def reduction(report: Report) -> str:
    done = report.reduction
    if done is None:
        return ""
    # Of a graph the repro is written, not cut out of the script: its lines are no reduction of the script's.
    rows = [("lines of the script", f"{done.lines_before:,}", f"{done.lines_after:,} of `repro.py`, with its check")]
    if done.level != "python":
        rows = [(f"call nodes ({done.level} graph)", f"{done.nodes_before:,}", f"{done.nodes_after:,}")]
    if not done.one_minimal:
        minimal = "It was not shown that nothing more can be taken away."
    elif done.level == "python":
        minimal = "No statement can be taken out: without any one of them, or an argument, the failure disappears."
    else:
        minimal = "Minimal: removing any one part makes the failure disappear."
    written = f"`repro.py` has {counted(done.lines_after, 'line')} of code. " if done.level != "python" else ""
    trials = f"{counted(done.trials, 'trial')} of smaller programs in {done.seconds:.0f} s"
    figures = f"{written}{trials}, {counted(done.cache_hits, 'answer')} from the cache. {minimal}"
    return f"{table(('', 'before', 'after'), rows)}\n\n{figures}"


def checked(report: Report, script_name: str) -> str:
    seen = report.checked
    calls = f"{counted(seen.calls, 'call')} compared with eager of {seen.calls_made:,} that were counted"
    graphs = counted(seen.graphs, "compiled graph")
    said = [f"{code(script_name)}: {graphs}, {calls}, {counted(seen.backward, 'backward')} replayed."]
    if seen.largest is not None:
        said.append(f"Largest difference: {escape(seen.largest.words)}.")
    if seen.between.looks:
        said.append(f"What the script sees of itself was compared at {counted(seen.between.looks, 'moment')}.")
    left_out = bullets(f"not compared: {escape(line)}" for line in seen.not_compared)
    return "\n\n".join(filter(None, (" ".join(said), left_out, excuses(report))))


def excuses(report: Report) -> str:
    """Every rule by which something was not looked at, or was seen and excused; what leaves the verdict open comes first."""
    found = sorted(report.checked.excused, key=lambda one: not one.leaves_open)
    lines = bullets(escape(one.words) for one in found)
    return f"Rules by which something was not looked at, or was excused:\n\n{lines}" if lines else ""


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _more_layers(count: int) -> str:
    return f"{counted(count, 'more layer')} {'is' if count == 1 else 'are'}"
