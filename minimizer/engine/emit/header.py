"""The comment at the top of a repro, and the words of an error message that identify its failure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence

from minimizer.engine.emit.details import Details
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Reproducibility
from minimizer.report.words import words_of
from minimizer.vocabulary import Kind, Stage

WIDTH = 86
WORDS = 38
"""Most characters of a message that the repro looks for: enough to identify it, and the check fits its line."""
ENOUGH = 3
"""Words of a message that identify it without the type of the error."""

# g++ quotes names with typographic marks in a UTF-8 locale and with plain ones elsewhere: neither is repeated.
_QUOTED = re.compile(r"""(['"`])[^'"`]*\1|\u2018[^\u2019]*\u2019""")
_VOLATILE = re.compile(
    r"""['"`].*|<[^<>]*>|(?:/[\w.+-]+){2,}\S*|0x[0-9a-fA-F]+|\b\w*\d{2,}\w*\b|\b(?:buf|arg|op|s|u|x|tmp|primals)_?\d+\w*|[^ -~].*"""
)

OF_RUNS = "Averages over many runs are compared: the random numbers themselves differ from those of eager in any case."


def comment(
    failure: Failure,
    culprits: Sequence[Culprit],
    environment: Mapping[str, str],
    rate: Reproducibility,
    attempts: int,
    details: Details,
) -> str:
    """Verdict, versions, rate and the command to run, as comment lines."""
    where = "" if failure.stage in (Stage.UNKNOWN, Stage.CUSTOM_OP) else f" (first seen in {stage_name(failure.stage)})"
    torch, device = environment.get("torch", "version unknown"), environment.get("device", "device unknown")
    times = f"failed in {rate.failed} of {rate.runs}"
    if failure.kind.is_finding:
        times = f"did so in {rate.failed} of {rate.runs}"
    often = f"the script {times} {'run' if rate.runs == 1 else 'runs'}"
    if attempts > 1:
        often = f"{times} compilations, so up to {attempts} are made here"
    is_behind = details.get("backward", False) and failure.kind is not Kind.WRONG_GRADIENT
    what = ("the backward of " if is_behind else "") + subject(culprits)
    there, gone = ("it does", "it does not") if failure.kind.is_finding else ("the bug is there", "it is gone")
    sentences = [
        f"torch.compile {words_of(failure).does_for.format(what=what)}{where}.",
        *([f"It {failure.of_graph}: {failure.object}."] if failure.of_graph else []),
        *([details["disputed"]] if "disputed" in details else []),
        *([OF_RUNS] if "figure" in details else []),
        *_origin(culprits),
        f"torch {torch}, {device}; {often}.",
        f"Run `python repro.py`: exit status 1 while {there}, 0 once {gone}, 125 if it cannot run here.",
    ]
    return "\n".join(f"# {line}" for sentence in sentences for line in textwrap.wrap(plain(sentence), WIDTH))


def _origin(culprits: Sequence[Culprit]) -> list[str]:
    """A sentence with the module and source line of the culprit, if they are known."""
    first = next((culprit for culprit in culprits if culprit.root), None)
    if first is None or not (first.module or first.source):
        return []
    module = f" in {first.module_name}" if first.module else ""
    # In ASCII, as all of a repro but the script's own words.
    place = f" at {first.source.words}".replace(" → ", ", which calls ").replace("…", "...") if first.source else ""
    return [f"Found{module}{place}."]


def stage_name(stage: Stage) -> str:
    """The stage as its developers call it."""
    return {Stage.AOT_AUTOGRAD: "AOTAutograd", Stage.INDUCTOR: "Inductor", Stage.DYNAMO: "Dynamo"}.get(
        stage, stage.value.replace("_", " ")
    )


def subject(culprits: Sequence[Culprit]) -> str:
    """The culprit in a few words: its description, or its operators."""
    for culprit in culprits:
        if culprit.root and (culprit.ops or culprit.what):
            names = list(dict.fromkeys(culprit.ops))
            return culprit.what or ", ".join(names[:4]) + (" and others" if len(names) > 4 else "")
    return "this function"


def plain(text: str, limit: int = 400) -> str:
    """Untrusted text for a comment: one line, printable, no paths, bounded, and no encoding declaration."""
    text = "".join(c if c.isprintable() else " " for c in text[: limit * 2])
    text = re.sub(r"(?<![\w.])(?:/[^\s/:'\"]+)+/([^\s/:'\"]+)", r"\1", text)
    text = re.sub(r"coding([:=])", r"coding \1", text)
    return re.sub(r"\s+", " ", text).strip()[:limit]


def telltale(failure: Failure, said: str = "") -> str:
    """Words of the failure's message that another run will repeat: no paths, addresses, generated names, quoted parts.

    ``said``: type and message of the exception that reaches the caller, if known. If it does not repeat the message of
    the root cause, the words are taken from its own.
    """
    kind = "".join(re.findall(r"[A-Za-z_]\w*$", failure.exception_type or "", re.ASCII))[:WORDS] or "Error"
    lines = [line.strip() for line in failure.message.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("backend=")]
    diagnostic = re.search(r"\berror: (.+)", failure.message)
    if diagnostic and "ompile" in kind + failure.message:
        lines = [diagnostic[1]]
    wordings = [wording for line in lines[:1] for wording in (line, line.removeprefix(f"{kind}: "))]
    found = [piece for wording in wordings for piece in _pieces(wording) if piece in (said or piece)]
    if not found and said and kind not in said:
        outer, _, rest = said.partition(": ")
        kind = outer[:WORDS]
        found = next(filter(None, map(_pieces, rest.splitlines())), [])
    best = max(found, key=lambda piece: (len(piece.split()), len(piece)), default=kind)
    untyped = best.removeprefix(f"{kind}: ")
    best = untyped if len(untyped.split()) >= ENOUGH else best
    return best if len(best) <= WORDS else best[:WORDS].rpartition(" ")[0] or best[:WORDS]


def _pieces(line: str) -> list[str]:
    """The parts of a line that are plain words, long enough to identify it, up to an argument; a printed call does not count."""
    parts = [part for chunk in _QUOTED.split(line) for part in _VOLATILE.sub("\0", chunk or "").split("\0")]
    words = [re.split(r"\b\w+=", part)[0].strip(" :;,.()[]{}") for part in parts]
    return [part for part in words if len(part) >= 10 and not re.search(r"\w\(|[=*{}]|\.\.\.", part)]
