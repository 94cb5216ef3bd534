"""The zygote: imports torch once, computes nothing, and forks one child for each task.

After one multi-threaded operator in the parent, forked children would hang (GNU OpenMP), so this process only imports.
Each child is a session of its own with a hard deadline and a log, and is killed as a process group; a child that runs a script gets
a room (`room`). The zygote relays the child's messages and reports how it ended. A script cannot remove anything the zygote relies
on: death is detected by a process descriptor, and output and stacks go to unlinked files.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import json
import os
import resource
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable

from . import room
from .gpu import asking_the_driver, counted_without_runtime
from .messages import Broken, End, Stacks
from .warm_up import warm_up, why_no_fork
from .wire import FAILED, SAMPLE, STOP, Channel, Message

LOG_BYTES = 64 << 10
"""Bytes at the end of a child's output to report."""
PIPE_BYTES = 1 << 20
"""Bytes per read: the default capacity of a Linux pipe."""
STACK_BYTES = 256 << 10
"""Most bytes of stacks in one report."""
POLL_SECONDS = 0.5
"""Interval at which children are polled if the kernel has no process descriptors (pidfd)."""


Task = Callable[[Message, Channel], None]


class Child:
    """A forked task: its process, its pipes, its log and stack files, and its deadline."""

    def __init__(
        self, task: int, pid: int, inbox: int, outbox: int, log: int, stacks: int, deadline: float, room: str | None
    ) -> None:
        self.task, self.pid, self.inbox, self.outbox = task, pid, inbox, outbox
        self.log, self.stacks, self.stacks_told = log, stacks, 0
        self.room = room
        self.deadline, self.started = deadline, time.monotonic()
        self.pidfd = _pidfd(pid)
        self.timed_out = self.is_buried = False
        self.buffer = b""

    @property
    def descriptors(self) -> list[int]:
        """The zygote's open descriptors for this child."""
        held = [self.inbox, self.outbox, self.log, self.stacks]
        return held if self.pidfd is None else [*held, self.pidfd]

    def last_stacks(self) -> str:
        """The stacks written since the last report."""
        return os.pread(self.stacks, STACK_BYTES, self.stacks_told).decode("utf-8", "replace")

    def is_dead(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def kill(self) -> None:
        for victim in (os.killpg, os.kill):
            try:
                victim(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Zygote:
    """The loop of the zygote: reads tasks from a channel, forks children, relays their messages."""

    def __init__(self, channel: Channel, tasks: dict[str, Task]) -> None:
        self._channel, self._tasks = channel, tasks
        self._children: dict[int, Child] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel.incoming, selectors.EVENT_READ, self._read_tasks)
        self._buffer = b""

    def serve(self) -> None:
        """Work until the other end closes its pipe; then kill the remaining children."""
        try:
            while self._turn():
                pass
        finally:
            for child in list(self._children.values()):
                child.kill()

    def _turn(self) -> bool:
        children = self._children.values()
        deadline = min((c.deadline for c in children), default=time.monotonic() + 3600)
        longest = 3600.0 if all(c.pidfd is not None for c in children) else POLL_SECONDS
        for key, _ in self._selector.select(max(0.0, min(deadline - time.monotonic(), longest))):
            if key.data() is False:
                return False
        now = time.monotonic()
        for child in list(children):
            if child.deadline <= now:
                child.timed_out, child.deadline = True, now + 3600
                child.kill()
            if child.pidfd is None and child.is_dead():
                self._bury(child)
        return True

    def _read_tasks(self) -> bool:
        chunk = os.read(self._channel.incoming, 1 << 16)
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            self._dispatch(json.loads(line))
        return bool(chunk)

    def _dispatch(self, message: Message) -> None:
        if message["op"] in self._tasks:
            self._fork(message)
            return
        child = next((c for c in self._children.values() if c.task == message["to"]), None)
        if child is None:
            return
        if message["op"] == "kill":
            child.kill()
        elif message["op"] == "stop":
            os.kill(child.pid, STOP)
        elif message["op"] == "sample":
            self._sample(child)
        elif message["op"] == "ask":
            child.deadline = time.monotonic() + message["timeout"]
            with contextlib.suppress(BrokenPipeError):  # it has just died, and `_bury` will report that
                Channel(-1, child.inbox).send(message)

    def _fork(self, message: Message) -> None:
        if (trouble := why_no_fork()) is not None:
            end = End(exit=FAILED, signal=None, timed_out=False, seconds=0.0, log=trouble)
            self._channel.send({"id": message["id"], "end": end})
            return
        theirs_in, inbox = os.pipe()
        outbox, theirs_out = os.pipe()
        log, stacks = _log(message["folder"], message["id"]), os.memfd_create("stacks")
        if message.get("clear"):
            room.clear(message["clear"])
        own = room.make(message["rooms"]) if message.get("rooms") else None
        pid = os.fork()
        if pid == 0:
            status = FAILED
            try:
                os.setsid()
                self._leave(inbox, outbox)
                _enter(message, log, stacks, own)
                self._tasks[message["op"]](message, Channel(theirs_in, theirs_out))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                # No interpreter shutdown: destructors of half-built compilers and thread pools can hang.
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        os.close(theirs_in)
        os.close(theirs_out)
        child = Child(message["id"], pid, inbox, outbox, log, stacks, time.monotonic() + message["timeout"], own)
        self._children[pid] = child
        os.set_blocking(outbox, False)
        self._selector.register(outbox, selectors.EVENT_READ, functools.partial(self._relay, child))
        if child.pidfd is not None:
            self._selector.register(child.pidfd, selectors.EVENT_READ, functools.partial(self._bury, child))

    def _leave(self, *own: int) -> None:
        """In a forked child: close the zygote's descriptors and those of the other children, which a script must not reach.

        ``own`` are the zygote's ends of this child's pipes.
        """
        self._selector.close()
        for descriptor in (self._channel.incoming, self._channel.outgoing, *own):
            os.close(descriptor)
        for child in self._children.values():
            for descriptor in child.descriptors:
                os.close(descriptor)

    def _relay(self, child: Child) -> None:
        """Relay a child's messages. A child that has closed its pipe has nothing more to report, and is killed."""
        if not child.is_buried and not self._pass_on(child):
            self._bury(child)

    def _pass_on(self, child: Child) -> bool:
        """Relay the complete lines that can be read now. Returns False at the end of the pipe, or if there is nothing to read."""
        try:
            chunk = os.read(child.outbox, PIPE_BYTES)
        except BlockingIOError:
            return False
        *lines, child.buffer = (child.buffer + chunk).split(b"\n")
        for line in lines:
            head = b'{"id": %d, "message": ' % child.task
            data = head + line + b"}\n"
            while data:
                data = data[os.write(self._channel.outgoing, data) :]
        return bool(chunk)

    def _sample(self, child: Child) -> None:
        """Send the stacks of the previous request, complete by now, and signal the child to write new ones."""
        text = child.last_stacks()
        child.stacks_told = os.fstat(child.stacks).st_size
        self._channel.send({"id": child.task, "message": Stacks(text)})
        os.kill(child.pid, SAMPLE)

    def _bury(self, child: Child) -> None:
        """Report a child's end and release its resources; its last messages are still in the pipe, and are relayed first."""
        if child.is_buried:
            return
        child.is_buried = True
        child.kill()  # the rest of its process group; the exit status of a dead child does not change
        self._pass_on(child)
        for descriptor in (child.outbox, child.pidfd):
            if descriptor is not None:
                self._selector.unregister(descriptor)
        del self._children[child.pid]
        _, status, used = os.wait4(child.pid, 0)
        end = End(
            exit=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            timed_out=child.timed_out,
            seconds=round(time.monotonic() - child.started, 3),
            log=_tail(child.log),
            stacks=child.last_stacks() if os.WIFSIGNALED(status) else "",
            taken=max(0, (used.ru_maxrss << 10) - _resident()),
        )
        self._channel.send({"id": child.task, "end": end})
        for descriptor in child.descriptors:
            os.close(descriptor)
        if child.room is not None:
            room.leave(child.room)


def _enter(message: Message, log: int, stacks: int, own: str | None) -> None:
    """Set up a forked child before its task: output to its log, stacks on request, memory limit, priority, working folder.

    ``own`` is its room, if it has one.
    """
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    faulthandler.register(SAMPLE, stacks, all_threads=True)
    faulthandler.enable(stacks, all_threads=True)  # a fatal signal writes the stacks to the same file
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if message.get("memory"):
        resource.setrlimit(resource.RLIMIT_DATA, (message["memory"], message["memory"]))
    if message.get("nice"):
        _step_back(message["nice"])
    if message.get("rooms"):
        room.enter(own, message["origin"])
    else:
        os.makedirs(message["cwd"], exist_ok=True)  # an earlier script may have deleted it
        os.chdir(message["cwd"])
    os.environ.update(message.get("environ", {}))


def _step_back(nice: int) -> None:
    """Lower the priority of this process, and of its session, which kernels with autogroup scheduling weigh first."""
    os.nice(nice)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as file:
        file.write(str(nice))


def _pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when a process dies; None if the kernel (before 5.3) or a filter does not allow it."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _resident() -> int:
    """Bytes of this process that are in memory; of those that it has had there at one time the system counts the ones before ``exec`` too."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _log(folder: str, task: int) -> int:
    """The descriptor of a new log file, already unlinked, so that no script can remove it."""
    path = os.path.join(folder, f"task-{task}.log")
    try:
        os.makedirs(folder, exist_ok=True)
        log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)
    except OSError:  # a script has put something else at this path
        return os.memfd_create("log")
    return log


def _tail(log: int) -> str:
    size = os.fstat(log).st_size
    return os.pread(log, LOG_BYTES, max(0, size - LOG_BYTES)).decode("utf-8", "replace")


def main(incoming: int, outgoing: int) -> None:
    """Serve the executor until it closes its pipe."""
    for descriptor in (incoming, outgoing):
        os.set_inheritable(descriptor, False)
    channel = Channel(incoming, outgoing)
    try:
        ready = warm_up()
        if ready.lacks:
            channel.send({"id": 0, "message": ready})
            return
        with asking_the_driver(), counted_without_runtime():
            from .tasks.cost import measure_cost
            from .tasks.draws import measure_draws
            from .tasks.exact_run import exact_run
            from .tasks.layers import layers
            from .tasks.loss_curve import loss_curve
            from .tasks.operator_check import check_operators
            from .tasks.script_run import rerun
            from .tasks.settings import settings
            from .tasks.side_by_side import side_by_side
            from .tasks.signed_errors import signed_errors
            from .tasks.survey import survey
            from .tasks.trace import trace
            from .tasks.trial import judge, observe
    except BaseException as error:
        channel.send({"id": 0, "message": Broken(f"{type(error).__name__}: {error}")})
        raise SystemExit(FAILED) from None
    channel.send({"id": 0, "message": ready})
    tasks: list[Task] = [
        survey,
        judge,
        observe,
        measure_cost,
        measure_draws,
        check_operators,
        layers,
        rerun,
        settings,
        exact_run,
        trace,
        side_by_side,
        loss_curve,
        signed_errors,
    ]
    Zygote(channel, {task.__name__: task for task in tasks}).serve()
