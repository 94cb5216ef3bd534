"""Converts trial outcomes into the report's terms: the culprit, the size of the error, the details for the repro."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from minimizer.engine.child.outcome import Difference, Ending, Outcome, Verdict
from minimizer.engine.child.stacks import overwrites_memory
from minimizer.engine.emit import Details
from minimizer.engine.findings import Fault
from minimizer.engine.oracle.signature import NONFINITE, Signature
from minimizer.engine.program.model import Node, Program
from minimizer.engine.survey.cases import message_of, signal_name
from minimizer.inside.rulings import CASTS, Ruling, Unlike
from minimizer.report.culprit import MOST_CULPRITS, Culprit, Error, Source
from minimizer.report.model import Failure
from minimizer.report.words import LAYOUT_ONLY, words_of
from minimizer.vocabulary import Stage, counted

BOOKKEEPING = {
    "aten.detach", "aten.alias", "aten.lift_fresh", "aten.lift_fresh_copy", "aten.empty", "aten.clone", "aten.view",
    "aten._unsafe_view", "aten.expand", "aten.unsqueeze", "aten.squeeze", "aten.t", "aten.reshape",
}  # fmt: skip
"""Operators that move or view data, blamed only in a program without others."""
MODES = ("_enter_autocast", "_exit_autocast", "_set_grad_enabled")
"""The ends of the targets of nodes that switch a mode."""
UNCOMPARED = ("aliasing", "identity", "requires_grad", "stride")
"""Aspects ignored by a repro that compares values."""


def culprit_of(program: Program, operators: Sequence[str], outcome: Outcome | None, window: Program) -> Culprit:
    """The culprit of a reduced program.

    ``window``: the program before its reduction, whose nodes have modules and lines.
    """
    origins = {node.name: node for node in window.nodes}
    nodes = [origins.get(node.name, node) for node in program.nodes]
    counted = [node for node in nodes if node.counts] or nodes
    operators = operators or [name for node in counted if (name := _packet(node))]
    # Two outputs become one object by a view, not by the operator that computes the values.
    is_view = any(difference.what == "identity" for difference in _differences_of(outcome))
    blamed = [name for name in operators if (name in BOOKKEEPING) is is_view] or list(operators)
    module, module_class = _module(counted)
    return Culprit(
        module=module,
        module_class=module_class,
        nodes=[node.name for node in counted],
        ops=blamed,
        what=f"Triton kernel {', '.join(sorted(program.kernels))}" if program.kernels and not blamed else "",
        source=(source_of(_casts(counted)) if _drops_a_cast(outcome) else None) or source_of(counted),
        local_error=error_of(outcome),
    )


def _differences_of(outcome: Outcome | None) -> Sequence[Difference]:
    """The differences of a trial; none if it was not compared."""
    return outcome.verdict.differences if outcome is not None and outcome.verdict is not None else ()


def _drops_a_cast(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.verdict is not None and outcome.verdict.mechanism == "dropped_cast"


def _casts(nodes: Sequence[Node]) -> list[Node]:
    """The nodes that cast, by the names that scripts use for casts."""
    return [node for node in nodes if node.target.removesuffix(".default").rpartition(".")[2] in CASTS]


def source_of(nodes: Sequence[Node]) -> Source | None:
    """The source line of the last node that has one and is no switch of a mode, to which Dynamo gives no line of its own."""
    computing = [node for node in nodes if not node.target.endswith(MODES)] or nodes
    return next((Source.of(node.source, node.library) for node in reversed(computing) if node.source), None)


def error_of(outcome: Outcome | None) -> Error | None:
    """The error of compiled against eager in a trial, at the worst difference; None without one."""
    if outcome is None or outcome.verdict is None or not outcome.verdict.differences:
        return None
    verdict = outcome.verdict
    worst = max(verdict.differences, key=lambda d: d.max_abs or 0.0)
    is_finite = not _is_nonfinite(verdict)
    return Error(
        max_abs=worst.max_abs,
        max_rel=worst.max_rel,
        compiled_vs_fp64=verdict.compiled_error if is_finite else None,  # covers the finite elements only
        eager_vs_fp64=verdict.eager_error,
        required_atol=worst.required_atol,
        required_rtol=worst.required_rtol,
        mismatched=worst.mismatched,
        elements=worst.elements,
    )


def details_of(program: Program, outcome: Outcome, tolerance: dict[str, Any] | None) -> Details:
    """The details of the comparison that a repro needs, in the program's own names."""
    details = _tolerances(outcome, tolerance)
    if outcome.signal is not None:
        details["signal"] = signal_name(outcome.signal)
        if overwrites_memory(outcome.log):
            details["overwrites"] = True
    if outcome.writes:
        details["writes"] = [item.name for index, item in enumerate(program.inputs) if index in outcome.writes]
    if outcome.phase == "backward":
        details["backward"] = True
    if outcome.exception is not None:
        raised = outcome.exception.type.rpartition(".")[2]
        if outcome.ending is Ending.MISSING_ERROR:
            details["eager_error"] = raised
        else:
            details["said"] = f"{raised}: {outcome.exception.message}"
    places = {_output_at(where): dtype for where, dtype in outcome.differentiated.items()}
    if differentiated := {place: dtype for place, dtype in places.items() if place is not None}:
        details["differentiated"] = differentiated
    differences = _differences_of(outcome)
    is_comparable = outcome.verdict is not None and outcome.verdict.equals_itself
    if not differences:
        return details
    _add_inputs(details, program, differences)
    if differences[0].kind.is_of_metadata:
        _add_aspect(details, program, differences[0])
    elif is_comparable and all(difference.what in ("value", *NONFINITE, *UNCOMPARED) for difference in differences):
        values = [difference.where for difference in differences if difference.what not in UNCOMPARED]
        details["comparable"] = "tensor" if "output" in values else "values"
    return details


