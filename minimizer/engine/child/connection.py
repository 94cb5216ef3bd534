"""The connection to the sandboxed child: starts the zygote, sends tasks, hands their messages out, restarts it when it died.

What a task is about is none of its concern; `executor` knows that.
"""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from minimizer.engine.budget.patience import CHILD_ANSWER_SECONDS, CHILD_END_SECONDS, CHILD_START_SECONDS
from minimizer.engine.child import protocol, wire
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.environment import Place
from minimizer.engine.child.protocol import Phase, Ready, Stacks
from minimizer.engine.child.trouble import KILLED, Death, Fault, rule_for
from minimizer.engine.child.untrusted import tail
from minimizer.engine.child.watchdog import CROWDED, Action, Watchdog, crowding
from minimizer.engine.child.wire import NOTHING_MORE, Inbox, Message
from minimizer.errors import Cancelled, ChildFailed, Unanswered, WorkerTrouble
from minimizer.inside.questions import Question, Request

INSIDE = Path(__file__).parents[2] / "inside"
POLL_SECONDS = 0.2
HEARD: dict[str, type[Phase | Stacks]] = {"phase": Phase, "stacks": Stacks}
"""The messages that a watchdog goes by."""
HOLDER = "the holder of the graph"

Watch = Callable[[], None]
"""Called while waiting; raises to give up (BudgetExceeded, Cancelled)."""


@dataclass
class Life:
    """One zygote's life, from its start until nothing more comes from it and it is known how it ended."""

    is_over: threading.Event = field(default_factory=threading.Event)
    is_ended_by_us: bool = False
    was_killed: bool = False
    """And not by us: for want of memory, most often."""
    is_end_unknown: bool = False
    """Its pipe has ended and it has not, so that nobody can tell how it will."""

    def refuse_trouble(self, who: str) -> None:
        """Say that the machine is at fault where it is: ``who`` did not end by itself.

        Raises:
            WorkerTrouble: it was killed, and not by us; or how it ended cannot be told.
        """
        if self.was_killed:
            raise WorkerTrouble(f"{who} was killed, for want of memory most often")
        if self.is_end_unknown:
            raise WorkerTrouble(f"{who} was gone, and had not ended within {CHILD_END_SECONDS:.0f} s")


@dataclass
class Task:
    """A task under way and the messages it has sent."""

    number: int
    life: Life
    """Of the zygote that it was handed to."""
    messages: Inbox = field(default_factory=Inbox)
    taken: int = 0
    """Bytes."""
    asking: threading.Lock = field(default_factory=threading.Lock)
    """Held by who asks, until there is an answer: another who takes messages meanwhile would take it away."""

    def wake(self) -> None:
        """Tell who waits that nothing more will come; whoever has messages left to take finds out by itself."""
        with suppress(queue.Full):
            self.messages.put_nowait(NOTHING_MORE)


