"""A run of the user's script in the child, and the questions that a held call answers."""

from __future__ import annotations

from pathlib import Path

from minimizer.engine.child import protocol
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.connection import Connection, Task
from minimizer.engine.child.protocol import End, Finished, Held, MadeCall, Phase
from minimizer.engine.child.sent_program import parse_program
from minimizer.engine.child.trouble import Death, EndRule, rule_for
from minimizer.engine.child.untrusted import read_untrusted
from minimizer.engine.child.watchdog import Silence
from minimizer.engine.child.wire import Message
from minimizer.engine.program.model import Program
from minimizer.errors import ChildFailed
from minimizer.inside.questions import CallsQuestion, ForgetQuestion, GoldenQuestion, LiteralQuestion, ProgramQuestion

MAX_DATA = 256 << 20
"""Most bytes of a ``data.pt``, which holds the golden values that a repro needs."""
KEPT_FILES = 64
"""Most files of golden values to keep.

Each set of inputs of a candidate has one, with all values including weights: a reduction that requests hundreds of sets
would fill the job's disk.
"""


class Survey:
    """The state of a survey: exactly one of ``held``, ``finished`` and ``end`` is set."""

    def __init__(
        self,
        connection: Connection,
        task: Task,
        *,
        phase: Phase,
        held: Held | None = None,
        finished: Finished | None = None,
        end: Message | None = None,
        silence: Silence | None = None,
    ) -> None:
        self._connection, self._task = connection, task
        self.phase, self.held, self.finished, self.silence = phase, held, finished, silence
        ended = parse(End, end or {})
        self.signal, self.exit, self.timed_out, self.log = ended.signal, ended.exit, ended.timed_out, ended.log
        self.stacks = ended.stacks
        self._files: dict[frozenset[str], Path] = {}

    @property
    def rule(self) -> EndRule:
        """The rule that attributes the end of a run that died to the script, to the machine, or to neither."""
        return rule_for(Death(self.signal, self.exit, is_by_us=self.timed_out or self.silence is not None))

    def program(self, level: str) -> Program:
        """The held graph at a level, ``dynamo``, ``weighted`` or ``aot``; later requests for golden values refer to that level."""
        self._files.clear()
        return parse_program(self._connection.ask(self._task, ProgramQuestion(level)).get("program"))

    def golden(self, keys: frozenset[str]) -> Path:
        """A file, readable by trials, with the golden values of ``keys``."""
        if keys in self._files:
            self._files[keys] = self._files.pop(keys)  # now the most recent one
        else:
            path = self._connection.place.folder("golden") / f"{self._connection.number()}.pt"
            self._connection.ask(self._task, GoldenQuestion(sorted(keys), str(path)))
            self._files[keys] = path
        return self._files[keys]

    def trim(self) -> None:
        """Delete the least recently requested files of golden values, beyond `KEPT_FILES`.

        Call it only if no trial is about to read one.
        """
        oldest = list(self._files)[:-KEPT_FILES]
        if oldest:
            files = [str(self._files.pop(keys)) for keys in oldest]
            self._connection.ask(self._task, ForgetQuestion(files))

    def data(self, names: dict[str, str]) -> bytes:
        """The content of a data file with golden values under new names: ``{golden key: name}``.

        Raises:
            ChildFailed: they are unavailable, or exceed `MAX_DATA`.
        """
        place = self._connection.place
        path = place.folder("golden") / "data.pt"
        self._connection.ask(self._task, GoldenQuestion(sorted(names), str(path), names))
        data = read_untrusted(place.scratch, path.relative_to(place.scratch), MAX_DATA + 1)
        if data is None or len(data) > MAX_DATA:
            raise ChildFailed(f"the values for data.pt cannot be had, or are more than {MAX_DATA >> 20} MiB")
        return data

    def literal(self, key: str) -> str | None:
        """Source text for a small golden value, or a substitute if it holds NaN or infinities; None without one."""
        text = self._connection.ask(self._task, LiteralQuestion(key)).get("text")
        return text if isinstance(text, str) and len(text) < 10_000 else None

    def calls(self) -> list[MadeCall]:
        """Source text for the inputs of the calls that led to the held one, and of that one, which comes last.

        Inputs are named as in the program that was requested last.

        Raises:
            ChildFailed: the inputs have no source text.
        """
        return parse(protocol.MadeCalls, self._connection.ask(self._task, CallsQuestion())).calls

    def close(self) -> None:
        """Kill the process that holds the call."""
        self._connection.kill(self._task)
