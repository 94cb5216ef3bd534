"""Where to look on: by what fails, else by the costliest finding of which a log tells more."""

from __future__ import annotations

import pytest

from minimizer.report.culprit import Source
from minimizer.report.finding import Finding, FindingKind
from minimizer.report.model import Failure, Report, Verification
from minimizer.report.traces import NOUNS, OF_FINDINGS, OF_STAGES, PAGES, TRACE, look_first, section
from minimizer.vocabulary import Kind, Stage

PLACE = Source(file="train.py", line=7)
HOLDS = Verification(runs=3, failed_same=3, clean_process=True, public_api=True, passes_with_compiler_off=True)


def healthy(*kinds: FindingKind, traces: tuple[str, ...] = ()) -> Report:
    return Report(findings=[Finding(kind=kind, what="", source=PLACE) for kind in kinds], traces=list(traces))


def test_the_first_finding_of_which_a_log_tells_more_decides() -> None:
    report = healthy("chaos", "graph_breaks", "memory", traces=(TRACE, PAGES))
    assert look_first(report) == (
        "Look first at what `TORCH_LOGS=graph_breaks` says of the graph break at train.py line 7, then at the pages of that code in `tlparse.zip`."
    )
    assert "tlparse" not in look_first(healthy("recompiles", traces=(TRACE,)))


def test_a_failure_goes_first_and_is_looked_at_in_its_repro() -> None:
    report = healthy("recompiles", traces=(TRACE,))
    report.failure = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR)
    report.verification = HOLDS
    text = section(report, "train.py")
    assert "TORCH_LOGS=post_grad_graphs,fusion,output_code python repro.py" in text
    assert "which is all that fails" in text and "- `torch_trace.log`: the structured trace" in text


@pytest.mark.parametrize("verification", [None, HOLDS.model_copy(update={"failed_same": 0})])
def test_a_failure_without_a_verified_repro_is_looked_at_in_the_script(verification: Verification | None) -> None:
    report = Report(failure=Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR), verification=verification)
    text = section(report, "my train.py")
    assert "TORCH_LOGS=post_grad_graphs,fusion,output_code python 'my train.py'" in text
    assert "says of the script" in text and "repro" not in text


def test_every_finding_of_which_a_log_tells_more_has_words() -> None:
    assert NOUNS.keys() == OF_FINDINGS.keys()


@pytest.mark.parametrize("report", [Report(), healthy("settings", "logs_reordered")])
def test_nothing_is_to_be_looked_at_where_nothing_was_found(report: Report) -> None:
    assert (look_first(report), section(report, "train.py")) == ("", "")


def test_a_finding_that_was_asked_for_is_looked_at_in_the_script() -> None:
    report = healthy("recompiles")
    report.failure = Failure(kind=Kind.RECOMPILES, stage=Stage.DYNAMO)
    assert "TORCH_LOGS=recompiles,guards python train.py" in section(report, "train.py")


def test_every_topic_is_one_of_torchs() -> None:
    """Of the alias table or of the artifacts of torch 2.11 to 2.15, as `TORCH_LOGS=help` lists them."""
    known = {
        "aot_graphs", "aot_joint_graph", "bytecode", "cudagraphs", "dynamo", "fusion", "graph_breaks", "graph_code", "graph_sizes", "guards",
        "output_code", "perf_hints", "post_grad_graphs", "recompiles",
    }  # fmt: skip
    assert {one for topics in (*OF_FINDINGS.values(), *OF_STAGES.values()) for one in topics} == known
