"""Outcomes of trials, rungs and settings in words for a person; a report has them as words for programs."""

from __future__ import annotations

OUTCOMES = {
    "passes": "passes", "different": "wrong values", "compile_error": "does not compile", "runtime_error": "raises an error",
    "missing_error": "raises no error", "crash": "dies", "timeout": "hangs", "setup_error": "cannot run",
    "eager_error": "fails in eager", "nondeterministic": "not reproducible", "lost": "no answer",
}  # fmt: skip


def in_words(outcome: str) -> str:
    """The outcome of a trial, in words for a person."""
    return OUTCOMES.get(outcome, outcome.replace("_", " "))