def _tolerances(outcome: Outcome, tolerance: dict[str, Any] | None) -> Details:
    """The tolerances of the repro's check: those of the script's own check, zero if the referee was exact, else small
    enough for the error.
    """
    if tolerance:
        return {"rtol": float(tolerance.get("rtol", 0.0)), "atol": float(tolerance.get("atol", 0.0))}
    if outcome.verdict is not None and outcome.verdict.rule is Ruling.EXACT:
        return {"rtol": 0.0, "atol": 0.0}
    if small := [d for d in _differences_of(outcome) if d.rtol is not None]:
        # `assert_close` defaults would pass: half of the error is still several times eager's own error.
        least = float(f"{min(d.required_atol or 0.0 for d in small) / 2:.0e}")
        return {"rtol": max(d.rtol or 0.0 for d in small), "atol": least}
    return {}


def _add_inputs(details: Details, program: Program, differences: Sequence[Difference]) -> None:
    """Add the inputs that differ after mutation, or whose gradients differ."""
    mutated = [name for d in differences if (name := _input_at(program, d.where)) and d.kind == "wrong_output"]
    if mutated and not any(d.where.startswith("output") and d.kind == "wrong_output" for d in differences):
        details["mutated"] = list(dict.fromkeys(mutated))
    gradients = [name for d in differences if (name := _gradient_at(program, d.where))]
    if gradients:
        details["gradients"] = list(dict.fromkeys(gradients))
        if any(d.unlike is Unlike.ABSENT for d in differences if _gradient_at(program, d.where)):
            details["unused"] = True


def _add_aspect(details: Details, program: Program, difference: Difference) -> None:
    details["aspect"] = _unlike(difference) if difference.what == "type" else difference.what
    if (place := _output_at(difference.where)) is not None:
        details["output"] = place
    elif (name := _input_at(program, difference.where)) is not None:
        details["input"] = name
    for other in (difference.expected_alias, difference.actual_alias):
        if (name := _input_at(program, other)) is not None:
            details["alias_of"] = name
            break
        if (place := _output_at(other)) is not None:
            details["alias_of_output"] = place
            break


def _unlike(difference: Difference) -> str:
    """The aspect of tensors that a difference of type is in: layout or device, else the class."""
    of_tensors = (Unlike.LAYOUT, Unlike.DEVICE)
    return difference.unlike.value if difference.unlike in of_tensors else Unlike.CLASS.value


def _output_at(where: str) -> str | None:
    """The index path of an output, such as ``[0][1]``; empty for the whole output, None if ``where`` is no output."""
    match = re.fullmatch(r"output((?:\[\d+\])*)", where)
    return match[1] if match else None


def _input_at(program: Program, where: str) -> str | None:
    match = re.match(r"input\[(\d+)\]", where)
    return program.inputs[int(match[1])].name if match and int(match[1]) < len(program.inputs) else None


def _gradient_at(program: Program, where: str) -> str | None:
    wanted = [i.name for i in program.inputs if i.meta and i.meta.requires_grad]
    match = re.match(r"grad\[(\d+)\]", where)
    return wanted[int(match[1])] if match and int(match[1]) < len(wanted) else None


def _packet(node: Node) -> str:
    """The operator named by a node's target, for programs whose operators were not observed; empty if none."""
    match = re.fullmatch(r"torch\.ops\.aten\.(\w+)(?:\.\w+)?|(?:torch|torch\.nn\.functional)?\.(\w+)", node.target)
    return f"aten.{match[1] or match[2]}" if match else ""


