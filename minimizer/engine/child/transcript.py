"""Collects the messages of a trial and converts them to its outcomes; every message is validated and bounded."""

from __future__ import annotations

from minimizer.engine.child.bounded import parse
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.child.protocol import End, Part, Phase
from minimizer.engine.child.watchdog import Silence
from minimizer.engine.child.wire import Message

MAX_OUTCOMES = 1000
MAX_BYTES = 256 << 20
"""Most bytes sent by a trial for an answer to count; later answers are dropped."""
MAX_PARTS = 10_000
"""Most parts of the compiler that one trial may name."""
MAX_NAME = 500
"""Most characters of such a name; that of a fusion lists all its operators."""


class Transcript:
    """The messages of one trial, within the bounds above."""

    def __init__(self) -> None:
        self.phase = ""
        self._is_under_way = True
        """Whether the current phase has not ended in an answer yet."""
        self._answers: list[Message] = []
        self._parts: dict[str, bool] = {}
        self._begun: dict[str, bool] = {}
        """Passes that have not returned, outermost first; if they never do, each counts as having made a difference."""

    def hear(self, message: Message, taken: int) -> None:
        """Record a message; ``taken``: bytes that the trial has sent so far."""
        kind = message.get("type")
        if kind == "phase":
            self.phase, self._is_under_way = parse(Phase, message).phase, True
        elif kind == "part":
            self._hear_part(parse(Part, message))
        elif kind == "outcome" and len(self._answers) < MAX_OUTCOMES and taken < MAX_BYTES:
            self._answers.append({**message, "phase": self.phase})
            self._is_under_way = False

    def _hear_part(self, part: Part) -> None:
        name = part.name[:MAX_NAME]
        if name not in self._parts and len(self._parts) >= MAX_PARTS:
            return
        self._parts[name] = self._parts.get(name, False) or bool(part.acted)
        while name in self._begun:
            self._begun.popitem()
        if part.acted is None:
            self._begun[name] = True

    def outcomes(self, message: Message, silence: Silence | None = None) -> list[Outcome]:
        """The outcomes of an ended trial; if it died or timed out, the last one is that end, in its last phase.

        Args:
            message: an `End`.
            silence: the watchdog's observation, if the trial was silent for long.

        Raises:
            ChildFailed: a message is malformed.
        """
        end = parse(End, message)
        hangs = end.timed_out or (self._is_under_way and end.exit != 0 and silence is not None and silence.hangs)
        broke_off = not self._answers or hangs or (self._is_under_way and end.exit != 0)
        facts = {
            "seconds": end.seconds / (len(self._answers) + broke_off),
            "log": end.log[-20_000:],
            "places": [],
            "stacks": "",
            "parts": self._parts,
        }
        outcomes = [parse(Outcome, {**answer, **facts}) for answer in self._answers]
        if not broke_off:
            return outcomes
        ending = Ending.TIMEOUT if hangs else Ending.CRASH if end.signal is not None else Ending.LOST
        last = {"ending": ending, "signal": end.signal if ending is Ending.CRASH else None, "phase": self.phase}
        dump = silence.dump if hangs and silence is not None else end.stacks
        places = [frame.place for frame in silence.chain] if hangs and silence is not None else []
        parts = self._parts | self._begun  # it died or hung in the begun ones
        return [*outcomes, Outcome.model_validate({**last, **facts, "places": places, "parts": parts, "stacks": dump})]
