"""Command lines that start a program, ``torchrun ... train.py ARGS`` and ``python train.py ARGS``, in the place of a script."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from minimizer.errors import InvalidOption

TORCHRUN, PYTHON, OLDER = ("torchrun", "torch.distributed.run"), r"python[\d.]*", "torch.distributed.launch"
BARE = ("python", "python3", "torchrun")
"""Names that mean the Python that minimizer uses anyway."""
ONE_RANK = {
    **dict.fromkeys(("RANK", "LOCAL_RANK", "GROUP_RANK"), "0"),
    **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), "1"),
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}
"""torchrun's environment for a single process."""
VALUES = (
    "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts", "monitor-interval", "start-method", "event-log-handler", "role",
    "log-dir", "log-line-prefix-template", "redirects", "tee", "local-ranks-filter", "node-rank", "master-addr", "master-port", "local-addr", "logs-specs",
    "numa-binding", "signals-to-handle", "shutdown-timeout", "duplicate-stdout-filters", "duplicate-stderr-filters",
)  # fmt: skip
"""Options of torchrun with a value: for the ranks' rendezvous and their output, which the job handles itself here."""
FLAGS = ("standalone", "use-env", "virtual-local-rank")
SHORT = {"redirects": "-r", "tee": "-t"}
ONE_MACHINE = ("1", "1:1")
UNBUFFERED = "-u"


@dataclass(frozen=True)
class Launch:
    """The program of a command line: a ``script`` or a ``module``, with these arguments.

    ``nproc``: the number of processes, 0 if unstated. ``is_rank``: whether the script reads its rank from the
    environment. ``python``: the Python named by the command, empty for any.
    """

    script: str | None
    module: str | None
    args: tuple[str, ...]
    nproc: int = 0
    is_rank: bool = False
    python: str = ""


def launch_of(first: str, rest: Sequence[str]) -> Launch | None:
    """The program of a command with this first word; None for the path of a script, which is no command.

    Raises:
        InvalidOption: it is a command, and starts a program that cannot be run here.
    """
    name = Path(first).name
    python = first if first not in BARE else ""
    if name == TORCHRUN[0]:
        return _by_torchrun(rest, str(Path(first).parent / "python") if python else "")
    if not re.fullmatch(PYTHON, name):
        return None
    words = [*rest]
    while words[:1] == [UNBUFFERED]:
        del words[0]
    if words[:1] == ["-m"] and len(words) > 1:
        module, arguments = words[1], tuple(words[2:])
        if module == OLDER:
            raise InvalidOption(f"{OLDER} is superseded by torchrun, which takes the same options: name that")
        return _by_torchrun(arguments, python) if module in TORCHRUN else Launch(None, module, arguments, python=python)
    if not words or words[0].startswith("-"):
        raise InvalidOption(
            f"{first} {' '.join(words[:1])}: of Python's own options -u and -m are understood; name the script, and its arguments after --"
        )
    return Launch(words[0], None, tuple(words[1:]), python=python)


def _by_torchrun(words: Sequence[str], python: str) -> Launch:
    parser = _Parser(prog=TORCHRUN[0], add_help=False, allow_abbrev=False)
    _option(parser, "nproc-per-node")
    _option(parser, "nnodes", default="1")
    for name in VALUES:
        _option(parser, name)
    for name in FLAGS:
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", action="store_true")
    parser.add_argument("-m", "--module", action="store_true")
    parser.add_argument("--no-python", "--no_python", "--run-path", "--run_path", dest="other", action="store_true")
    parser.add_argument("program", nargs="?")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    if given.nnodes not in ONE_MACHINE:
        raise InvalidOption(f"torchrun --nnodes {given.nnodes}: a job runs on one machine; leave it out")
    nproc = given.nproc_per_node
    if nproc is not None and (not nproc.isdecimal() or int(nproc) < 1):
        raise InvalidOption(f"torchrun --nproc-per-node {nproc}: give the number of processes")
    if given.program is None:
        raise InvalidOption("torchrun: name the script, or behind -m the module, that it starts")
    if given.other:
        raise InvalidOption("torchrun --no-python and --run-path: name a script or, behind -m, a module")
    script, module = (None, given.program) if given.module else (given.program, None)
    return Launch(script, module, tuple(given.args), int(nproc or 0), is_rank=True, python=python)


def _option(parser: argparse.ArgumentParser, name: str, default: str | None = None) -> None:
    short = [SHORT[name]] if name in SHORT else []
    parser.add_argument(
        *short, f"--{name}", f"--{name.replace('-', '_')}", dest=name.replace("-", "_"), default=default
    )


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are exceptions."""

    def error(self, message: str) -> NoReturn:
        raise InvalidOption(f"torchrun: {message}")
