"""The connection to the sandboxed child: starts the zygote, sends tasks, dispatches messages, restarts a dead child.

It knows nothing of the content of a task; `executor` does.
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
from minimizer.engine.child.trouble import KILLED, UNTOLD, AtFault, Death, rule_for
from minimizer.engine.child.untrusted import tail
from minimizer.engine.child.watchdog import CROWDED, Action, Watchdog, crowding
from minimizer.engine.child.wire import NOTHING_MORE, Inbox, Message
from minimizer.errors import Cancelled, ChildFailed, MissingTool, Unanswered, WorkerTrouble
from minimizer.inside.questions import Question, Request

INSIDE = Path(__file__).parents[2] / "inside"
POLL_SECONDS = 0.2
HEARD: dict[str, type[Phase | Stacks]] = {"phase": Phase, "stacks": Stacks}
"""The messages that a watchdog evaluates."""
HOW_TO_GET_TORCH = "Install torch 2.11 to 2.15, or name another Python with --python."
HOLDER = "the holder of the graph"

Watch = Callable[[], None]
"""Called while waiting; raises to give up (BudgetExceeded, Cancelled)."""


@dataclass
class Life:
    """One zygote's life, from its start until its pipe has ended and the reason of its end is known."""

    is_over: threading.Event = field(default_factory=threading.Event)
    is_ended_by_us: bool = False
    death: Death | None = None
    """How it ended, once its pipe has."""


def refusal(who: str, death: Death, late: str = "") -> WorkerTrouble | ChildFailed:
    """The error for ``who`` gives no answer, any more or in time: whether the machine is at fault is for `RULES` to say.

    ``late``: what it has not done in time, if it still runs.
    """
    rule = rule_for(death)
    gone = f"was gone, and had not ended within {CHILD_END_SECONDS:.0f} s"
    known = {KILLED: "was killed, for want of memory most often", UNTOLD: gone}
    said = f"{who} {late or known.get(rule, 'is gone')}"
    return WorkerTrouble(said) if rule.fault is AtFault.MACHINE else ChildFailed(said)


@dataclass
class Task:
    """A task in progress and the messages it has sent."""

    number: int
    life: Life
    """The life of the zygote that got the task."""
    messages: Inbox = field(default_factory=Inbox)
    taken: int = 0
    """Size of the taken messages, in bytes."""
    asking: threading.Lock = field(default_factory=threading.Lock)
    """Held during a question until its answer: another reader would take the answer away."""

    def wake(self) -> None:
        """Wake the waiting reader at the end of all messages; a reader with messages left notices by itself."""
        with suppress(queue.Full):
            self.messages.put_nowait(NOTHING_MORE)


