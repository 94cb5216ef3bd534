"""Adopts a graph that only a witness has found: PyTorch's minifier dumped it, while no graph in our survey fails.

The call may have been in a process that the script starts, which we do not see, or our hooks make the failure vanish.
The dump becomes a script, and the script a job of its own. Its result counts only if our own referee sees a failure of
the witness's kind, with the inputs of that call, and if its repro holds in clean processes. Otherwise the report only
gets a note.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from minimizer.engine import fold
from minimizer.engine.aside import Aside
from minimizer.engine.budget.patience import UPTAKE_SECONDS
from minimizer.engine.emit import SCRIPT_FILE
from minimizer.engine.journal import Journal
from minimizer.engine.witness.minifier import STORAGES, Testimony
from minimizer.errors import Cancelled
from minimizer.report.model import Failure, Report, Workaround
from minimizer.sink import REPROS, Sink
from minimizer.vocabulary import Kind, Status

ABSENT = ("unsupported", "opaque", "generator")
"""Methods of a launcher's reader that stand for inputs which the tool could not save."""
DRAWS = ("inductor_seed", "inductor_random", "inductor_randint", "inductor_lookup_seed")
"""Operators that draw from another random stream in eager than when compiled."""
VALUES = (Kind.WRONG_OUTPUT, Kind.WRONG_GRADIENT)
ERRORS = (Kind.COMPILE_ERROR, Kind.RUNTIME_ERROR)
CALL = """
from pathlib import Path
from torch._dynamo.debug_utils import InputReader

reader = InputReader(save_dir=str(Path(__file__).parent))
load_args(reader)
with torch.set_grad_enabled({grad}):
    torch.compile(mod{options})(*reader.args)
"""


class Unusable(Exception):
    """A dump cannot be made into a script; the message says why, and follows 'was not taken up:' in a note."""


def take_up(testimony: Testimony, journal: Journal, *, folder: Path, minimize: Callable[[Path, Sink], Report]) -> bool:
    """Reduce the graph that a witness dumped; True if the job has a verified repro of it now.

    Args:
        testimony: that of the witness, with the dump.
        journal: the outer job's record.
        folder: a new folder, for the script and its inputs.
        minimize: runs a job for that script.

    Raises:
        Cancelled: the owner cancelled the job.
    """
    begin = f"The graph that PyTorch's own minifier dumped after {testimony.after}"
    try:
        script = write_script(testimony, folder)
    except Unusable as error:
        journal.note(f"{begin} was not taken up: {error}.")
        return False
    if journal.clock.left < UPTAKE_SECONDS:
        journal.note(f"{begin} was not taken up for want of time: a larger --budget may reduce it.")
        return False
    aside = Aside(journal.sink, tells=frozenset({"step"}))
    found = minimize(script, aside)
    if found.status is Status.CANCELLED:
        raise Cancelled("the job was cancelled")
    journal.log(aside.artifacts.get("run.log", b"").decode())
    if not _counts(found, testimony, journal.fault.failure):
        journal.note(f"{begin} was judged by our own rules, and gave no repro of such a failure: {found.summary}")
        return False
    _adopt(found, testimony, journal)
    journal.show_instead({name: aside.artifacts[name] for name in REPROS if name in aside.artifacts})
    journal.repro = aside.artifacts[SCRIPT_FILE].decode()
    journal.announce(journal.fault)
    journal.tell_repro(verified=True)
    return True


def write_script(testimony: Testimony, folder: Path) -> Path:
    """Write a script that compiles the dumped graph and calls it once, with its saved inputs in files next to it.

    Raises:
        Unusable: it is not Python, its inputs were not saved, or it draws random numbers as only inductor does.
    """
    dump = testimony.dump
    assert dump is not None
    try:
        tree = ast.parse(dump.launcher)
        kept = [ast.unparse(statement) for statement in tree.body if not _is_of_the_tool(statement)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Unusable("it is no Python") from None
    methods = [(call.func, call.args) for call in _calls(tree) if isinstance(call.func, ast.Attribute)]
    reads = [(f.attr, args) for f, args in methods if isinstance(f.value, ast.Name) and f.value.id == "reader"]
    storages = [ast.unparse(args[0]).strip("'") for name, args in reads if name == "storage" and args]
    if any(name in ABSENT for name, _ in reads) or not set(storages) <= dump.storages.keys():
        raise Unusable("what it was called with was not kept")
    if any(isinstance(node, ast.Attribute) and node.attr.startswith(DRAWS) for node in ast.walk(tree)):
        raise Unusable("it draws random numbers as only inductor does")
    backend = _backend(tree)
    call = CALL.format(grad=testimony.after == "dynamo", options=f", backend={backend!r}" if backend else "")
    values = folder / Path(STORAGES).name
    values.mkdir(parents=True)
    for name, content in dump.storages.items():
        (values / name).write_bytes(content)
    script = folder / f"witness_{testimony.after}.py"
    script.write_text("\n".join(kept) + "\n" + call)
    return script


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _backend(tree: ast.Module) -> str | None:
    """The backend that the launcher names, which one after dynamo does; else None."""
    for call in _calls(tree):
        if isinstance(call.func, ast.Name) and call.func.id == "run_repro":
            for keyword in call.keywords:
                if keyword.arg == "backend" and isinstance(keyword.value, ast.Constant):
                    return str(keyword.value.value)
    return None


def _is_of_the_tool(statement: ast.stmt) -> bool:
    """Whether a statement serves the minifier only: it runs the tool, or sets up the witness's variables and caches."""
    return isinstance(statement, ast.If) or "os.environ" in ast.unparse(statement)


def _counts(found: Report, testimony: Testimony, failure: Failure | None) -> bool:
    """Whether the result is a failure that the witness can see, and the same as the script's if that is known."""
    if found.status is not Status.MINIMIZED or found.failure is None:
        return False
    kind = found.failure.kind
    if kind in VALUES:
        return testimony.level == 4 and (failure is None or failure.kind in VALUES)
    is_same = failure is not None and failure.exception_type == found.failure.exception_type
    return kind in ERRORS and failure is not None and failure.kind in ERRORS and is_same


def _adopt(found: Report, testimony: Testimony, journal: Journal) -> None:
    """Make the result of the dump the job's verdict; findings about the script stay, places inside the dump go."""
    known = journal.fault
    assert found.failure is not None
    said = f"Only PyTorch's own minifier came by this graph, after {testimony.after}; our own run of the script said: {known.summary}"
    workaround = None
    if found.workaround is not None:
        helps = f" The graph by itself passes with: {found.workaround.code}" if found.workaround.verified else ""
        workaround = Workaround(code="", verified=False, what=f"None was tried on the script.{helps}")
    failure = known.failure or found.failure
    theirs = fold.fault_of(found)
    journal.fault = replace(
        theirs,
        failure=failure.model_copy(update={"stage": found.failure.stage}),
        culprits=tuple(culprit.model_copy(update={"source": None, "module": ""}) for culprit in theirs.culprits),
        blame=found.blame.model_copy(update={"confirmed_on_script": None}) if found.blame is not None else None,
        workaround=workaround or known.workaround,
        observed=known.observed,
        generated_code=known.generated_code,
        summary=f"{found.summary} {said}",
    )
    for note in found.notes:
        journal.note(note)
