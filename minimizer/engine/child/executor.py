"""Client of the sandboxed child: starts the zygote, hands out tasks, waits with deadlines, restarts what died.

Nothing here knows what a trial means; `oracle` does. Everything that comes back is validated by `protocol`.
"""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from minimizer.engine.child import protocol, wire
from minimizer.engine.child.environment import Place
from minimizer.engine.child.protocol import End, Finished, Held, Outcome, Ready
from minimizer.engine.child.transcript import Transcript
from minimizer.engine.child.untrusted import read_untrusted, tail
from minimizer.engine.child.watchdog import Action, Silence, Watchdog
from minimizer.engine.child.wire import NOTHING_MORE, Inbox, Message
from minimizer.engine.program.model import Program
from minimizer.errors import ChildFailed, Unanswered

INSIDE = Path(__file__).parents[2] / "inside"
START_SECONDS = 300.0
"""How long importing torch may take: seconds, but minutes on a machine that has too much to do."""
ANSWER_SECONDS = 300.0
POLL_SECONDS = 0.2
HEARD = ("phase", "stacks")
"""The messages that a watchdog goes by."""
RERUN, EXACT = "rerun", "exact_run"
"""The trials that run a whole script."""
SHARED_FOLDERS = ("/tmp", "/dev/shm")
"""What all runs of a job see beside their rooms, where the sandbox has its own."""
MAX_DATA = 256 << 20
"""Bytes of golden values that may become ``data.pt``."""

GateWay = Callable[[Callable[[], None]], AbstractContextManager[None]]
Watch = Callable[[], None]
"""Called while waiting; raises to give up (BudgetExceeded, Cancelled)."""


@dataclass
class _Task:
    """A task under way and the messages it has sent."""

    number: int
    messages: Inbox = field(default_factory=Inbox)
    taken: int = 0
    """Bytes."""

    def wake(self) -> None:
        """Tell who waits that nothing more will come; whoever has messages left to take finds out by itself."""
        with suppress(queue.Full):
            self.messages.put_nowait(NOTHING_MORE)


