"""Reruns scripts without the compiler and with it: the oracle of the script level.

These runs have none of our hooks, so that a failure here is the script's own.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from minimizer.engine.budget.patience import LEAST_TIMEOUT, SILENCE
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, ExceptionInfo, Outcome
from minimizer.engine.child.trouble import Again, AtFault
from minimizer.engine.oracle.signature import ABSENT, Signature, exception_signature, is_inside, signature_of
from minimizer.engine.oracle.timeouts import TrialTimes
from minimizer.engine.reduce.python.seeds import holds, states
from minimizer.engine.reduce.python.side_by_side import until_one_fails
from minimizer.engine.reduce.python.source import Source
from minimizer.inside.questions import ScriptRequest, SettingsRequest, Switches
from minimizer.vocabulary import Kind

ASSERT_CLOSE = "assert_close"
"""The type of a check of the script's own that compares tensors."""
OF_METADATA = re.compile(r"^The values for attribute '\w+' do not match", re.MULTILINE)
OF_NONFINITE = re.compile(r"^(Greatest a|A)bsolute difference: (nan|inf)\b", re.MULTILINE)
OF_ABSENT = re.compile(r"^None mismatch: ", re.MULTILINE)
"""Matches ``assert_close``'s message for values of which one is NaN or infinite, or missing."""


class Rerun:
    """Judges scripts.

    Args:
        executor: the warm child.
        path: the user's file, which gives candidates their ``__file__`` and their folder.
        caches: whether scripts may use the compiler's graph caches; else they are off.
    """

    def __init__(self, executor: Executor, path: Path, *, caches: bool = False) -> None:
        self._executor, self._path, self._caches = executor, path, caches
        self._times = TrialTimes()
        self._states = states()
        self.target: Signature | None = None
        """The failure to match; set before `check` is called."""
        self.backend: str | None = None
        """The backend on which candidates are compiled; None: each one's own."""
        self.hangs = False
        """Whether the failure is a hang: only then may a watchdog end a run before its timeout."""
        self.also_seen: Counter[Signature] = Counter()
        self._counting = threading.Lock()

    def check(self, candidates: Sequence[Source]) -> Sequence[bool | None]:
        """Whether each script passes without the compiler and fails like the target with it, up to the first that does;
        then None.

        One that draws random numbers without a seed must do so from several states.
        """
        return until_one_fails(candidates, lambda one: holds(one, self._judge), self.jobs)

    @property
    def jobs(self) -> int:
        """The number of scripts judged in parallel."""
        return self._executor.jobs

    def _judge(self, text: str) -> tuple[bool, bool]:
        """Whether a text fails like the target, from one new random state, and whether it draws in eager."""
        state = next(self._states)
        (eager,) = self._run([self._request(text, compiled=False, state=state)])
        if not self._is_right_in_eager(eager):
            return False, eager.draws
        request = self._request(text, compiled=True, state=state, backend=self.backend)
        (compiled,) = self._run([replace(request, threads=1)])  # others run in parallel
        return self._is_target(compiled), eager.draws

    def failure(self, text: str, backend: str | None = None) -> tuple[Signature | None, Outcome]:
        """The signature (None: no failure) and outcome of a compiled run, under ``backend`` if one is given."""
        (outcome,) = self._run([self._request(text, compiled=True, backend=backend)])
        return script_signature(outcome), outcome

    def fails_on(self, text: str, backend: str) -> bool:
        """Whether a script fails like the target on another backend than its own."""
        (outcome,) = self._run([self._request(text, compiled=True, backend=backend)])
        return self._is_target(outcome)

    def switched(
        self, scripts: Sequence[tuple[str, Switches | None]], backend: str | None = None
    ) -> list[tuple[Signature | None, Outcome]]:
        """Signatures and outcomes of compiled runs with switches (``inside/compiler/subsystems.py``), or none."""
        requests = [replace(self._request(text, compiled=True, backend=backend), switches=off) for text, off in scripts]
        return [(script_signature(outcome), outcome) for outcome in self._run(requests)]

    def values(self, expressions: Sequence[str]) -> dict[str, str]:
        """The values of expressions of torch, as text; expressions missing in this version are left out."""
        request = SettingsRequest(setup="import torch", expressions=expressions)
        (outcome,) = self._executor.judge([request], timeout=LEAST_TIMEOUT)
        return outcome.values

    def ends_well(self, text: str) -> bool:
        """Whether a script runs to its end without the compiler."""
        return self.in_eager(text).ending is Ending.SAME

    def in_eager(self, text: str) -> Outcome:
        """A run without the compiler."""
        (outcome,) = self._run([self._request(text, compiled=False)])
        return outcome

    def shows(self, text: str, is_it: Callable[[ExceptionInfo | None], bool]) -> bool:
        """Whether a repro passes without the compiler, and ends with it by an exception that satisfies ``is_it``; clean
        processes decide later.
        """
        _, outcome = self.failure(text)
        return is_it(outcome.exception) and self.ends_well(text)

    def observed(self, text: str) -> Outcome:
        """An eager run that observes the compiled functions: ``ops``, ``calls`` and ``unusual`` inputs."""
        (outcome,) = self._run([replace(self._request(text, compiled=False), observe=True)])
        return outcome

    def _is_right_in_eager(self, outcome: Outcome) -> bool:
        """Whether a run without the compiler ends as that of the script."""
        return outcome.ending is Ending.SAME

    def _is_target(self, outcome: Outcome) -> bool:
        signature = script_signature(outcome)
        if signature is None or self.target is None:
            return False
        is_same_sort = not signature.kind.is_numeric or signature.is_of_sort(self.target)
        if _is_raised_by_script(outcome.exception):  # the repro identifies the failure by the script's own message
            is_same_sort = is_same_sort and self.target.message == signature.message
        if (self.target.matches(signature) and is_same_sort) or is_inside(outcome, self.target):
            return True
        with self._counting:
            self.also_seen[signature] += 1
        return False

    def _request(
        self, text: str, *, compiled: bool, backend: str | None = None, state: int | None = None
    ) -> ScriptRequest:
        """A run from another random state than those before, unless one is given: the outcome must be due to the text."""
        return ScriptRequest(
            text=text,
            script=str(self._path),
            compile=compiled,
            backend=backend,
            caches=self._caches,
            state=next(self._states) if state is None else state,
        )

    def _run(self, requests: Sequence[ScriptRequest]) -> list[Outcome]:
        timeout = self._times.timeout()
        watchdog = self._times.watchdog(at_first=SILENCE[1]) if self.hangs else None
        outcomes = self._executor.judge(requests, timeout=timeout, watchdog=watchdog)
        for index, outcome in enumerate(outcomes):
            is_late = outcome.ending is Ending.TIMEOUT and outcome.seconds >= timeout  # usually of a busy machine
            if outcome.rule.again is Again.CLEAN_CACHE or is_late:
                clean = {"TORCHINDUCTOR_CACHE_DIR": str(self._executor.fresh_cache())}
                (outcomes[index],) = self._executor.judge(
                    [replace(requests[index], environ=clean)], timeout=timeout, watchdog=watchdog
                )
        self._times.note(outcomes)
        return outcomes


