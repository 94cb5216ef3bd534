"""A graph that only a witness has found: PyTorch's minifier dumped it, while no graph that we saw fails.

Its inputs may have been out of our sight (in a process that the script starts), or the failure goes when we look (UPSTREAM.md, trap
17). The dump becomes a script, and the script a job of its own. What comes of it counts only if our own judge sees a failure of
the kind that the witness speaks of, with the inputs of that call, and a repro of it holds in clean processes; else all stays as it
was, but for a note.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from minimizer.engine.aside import Aside
from minimizer.engine.emit import SCRIPT_FILE
from minimizer.engine.journal import Journal
from minimizer.engine.witness.minifier import STORAGES, Testimony
from minimizer.errors import Cancelled
from minimizer.report.model import Failure, Report, Workaround
from minimizer.sink import REPROS, Sink
from minimizer.vocabulary import Kind, Status

UPTAKE_SECONDS = 60
"""Less is not worth beginning with."""
ABSENT = ("unsupported", "opaque", "generator")
"""What a launcher reads in place of inputs that it could not keep."""
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
    """A dump that no script can be made of; says why, to go behind 'was not taken up'."""


def take_up(testimony: Testimony, journal: Journal, *, folder: Path, minimize: Callable[[Path, Sink], Report]) -> bool:
    """Whether the job has a verified repro now, of the graph that a witness dumped.

    Args:
        folder: a new one, for the script and what it reads.
        minimize: runs a job for that script.

    Raises:
        Cancelled: the owner asked for it.
    """
    report, begin = journal.report, f"The graph that PyTorch's own minifier dumped after {testimony.after}"
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
    if not _counts(found, testimony, report.failure):
        journal.note(f"{begin} was judged by our own rules, and gave no repro of such a failure: {found.summary}")
        return False
    _adopt(found, testimony, journal)
    journal.show_instead({name: aside.artifacts[name] for name in REPROS if name in aside.artifacts})
    journal.repro = aside.artifacts[SCRIPT_FILE].decode()
    assert report.failure is not None and report.reduction is not None
    journal.event("failure", failure=report.failure.model_dump(mode="json"))
    journal.event("repro", lines=report.reduction.lines_after, nodes=report.reduction.nodes_after, verified=True)
    return True


def write_script(testimony: Testimony, folder: Path) -> Path:
    """The dumped graph as a script that compiles it and calls it once, with the inputs it had, in files beside it.

    Raises:
        Unusable: it is no Python, its inputs were not kept, or it draws random numbers as nobody but inductor does.
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
    """The backend that the launcher names: one after dynamo does."""
    for call in _calls(tree):
        if isinstance(call.func, ast.Name) and call.func.id == "run_repro":
            for keyword in call.keywords:
                if keyword.arg == "backend" and isinstance(keyword.value, ast.Constant):
                    return str(keyword.value.value)
    return None


def _is_of_the_tool(statement: ast.stmt) -> bool:
    """Whether it is there for the minifier only: it runs it, or sets up variables and caches as the witness had them."""
    return isinstance(statement, ast.If) or "os.environ" in ast.unparse(statement)


def _counts(found: Report, testimony: Testimony, failure: Failure | None) -> bool:
    """Whether what came of the dump is a failure such as the witness can see, and the script's, where that is known."""
    if found.status is not Status.MINIMIZED or found.failure is None:
        return False
    kind = found.failure.kind
    if kind in VALUES:
        return testimony.level == 4 and (failure is None or failure.kind in VALUES)
    is_same = failure is not None and failure.exception_type == found.failure.exception_type
    return kind in ERRORS and failure is not None and failure.kind in ERRORS and is_same


def _adopt(found: Report, testimony: Testimony, journal: Journal) -> None:
    """Make what came of the dump the job's verdict. What was found about the script itself stays, and places in the dump go."""
    report = journal.report
    assert found.failure is not None
    said = f"Only PyTorch's own minifier came by this graph, after {testimony.after}; our own run of the script said: {report.summary}"
    report.summary = f"{found.summary} {said}"
    report.status, report.reason = found.status, found.reason
    if report.failure is None:
        report.failure = found.failure
    report.failure.stage = found.failure.stage
    report.culprits = [culprit.model_copy(update={"source": None, "module": ""}) for culprit in found.culprits]
    report.take(found, ("ladder", "flags", "blame", "graph", "reduction", "verification", "also_seen", "versions"))
    if report.blame is not None:
        report.blame.confirmed_on_script = None
    if found.workaround is not None:
        helps = f" The graph by itself passes with: {found.workaround.code}" if found.workaround.verified else ""
        report.workaround = Workaround(code="", verified=False, what=f"None was tried on the script.{helps}")
    for note in found.notes:
        journal.note(note)
