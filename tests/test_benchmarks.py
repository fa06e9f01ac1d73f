"""The benchmark: figures that are right, a page that follows from them, and no answer untested."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from conftest import unmeasured_environment

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import __main__ as command  # noqa: E402
from benchmarks.aims import MAX_PARENT_CPU_RATIO, judged_aims  # noqa: E402
from benchmarks.arena import Arena, new_task  # noqa: E402
from benchmarks.contestants import CONTESTANTS, PI, PI_CHILD, RUN, WARM  # noqa: E402
from benchmarks.figures import milliseconds, number, percentile, ratio, times, window  # noqa: E402
from benchmarks.measures import Part  # noqa: E402
from benchmarks.page import page  # noqa: E402
from benchmarks.plots import plots  # noqa: E402
from benchmarks.setting import Scale  # noqa: E402

TINY = Scale(
    one_turn_rounds=1,
    ten_turns_rounds=1,
    at_once=(1, 3),
    rounds_at_once=1,
    parent_rounds=2,
    queue=6,
    killed=4,
    kill_every_s=(0.05, 0.2),
    quick=True,
)


def results(**changes: Any) -> dict[str, Any]:
    latency = {
        "first": {WARM: [10.0, 30.0, 20.0], PI: [500.0], PI_CHILD: [400.0], "deepagents": [5.0]},
        "one": {WARM: [40.0], PI: [600.0], PI_CHILD: [480.0], "deepagents": [10.0], RUN: [300.0]},
        "ten": {WARM: [100.0], PI: [900.0]},
    }
    return {
        "dates": {"latency": "2026-01-01"},
        "machine": {"system": "Linux", "cores": 2, "memory_gb": 24, "python": "3.11"},
        "latency": latency,
        "fork": [4.0],
        "at_once": {WARM: {"1": {"throughput": 20.0, "p50": 50.0, "p99": 50.0}}},
        "memory": {
            WARM: {
                "tasks": 10,
                "together": True,
                "child_mb": 12.0,
                "largest_mb": 9.0,
                "parent_mb": 0.1,
            }
        },
        "loop": {"10": 1.0, "400": 2.5},
        "history": {WARM: {"10": 5.0, "400": 10.0}},
        **changes,
    }


def verdict(of: dict[str, Any], words: str) -> bool | None:
    [found] = [each for each in judged_aims(of) if words in each.aim]
    return found.met


def dated(**dates: str) -> str:
    [line] = [line for line in page(results(dates=dates)).splitlines() if "Measured on" in line]
    return line


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([3.0, 1.0, 2.0, 4.0], 50) == 2.0
    assert percentile([float(value) for value in range(1, 101)], 99) == 99.0
    assert percentile([7.0], 99) == 7.0


def test_a_window_at_the_end_is_as_wide_as_any_other() -> None:
    values = [float(value) for value in range(20)]
    assert window(values, 10, 2) == [7.0, 8.0, 9.0, 10.0, 11.0]
    assert window(values, 400, 2) == [15.0, 16.0, 17.0, 18.0, 19.0]


def test_figures_keep_the_digits_that_mean_something() -> None:
    assert [number(value) for value in (1234.5, 98.76, 5.678, 0.01234, 0, None)] == [
        "1,234",
        "98.8",
        "5.68",
        "0.012",
        "0",
        "\N{EN DASH}",
    ]
    assert milliseconds(12_345) == "12.3 s"
    assert times(ratio(1.0, 4.0)) == "0.250\N{MULTIPLICATION SIGN}"
    assert ratio(1.0, None) is None


def test_an_aim_is_judged_by_the_figures_and_against_the_faster_pi() -> None:
    found = results()
    assert verdict(found, "at least 15 times faster than pi") is True  # 20 ms to 400 ms
    assert verdict(found, "a bare fork") is True  # 20 ms to 4 ms
    assert verdict(found, "an eighth of pi's time") is True
    assert verdict(found, "the loop's own cost") is False
    assert verdict(found, "the same with the OpenAI wire") is True
    slower = results(fork=[3.9])
    assert verdict(slower, "a bare fork") is False
    killed = {"tasks": 500, "kills": 9, "answered": 495, "wrong": 0, "repeated": 0}
    assert verdict(results(killed=killed), "killed at random") is True
    for changes in ({"answered": 494}, {"wrong": 1}, {"repeated": 1}):
        assert verdict(results(killed={**killed, **changes}), "killed at random") is False
    assert verdict(results(killed={**killed, "kills": 0}), "killed at random") is None


def test_the_parent_s_cpu_is_judged_against_a_copy_of_the_same_run() -> None:
    aim = "the parent's own CPU"
    cpu = {"at_once": 8, "events": 7, "bytes": 900, "copying": [0.6, 0.5, 0.9]}
    limit = MAX_PARENT_CPU_RATIO * 0.6
    within = results(parent={**cpu, "delegating": [9.0, limit - 0.1, 1.0]})
    beyond = results(parent={**cpu, "delegating": [9.0, limit + 0.1, 1.0]})
    assert verdict(within, aim) is True
    assert verdict(beyond, aim) is False
    shown = page(results(parent={**cpu, "delegating": [9.0, 4.0, 8.0]}))
    assert "| one delegation | 8.00 ms | 13.3\N{MULTIPLICATION SIGN} | 4.00 ms |" in shown


def test_only_the_contestants_that_a_part_measures_are_needed_for_it() -> None:
    assert command.needed(["parent", "throughput"], CONTESTANTS) == [WARM]
    assert command.needed(["latency"], [PI]) == [PI]
    assert command.needed(["parent"], [PI]) == []


def test_what_was_not_measured_is_never_called_met() -> None:
    assert all(each.met is None for each in judged_aims({}))
    assert {each.found for each in judged_aims({})} == {"not measured"}
    thousand = "1,000 delegations at once"
    assert verdict(results(), thousand) is None


def test_the_page_shows_both_ratios_and_leaves_out_what_is_missing() -> None:
    text = page(results())
    [row] = [line for line in text.splitlines() if line.startswith(f"| {PI_CHILD} |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:5] == ["400 ms", "20.0\N{MULTIPLICATION SIGN}", "1.00\N{MULTIPLICATION SIGN}"]
    assert "## Start-up" not in text
    assert "![" not in text
    assert "(../benchmarks/plots/first.svg)" in page(results(), plots=["first.svg"])


def test_every_plot_is_well_formed() -> None:
    drawn = plots(results())
    assert set(drawn) == {"first.svg", "one.svg", "ten.svg", "at-once.svg", "history.svg"}
    for svg in drawn.values():
        assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert plots({}) == {}


def test_the_docs_are_what_the_last_results_come_to() -> None:
    latest = json.loads(command.LATEST.read_text())
    drawn = plots(latest)
    again = "run: python3 -m benchmarks --page"
    assert command.PAGE.read_text() == page(latest, plots=drawn), again
    for name, svg in drawn.items():
        assert (command.PLOTS / name).read_text() == svg, again


def test_a_part_measured_anew_leaves_the_others_as_they_were() -> None:
    old = {
        "dates": {"latency": "2026-01-01", "history": "2026-01-01"},
        "fork": [1.0],
        "loop": {"10": 1.0},
        "versions": {PI: "1", WARM: "1"},
        "problems": {},
    }
    new = {
        "dates": {"latency": "2026-01-02"},
        "fork": [2.0],
        "versions": {WARM: "2"},
        "problems": {PI: "not installed"},
    }
    assert command.merged(old, new) == {
        "dates": {"latency": "2026-01-02", "history": "2026-01-01"},
        "fork": [2.0],
        "loop": {"10": 1.0},
        "versions": {PI: "1", WARM: "2"},
        "problems": {PI: "not installed"},
    }


def test_the_page_tells_which_parts_were_measured_on_another_day() -> None:
    assert dated(latency="2026-01-01", queue="2026-01-01").endswith(": 2026-01-01.")
    found = dated(latency="2026-01-01", parent="2026-01-02", queue="2026-01-02")
    assert found.endswith(": 2026-01-01 (latency); 2026-01-02 (parent, queue).")


@pytest.fixture
def run(world: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """A run of the command with two parts of one figure each; returns what is published then."""
    for name in ("RESULTS", "LATEST", "PLOTS", "PAGE"):
        monkeypatch.setattr(command, name, world / name)
    parts = {name: Part(lambda _, name=name: {name: "new"}, ()) for name in ("one", "two")}
    monkeypatch.setattr(command, "PARTS", parts)
    old = results(one="old", two="old", versions={}, problems={})

    def run(*arguments: str) -> dict[str, Any]:
        command.LATEST.write_text(json.dumps(old))
        assert command.main(list(arguments)) == 0
        latest = json.loads(command.LATEST.read_text())
        return {name: latest.get(name) for name in ("one", "two", "fork")}

    return run


def test_publishing_one_part_replaces_only_its_figures(run) -> None:
    assert run("--only", "one", "--publish") == {"one": "new", "two": "old", "fork": [4.0]}
    assert command.PAGE.read_text().startswith("# Benchmarks")


def test_one_part_alone_is_printed_and_not_published(run, capsys) -> None:
    assert run("--only", "one") == {"one": "old", "two": "old", "fork": [4.0]}
    assert capsys.readouterr().out.startswith("# Benchmarks")
    assert not command.PAGE.exists()


def test_a_run_of_all_parts_is_published_as_it_is(run) -> None:
    assert run() == {"one": "new", "two": "new", "fork": None}


@pytest.mark.parametrize("smaller", [["--quick"], ["--peers", WARM]])
def test_only_full_figures_are_published(smaller: list[str], run) -> None:
    with pytest.raises(SystemExit):
        run("--only", "one", "--publish", *smaller)


def test_a_contestant_that_ends_is_named_and_the_rest_goes_on(world: Path) -> None:
    ended = [sys.executable, "-c", "raise SystemExit('its package is broken')"]
    with Arena({"smolagents": ended}, world) as arena:
        assert arena.present == []
    assert "its package is broken" in arena.problems["smolagents"]


LIAR = """
import json, sys, time
print(json.dumps({"version": "1"}), flush=True)
for line in sys.stdin:
    now = time.monotonic()
    result = {"start": now, "end": now, "answer": "answer-00000000", "error": None}
    print(json.dumps({"results": [result]}), flush=True)
