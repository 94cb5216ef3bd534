"""Plain runs: runs of a script as ``python SCRIPT ARGS``, without any hook or setting of ours.

Our surveys change settings to make calls comparable, and a setting may remove a failure: a draw that is wrong
only with inductor's own random numbers is right with ``fallback_random``. So a script is not called healthy if a plain
run of it fails. It runs once with the compiler and once without, each time in a process, a sandbox and a folder of its own. A
difference between the two that shows again in a second pair is a failure, whatever our comparison says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from minimizer.engine.budget.patience import PLAIN_SECONDS
from minimizer.engine.child import scratch_disk
from minimizer.engine.child.clean_process import CleanRun, run_clean
from minimizer.engine.child.environment import Place
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.tracebacks import Traceback, last_traceback
from minimizer.engine.child.watchdog import crowding
from minimizer.engine.oracle.signature import exception_signature
from minimizer.engine.survey.cases import Settled, is_out_of_memory, is_own_check, line_of, signal_name
from minimizer.engine.survey.dispute import Ground, ground
from minimizer.engine.survey.verdicts import denied, disputed
from minimizer.engine.survey.ways import COMPILED, DISABLED, FORCED, SETTINGS, Way, launcher_of
from minimizer.engine.trouble import DIED, Death, Fault, rule_for, signal_of
from minimizer.errors import Cancelled, ChildFailed
from minimizer.report.examined import Attempt
from minimizer.report.excused import excused
from minimizer.sandbox import real_interpreter
from minimizer.vocabulary import Kind, Reason, Status

FAR = 5
"""A run that was stopped counts as endless only if the other one took at most a `FAR`-th of its time."""
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

    def outlasts(self, other: End) -> bool:
        """Whether it was stopped after `FAR` times as long as the other run took, which ended well."""
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
        self._place, self._script, self._args, self._nproc = place, script, args, nproc
        self._left, self._watch, self._on_note = left, watch, on_note
        self._started = time.monotonic()
        self._closed = threading.Event()
        self._pool = ThreadPoolExecutor(2)
        self._first: tuple[Future[End], Future[End]] | None = None
        self._slowest = 0.0
        """Seconds of the slowest run of the script."""
        self.one_by_one = False
        """Whether a run was short of GPU memory, so that further ones get the GPU to themselves."""
        self.attempts: list[Attempt] = []
        """The runs that were awaited, in that order."""

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
        """The end of a plain run of another text in the place of the script."""
        limit = max(PLAIN_SECONDS * crowding(), 3 * self._slowest)
        return self._seen(self._pool.submit(self._run, way, limit, text))

    def against(self, found: Settled) -> Settled:
        """Revise a verdict by the plain runs; it stays if these both pass or are inconclusive."""
        self.begin()
        assert self._first is not None
        compiled, disabled = map(self._await, self._first)
        if compiled.starved or disabled.starved:
            self.one_by_one = True
            compiled, disabled = self._ask([COMPILED, DISABLED], compiled, disabled)
        if compiled.outlasts(disabled):
            (again,) = self._ask([COMPILED], compiled)
            if again.outlasts(disabled):
                return self._endless(found, again, disabled)
        for end in (compiled, disabled):
            if not end.is_known:
                self._on_note(f"The {end.way.name}, says nothing: {end.said}.")
                return replace(found, excused=(*found.excused, excused("plain_runs_unknown", end.said)))
        if compiled.passes and disabled.passes:
            return found
        eager = self._eager(compiled, disabled)
        return found if compiled.passes and eager.passes else self._judged(found, compiled, eager)

    # what a difference means ---------------------------------------------------------------------------------------------

    def _eager(self, compiled: End, disabled: End) -> End:
        """The end of the script in eager: by the stance, unless the script sets one or that run is inconclusive."""
        if self._sets_stance:
            return disabled
        (forced,) = self._ask([FORCED], compiled, disabled)
        if not forced.is_known:
            return disabled
        if not forced.is_like(disabled):
            self._on_note(
                f"The script looks at the compiler: with TORCHDYNAMO_DISABLE=1 it ends otherwise ({disabled.line}) than with the stance "
                f"force_eager ({forced.line}). The second is taken for what eager does."
            )
        return forced

    def _judged(self, found: Settled, compiled: End, eager: End) -> Settled:
        """The verdict where a run fails, once a second pair of runs ends in the same way."""
        if compiled.passes and self._is_about_compiler(eager):
            self._on_note(
                f"Without the compiler a check of the script's own fails ({eager.line}): it is about the compiler."
            )
            return replace(found, excused=(*found.excused, excused("about_compiler", eager.line)))
        again = self._ask([COMPILED, eager.way], compiled, eager)
        if not (again[0].is_like(compiled) and again[1].is_like(eager)):
            self._on_note(
                f"Plain runs of the script did not end in the same way every time: with the compiler {compiled.line}, then "
                f"{again[0].line}; without it {eager.line}, then {again[1].line}."
            )
            return replace(found, excused=(*found.excused, excused("plain_runs_unsteady", compiled.line)))
        if not eager.passes and not compiled.passes:
            return self._fails_in_eager(found, compiled, eager)
        return self._steady(found, compiled, eager)

    def _steady(self, found: Settled, compiled: End, eager: End) -> Settled:
        failing = eager if compiled.passes else compiled
        error = failing.error
        if error is not None and ground(self._text, error) is Ground.READING:
            return replace(disputed(error, found.checked), failed=2, runs=2, traceback=_text_of(failing))
        if compiled.passes:
            how = f"The error that eager raises is missing when compiled ({eager.line}): run by itself, the script fails in 2 of 2 runs without the compiler, and ends well in 2 of 2 with it."
            tried = ""
        else:
            how = f"Run by itself, the script fails with the compiler in 2 of 2 runs ({compiled.line}), and in none of 2 without it."
            tried = self._taken_away_by(compiled, eager)
        is_seen = found.status is not Status.HEALTHY
        known = "No compiled graph fails by itself" if is_seen else "Our own runs of it show no failure"
        return replace(
            found,
            status=Status.PARTIAL,
            reason=Reason.UNEXPLAINED,
            summary=f"{how} {known}, and nothing else shows why. {tried}".strip(),
            kind=_kind(compiled),
            exception=error,
            failed=2,
            runs=2,
            traceback=_text_of(failing),
        )

    def _endless(self, found: Settled, compiled: End, disabled: End) -> Settled:
        how = (
            f"Run by itself, the script has not ended after {compiled.seconds:.0f} s with the compiler, in 2 of 2 runs, and ends well "
            f"after {disabled.seconds:.0f} s without it. It hangs, or takes as long to compile: a larger --budget waits for longer."
        )
        return replace(
            found,
            status=Status.PARTIAL,
            reason=Reason.UNEXPLAINED,
            summary=f"{how} What was compared before: {found.summary}",
            kind=Kind.HANG,
            failed=2,
            runs=2,
        )

    def _taken_away_by(self, compiled: End, eager: End) -> str:
        """A sentence on the settings of ours that remove the failure, each added alone to a plain run."""
        ends = self._ask(
            [replace(way, name=f"plain run, compiled, with {way.name}") for way in SETTINGS], compiled, eager
        )
        cures = [way.name for way, end in zip(SETTINGS, ends, strict=True) if end.passes]
        if cures:
            return f"What takes it away, added alone to such a run: {', '.join(cures)}."
        unknown = [way.name for way, end in zip(SETTINGS, ends, strict=True) if not end.is_known]
        rest = f"; {', '.join(unknown)} could not be tried" if unknown else ""
        return f"None of our settings ({', '.join(way.name for way in SETTINGS)}) takes it away by itself{rest}."

    def _fails_in_eager(self, found: Settled, compiled: End, eager: End) -> Settled:
        is_same = compiled.is_like(eager)
        also = "" if is_same else f" With the compiler: {compiled.line}."
        advice = denied(eager.error, self._place) if eager.error is not None else ""
        why = f" The sandbox keeps it from what it needs: {advice}" if advice else " Fix that first."
        return replace(
            found,
            status=Status.FAILED,
            reason=Reason.SANDBOX_DENIED if advice else Reason.FAILS_IN_EAGER,
            summary=f"Run by itself, the script fails without the compiler too: {eager.line}.{also}{why}",
            exception=eager.error,
            traceback=_text_of(eager),
        )

    def _is_about_compiler(self, end: End) -> bool:
        """Whether an eager run ended by a check of the script's own outside of its compiled functions."""
        return end.traceback is not None and is_own_check(end.traceback.error) and not end.traceback.in_compiled

    # running -------------------------------------------------------------------------------------------------------------

    @property
    def _text(self) -> str:
        return self._script.read_text(errors="replace")

    @property
    def _sets_stance(self) -> bool:
        """Whether the script sets a stance itself, which would override ours."""
        return "set_stance" in self._text

    def _ask(self, ways: Sequence[Way], *earlier: End) -> list[End]:
        """Run the script in these ways, two in parallel, each for at most three times the slowest ``earlier`` run."""
        limit = max(PLAIN_SECONDS * crowding(), 3 * max(end.seconds for end in earlier))
        if self.one_by_one:
            return [self._await(self._start(way, limit)) for way in ways]
        return [self._await(run) for run in [self._start(way, limit) for way in ways]]

    def _start(self, way: Way, limit: float) -> Future[End]:
        return self._pool.submit(self._run, way, limit)

    def _await(self, run: Future[End]) -> End:
        """The end of a run of the script, which is noted."""
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
        folder = self._place.private(f"plain-{threading.get_ident()}")
        limit = min(limit, self._left())
        try:
            work, home = self._place.lay_out(folder / "work"), folder / "home"
            home.mkdir()
            self._place.headers.lay(home)
            launcher = launcher_of(way, folder, text)
            gate = self._place.gate.alone if self.one_by_one else self._place.gate.beside
            with gate(self._until_closed):
                ran = run_clean(
                    [*self._command, *map(str, launcher), str(self._script), *self._args],
                    self._place.sandbox,
                    work=work,
                    output=folder / "errors",
                    read=[*self._place.read, *launcher],
                    write=[work, home],
                    environment={**self._ranks, **self._place.plain_environment(home), **dict(way.environment)},
                    limit=limit,
                    watch=self._until_closed,
                    network=self._place.network,
                    only_errors=True,
                )
        except (ChildFailed, OSError) as error:
            return End(way, None, None, f"it could not be run ({error})", 0.0)
        finally:
            scratch_disk.remove(folder)
        output = ran.output.replace(f"{self._script.parent}/", "")  # reports contain no paths of this machine
        return _end_of(way, ran, self._place.redacted(output), limit, is_alone=self.one_by_one)

    @property
    def _ranks(self) -> dict[str, str]:
        """Variables for ranks: the sandbox has only the loopback interface, which Gloo does not find itself."""
        return {"GLOO_SOCKET_IFNAME": "lo"} if self._nproc > 1 and not self._place.network else {}

    @property
    def _command(self) -> list[str]:
        ranks = ["-m", "torch.distributed.run", f"--nproc-per-node={self._nproc}"] if self._nproc > 1 else []
        return [str(real_interpreter(self._place.python)), *ranks]

    def _until_closed(self) -> None:
        if self._closed.is_set():
            raise Cancelled("the plain runs are not needed any more")


def is_of_compiler(error: ExceptionInfo) -> bool:
    """Whether an exception that ended a run is one of the compiler's own."""
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
    elif status != 0 and rule_for(Death.by_status(status, output, is_run=True)).fault is Fault.MACHINE:
        said, status = "the machine had too little memory or disk for it, or ended it", None
    overran = ran.status is None
    return End(way, status, traceback, said, ran.seconds, overran=overran, starved=is_starved and ran.status != 0)


def _kind(compiled: End) -> Kind:
    """The kind of failure of a compiled run that ends differently from the eager one."""
    if compiled.passes:
        return Kind.MISSING_ERROR
    error = compiled.error
    if error is None:
        return Kind.RUNTIME_ERROR if signal_of(compiled.status) is None else Kind.CRASH
    if is_of_compiler(error):
        return Kind.COMPILE_ERROR
    return Kind.WRONG_OUTPUT if error.type == "AssertionError" else Kind.RUNTIME_ERROR


def _text_of(end: End) -> str:
    return end.traceback.text if end.traceback is not None else end.said
