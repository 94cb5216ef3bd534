"""From a captured graph to a window of it that fails in isolation, as the start of the reduction.

A failure is localized module by module (`localize`), in the graph as captured, then in aten operators. For a mere
suspect, a difference that a jump may have made of legal rounding, each part is run on eager's own inputs (`suspects`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from minimizer.engine.diagnose.ladder import cheapest, on_backend
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import Checkpoint
from minimizer.engine.levels.from_outcomes import failure_of
from minimizer.engine.localize.behind_jumps import Answer, Wrong, first_wrong
from minimizer.engine.localize.localize import Localized, find_root, localize, narrow
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature, signature_of
from minimizer.engine.program.model import Program
from minimizer.engine.program.regions import cut, split
from minimizer.engine.survey.cases import Case, Settled
from minimizer.errors import ChildFailed, Unanswered
from minimizer.report.culprit import Layer
from minimizer.report.model import Failure
from minimizer.vocabulary import Kind, Reason, Status

Vanishes = Callable[[], Settled | None]


class Unreduced(Exception):
    """The search found no window that fails in isolation; ``settled`` is the verdict."""

    def __init__(self, settled: Settled) -> None:
        super().__init__(settled.summary)
        self.settled = settled


class WindowSearch:
    """The search for a window of one ``case``; ``target``: the root to find, as for `localize`.

    ``vanishes``: called once the graph has passed in isolation, before other forms of it are tried; returns the verdict
    if the reason is known.
    """

    def __init__(
        self, case: Case, oracle: Oracle, journal: Journal, target: str | None, vanishes: Vanishes = lambda: None
    ) -> None:
        self._case, self._oracle, self._journal, self._target = case, oracle, journal, target
        self._vanishes = vanishes

    def find(self) -> Checkpoint:
        """Find a window that fails in isolation: without gradients if they are not at fault; in aten operators as a
        last resort.

        Raises:
            Unreduced: no window does.
        """
        case = self._case
        program = case.program.as_compiled()
        if case.otherwise is not None:
            return self._confirm(program, case.otherwise)
        located = self._below(program) or self._confirmed(program)
        if located is None and (weighted := self._weighted(program)) is not None:
            program = weighted
            located = self._confirmed(program)
        if located is None and (lowered := self._lowered(program)) is not None:
            program = lowered
            located = self._confirmed(program)
        if located is not None:
            return Checkpoint(program, located, located.window)
        vanishes = (
            f"Call {case.call + 1} of a graph fails, but that graph does not when it is run once on the same inputs: the failure "
            "may depend on what earlier calls have left in the compiled code."
            if case.call > 0
            else "The script fails, but its graph does not when it is run by itself: observing it makes the failure vanish."
        )
        raise Unreduced(Settled(Status.PARTIAL, Reason.NOT_VERIFIED, vanishes, case.checked))

    def _confirm(self, program: Program, otherwise: Settled) -> Checkpoint:
        """Find the part of a suspect's graph that is wrong on eager's own inputs; ``otherwise``: the verdict if none
        is.

        Raises:
            Unreduced: every part is right.
            Unanswered: no part is wrong among those that can be run; some cannot.
        """
        backward = otherwise.checked.backward > 0
        answer = self._ask_all(program, backward)
        if answer.unasked and (lowered := self._lowered(program)) is not None:
            forward = self._ask_all(lowered, backward)  # aten operators of the forward have no gradients to compare
            if forward.wrong is not None or not backward:
                program, answer = lowered, forward
        if answer.unasked:
            raise Unanswered("not every part of the graph can be asked alone")
        if answer.wrong is None:
            raise Unreduced(otherwise)
        failure = self._aimed_at(answer.wrong)
        window = narrow(program, answer.wrong.region, self._oracle)
        return Checkpoint(program, Localized(window, (), (), confirmed=True, failure=failure), window)

    def _ask_all(self, program: Program, backward: bool) -> Answer:
        said = "values behind a jump differ: each part of the graph is judged in isolation"
        self._journal.progress(nodes=program.size, nodes_before=program.size, trials=self._oracle.trials, message=said)
        return first_wrong(program, split(program.nodes, 0, len(program.nodes)), self._oracle, backward=backward)

    def _aimed_at(self, wrong: Wrong) -> Failure | None:
        """Search for the failure of this part from here on, if it is not the script's; returns it, or None."""
        if self._oracle.shows(wrong.outcome):
            return None
        self._oracle.aim_at(accepted(wrong.signature))
        return failure_of(wrong.outcome, wrong.signature)

    def _lowered(self, program: Program) -> Program | None:
        """The program in aten operators; None if it consists of them already, or cannot be traced."""
        if program.level != "dynamo":
            return None
        try:
            return self._case.lowered()
        except ChildFailed as error:
            self._journal.note(f"The graph could not be traced into aten operators: {error}")
            return None

    def _weighted(self, program: Program) -> Program | None:
        """The program with the cotangents of the script's backward.

        None for other failures, and if they cannot be recorded.
        """
        if program.level != "dynamo" or self._case.signature.kind is not Kind.WRONG_GRADIENT:
            return None
        with suppress(ChildFailed):
            return self._case.weighted()
        return None

    def _below(self, program: Program) -> Localized | None:
        """A window whose metadata is wrong, found on the lowest rung of the ladder that shows it: no kernel is compiled
        to see a stride.

        None for other failures, with a target of the user's, which may fail on the program's own backend only, and if no
        rung below shows it, or the window does not fail on its own. What else a lower rung tells, of other modules too, is
        not kept.
        """
        oracle, variant = self._oracle, program.without_grad()
        is_of_metadata = self._case.signature.kind is Kind.WRONG_METADATA
        if not is_of_metadata or oracle.sequential is not None or self._target is not None:
            return None
        backend = cheapest(variant, oracle)
        if backend is None:
            return None
        located = self._located(on_backend(variant, backend))
        window = replace(located.window, compile_kwargs=variant.compile_kwargs)
        is_confirmed = located.confirmed and oracle.check([window])[0]
        return Localized(window, located.roots[:1], layers=(), confirmed=True) if is_confirmed else None

    def _confirmed(self, program: Program) -> Localized | None:
        """A window that fails in isolation, or None; for a flaky graph, a second attempt with a sequential oracle.

        Raises:
            Unreduced: the reason why none can is known.
        """
        case, oracle = self._case, self._oracle
        variants = [program]
        if program.grad and case.signature.kind is not Kind.WRONG_GRADIENT:
            variants.insert(0, program.without_grad())
        if program.level == "dynamo" and program != case.program:
            # Dynamic sizes again, only where the compiler chose them: marking more may hide the failure.
            variants += [replace(v, compile_kwargs=case.program.compile_kwargs, marked=True) for v in variants]
        for variant in variants:
            located = self._located(variant)
            if located.confirmed:
                return located
            if (settled := self._vanishes()) is not None:
                raise Unreduced(settled)
        if oracle.sequential is None and (rate := oracle.measure(program).rate).failed:
            oracle.expect(rate)
            return self._confirmed(program)
        return None

    def _located(self, program: Program) -> Localized:
        def show(layer: Layer) -> None:
            self._journal.log(f"region {layer.path or '(no module)'}: {layer.verdict} {layer.local_error}")

        oracle, target = self._oracle, self._target
        self._journal.progress(
            nodes=program.size,
            nodes_before=program.size,
            trials=oracle.trials,
            message="asking each module whether it fails by itself",
        )
        located = localize(program, oracle, target=target, on_region=show)
        if target is not None and find_root(located.roots, target) is None:
            named = self._retargeted(program, located, target)
            if named is None:
                names = ", ".join(root.path for root in located.roots)
                self._journal.note(f"--target {target} names no failing region; those are {names or 'unknown'}.")
            located = named or located
        self._journal.add(layers=located.layers)
        self._journal.progress(
            nodes=located.window.size,
            nodes_before=program.size,
            trials=oracle.trials,
            message="the operations that fail are found",
        )
        return located

    def _retargeted(self, program: Program, located: Localized, target: str) -> Localized | None:
        """Localize the failure that ``target`` names by signature or kind, in a region hidden by how the script ends.

        None if no region has it.
        """
        for region in located.elsewhere:
            (outcome,) = self._oracle.judge([cut(program, region.start, region.stop)])
            signature = signature_of(outcome)
            if signature is not None and target in (signature.text, signature.kind.value):
                self._oracle.aim_at(accepted(signature))
                others = tuple(other for other in located.elsewhere if other != region)
                window = narrow(program, region, self._oracle)
                return replace(
                    located,
                    window=window,
                    roots=(region,),
                    elsewhere=(*located.roots, *others),
                    confirmed=True,
                    failure=failure_of(outcome, signature),
                )
        return None


def accepted(signature: Signature) -> tuple[Signature, ...]:
    """The signatures that count as this failure during localization.

    A wrong gradient is a wrong output of the joint graph; NaN may come from finite wrong values upstream.
    """
    signature = replace(signature, nonfinite=False)
    if signature.kind is Kind.WRONG_GRADIENT:
        return (signature, replace(signature, kind=Kind.WRONG_OUTPUT))
    return (signature,)