def _module(nodes: Sequence[Node]) -> tuple[str, str]:
    """Path and class of the innermost module that contains every node with a module; the class only if a node names it."""
    paths = sorted({node.module for node in nodes if node.module})
    if not paths:
        return "", ""
    first, last = paths[0].split("."), paths[-1].split(".")
    common = [a for index, a in enumerate(first) if first[: index + 1] == last[: index + 1]]
    path = ".".join(common)
    return path, next((node.module_class for node in nodes if node.module == path), "")


def mechanism_of(verdict: Verdict | None) -> dict[str, Any]:
    """The mechanism of a precision fault, as fields of a failure; both empty for other faults."""
    if verdict is None or not verdict.mechanism:
        return {"mechanism": None, "object": ""}
    return {"mechanism": verdict.mechanism, "object": verdict.why}


def failure_of(outcome: Outcome, signature: Signature) -> Failure:
    """The failure of a trial, where it differs from the one that ended the script."""
    error = outcome.exception
    return Failure(
        kind=signature.kind,
        exception_type=error.root_type if error else None,
        message=message_of(error, outcome.verdict),
        signature=signature.text,
        layout_only=outcome.is_layout_only,
        **mechanism_of(outcome.verdict),
    )


def _is_nonfinite(verdict: Verdict | None) -> bool:
    """Whether one side has NaN or infinities and the other does not."""
    return verdict is not None and any(difference.what in NONFINITE for difference in verdict.differences)


def dispute(shown: Outcome, judged: Outcome) -> str | None:
    """The sentence for a difference that only the script's own check calls a failure.

    None if our rule calls it one too, or if only one side has NaN or infinities, which no tolerance passes.

    Args:
        shown: the outcome judged by the script's tolerance.
        judged: the outcome of the same program, judged by the rule for its dtype.
    """
    if judged.ending is not Ending.SAME or _is_nonfinite(shown.verdict):
        return None
    if judged.verdict is not None and judged.verdict.rule is Ruling.UNDEFINED:
        return f"Disputed: {judged.verdict.note}."
    error = error_of(shown)
    enough = f": atol={error.required_atol:.1e} would pass" if error and error.required_atol is not None else ""
    text = f"Disputed: only the script's own tolerance calls this a failure{enough}."
    verdict = judged.verdict
    if verdict is None or verdict.compiled_error is None or verdict.eager_error is None:
        return f"{text} The difference is within what is legal rounding for the dtype."
    side = "compiled" if verdict.compiled_error > verdict.eager_error else "eager"
    return (
        f"{text} Against float64 compiled is off by {verdict.compiled_error:.1e} and eager by {verdict.eager_error:.1e}: "
        f"{side} is the less accurate side, within legal rounding."
    )


def verdict_sentence(fault: Fault) -> str:
    """The verdict as a sentence; empty without a failure, a reduction and a verification."""
    failure, reduction, verification = fault.failure, fault.reduction, fault.verification
    if failure is None or reduction is None or verification is None:
        return ""
    culprit = fault.culprits[0] if fault.culprits else Culprit()
    where = f" in {culprit.module_name}" if culprit.module else ""
    names = list(dict.fromkeys(culprit.operators))
    operators = ", ".join(names[:4]) or culprit.what or "an unknown operator"
    if len(names) > MOST_CULPRITS and not reduction.fails_only_together:
        operators = f"one of {len(names)} operators"
    does = words_of(failure).does_for
    sentence = f"torch.compile ({failure.stage}) {does.format(what=f'{operators}{where}')}."
    if failure.of_graph:
        sentence = f"torch.compile ({failure.stage}) {failure.of_graph}: {operators}{where} ({failure.object})."
    if failure.layout_only:
        sentence = f"{LAYOUT_ONLY.heading}: {sentence}"
    if failure.stage is Stage.CUSTOM_OP:
        what = f"{culprit.what or operators}{where}"
        sentence = f"An operator of the script's own is at fault, and torch.compile {does.format(what=what)}."
    rate = failure.reproducibility
    if rate.failed < rate.runs:
        sentence += f" It does not always show: in {rate.failed} of {rate.runs} runs of the script."
    times = f"{verification.failed_same} of {verification.runs} times in clean processes"
    if verification.holds:
        nodes, lines = reduction.nodes_after, reduction.lines_after
        size = (
            counted(nodes, "node") if nodes else counted(lines, "line")
        )  # a script's operators were not counted in time
        return f"{sentence} The repro has {size} and failed {times}."
    stopped = f", and {counted(verification.stopped, 'run')} had to be stopped for want of time" * bool(
        verification.stopped
    )
    return f"{sentence} The repro could not be verified: it failed {times}{stopped}."