class Connection:
    """The warm child, alive or about to be restarted. Call `start` first; thread-safe."""

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
        """A number unused by any task or question."""
        return next(self._numbers)

    def start(self) -> Ready:
        """Start the zygote and wait until torch is imported.

        Raises:
            ChildFailed: torch cannot be imported there.
            MissingTool: that torch lacks what we observe it by.
            WorkerTrouble: the process, or its sandbox, ends without a message.
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
                late = f"did not start: {tail(self._own_log, 2000) or 'no answer'}"
                raise refusal("the child", Death(is_silent=True), late)
            raise ChildFailed(f"the child did not start: {said[:500]}")
        ready = parse(Ready, message["message"])
        if ready.lacks:
            self._stop()
            raise MissingTool(f"This torch cannot be observed: {'; '.join(ready.lacks)}. {HOW_TO_GET_TORCH}")
        return ready

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
        """Kill the child and everything in it, for good; later tasks are refused."""
        with self._restarting:
            self._closed = True
            self._stop()

    def _stop(self) -> None:
        if self._process is not None:
            # A child killed earlier may not have been recorded yet, and waiting readers must know.
            self._life.is_ended_by_us = self._process.poll() is None
            self.place.sandbox.kill(self._process)
            if self._listener is not None:
                self._listener.join()
            self._process = None
            with self._writing:  # else another thread writes to whatever file gets this descriptor next
                os.close(self._to_child)
                self._to_child = -1

    def send(self, request: Request, timeout: float, room: Message | None = None) -> Task:
        """Send a task with this timeout in seconds; restarts the child first if it died.

        ``room``: fields of the separate room of a run of a script.

        Raises:
            WorkerTrouble: the child was killed meanwhile, and not by us.
            ChildFailed: it cannot be restarted, or was closed.
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
        """Send a question to a held survey and wait for its answer.

        Raises:
            Unanswered: it could not answer.
            WorkerTrouble: it was killed, and not by us; or it is late, on an overloaded machine.
            ChildFailed: it is gone for another reason, or late.
        """
        number = self.number()
        with task.asking:
            self._write_to(
                task, HOLDER, {"op": "ask", "to": task.number, "ask": number, "timeout": 86_400, **question.message()}
            )
            while (message := self.next(task, CHILD_ANSWER_SECONDS)) is not None:
                if "end" in message:  # a held process does not kill itself
                    raise refusal(HOLDER, Death(parse(protocol.End, message["end"]).signal))
                body = message["message"]
                if body.get("type") == "answer" and body.get("ask") == number:
                    if "error" in body:
                        raise Unanswered(f"{HOLDER} could not answer: {str(body['error'])[:500]}")
                    return dict(body)
        if task.life.death is not None:
            raise refusal(HOLDER, task.life.death)
        death = Death(is_late=True, is_crowded=crowding() > CROWDED)
        raise refusal(HOLDER, death, f"has not answered within {CHILD_ANSWER_SECONDS:.0f} s")

    def kill(self, task: Task) -> None:
        """Kill a task. Harmless if the task or the child is over."""
        with suppress(ChildFailed):
            self._write({"op": Action.KILL.value, "to": task.number})

    def _write_to(self, task: Task, who: str, message: Message) -> None:
        """Write to the zygote of a task; if that is gone, raise the reason once it is known."""
        try:
            self._write(message)
        except ChildFailed:
            deadline = time.monotonic() + CHILD_ANSWER_SECONDS
            while not task.life.is_over.wait(POLL_SECONDS) and time.monotonic() < deadline:
                self._watch()
            self._watch()  # a child that was ended because of the budget was ended by the job itself
            if task.life.death is not None and isinstance(error := refusal(who, task.life.death), WorkerTrouble):
                raise error from None
            raise

    def _write(self, message: Message) -> None:
        with self._writing:
            process = self._process
            try:
                wire.write(self._to_child, message)
            except TimeoutError as error:  # a script can stop the zygote, and the write would block for ever
                if process is not None:
                    self._life.is_ended_by_us = True
                    self.place.sandbox.kill(process)
                raise ChildFailed(f"the child was ended: {error}") from None
            except (OSError, ValueError) as error:
                raise ChildFailed(f"the child is gone: {error}") from None

    def _listen(self, descriptor: int, process: subprocess.Popen[bytes], life: Life, tasks: dict[int, Task]) -> None:
        """Reader thread of one zygote: dispatches every line to its task; at the end wakes all waiting readers.

        A child that sends malformed messages, or more than anybody takes, is unusable, and is killed.
        """
        line, is_untold = b"", False
        with os.fdopen(descriptor, "rb") as pipe, suppress(queue.Full):
            while (message := wire.parse(line := pipe.readline(protocol.MAX_LINE))) is not None:
                task = tasks.pop(message["id"], None) if "end" in message else tasks.get(message["id"])
                if task is not None:
                    task.messages.put_nowait(line)
        if not line.endswith(b"\n") and len(line) < protocol.MAX_LINE:  # the pipe has ended
            try:
                process.wait(
                    CHILD_END_SECONDS
                )  # let it end by itself first: after our kill, its own exit status is lost
            except subprocess.TimeoutExpired:
                is_untold = not life.is_ended_by_us
        known = Death.by_status(process.returncode, is_by_us=life.is_ended_by_us)
        life.death = Death(is_untold=True) if is_untold else known
        self.place.sandbox.kill(process)  # before waking readers: a later task must find it dead
        life.is_over.set()
        for task in list(tasks.values()):
            task.wake()

    def next(
        self, task: Task, timeout: float, watchdog: Watchdog | None = None, over: threading.Event | None = None
    ) -> Message | None:
        """The next message of a task; None after the timeout, or if the child is gone.

        Raises:
            Cancelled: ``over`` was set: the answer is no longer needed.
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
                    self._watch()  # once more: a child that was ended for lack of memory was ended by the job itself
                    return None
                continue
            task.taken += len(line)
            message = wire.parse(line)
            body = (message or {}).get("message", {})
            if watchdog is not None and (kind := HEARD.get(str(body.get("type")))) is not None:
                watchdog.heard(parse(kind, body))
            return message
        return None
