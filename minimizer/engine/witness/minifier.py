"""Witnesses: reruns the script under PyTorch's own minifier. The report quotes it; no verdict depends on it.

The script is rerun with ``TORCHDYNAMO_REPRO_AFTER=dynamo`` and ``=aot``, ``TORCHDYNAMO_REPRO_LEVEL=4`` (2 for failures
other than wrong values, which level 4 does not dump), each in a cold process with its own cache. In torch 2.13 the tool
rejects correct programs, is blind to faults of passes, and finds nothing on a warm cache, so it cannot be the referee.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from minimizer.engine.child import scratch_disk
from minimizer.engine.child.clean_process import run_clean
from minimizer.engine.child.environment import Place
from minimizer.engine.child.untrusted import read_untrusted, walk_untrusted
from minimizer.report.model import Witness
from minimizer.sandbox import real_interpreter
from minimizer.vocabulary import Kind

After = Literal["dynamo", "aot"]
AFTER: tuple[After, ...] = ("dynamo", "aot")
LAUNCHER = "minifier_launcher.py"
STORAGES = "checkpoints/storages"
"""Folder next to the launcher with the data of the graph's inputs, each in a file named by its hash."""
OWN_ERRORS = (
    "'NoneType' object has no attribute",
    "AttributeError: __code__",
    "has no attribute '__name__'",
    # after dynamo it calls the compiled code with one list instead of the inputs, and mistakes the error for the bug
    "Unable to cast [tensor(",
    "but instead found type 'list'",
    "expected Tensor() for op: input",
    "'list' object has no attribute",
)
"""Messages of the tool when it fails by itself."""
DUMP_BYTES = 1 << 20
INPUT_BYTES = 64 << 20
"""Most bytes of a dumped graph's inputs that are kept."""


@dataclass(frozen=True)
class Dump:
    """A graph that a witness dumped: the text of its launcher, and the data of its inputs by the names used there."""

    launcher: str
    storages: Mapping[str, bytes]


@dataclass(frozen=True)
class Testimony:
    """The result of a witness. ``sees``: whether it sees a failure (None: it is not usable)."""

    after: After
    level: int
    outcome: str
    sees: bool | None
    dump: Dump | None
    log: str

    def witness(self, *, fails: bool) -> Witness:
        """The report's entry; ``fails``: our own verdict on the script, to say whether the two agree."""
        agrees = None if self.sees is None else self.sees == fails
        return Witness(after=self.after, level=self.level, outcome=self.outcome, agrees=agrees)


def hear(
    place: Place,
    script: Path,
    args: list[str],
    kind: Kind,
    *,
    seconds: Callable[[], float],
    parallel: int,
    watch: Callable[[], None],
    message: str = "",
    nproc: int = 1,
) -> list[Testimony]:
    """Rerun the script under PyTorch's minifier, after dynamo and after aot, for at most ``seconds`` each.

    Args:
        place: the sandbox, interpreter and folders.
        script: the user's script.
        args: its arguments.
        kind: that of our failure, which decides on the level.
        seconds: called when a rerun begins.
        parallel: reruns in parallel, at most two.
        watch: called while waiting.
        message: the message of our failure, so that it is not mistaken for an error of the tool.
        nproc: the number of ranks.
    """
    launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={nproc}"] if nproc > 1 else []
    command = [str(real_interpreter(place.python)), *launcher, *map(str, place.driver), str(script), *args]
    level = 4 if kind.is_numeric else 2
    with ThreadPoolExecutor(max(1, min(parallel, len(AFTER)))) as pool:
        return list(pool.map(lambda after: _hear(place, command, after, level, seconds, watch, message), AFTER))


def _hear(
    place: Place,
    command: list[str],
    after: After,
    level: int,
    seconds: Callable[[], float],
    watch: Callable[[], None],
    message: str,
) -> Testimony:
    limit = seconds()
    folder = place.private(f"witness-{after}")
    work = place.lay_out(folder / "work")
    place.headers.lay(folder)
    output = place.private("logs") / f"witness-{after}.txt"
    environment = {
        **place.environment(folder / "cache", home=folder),
        "TORCHDYNAMO_REPRO_AFTER": after,
        "TORCHDYNAMO_REPRO_LEVEL": str(level),
        "TORCH_COMPILE_DEBUG_DIR": str(folder / "debug"),
    }
    ran = run_clean(
        command,
        place.sandbox,
        work=work,
        output=output,
        read=[*place.read, *place.driver],
        write=[folder],
        environment=environment,
        limit=limit,
        watch=watch,
        network=place.network,
    )
    log = place.redacted(ran.output)
    dump = _dumped(folder)
    scratch_disk.remove(folder)
    outcome, sees = _judge(ran.status, log, dump is not None, limit, message)
    if dump is not None:
        dump = replace(dump, launcher=place.redacted(dump.launcher))
    return Testimony(after, level, outcome, sees, dump, log)


def _is_own(line: str) -> bool:
    return any(error in line for error in OWN_ERRORS)


def _is_users(line: str, message: str) -> bool:
    """Whether a line that looks like an error of the tool is the message of the user's failure."""
    return any(_is_own(said) and said.strip() in line for said in message.splitlines())


def _dumped(folder: Path) -> Dump | None:
    """The first graph that a witness wrote, if any; links planted by the script are not followed."""
    launchers = (path for path in walk_untrusted(folder, Path("debug")) if path.name == LAUNCHER)
    for path in launchers:
        if (content := read_untrusted(folder, path, DUMP_BYTES)) is not None:
            launcher = content.decode("utf-8", "replace")
            return Dump(launcher, _storages(folder, path.parent / STORAGES, launcher))
    return None


def _storages(folder: Path, where: Path, launcher: str) -> dict[str, bytes]:
    """The storages that a launcher names, as far as they exist and fit `INPUT_BYTES` together."""
    room, found = INPUT_BYTES, dict[str, bytes]()
    for name in sorted(set(re.findall(r"\b[0-9a-f]{40}\b", launcher))):
        content = read_untrusted(folder, where / name, room + 1)
        if content is not None and len(content) <= room:
            room -= len(content)
            found[name] = content
    return found


def _judge(status: int | None, log: str, dumped: bool, seconds: float, message: str = "") -> tuple[str, bool | None]:
    """The result of the witness in words, and whether it sees a failure (None: it is not usable)."""
    if status is None:
        return f"did not end within {seconds:.0f} s", None
    last = next((line.strip() for line in reversed(log.splitlines()) if line.strip()), "")
    own = next((line.strip() for line in log.splitlines() if _is_own(line) and not _is_users(line, message)), None)
    if own is not None:
        return f"broke by itself: {own[:200]}", None
    if dumped:
        return "saw a failure and dumped a graph to minify", True
    if status == 0:
        return "saw nothing: the script ended well under it", False
    return f"the script failed under it and nothing was dumped: {last[:200]}", None