def script_signature(outcome: Outcome) -> Signature | None:
    """The signature of a compiled run; None if it did not fail, or if Dynamo got no frame and so did nothing.

    A failing check of the script's own, which holds in eager, is a wrong output, and ``what`` is the type of check. A
    complaint of ``assert_close`` about dtype, shape or layout is wrong metadata; about NaN or infinity, the difference
    is ``nonfinite``.
    """
    if outcome.rule.fault is AtFault.MACHINE or not outcome.attempted:
        return None
    error = outcome.exception
    check = _own_check(error) if error is not None and outcome.ending is Ending.RUNTIME_ERROR else ""
    if error is not None and check:
        kind = Kind.WRONG_METADATA if OF_METADATA.search(error.root_message) else Kind.WRONG_OUTPUT
        said = error.root_message if check == ASSERT_CLOSE else ""
        what = ABSENT if OF_ABSENT.search(said) else check
        is_nonfinite = OF_NONFINITE.search(said) is not None
        return replace(exception_signature(kind, error), message="", what=what, nonfinite=is_nonfinite)
    return signature_of(outcome)


def has_shown_it(error: ExceptionInfo | None, words: str) -> bool:
    """Whether a repro ended as its failure demands: by an exit of its own, or by an error with these words.

    Exit status 125 means that the repro could not run.
    """
    if error is None or error.type == "SystemExit":
        return has_ended_itself(error)
    return words in error.said


def has_ended_itself(error: ExceptionInfo | None) -> bool:
    """Whether a repro ended by an exit or an assertion of its own, and not because it could not run."""
    return error is not None and (
        error.type == "AssertionError" or (error.type == "SystemExit" and error.message != "125")
    )


def _is_raised_by_script(error: ExceptionInfo | None) -> bool:
    """Whether the innermost frame is a ``raise`` of the script's own."""
    file, _, line = error.frames[-1] if error is not None and error.frames else ("", "", "")
    return "/" not in file and re.search(r"\braise\b", line) is not None


def _own_check(error: ExceptionInfo) -> str:
    """``assert_close`` or ``assert`` if a check of the script's own raised; empty if torch or generated code did."""
    if not error.type == error.root_type == "AssertionError" or not error.frames:
        return ""
    if error.frames[-1][0].startswith("torch/testing/"):
        return ASSERT_CLOSE
    return "" if error.is_of_torch else "assert"  # assertions in generated code concern strides and sizes
