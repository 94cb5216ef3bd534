"""``minimizer trace``: the calls of torch around compiled graphs, as one flat program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minimizer.cli.exit_status import Exit
from minimizer.cli.options import (
    find_interpreter,
    job_options,
    options_from,
    python_option,
    require_place,
    sandbox_options,
)
from minimizer.cli.progress import printable
from minimizer.cli.run import require_set, require_tools
from minimizer.cli.verdict import on_terminal
from minimizer.errors import BudgetExceeded, InvalidOption
from minimizer.options import Options
from minimizer.script_text import check_script
from minimizer.settings import settings_from_environment
from minimizer.vocabulary import counted

if TYPE_CHECKING:
    from minimizer.engine.tracing import Flat
    from minimizer.sandbox import Mode

TAKEN = ("budget", "device", "env")
"""The options of a job that count for a trace."""
MOST_SHOWN = 10
"""Lines of what could not be noted that are printed."""


@click.command()
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The program; values that are too long for it go to a file of this name that ends in .pt.  [default: <script>_flat.py]",
)
@click.option(
    "--compare/--no-compare",
    default=True,
    help="Run the program side by side, in eager and compiled, and say where the two part.  [default: compare]",
)
@python_option
@job_options(exclude=tuple(name for name in Options.model_fields if name not in TAKEN))
@sandbox_options
def trace(
    script: Path,
    out: Path | None,
    compare: bool,
    python: str | None,
    sandbox: Mode,
    bind: tuple[Path, ...],
    network: bool,
    **job: Any,
) -> int:
    """Write the calls of torch that SCRIPT makes around its compiled graphs as one flat program.

    The script runs once, in a sandbox. What comes out has neither its classes nor its loops: one statement for each call of
    torch, in order, under the script's own names, and each compiled graph as a function. It runs by itself, compiled
    or eager, and is the place to find out where in a training or decoding loop something goes wrong:

    \b
      minimizer trace train.py --out flat.py
      python flat.py            with the compiler
      python flat.py eager      without

    It is then run side by side, each event from eager's values and from its own, to say where compiled code parts from eager.
    What could not be noted (calls under torch.func, hooks, tensor subclasses, other threads) is told with its line.

    \b
    Examples:
      minimizer trace train.py
      minimizer trace train.py --out flat.py --no-compare
      minimizer trace train.py --bind /data/weights -- --steps 3

    Exit status: 0 eager and compiled part, and the output says where; 3 they agree; 4 the program is written, but was not
    compared to its end; 5 there is no program, since nothing was compiled or nothing could be noted.
    """
    interpreter = find_interpreter(python) if python else None
    check_script(script.read_bytes(), str(script), python=interpreter)
    options = options_from(job)
    require_set(options.env)
    target = out or Path(f"{script.stem}_flat.py")
    _require_apart(target, script)
    require_place("--out", target)
    require_tools(sandbox, interpreter)
    from minimizer.engine.tracing import NothingTraced, data_file
    from minimizer.engine.tracing import trace as traced

    try:
        flat = traced(
            script,
            target,
            options=options,
            settings=settings_from_environment(sandbox=sandbox, script_env="*"),
            python=interpreter,
            binds=bind,
            network=network,
            compare=compare,
            on_note=lambda note: click.echo(note, err=True),
        )
    except NothingTraced as why:
        click.echo(f"Nothing is written: {printable(str(why), 1000)}")
        return Exit.FAILED
    except BudgetExceeded as error:
        click.echo(f"Nothing is written: {error}")
        return Exit.FAILED
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(flat.text)
    if flat.data is not None:
        data_file(target).write_bytes(flat.data)
    for line in on_terminal(_lines(flat, script, target)):
        click.echo(line)
    return _status(flat, compare=compare)


def _require_apart(target: Path, script: Path) -> None:
    from minimizer.engine.tracing import data_file

    if script.resolve() in (target.resolve(), data_file(target).resolve()):
        raise InvalidOption(f"--out {target} would take the place of {script}; name another file")


def _lines(flat: Flat, script: Path, target: Path) -> Iterator[str]:
    from minimizer.engine.tracing import data_file

    program = flat.program
    graphs, calls = counted(len(program.graphs), "graph"), counted(program.calls, "call")
    yield f"traced     {counted(len(program.events), 'event')} around {calls} of {graphs}, {counted(len(program.inputs), 'input')}"
    if program.cut:
        yield f"cut        after {printable(program.cut, 100)}: the script goes on"
    if flat.raised is not None:
        yield f"ended      {script.name} raises {printable(f'{flat.raised.root_type}: {flat.raised.root_message}', 400)}"
    for left in program.left_out[:MOST_SHOWN]:
        where = f" ({left.file}:{left.line}: {left.code})" if left.file else ""
        yield f"not noted  {printable(left.what + where, 400)}"
    if len(program.left_out) > MOST_SHOWN:
        yield f"not noted  {len(program.left_out) - MOST_SHOWN} more"
    yield from _parting(flat)
    yield f"program    {target}"
    if flat.data is not None:
        yield f"data       {data_file(target)}"


def _parting(flat: Flat) -> Iterator[str]:
    sides, events = flat.sides, flat.program.events
    if sides is None:
        if flat.uncompared:
            yield f"compared   not at all: {printable(flat.uncompared, 400)}"
        return
    first = sides.first
    if first is not None and first.event < len(events):
        event = events[first.event]
        where = f" ({event.source[0]}:{event.source[1]})" if event.source is not None else ""
        how = "on eager's own inputs" if first.own else "carried on from earlier events"
        yield f"part       at event {first.event + 1} of {len(events)}, {how}: {printable(event.code + where, 500)}"
        value = f"{first.value}: " if first.value else ""
        error = f", relative error {first.error:.3g}" if first.error is not None else ""
        yield f"           {printable(value + first.what, 600)}{error}"
    elif sides.ran == len(events) and not sides.stopped:
        yield f"agree      eager and compiled, in all {counted(len(events), 'event')}"
    if sides.stopped:
        yield f"stopped    {printable(sides.stopped, 400)}"
    carried = [one for one in sides.distances if one.carried is not None]
    if carried:
        far = max(carried, key=lambda one: one.carried or 0.0)
        yield (
            f"carried    relative error of the compiled side's own values at most {far.carried:.3g}, at event {far.event + 1};"
            f" {carried[-1].carried:.3g} at the last one compared"
        )


def _status(flat: Flat, *, compare: bool) -> int:
    sides = flat.sides
    if sides is not None and sides.first is not None:
        return Exit.MINIMIZED
    is_whole = sides is not None and sides.ran == len(flat.program.events) and not sides.stopped
    return Exit.HEALTHY if is_whole and not flat.program.cut and compare else Exit.PARTIAL
