"""A report in its forms: a table that fits, whole lines in a pipe, a panel, JSON."""

import os
import time

from hypothesis import given, strategies as st

from outrider.records.runs import RunRecorder
from outrider.settings.places import runs_folder
from outrider.surfaces.reports import REPORTS, parser_for, report
from outrider.surfaces.table import Column, Report, Table
from outrider.surfaces.text import width, wrapped

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
STEERING = {*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2066"}
COLUMNS = (
    Column("name", colour="cyan"),
    Column("lines", lambda row: row["lines"]),
    Column("spare", optional=True),
    Column("text"),
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"name": ANY_TEXT, "spare": ANY_TEXT, "text": ANY_TEXT, "lines": st.lists(ANY_TEXT)}
    ),
    max_size=4,
)


@given(ROWS, st.integers(20, 120), st.booleans())
def test_no_line_is_wider_than_the_terminal_or_steers_it(rows, room, wraps):
    made = Report({}, (Table(COLUMNS, rows, "title", wraps),), ("a note " * 20,))
    for line in made.lines(room):
        assert width(line) <= room
        assert not STEERING & set(line)


@given(st.text(st.characters(min_codepoint=33), max_size=200), st.integers(2, 40))
def test_wrapped_text_fits_and_loses_nothing(text, columns):
    lines = wrapped(text, columns)
    assert all(width(line) <= columns for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def table(room, **row):
    shown = {"name": "explorer", "lines": ["one"], "spare": "in between", "text": "said " * 8}
    return list(Report({}, (Table(COLUMNS, [shown | row]),)).drawn(room))


def test_pipe_gets_everything_and_no_headings():
    (line,) = table(None)
    assert line == "explorer  one  in between  " + ("said " * 8).strip()


def test_column_that_can_be_spared_goes_first_and_then_rows_are_broken():
    assert table(60)[0].split() == ["name", "lines", "spare", "text"]
    assert table(36)[0].split() == ["name", "lines", "text"]
    assert table(26) == ["explorer · one", "  said said said said sai…"]


def test_lines_of_one_cell_stay_in_their_column():
    heading, first, second = table(80, lines=["one", "two"])
    assert first.index("one") == second.index("two") == heading.index("lines")


def test_panel_has_the_notes_and_a_pipe_does_not():
    made = Report({"a": 1}, (), ("nothing here",))
    assert made.lines(80) == ["nothing here"] and list(made.drawn()) == []
    assert made.data == {"a": 1}


def test_every_report_can_be_asked_for_by_name_with_its_arguments(world):
    quick = [name for name in REPORTS if name != "doctor"]
    for name in quick:
        assert report(name, []).data
    assert "--limit" in parser_for("logs").options
    assert report("help", []).data["commands"][0]["name"] == "agents"


def test_a_running_run_is_listed_with_how_far_it_is_behind_long_results_of_tools(world):
    events = (
        {"type": "run", "startedAt": time.time(), "agent": "explorer", "task": "Look."},
        {"type": "turn_end", "turn": 1, "usage": {"input": 900}},
        {"type": "turn_start", "turn": 2},
        {"type": "tool_start", "id": "1", "name": "grep", "args": {"pattern": "old"}},
        {"type": "tool_start", "id": "2", "name": "grep", "args": {"pattern": "x"}},
        {"type": "tool_result_end", "id": "2", "name": "grep", "text": "x" * 100_000},
    )
    with RunRecorder.create(runs_folder(os.environ)) as run:
        for event in events:
            run.add_event(event)
        listed = report("runs", [])
    (row,) = listed.data["runs"]
    assert (row["turn"], row["step"], row["usage"]) == (2, "grep x", {"input": 900})
    assert [line for line in listed.lines(200) if run.id in line and "grep x" in line]
