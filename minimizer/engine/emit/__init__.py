"""Writes ``repro.py``: from the reduced program to a short script in the idiom of its kind of failure.

repro = emit(program, failure, culprits, environment={"torch": "2.13.0", "device": "cpu"}, rate=rate)
repro.source   # the text, formatted
repro.data     # the content of data.pt, usually none
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from minimizer.engine.emit import header, idioms, inputs, layout, prose
from minimizer.engine.emit.details import Details
from minimizer.engine.emit.inputs import DATA_FILE, DataKey
from minimizer.engine.emit.subject import HELPERS, Subject, may_copy
from minimizer.engine.program import render
from minimizer.engine.program.model import Program
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Reproducibility
from minimizer.vocabulary import Kind

__all__ = ["DATA_FILE", "DataKey", "Details", "SCRIPT_FILE", "Repro", "bundle", "emit"]

SCRIPT_FILE = "repro.py"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_TAKEN = {
    "actual", "eager", "error", "expected", "faulthandler", "function", "message", "out", "Path", "signal", "subprocess", "sys", "time",
    "timeit",
    *HELPERS,
}  # fmt: skip


@dataclass(frozen=True)
class Repro:
    """A script that shows a failure, and the evidence in its output that it does."""

    source: str
    lines: int
    """Lines of code, without blank ones and comments."""
    kind: Kind
    evidence: str
    """Text that its output contains whenever it ends with status 1 for this failure."""
    data_keys: tuple[DataKey, ...] = ()
    hang_after: float | None = None

    def importing(self, module: str) -> Repro:
        """A copy that also imports a submodule of torch."""
        source = re.sub(r"^import torch$", f"import torch\nimport {module}", self.source, count=1, flags=re.MULTILINE)
        return replace(self, source=source, lines=layout.code_lines(source))


def called(source: str, name: str) -> str:
    """The text of a repro whose header names the file ``name``."""
    return source.replace(f"python {SCRIPT_FILE}", f"python {name}")


def emit(
    program: Program,
    failure: Failure,
    culprits: Sequence[Culprit],
    *,
    environment: Mapping[str, str],
    rate: Reproducibility,
    details: Details | None = None,
) -> Repro:
    """Write the repro of a reduced program.

    Raises:
        SyntaxError: ``program.setup`` holds something that is not Python.
    """
    program, own = prose.in_order(program), layout.setup(render.setup(program))
    helpers = {name: prose.fresh(name, set(own.names)) for name in HELPERS}
    named = prose.named(program, {*own.names, *_TAKEN, *helpers.values(), "f"})
    known = _renamed(details or {}, {old.name: new.name for old, new in zip(program.inputs, named.inputs, strict=True)})
    attempts = idioms.attempts_for(rate)
    settings = list(own.settings)
    if program.around and not (failure.kind is Kind.WRONG_GRADIENT and program.grad):
        settings += [
            f"{context}.__enter__()" for context in program.around
        ]  # a context manager would not cover the backward
    if attempts > 1 and not any("force_disable_caches" in line for line in program.setup):
        settings.append("torch._inductor.config.force_disable_caches = True  # each time compiled anew")
    # Dynamo takes such bodies, and Inductor freezes, only where no gradient is asked for.
    if not program.grad and (program.freezes or inputs.changes_operands(program)):
        settings.append("torch.set_grad_enabled(False)")
    function = "f" if "f" not in own.names else prose.fresh("function", set(own.names))
    writes, draws = known.get("writes", []), inputs.draws(named)
    copied = frozenset(writes) if not draws and may_copy(named, known) else frozenset()
    changes = bool(writes or known.get("mutated") or "input" in known) or inputs.changed(named)
    subject = Subject(
        program=named,
        function=function,
        is_own=True,
        settings=settings,
        inputs=inputs.lines(named, helpers["data"], helpers["constants"]),
        details=known,
        telltale=header.telltale(failure, known.get("said", "")),
        attempts=attempts,
        copied=copied,
        fresh_inputs=not copied and (changes or draws),
        helpers=helpers,
    )
    comment = header.comment(failure, culprits, environment, rate, attempts, known)
    sources = [_source(comment, own, subject, failure.kind, short=short) for short in _spellings(named, own)]
    source = min(sources, key=layout.code_lines)
    return Repro(
        source=source,
        lines=layout.code_lines(source),
        kind=failure.kind,
        evidence=idioms.evidence(failure.kind, subject),
        data_keys=inputs.data_keys(named),
        hang_after=idioms.hang_after(subject) if failure.kind is Kind.HANG else None,
    )


def _spellings(program: Program, own: layout.Setup) -> Sequence[bool]:
    """Whether to write ``F`` for ``torch.nn.functional``: both ways are tried if it has a single call."""
    if "F" in own.names:
        return [layout.KNOWN_IMPORTS["F"] in own.imports]
    calls = sum(node.target.startswith(prose.FUNCTIONAL) for node in program.nodes)
    return [True, False] if calls == 1 else [True]


def _source(comment: str, own: layout.Setup, subject: Subject, kind: Kind, *, short: bool) -> str:
    """The repro's text, with a function around the program unless the program is a single call of a torch function."""
    program, definition = subject.program, ""
    constants = f"{subject.helpers['constants']} = torch.nn.Module()" if program.freezes else ""
    alone = prose.alone(program, short=short) if not program.freezes else None
    if alone is not None:
        subject = replace(subject, function=alone, is_own=False)
    else:
        definition = prose.function(program, subject.function, short=short)
    return layout.assemble(
        comment,
        [*own.definitions, definition, constants, idioms.write(kind, subject)],
        imports=own.imports,
        modules={node.target.partition(".")[0] for node in program.nodes if "." in node.target},
    )


def bundle(repro: Repro, data: bytes) -> bytes:
    """A zip archive of the script and its data; the same content gives the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in ((SCRIPT_FILE, repro.source.encode()), (DATA_FILE, data)):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()


def _renamed(details: Details, names: Mapping[str, str]) -> Details:
    known = details.copy()
    if "alias_of" in known:
        known["alias_of"] = names[known["alias_of"]]
    if "input" in known:
        known["input"] = names[known["input"]]
    for key in ("mutated", "gradients", "writes"):
        if key in known:
            known[key] = [names[name] for name in known[key]]
    return known
