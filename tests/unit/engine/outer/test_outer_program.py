"""A flat program ends before what it has no value for, and is told of its graphs by the kind of its events."""

from __future__ import annotations

from sample_trace import EVENTS, INPUTS, STORAGES, event, traced

from minimizer.engine.outer.program import parse


def test_it_is_cut_before_an_input_without_a_value() -> None:
    big = {"name": "big"}
    events = [*EVENTS, event("y = x + big", makes="y"), event("z = y * 2", makes="z")]

    program = parse(traced(inputs=[*INPUTS, big], events=events, storages={**STORAGES, "big": 8, "y": 9, "z": 10}))

    assert len(program.events) == len(EVENTS)
    assert program.cut == f"{len(EVENTS)} events, where big has no value"


def test_it_is_cut_where_an_event_that_makes_a_value_was_left_out() -> None:
    program = parse(traced(events=[*EVENTS[:3], *EVENTS[4:]]))

    assert [one.code for one in program.events] == [one["code"] for one in EVENTS[:3]]
    assert program.cut


def test_a_long_call_of_a_graph_is_no_malformed_answer() -> None:
    call = f"out = graph_0({', '.join(['w'] * 30_000)})"

    program = parse(traced(events=[event(call, "graph", "out", source=None)]))

    assert program.graph_of == ["graph_0"]


def test_only_an_event_of_that_kind_calls_a_graph() -> None:
    program = parse(traced(events=[event("y = graph_0 + 1", makes="y")]))

    assert program.graph_of == [None]