class Connection:
    """The warm child, alive or about to be started again. Call `start` first; thread-safe."""

    def __init__(self, place: Place, watch: Watch) -> None:
        self.place, self._watch = place, watch
        self._numbers = itertools.count(1)
        self._tasks: dict[int, Task] = {}
        self._writing = threading.Lock()
        self._restarting = threading.Lock()
        self._closed = False
        self._life = Life()
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._to_child = -1
        self._cache = place.folder("cache")
        self._work = place.folder("work")
        self._logs = place.folder("logs")
        self._own_log = place.private("logs") / "zygote.log"

    def number(self) -> int:
        """A number that no task and no question has."""
        return next(self._numbers)

    def start(self) -> Ready:
        """Start the zygote and wait until torch is imported.

        Raises:
            ChildFailed: torch cannot be imported there.
            WorkerTrouble: the process, or its sandbox, ends without a word.
        """
        theirs_in, self._to_child = os.pipe()
        from_child, theirs_out = os.pipe()
        self._life = Life()
        starting = Task(0, self._life)
        self._tasks = {0: starting}
        self._process = self._launch(theirs_in, theirs_out)
        os.close(theirs_in)
        os.close(theirs_out)
        os.set_blocking(self._to_child, False)
        listening = (from_child, self._process, self._life, self._tasks)
        self._listener = threading.Thread(target=self._listen, args=listening, daemon=True)
        self._listener.start()
        message = self.next(starting, CHILD_START_SECONDS)
        if message is None or message.get("message", {}).get("type") != "ready":
            said = str(message["message"].get("message", "")) if message and "message" in message else ""
            self._stop()
            if not said:
                raise WorkerTrouble(f"the child did not start: {tail(self._own_log, 2000) or 'no answer'}")
            raise ChildFailed(f"the child did not start: {said[:500]}")
        return parse(Ready, message["message"])

    def _launch(self, incoming: int, outgoing: int) -> subprocess.Popen[bytes]:
        with self._own_log.open("wb") as log:
            return self.place.sandbox.start(
                [str(self.place.python), str(INSIDE / "__main__.py"), str(incoming), str(outgoing)],
                cwd=self._work,
                read=[*self.place.read, INSIDE, self.place.origin],
                write=[self.place.scratch],
                env=self.place.environment(self._cache),
                network=self.place.network,
                pass_fds=(incoming, outgoing),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def close(self) -> None:
        """Kill the child and everything in it, for good: a task that is handed in later is refused."""
        with self._restarting:
            self._closed = True
            self._stop()

    def _stop(self) -> None:
        if self._process is not None:
            # One that was killed before may not have been taken note of yet, and who waits must know.
            self._life.is_ended_by_us = self._process.poll() is None
            self.place.sandbox.kill(self._process)
            if self._listener is not None:
                self._listener.join()
            self._process = None
            with self._writing:  # else another thread writes into what gets this number next
                os.close(self._to_child)
                self._to_child = -1

    def send(self, request: Request, timeout: float, room: Message | None = None) -> Task:
        """Hand in a task, which may take so many seconds; the child is started again first if it died.

        ``room``: fields of the room that a run of a script has to itself.

        Raises:
            WorkerTrouble: the child was killed meanwhile, and not by us.
            ChildFailed: it cannot be, or was ended for good.
        """
        self._watch()
        with self._restarting:
            if self._closed:
                raise ChildFailed("the child was ended")
            if self._process is None or self._process.poll() is not None:
                self._stop()
                self.start()
            task = Task(self.number(), self._life)
            self._tasks[task.number] = task
        self._write_to(
            task,
            "the child",
            {
                **request.message(),
                "id": task.number,
                "op": request.task,
                "timeout": timeout,
                "folder": str(self._logs),
                "cwd": str(self._work),
                "memory": request.memory or self.place.memory_bytes,
                **(room or {}),
            },
        )
        return task

    def ask(self, task: Task, question: Question) -> Message:
        """Ask a held survey something and wait for its answer.

        Raises:
            Unanswered: it could not answer.
            WorkerTrouble: it was killed, and not by us; or it is late, on a machine that has too much to do.
            ChildFailed: it is gone for another reason, or late.
        """
        number = self.number()
        with task.asking:
            self._write_to(
                task, HOLDER, {"op": "ask", "to": task.number, "ask": number, "timeout": 86_400, **question.message()}
            )
            while (message := self.next(task, CHILD_ANSWER_SECONDS)) is not None:
                if "end" in message:
                    # What is held does not kill itself.
                    if rule_for(Death(parse(protocol.End, message["end"]).signal)) is KILLED:
                        raise WorkerTrouble(f"{HOLDER} was killed, for want of memory most often")
                    raise ChildFailed(f"{HOLDER} is gone")
                body = message["message"]
                if body.get("type") == "answer" and body.get("ask") == number:
                    if "error" in body:
                        raise Unanswered(f"{HOLDER} could not answer: {str(body['error'])[:500]}")
                    return dict(body)
        task.life.refuse_trouble(HOLDER)
        if task.life.is_over.is_set():
            raise ChildFailed(f"{HOLDER} is gone")
        late = f"{HOLDER} has not answered within {CHILD_ANSWER_SECONDS:.0f} s"
        rule = rule_for(Death(is_late=True, is_crowded=crowding() > CROWDED))
        raise WorkerTrouble(late) if rule.fault is Fault.MACHINE else ChildFailed(late)

    def kill(self, task: Task) -> None:
        """End a task. Harmless when it is over, or the child is."""
        with suppress(ChildFailed):
            self._write({"op": Action.KILL.value, "to": task.number})

    def _write_to(self, task: Task, who: str, message: Message) -> None:
        """Write to the zygote of a task; where that is gone, say why once it is known."""
        try:
            self._write(message)
        except ChildFailed:
            deadline = time.monotonic() + CHILD_ANSWER_SECONDS
            while not task.life.is_over.wait(POLL_SECONDS) and time.monotonic() < deadline:
                self._watch()
            self._watch()  # a child that was ended at the end of the budget was ended by the job itself
            task.life.refuse_trouble(who)
            raise

    def _write(self, message: Message) -> None:
        with self._writing:
            process = self._process
            try:
                wire.write(self._to_child, message)
            except TimeoutError as error:  # a script can stop the zygote, and we would wait for it for good
                if process is not None:
                    self._life.is_ended_by_us = True
                    self.place.sandbox.kill(process)
                raise ChildFailed(f"the child was ended: {error}") from None
            except (OSError, ValueError) as error:
                raise ChildFailed(f"the child is gone: {error}") from None

    def _listen(self, descriptor: int, process: subprocess.Popen[bytes], life: Life, tasks: dict[int, Task]) -> None:
        """Reader thread of one zygote: hand every line to the task it belongs to; at the end wake all who wait.

        A child that sends what is no message, or more of them than anybody takes, cannot be talked to any more, and is ended.
        """
        line = b""
        with os.fdopen(descriptor, "rb") as pipe, suppress(queue.Full):
            while (message := wire.parse(line := pipe.readline(protocol.MAX_LINE))) is not None:
                task = tasks.pop(message["id"], None) if "end" in message else tasks.get(message["id"])
                if task is not None:
                    task.messages.put_nowait(line)
        if not line.endswith(b"\n") and len(line) < protocol.MAX_LINE:  # it is the pipe that has ended
            try:
                process.wait(CHILD_END_SECONDS)  # how it ended by itself cannot be told once it was killed by us
            except subprocess.TimeoutExpired:
                life.is_end_unknown = not life.is_ended_by_us
        life.was_killed = rule_for(Death.by_status(process.returncode, is_by_us=life.is_ended_by_us)) is KILLED
        self.place.sandbox.kill(process)  # before anybody is told: whoever asks next must find it dead
        life.is_over.set()
        for task in list(tasks.values()):
            task.wake()

    def next(
        self, task: Task, timeout: float, watchdog: Watchdog | None = None, over: threading.Event | None = None
    ) -> Message | None:
        """The next message of a task; None when it took too long or the child is gone.

        Raises:
            Cancelled: ``over`` was set, since nobody needs the answer any more.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self._watch()
            if over is not None and over.is_set():
                raise Cancelled("the run is not needed any more")
            if watchdog is not None and (action := watchdog.due()) is not None:
                self._write_to(task, "the child", {"op": action.value, "to": task.number})
            try:
                line = task.messages.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if task.life.is_over.is_set() and task.messages.empty():
                    self._watch()  # once more: a child that was ended for want of memory was ended by the job itself
                    return None
                continue
            task.taken += len(line)
            message = wire.parse(line)
            body = (message or {}).get("message", {})
            if watchdog is not None and (kind := HEARD.get(str(body.get("type")))) is not None:
                watchdog.heard(parse(kind, body))
            return message
        return None
