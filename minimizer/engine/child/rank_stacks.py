"""The activity of the other ranks of a script, from stacks that they write every few seconds
(``inside/watch/ranks.py``).
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from minimizer.engine.child import stacks
from minimizer.engine.child.stacks import Stack
from minimizer.engine.child.untrusted import read_untrusted
from minimizer.inside.questions import RANK_ENDED, STACKS_EVERY

MOST_BYTES = 1 << 20
STILL = 4
"""Consecutive dumps that must show the same place for a waiting rank."""
_DUMP = re.compile(r"^Timeout!$", re.MULTILINE)


@dataclass(frozen=True)
class RankState:
    """The activity of a rank. ``seconds``: time seen in that place. ``ended``: how it ended; None if it runs."""

    rank: int
    chain: Stack = ()
    seconds: float = 0.0
    ended: str | None = None

    def stands(self, compiling: float) -> bool:
        """Whether it makes no progress: it has ended, waits in a collective, or compiles in one place for this many
        seconds.

        Its own code and compiled code may take any time, for instance if one rank evaluates while the others wait.
        """
        if self.ended is not None:
            return True
        if stacks.is_at_compilation(self.chain):
            return self.seconds >= compiling and not stacks.is_waiting(self.chain)
        return bool(stacks.collective(self.chain)) and self.seconds >= STACKS_EVERY * (STILL - 1)

    @property
    def words(self) -> str:
        """A clause, such as "rank 1 waits in all_reduce (train.py, line 9)"."""
        who = f"rank {self.rank}"
        if self.ended is not None:
            return f"{who} has ended{f' ({self.ended})' if self.ended else ''}"
        if not self.chain:
            return f"of {who} nothing is known"
        users = [frame for frame in self.chain if frame.is_users]
        at = f" ({users[-1].file}, line {users[-1].line})" if users else ""
        if stacks.is_at_compilation(self.chain):
            named = stacks.culprit(self.chain)
            where = f", in {named.function}" if named is not None else ""
            return f"{who} has been in the compiler for {self.seconds:.0f} s{where}{at}"
        collective = stacks.collective(self.chain)
        if collective:
            return f"{who} waits in {collective}{at}"
        return f"{who} is in {users[-1].function}{at}" if users else f"{who} is in {self.chain[-1].function}"


def state(rank: int, text: str, age: float = 0.0) -> RankState:
    """The state that the text of a rank's dumps shows.

    ``age``: seconds since the last write. An old file shows nothing: the running code may hold the GIL.
    """
    *_, last = text.rstrip().rsplit("\n", 1)
    if last.startswith(RANK_ENDED):
        return RankState(rank, ended=last.removeprefix(RANK_ENDED).strip())
    samples = [sample for dump in _DUMP.split(text)[1:] if (sample := stacks.parse(dump))]
    if not samples or age > STILL * STACKS_EVERY:
        return RankState(rank)
    still = [*takewhile(lambda sample: _is_at(sample, samples[-1]), reversed(samples))]
    return RankState(rank, stacks.common(still), (len(still) - 1) * STACKS_EVERY)


def _is_at(sample: Stack, last: Stack) -> bool:
    """Whether a sample shows the same lines of the script and the same place, except for helpers called by a loop."""
    one, other = ([frame for frame in stack if frame.is_users] for stack in (sample, last))
    return one == other and len(last) - len(stacks.common((sample, last))) <= stacks.NEAR


def others(scratch: Path, folder: Path, count: int, own: int) -> Sequence[RankState]:
    """The states of all ranks but ``own``, the watched one. ``folder``: where they write, below ``scratch``."""
    return [_read(scratch, folder / str(rank), rank) for rank in range(count) if rank != own]


def _read(scratch: Path, file: Path, rank: int) -> RankState:
    content = read_untrusted(scratch, file.relative_to(scratch), MOST_BYTES, from_end=True)
    if content is None:
        return RankState(rank)
    age = 0.0
    with suppress(OSError):
        age = time.time() - file.lstat().st_mtime
    return state(rank, content.decode("utf-8", "replace"), age)
