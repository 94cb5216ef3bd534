"""The command line: ``minimizer run`` works alone, ``serve`` and ``submit`` are the service and its client.

Each command is in a separate module, imported only for that command, so that ``minimizer --help`` answers at once and
``submit`` needs neither the engine nor the database.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from importlib import import_module
from pathlib import Path

import click

from minimizer import __version__
from minimizer.cli.exit_status import Exit
from minimizer.errors import MinimizerError, UserError

__all__ = ["main"]

INSUFFICIENT_PRIVILEGE = "42501"
"""PostgreSQL's code for lacking permission."""

COMMANDS = {
    "run": ("minimizer.cli.run", "Reduce a failing script to a verified repro.py, here and now."),
    "trace": ("minimizer.cli.trace", "Write the calls of torch around a script's compiled graphs as one flat program."),
    "serve": ("minimizer.cli.serve", "Start the service: web page, REST and one worker."),
    "submit": ("minimizer.cli.remote", "Send a script to a running service."),
    "status": ("minimizer.cli.remote", "Show the jobs of a service, or one of them."),
    "download": ("minimizer.cli.remote", "Fetch the results of a job."),
    "doctor": ("minimizer.cli.doctor", "Say what this machine lacks and how to get it."),
    "admin": ("minimizer.cli.admin", "Look after users, tokens and projects of a service."),
    "db": ("minimizer.cli.db", "Bring the database to the current schema, or back it up."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used; their one-line help is known before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="minimizer")
def cli() -> None:
    """Turn a script that torch.compile breaks into the smallest repro.py that still fails.

    \b
      minimizer run train.py               reduce it on this machine
      minimizer serve                      the same in the browser
      minimizer submit train.py --wait     the same on a running service

    Exit status of run and of submit --wait: 0 a verified repro was written, 3 the script is healthy, 4 a failure
    was seen but the repro is not verified, 5 there is nothing to reduce (it fails without the compiler too, nothing
    was compiled, ...), 2 wrong usage, 1 a bug of minimizer, 130 interrupted; with --fail-on also 6, a failure that counts.
    """


def main() -> None:
    """Entry point: run a command and turn its exceptions into a message and an exit status."""
    try:
        outcome = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Stopped.", err=True)
        sys.exit(Exit.CANCELLED)
    except click.ClickException as error:
        error.show()
        sys.exit(Exit.USAGE)
    except UserError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(Exit.USAGE)
    except MinimizerError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(Exit.INTERNAL)
    except Exception as error:
        if (trouble := _database_trouble(error)) is not None:
            click.echo(f"Error: {trouble}", err=True)
            sys.exit(Exit.USAGE)
        click.echo(_internal_error(error), err=True)
        sys.exit(Exit.INTERNAL)
    sys.exit(outcome if isinstance(outcome, int) else 0)


def _database_trouble(error: Exception) -> str | None:
    """Advice for a database that is unavailable or wrong; ``None`` for any other error."""
    known = sys.modules.get("sqlalchemy.exc")  # not imported for this: most commands have no database
    if known is None or not isinstance(error, known.DBAPIError):
        return None
    cause = error.orig
    is_away = isinstance(error, known.OperationalError | known.InterfaceError) or type(error) is known.DatabaseError
    if not is_away and getattr(cause, "sqlstate", None) != INSUFFICIENT_PRIVILEGE:
        return None
    said = next(iter(str(cause).splitlines()), type(cause).__name__)
    return (
        f"the database cannot be used: {said}. See that it runs, and that MINIMIZER_DATABASE_URL or MINIMIZER_DATA_DIR "
        "names the right one; `minimizer doctor` looks at it, too"
    )


def _internal_error(error: Exception) -> str:
    """Keep the traceback in a file: it is for whoever repairs this program, not for whoever runs it."""
    with tempfile.NamedTemporaryFile("w", prefix="minimizer-", suffix=".log", delete=False) as file:
        file.write("".join(traceback.format_exception(error)))
    return (
        f"Error: minimizer itself failed: {type(error).__name__}: {error}\n"
        f"This is a bug of minimizer. The details are in {Path(file.name)}; please report it with that file."
    )