class Executor:
    """The warm child and the tasks in it. Call `start` first; a context manager that kills it; thread-safe."""

    def __init__(self, place: Place, *, jobs: int, watch: Watch) -> None:
        self.place = place
        self.jobs = jobs
        self._watch = watch
        self._numbers = itertools.count(1)
        self._tasks: dict[int, _Task] = {}
        self._writing = threading.Lock()
        self._restarting = threading.Lock()
        self._closed = False
        self._starting_run = threading.Lock()
        self._runs = 0
        """How many runs of a script are under way; one that is held is not."""
        self.ran_out = 0
        """How many trials found the GPU full with no other trial beside them."""
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._to_child = -1
        self.cache = place.folder("cache")
        self._work = place.folder("work")
        self._logs = place.folder("logs")
        self._own_log = place.private("logs") / "zygote.log"

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Ready:
        """Start the zygote and wait until torch is imported.

        Raises:
            ChildFailed: torch cannot be imported there, or the sandbox does not start.
        """
        theirs_in, self._to_child = os.pipe()
        from_child, theirs_out = os.pipe()
        starting = _Task(0)
        self._tasks = {0: starting}
        self._process = self._launch(theirs_in, theirs_out)
        os.close(theirs_in)
        os.close(theirs_out)
        os.set_blocking(self._to_child, False)
        listening = (from_child, self._process, self._tasks)
        self._listener = threading.Thread(target=self._listen, args=listening, daemon=True)
        self._listener.start()
        message = self._next(starting, START_SECONDS)
        if message is None or message.get("message", {}).get("type") != "ready":
            said = message["message"].get("message", "") if message and "message" in message else ""
            self._stop()
            raise ChildFailed(f"the child did not start: {str(said)[:500] or tail(self._own_log, 2000) or 'no answer'}")
        return protocol.parse(Ready, message["message"])

    def _launch(self, incoming: int, outgoing: int) -> subprocess.Popen[bytes]:
        with self._own_log.open("wb") as log:
            return self.place.sandbox.start(
                [str(self.place.python), str(INSIDE / "__main__.py"), str(incoming), str(outgoing)],
                cwd=self._work,
                read=[*self.place.read, INSIDE, self.place.origin],
                write=[self.place.scratch],
                env=self.place.environment(self.cache),
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
            self.place.sandbox.kill(self._process)
            if self._listener is not None:
                self._listener.join()
            self._process = None
            os.close(self._to_child)
            self._to_child = -1

    # tasks -------------------------------------------------------------------------------------------------------

    def judge(
        self,
        requests: Sequence[Message],
        *,
        timeout: float,
        op: str = "judge",
        watchdog: Callable[[], Watchdog] | None = None,
    ) -> list[Outcome]:
        """Run trials, at most ``jobs`` at once, and return their outcomes in order; ``watchdog`` makes one for each trial."""
        return [outcomes[-1] for outcomes in self.repeat(requests, timeout=timeout, op=op, watchdog=watchdog)]

    def repeat(
        self,
        requests: Sequence[Message],
        *,
        timeout: float,
        op: str = "judge",
        watchdog: Callable[[], Watchdog] | None = None,
    ) -> list[list[Outcome]]:
        """Run trials that may compile several times; for each the outcome of every compilation, at least one.

        ``timeout`` is in seconds and for a whole trial. Where a trial ends before its time, the last outcome says how. One that
        runs out of GPU memory is tried again with no other beside it; where it does so again, it is ``lost``.
        """

        def once(request: Message, gate: GateWay) -> list[Outcome]:
            with gate(self._watch):
                return self._trial(request, timeout, op, watchdog() if watchdog is not None else None)

        def trial(request: Message) -> list[Outcome]:
            outcomes = once(request, self.place.gate.beside)
            if not any(outcome.ran_out_of_memory for outcome in outcomes):
                return outcomes
            outcomes = once(request, self.place.gate.alone)
            self.ran_out += any(outcome.ran_out_of_memory for outcome in outcomes)
            return [o.model_copy(update={"outcome": "lost"}) if o.ran_out_of_memory else o for o in outcomes]

        if len(requests) == 1:  # it has all cores to itself for building its kernels
            return [trial({**requests[0], "threads": self.jobs})]
        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(trial, requests))

    def survey(self, request: Message, *, timeout: float, watchdog: Watchdog | None = None) -> Survey:
        """Run the user's script; returns when it is held, has finished, has died, or was given up by the watchdog."""
        phase: Message = {}
        beside = self.place.gate.beside(self._watch)
        with beside, self._run_of_script("survey", request, timeout) as task, self._ending(task):
            while (message := self._next(task, timeout + 30, watchdog)) is not None:
                if "end" in message:
                    silence = watchdog.verdict if watchdog is not None else None
                    return Survey(self, task, phase=phase, end=message["end"], silence=silence)
                body = message["message"]
                if body.get("type") == "phase":
                    phase = body
                elif body.get("type") == "held":
                    return Survey(self, task, phase=phase, held=protocol.parse(Held, body))
                elif body.get("type") == "finished":
                    return Survey(self, task, phase=phase, finished=protocol.parse(Finished, body))
            raise ChildFailed("the child went away while it ran the script")

    def fresh_cache(self) -> Path:
        """A new, empty cache folder, for a verdict that must owe nothing to earlier ones."""
        return self.place.folder(f"cache-{next(self._numbers)}")

    def _trial(self, request: Message, timeout: float, op: str, watchdog: Watchdog | None) -> list[Outcome]:
        transcript = Transcript()
        start = self._run_of_script if op in (RERUN, EXACT) else self._task
        with start(op, request, timeout) as task, self._ending(task):
            while (message := self._next(task, timeout + 30, watchdog)) is not None:
                if "end" in message:
                    return transcript.outcomes(message["end"], watchdog.seen() if watchdog is not None else None)
                transcript.hear(message["message"], task.taken)
            return [Outcome(outcome="lost", phase=transcript.phase)]

    @contextmanager
    def _ending(self, task: _Task) -> Iterator[None]:
        """Nobody will wait for the task again when this is left by an exception: it must not go on beside what comes next."""
        try:
            yield
        except BaseException:
            with suppress(ChildFailed):
                self.kill(task)
            raise

    @contextmanager
    def _task(self, op: str, request: Message, timeout: float) -> Iterator[_Task]:
        yield self._send(op, request, timeout)

    @contextmanager
    def _run_of_script(self, op: str, request: Message, timeout: float) -> Iterator[_Task]:
        """A task that runs the user's script, in a room of its own. It is under way until this is left.

        What scripts leave in the sandbox's own ``/tmp`` is removed when none is.
        """
        room = {"rooms": str(self.place.scratch / "rooms"), "origin": str(self.place.origin)}
        with self._starting_run:
            is_alone = self._runs == 0 and self.place.sandbox.is_strong
            task = self._send(op, {**request, **room, "clear": SHARED_FOLDERS if is_alone else ()}, timeout)
            self._runs += 1
        try:
            yield task
        finally:
            with self._starting_run:
                self._runs -= 1

    def _send(self, op: str, request: Message, timeout: float) -> _Task:
        self._watch()
        task = _Task(next(self._numbers))
        with self._restarting:
            if self._closed:
                raise ChildFailed("the child was ended")
            if not self._is_alive:
                self._restart()
            self._tasks[task.number] = task
        self._write(
            {
                "id": task.number,
                "op": op,
                "timeout": timeout,
                "folder": str(self._logs),
                "cwd": str(self._work),
                "memory": self.place.memory_bytes,
                **request,
            }
        )
        return task

    def ask(self, task: _Task, question: Message) -> Message:
        """Ask a held survey something and wait for its answer.

        Raises:
            Unanswered: it could not answer.
            ChildFailed: it is gone.
        """
        number = next(self._numbers)
        self._write({"op": "ask", "to": task.number, "ask": number, "timeout": 86_400, **question})
        while (message := self._next(task, ANSWER_SECONDS)) is not None:
            if "end" in message:
                break
            body = message["message"]
            if body.get("type") == "answer" and body.get("ask") == number:
                if "error" in body:
                    raise Unanswered(f"the holder of the graph could not answer: {str(body['error'])[:500]}")
                return dict(body)
        raise ChildFailed("the holder of the graph is gone")

    def kill(self, task: _Task) -> None:
        """End a task. Harmless when it is over."""
        self._write({"op": Action.KILL.value, "to": task.number})

    def _restart(self) -> None:
        self._stop()
        for task in self._tasks.values():
            task.wake()
        self.start()

    @property
    def _is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _write(self, message: Message) -> None:
        with self._writing:
            process = self._process
            try:
                wire.write(self._to_child, message)
            except TimeoutError as error:  # a script can stop the zygote, and we would wait for it for good
                if process is not None:
                    self.place.sandbox.kill(process)
                raise ChildFailed(f"the child was ended: {error}") from None
            except (OSError, ValueError) as error:
                raise ChildFailed(f"the child is gone: {error}") from None

    def _listen(self, descriptor: int, process: subprocess.Popen[bytes], tasks: dict[int, _Task]) -> None:
        """Reader thread of one zygote: hand every line to the task it belongs to; at the end wake all who wait.

        A child that sends what is no message, or more of them than anybody takes, cannot be talked to any more, and is ended.
        """
        with os.fdopen(descriptor, "rb") as pipe, suppress(queue.Full):
            while (message := wire.parse(line := pipe.readline(protocol.MAX_LINE))) is not None:
                task = tasks.pop(message["id"], None) if "end" in message else tasks.get(message["id"])
                if task is not None:
                    task.messages.put_nowait(line)
        self.place.sandbox.kill(process)  # before anybody is told: whoever asks next must find it dead
        for task in list(tasks.values()):
            task.wake()

    def _next(self, task: _Task, timeout: float, watchdog: Watchdog | None = None) -> Message | None:
        """The next message of a task; None when it took too long or the child is gone."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self._watch()
            if watchdog is not None and (action := watchdog.due()) is not None:
                self._write({"op": action.value, "to": task.number})
            try:
                line = task.messages.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if not self._is_alive:
                    return None
                continue
            task.taken += len(line)
            message = wire.parse(line)
            if watchdog is not None and message is not None and message.get("message", {}).get("type") in HEARD:
                watchdog.heard(message["message"])
            return message
        return None


class Survey:
    """The state of a survey: exactly one of ``held``, ``finished``, ``end`` says how it stands."""

    def __init__(
        self,
        executor: Executor,
        task: _Task,
        *,
        phase: Message,
        held: Held | None = None,
        finished: Finished | None = None,
        end: Message | None = None,
        silence: Silence | None = None,
    ) -> None:
        self._executor, self._task = executor, task
        self.phase, self.held, self.finished, self.silence = phase, held, finished, silence
        ended = protocol.parse(End, end or {})
        self.signal, self.exit, self.timed_out, self.log = ended.signal, ended.exit, ended.timed_out, ended.log
        self._files: dict[frozenset[str], Path] = {}

    def program(self, level: str) -> Program:
        """The held graph at a level, ``dynamo`` or ``aot``; golden values follow the level asked for last."""
        self._files.clear()
        return protocol.parse_program(
            self._executor.ask(self._task, {"what": "program", "level": level}).get("program")
        )

    def golden(self, keys: frozenset[str]) -> Path:
        """A file with the golden values of ``keys``, readable by trials."""
        if keys not in self._files:
            path = self._executor.place.folder("golden") / f"{next(self._executor._numbers)}.pt"
            self._executor.ask(self._task, {"what": "golden", "keys": sorted(keys), "file": str(path)})
            self._files[keys] = path
        return self._files[keys]

    def data(self, names: dict[str, str]) -> bytes:
        """The content of a file with golden values under new names: ``{golden key: name}``."""
        place = self._executor.place
        path = place.folder("golden") / "data.pt"
        question = {"what": "golden", "keys": sorted(names), "names": names, "file": str(path)}
        self._executor.ask(self._task, question)
        data = read_untrusted(place.scratch, path.relative_to(place.scratch), MAX_DATA + 1)
        if data is None or len(data) > MAX_DATA:
            raise ChildFailed(f"the values for data.pt cannot be had, or are more than {MAX_DATA >> 20} MiB")
        return data

    def literal(self, key: str) -> str | None:
        """Source text for a small golden value, or for what may do in the place of one that holds NaN or infinities."""
        text = self._executor.ask(self._task, {"what": "literal", "key": key}).get("text")
        return text if isinstance(text, str) and len(text) < 10_000 else None

    def close(self) -> None:
        """Let go of the graph."""
        self._executor.kill(self._task)
