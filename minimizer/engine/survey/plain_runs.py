"""Plain runs: runs of a script as ``python SCRIPT ARGS``, without any hook or setting of ours.

Our surveys change settings to make calls comparable, and a setting may remove a failure: a draw that is wrong only with
inductor's own random numbers is right with ``fallback_random``. So a script is not called healthy if a plain run of it
fails. It runs once with the compiler and once without, each time in a separate process, sandbox and folder. The rules
for the pair are in `verdict_rules`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from minimizer.engine.budget.patience import PLAIN_SECONDS
from minimizer.engine.child import scratch_disk
from minimizer.engine.child.clean_process import CleanRun, run_clean
from minimizer.engine.child.environment import Place
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.tracebacks import Traceback, last_traceback
from minimizer.engine.child.trouble import DIED, AtFault, Death, rule_for, signal_of
from minimizer.engine.child.watchdog import crowding
from minimizer.engine.oracle.signature import exception_signature
from minimizer.engine.survey.cases import is_out_of_memory, line_of, signal_name
from minimizer.engine.survey.ways import COMPILED, DISABLED, Way, launcher_of
from minimizer.errors import Cancelled, ChildFailed
from minimizer.report.examined import Attempt
from minimizer.sandbox import real_interpreter
from minimizer.vocabulary import Kind

FAR = 5
"""A run stopped at its limit counts as endless only if the other one took at most a `FAR`-th of its time."""
COMPILERS = ("torch._dynamo.exc.", "torch._inductor.exc.")


@dataclass(frozen=True)
class End:
    """The end of a plain run; ``status`` is None if it was stopped or the machine was in trouble.

    ``overran``: it was stopped at its time limit. ``starved``: it ran out of GPU memory.
    """

    way: Way
    status: int | None
    traceback: Traceback | None
    said: str
    seconds: float
    overran: bool = False
    starved: bool = False

    @property
    def is_known(self) -> bool:
        return self.status is not None

    @property
    def passes(self) -> bool:
        return self.status == 0

    @property
    def error(self) -> ExceptionInfo | None:
        return self.traceback.error if self.traceback is not None and not self.passes else None

    @property
    def line(self) -> str:
        """The end in words."""
        if self.status is None:
            return self.said
        if self.passes:
            return "it ends well"
        if self.error is not None:
            return line_of(self.error)
        died_by = signal_of(self.status)
        return f"exit status {self.status}" if died_by is None else signal_name(died_by)

    @property
    def text(self) -> str:
        """Its traceback, or else the words for its end."""
        return self.traceback.text if self.traceback is not None else self.said

    def outlasts(self, other: End) -> bool:
        """Whether it was stopped after `FAR` times the duration of the other run, which ended well."""
        return self.overran and other.passes and self.seconds >= max(PLAIN_SECONDS, FAR * other.seconds)

    def is_like(self, other: End) -> bool:
        """Whether both ended in the same way."""
        if self.status != other.status or (self.error is None) != (other.error is None):
            return False
        if self.error is None or other.error is None:
            return True
        one, two = (exception_signature(Kind.RUNTIME_ERROR, error) for error in (self.error, other.error))
        return one.matches(two)


class PlainRuns:
    """The plain runs of one script. `begin` starts two in the background; as a context manager, ends them on exit."""

    def __init__(
        self,
        place: Place,
        script: Path,
        args: Sequence[str],
        *,
        nproc: int,
        left: Callable[[], float],
        watch: Callable[[], None],
        on_note: Callable[[str], None],
    ) -> None:
        self.place, self.note = place, on_note
        self._script, self._args, self._nproc = script, args, nproc
        self._left, self._watch = left, watch
        self._started = time.monotonic()
        self._closed = threading.Event()
        self._pool = ThreadPoolExecutor(1 if place.plan else 2)  # two servers may need the same port
        self._first: tuple[Future[End], Future[End]] | None = None
        self._slowest = 0.0
        """Seconds of the slowest run of the script."""
        self.one_by_one = False
        """Whether a run lacked GPU memory, so that further ones run one at a time."""
        self.attempts: list[Attempt] = []
        """The awaited runs, in that order."""

    def __enter__(self) -> PlainRuns:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._pool.shutdown()

    def begin(self) -> None:
        """Start the run with the compiler and the one without."""
        if self._first is None:
            limit = max(PLAIN_SECONDS * crowding(), 2 * (time.monotonic() - self._started))
            self._first = (self._start(COMPILED, limit), self._start(DISABLED, limit))

    def of_candidate(self, text: str, way: Way) -> End:
        """The end of a plain run of another text in place of the script."""
        limit = max(PLAIN_SECONDS * crowding(), 3 * self._slowest)
        return self._seen(self._pool.submit(self._run, way, limit, text))

    def pair(self) -> tuple[End, End]:
        """The ends of the runs with and without the compiler; run again one by one if they lacked GPU memory in
        parallel.
        """
        self.begin()
        assert self._first is not None
        compiled, disabled = map(self._await, self._first)
        if compiled.starved or disabled.starved:
            self.one_by_one = True
            compiled, disabled = self.ask([COMPILED, DISABLED], compiled, disabled)
        return compiled, disabled

    def ask(self, ways: Sequence[Way], *earlier: End) -> list[End]:
        """Run the script in these ways, two in parallel, each for at most three times the slowest ``earlier`` run."""
        limit = max(PLAIN_SECONDS * crowding(), 3 * max(end.seconds for end in earlier))
        if self.one_by_one:
            return [self._await(self._start(way, limit)) for way in ways]
        return [self._await(run) for run in [self._start(way, limit) for way in ways]]

    @property
    def text(self) -> str:
        return self._script.read_text(errors="replace")

    # running -------------------------------------------------------------------------------------------------------------

    def _start(self, way: Way, limit: float) -> Future[End]:
        return self._pool.submit(self._run, way, limit)

    def _await(self, run: Future[End]) -> End:
        """The end of a run of the script, recorded as an attempt."""
        end = self._seen(run)
        self._slowest = max(self._slowest, end.seconds)
        self.attempts.append(Attempt(what=end.way.name, outcome=end.line[:300], seconds=round(end.seconds, 2)))
        return end

    def _seen(self, run: Future[End]) -> End:
        while True:
            self._watch()
            try:
                return run.result(timeout=0.2)
            except TimeoutError:
                continue

    def _run(self, way: Way, limit: float, text: str | None = None) -> End:
        folder = self.place.private(f"plain-{threading.get_ident()}")
        limit = min(limit, self._left())
        try:
            work, home = self.place.lay_out(folder / "work"), folder / "home"
            home.mkdir()
            self.place.headers.lay(home)
            launcher = [*self.place.driver, *launcher_of(way, folder, text)]
            gate = self.place.gate
            with gate.alone(self._until_closed) if self.one_by_one else gate.beside(self._until_closed, is_script=True):
                ran = run_clean(
                    [*self._command, *map(str, launcher), str(self._script), *self._args],
                    self.place.sandbox,
                    work=work,
                    output=folder / "errors",
                    read=[*self.place.read, *launcher],
                    write=[work, home],
                    environment={**self._ranks, **self.place.plain_environment(home), **dict(way.environment)},
                    limit=limit,
                    watch=self._until_closed,
                    network=self.place.network,
                    only_errors=True,
                )
        except (ChildFailed, OSError) as error:
            return End(way, None, None, f"it could not be run ({error})", 0.0)
        finally:
            scratch_disk.remove(folder)
        output = ran.output.replace(f"{self._script.parent}/", "")  # reports contain no paths of this machine
        return _end_of(way, ran, self.place.redacted(output), limit, is_alone=self.one_by_one)

    @property
    def _ranks(self) -> dict[str, str]:
        """Environment variables for ranks: the sandbox has only the loopback interface, which Gloo does not find by
        itself.
        """
        return {"GLOO_SOCKET_IFNAME": "lo"} if self._nproc > 1 and not self.place.network else {}

    @property
    def _command(self) -> list[str]:
        ranks = ["-m", "torch.distributed.run", f"--nproc-per-node={self._nproc}"] if self._nproc > 1 else []
        return [str(real_interpreter(self.place.python)), *ranks]

    def _until_closed(self) -> None:
        if self._closed.is_set():
            raise Cancelled("the plain runs are not needed any more")


def is_of_compiler(error: ExceptionInfo) -> bool:
    """Whether the exception that ended a run is one of the compiler's own."""
    return error.type.startswith(COMPILERS)


def _end_of(way: Way, ran: CleanRun, output: str, limit: float, *, is_alone: bool) -> End:
    said, status, traceback = "", ran.status, last_traceback(output)
    is_starved = traceback is not None and is_out_of_memory(traceback.error)
    if status is not None and status < 0:
        status = DIED - status
    if status is None:
        said = f"it did not end within {limit:.0f} s"
    elif status != 0 and is_starved:
        said, status = ("", status) if is_alone else ("the GPU was full, with another run beside it", None)
    elif status != 0 and rule_for(Death.by_status(status, output, is_run=True)).fault is AtFault.MACHINE:
        said, status = "the machine had too little memory or disk for it, or ended it", None
    overran = ran.status is None
    return End(way, status, traceback, said, ran.seconds, overran=overran, starved=is_starved and ran.status != 0)
