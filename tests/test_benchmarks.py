"""The benchmark: figures that are right, a page that follows from them, and no answer untested."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from conftest import unmeasured_environment, wait_until
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import Details, SingleResult, ToolResult
from outrider.protocol.usage import Usage
from outrider.records.runs import RunRecorder

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import __main__ as command, cpu_account, environments, faults  # noqa: E402
from benchmarks.aims import MAX_PARENT_CPU_RATIO, judged_aims  # noqa: E402
from benchmarks.arena import Arena, new_task  # noqa: E402
from benchmarks.contestants import (  # noqa: E402
    ANTHROPIC,
    COLD,
    COLD_ANTHROPIC,
    CONTESTANTS,
    DEEPAGENTS,
    HARNESS,
    IN_PI,
    PI,
    PI_CHILD,
    RUN,
    SDK,
    WARM,
    installed,
)
from benchmarks.cpu_account import CpuAccount  # noqa: E402
from benchmarks.figures import milliseconds, number, percentile, ratio, times, window  # noqa: E402
from benchmarks.measures import Part  # noqa: E402
from benchmarks.page import page  # noqa: E402
from benchmarks.plots import plots  # noqa: E402
from benchmarks.processes import Broken  # noqa: E402
from benchmarks.setting import Scale  # noqa: E402

TINY = Scale(
    one_turn_rounds=1,
    ten_turns_rounds=1,
    at_once=(1, 3),
    rounds_at_once=1,
    parent_rounds=2,
    burst=3,
    burst_rounds=2,
    held=2,
    most_held=2,
    history=12,
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
    killed = {"tasks": 5_000, "kills": 9, "answered": 4_950, "wrong": 0, "repeated": 0}
    assert verdict(results(killed=killed), "killed at random") is True
    for changes in ({"answered": 4_949}, {"wrong": 1}, {"repeated": 1}):
        assert verdict(results(killed={**killed, **changes}), "killed at random") is False
    assert verdict(results(killed={**killed, "kills": 0}), "killed at random") is None


PRICE = {
    "the time of deepagents": ("latency", "one", {WARM: [10.0, 30.0, 20.0], DEEPAGENTS: [20.0]}),
    "first model request: at most the time of pydantic-ai-harness": (
        "latency",
        "first",
        {WARM: [9.0], HARNESS: [9.0, 1.0, 30.0]},
    ),
    "the time of `pi -p`": ("latency", "first", {COLD: [400.0], PI: [400.0]}),
    "times a bare Python": ("latency", "one", {RUN: [180.0]}),
    "1.10 times the time of pi": ("latency", "one", {IN_PI: [440.0], PI_CHILD: [400.0]}),
    "1,000 at once, warm": (
        "at_once",
        "1000",
        {WARM: [15.0, 14.0, 20.0], HARNESS: [15.0]},
    ),
    "in a burst of 100": ("cpu", "ms", {WARM: [28.0]}),
    "MB of unique memory": ("memory", "child_mb", {WARM: 8.0}),
}
"""Each aim for the price of an isolated child: the figures of ours that just meet it."""


@pytest.mark.parametrize("words", PRICE)
@pytest.mark.parametrize("slower", [False, True])
def test_the_price_of_a_child_is_judged_by_the_median_of_one_run(words: str, slower: bool) -> None:
    part, key, values = PRICE[words]
    ours = next(iter(values))
    if slower:
        found = values[ours]
        more = found * 1.01 if isinstance(found, float) else [1.01 * each for each in found]
        values = {**values, ours: more}
    figures: dict[str, Any] = {"python": [20.0]}
    if part == "latency":
        figures[part] = {key: values}
    elif part == "at_once":
        cell = {"throughput": 1.0, "p50": 1.0, "p99": 1.0}
        figures[part] = {name: {key: {**cell, "seconds": each}} for name, each in values.items()}
    else:
        figures[part] = {name: {"tasks": 100, key: each} for name, each in values.items()}
    assert verdict(figures, words) is not slower


def test_a_smaller_burst_or_an_old_figure_meets_no_aim() -> None:
    assert verdict({"cpu": {WARM: {"tasks": 20, "ms": [1.0]}}}, "in a burst of 100") is None
    cell = {"throughput": 100.0, "p50": 1.0, "p99": 1.0}
    old = {"at_once": {WARM: {"1000": cell}, HARNESS: {"1000": cell}}}
    assert verdict(old, "1,000 at once, warm") is None


def test_the_page_tells_a_faster_client_from_cheaper_isolation() -> None:
    latency = {
        "first": {WARM: [5.0], SDK: [12.0], ANTHROPIC: [14.0], COLD_ANTHROPIC: [1_500.0]},
        "one": {WARM: [10.0], SDK: [30.0], ANTHROPIC: [50.0]},
        "ten": {},
    }
    cpu = {ANTHROPIC: {"tasks": 100, "ms": [80.0, 79.0, 81.0]}}
    text = page(results(latency=latency, cpu=cpu))
    ways = text.partition("## What the wire changes")[2].partition("\n## ")[0]
    [lean, sdk, anthropic] = [line for line in ways.splitlines() if " ms |" in line]
    assert lean.startswith("| the lean wire | 5.00 ms | 10.0 ms |")
    assert "`models.wire: sdk` | 12.0 ms | 30.0 ms |" in sdk
    assert "| 14.0 ms | 50.0 ms | 1,500 ms |" in anthropic and "| 80.0 ms |" in anthropic
    assert "what their users get" in ways


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


@pytest.fixture
def peer(world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one module, `apeer`, as the only peer there is."""
    wheel = world / "apeer-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("apeer.py", "")
        about = {"METADATA": "Metadata-Version: 2.1\nName: apeer\nVersion: 1\n", "RECORD": ""}
        about["WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        for name, text in about.items():
            archive.writestr(f"apeer-1.dist-info/{name}", text)
    monkeypatch.setattr(environments, "PYTHON_PACKAGES", {"apeer": (str(wheel),)})
    monkeypatch.setattr(environments, "ENVS", world / "envs")
    return wheel


def program(path: Path, script: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_peers_are_installed_where_the_environment_has_no_pip(world: Path, peer: Path) -> None:
    bare = world / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    code = f"""
from pathlib import Path
from benchmarks import environments
environments.ENVS = Path({str(environments.ENVS)!r})
environments.PYTHON_PACKAGES = {{"apeer": ({str(peer)!r},)}}
print(environments.peer_python("apeer"))
"""
    env = {**unmeasured_environment(), "PIP_NO_INDEX": "1"}
    done = subprocess.run(
        [bare / "bin/python", "-c", code], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    subprocess.run([done.stdout.strip(), "-c", "import apeer"], check=True)


@pytest.fixture
def no_pip(world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python that has no module at all; returns the only folder of PATH."""
    for name in ("executable", "_base_executable"):
        monkeypatch.setattr(sys, name, program(world / "python", "exit 1"))
    monkeypatch.setenv("PATH", str(world / "programs"))
    return world / "programs"


def test_peers_are_installed_with_uv_where_no_python_has_pip(no_pip: Path, peer: Path) -> None:
    said = no_pip.parent / "said"
    program(no_pip / "uv", f'echo "$@" >> {said}')
    python = program(environments.ENVS / "apeer/bin/python", "")
    assert environments.peer_python("apeer") == python
    made, filled = said.read_text().splitlines()
    assert made.startswith("venv ") and made.endswith(str(environments.ENVS / "apeer"))
    assert filled == f"pip install -q --python {python} {peer}"


@pytest.mark.usefixtures("no_pip", "peer")
def test_without_pip_and_uv_a_peer_tells_what_to_install() -> None:
    with pytest.raises(environments.NotInstalled, match="put uv on PATH"):
        environments.peer_python("apeer")


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


NO_FAULT = ("--only", "none", "--deaths", "3", "--count", "30")


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("options", [("--count", str(2 * len(faults.FAULTS))), NO_FAULT])
def test_no_fault_makes_a_result_lie_or_leaves_anything(options: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "benchmarks.faults", *options]
    env = unmeasured_environment()
    done = subprocess.run([*command, "--seed", "1"], cwd=ROOT, env=env, capture_output=True)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    assert done.stdout.decode().endswith("no lie, nothing lost, nothing left\n")
    assert ("killed 3 times" in done.stdout.decode()) == ("--deaths" in options)


def test_a_trial_tells_a_lie_a_loss_and_what_is_left(world: Path) -> None:
    plan = faults.Plan({Outcome.COMPLETED}, [], "True.")
    result = SingleResult("explorer", "x", Outcome.COMPLETED, 0, Usage(), output="True.")
    assert faults.lies(plan, result) == []
    for changes in (
        {"output": "True"},
        {"exit_code": 1},
        {"outcome": Outcome.FAILED, "exit_code": 1},
        {"structured_output": {}},
    ):
        assert faults.lies(plan, replace(result, **changes))
    with RunRecorder.create(world) as run:
        run.add_event({"type": "run", "startedAt": 1.0})
        run.add_output("True.")
        shown = ToolResult((), Details(run_id=run.id, results=(result,)))
        run.write_result(shown.to_dict(), {"type": "end", "at": 1, "outcome": "completed"})
    assert faults.losses(shown, world) == []
    changed = replace(
        shown, details=replace(shown.details, results=(replace(result, output="No"),))
    )
    assert faults.losses(changed, world)
    Path(run.output_file).write_text("True")
    assert any("output.md" in loss for loss in faults.losses(shown, world))
    work = world / "work"
    work.mkdir()
    assert faults.leftovers(work, run.id, world) == []
    with subprocess.Popen(["sleep", "1000"], cwd=work) as left:
        wait_until(lambda: faults.processes_in(work), "the process to be there")
        assert faults.leftovers(work, run.id, world) == [f"process {left.pid} is left"]
        left.kill()


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


def test_the_memory_of_a_child_includes_its_guardian(figures) -> None:
    cell = figures("memory")["memory"][WARM]
    assert cell["together"]
    assert cell["processes"] >= 2 * (cell["tasks"] - 1)  # the first has a spare's, from before
    assert cell["child_mb"] > 0 and cell["largest_mb"] > 0


def may_account() -> bool:
    try:
        with CpuAccount("try"):
            return True
    except (Broken, OSError):
        return False


if may_account():

    def test_the_cpu_time_of_a_burst_is_measured(figures) -> None:
        cell = figures("cpu")["cpu"][WARM]
        assert cell["tasks"] == 3 and len(cell["ms"]) == 2
        assert min(cell["ms"]) > 0

    def test_an_account_has_the_time_of_children_that_nobody_waits_for(world: Path) -> None:
        code = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while time.process_time() < 0.3:
        pass
    os._exit(0)
input()
"""
        with CpuAccount("orphans") as account:
            command = account.joined([sys.executable, "-c", code])
            with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
                wait_until(lambda: account.seconds() >= 0.3, "the child's time to be counted")
                process.communicate(b"\n")


def test_without_a_control_group_the_cpu_time_says_what_is_missing(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_account, "own_group", lambda: world / "nowhere")
    with pytest.raises(Broken, match="can't make a control group"), CpuAccount("x"):
        pass


def test_a_turn_is_measured_with_and_without_the_wire(figures) -> None:
    found = figures("history")
    assert found["history"][WARM]["10"] > 0
    assert found["loop"]["10"] > 0


def test_users_of_anthropic_are_measured_on_its_own_wire(world: Path) -> None:
    commands, _ = installed([ANTHROPIC])
    with Arena(commands, world) as arena:
        [done] = arena.run(ANTHROPIC, [new_task(turns=3)], turns=3)
    assert arena.problems == {}
    assert len(done.requests) == 3


def test_the_queue_is_never_wider_than_allowed(figures) -> None:
    queue = figures("queue")["queue"]
    assert 0 < queue["most_at_once"] <= queue["width"]


def test_tasks_are_answered_while_their_processes_are_killed(figures) -> None:
    killed = figures("killed")["killed"]
    assert killed["answered"] == killed["tasks"] == 4
    assert killed["kills"] > 0