"""


def test_a_wrong_answer_is_never_counted(world: Path) -> None:
    with Arena({"smolagents": [sys.executable, "-c", LIAR]}, world) as arena:
        assert arena.present == []
    assert "a wrong answer" in arena.problems["smolagents"]


def test_only_a_task_s_own_answer_answers_it() -> None:
    task = new_task()
    assert task.is_answered_by(f"It says: answer-{task.identity}.")
    assert not task.is_answered_by(f"answer-{task.identity}0")
    assert not task.is_answered_by(f"answer-{new_task().identity}")


@pytest.fixture
def figures(world: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Return what measures one part in full, if small, and gives the page that shows it."""
    for name in os.environ.keys() - unmeasured_environment().keys():
        monkeypatch.delenv(name)

    def measure(part: str) -> dict[str, Any]:
        kept = world / "kept.json"
        found, failed = command.measured([part], [WARM], TINY, kept)
        assert failed == []
        assert found["problems"] == {}
        assert json.loads(kept.read_text()) == json.loads(json.dumps(found))
        return found

    return measure


def test_the_latency_is_measured_from_end_to_end(figures) -> None:
    found = figures("latency")
    [first], [one], [ten] = (found["latency"][kind][WARM] for kind in ("first", "one", "ten"))
    assert 0 < first < one
    assert ten > 0
    assert WARM in page(found, plots=plots(found))


def test_tasks_at_once_are_measured_and_leave_nothing(figures) -> None:
    found = figures("at-once")
    assert found["at_once"][WARM]["3"]["throughput"] > 0
    assert found["left"] == {"tasks": 3, "descriptors": 0, "processes": 0}


def test_the_parent_is_measured_beside_a_plain_copy(figures) -> None:
    measured = figures("parent")["parent"]
    assert len(measured["delegating"]) == len(measured["copying"]) == 2
    assert min(measured["copying"]) > 0 and min(measured["delegating"]) > 0


def test_the_queue_is_never_wider_than_allowed(figures) -> None:
    queue = figures("queue")["queue"]
    assert 0 < queue["most_at_once"] <= queue["width"]


def test_tasks_are_answered_while_their_processes_are_killed(figures) -> None:
    killed = figures("killed")["killed"]
    assert killed["answered"] == killed["tasks"] == 4
    assert killed["kills"] > 0
