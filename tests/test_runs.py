"""The record of runs: private, complete, found by its id, and pruned without loss."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import wait_until
from outrider.delegation.api import subagent
from outrider.protocol.errors import Refusal
from outrider.records.runs import RunRecorder, find_run, prune, pruning_is_due, recorded_runs
from outrider.settings.keys import RunsConfig
from outrider.testing import ScriptedModel, answer


def finished(folder: Path, started: float, size: int = 10) -> str:
    with RunRecorder.create(folder) as run:
        run.add_event({"type": "run", "startedAt": started})
        run.add_output("x" * size)
        run.write_result({"details": {"results": [{"outcome": "completed"}]}})
    aged(run, started)
    return run.id


def aged(run: RunRecorder, changed: float) -> None:
    for path in (*run.folder.iterdir(), run.folder):
        os.utime(path, (changed, changed))


def test_a_run_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    name = finished(tmp_path, time.time())
    assert find_run(tmp_path, name).id == name
    assert find_run(tmp_path, name[:3]).id == name
    for wrong in ("", "zzz", "../" + name, name + "0"):
        with pytest.raises(Refusal):
            find_run(tmp_path, wrong)


def test_a_run_that_is_going_on_is_told_from_one_that_broke_off(tmp_path: Path) -> None:
    with RunRecorder.create(tmp_path) as run:
        run.add_event({"type": "run", "startedAt": time.time()})
        assert find_run(tmp_path, run.id).state == "running"
    assert find_run(tmp_path, run.id).state == "interrupted"


def test_old_runs_go_first_and_running_ones_stay(tmp_path: Path) -> None:
    now = time.time()
    old = finished(tmp_path, now - 40 * 86_400)
    kept = finished(tmp_path, now)
    with RunRecorder.create(tmp_path) as running:
        running.add_event({"type": "run", "startedAt": now - 90 * 86_400})
        aged(running, now - 90 * 86_400)
        assert prune(tmp_path, RunsConfig()) == 1
        assert {run.id for run in recorded_runs(tmp_path)} == {kept, running.id}
    assert old not in {run.id for run in recorded_runs(tmp_path)}


def test_the_oldest_go_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    now = time.time()
    names = [finished(tmp_path, now - age, size=10_000) for age in range(5)]
    prune(tmp_path, RunsConfig(keep_bytes=25_000))
    assert [run.id for run in recorded_runs(tmp_path)] == names[:2]


async def test_runs_are_pruned_after_a_run_and_only_now_and_then(world: Path) -> None:
    runs = Path(os.environ["OUTRIDER_HOME"]) / "runs"
    runs.mkdir(parents=True)
    old = finished(runs, 1.0)
    with ScriptedModel([answer("x")], repeat=True) as server:
        os.environ.update(server.environment)
        first = await subagent("explorer", "x", model=server.model)
        await asyncio.to_thread(wait_until, lambda: not (runs / old).exists(), "the old run to go")
        again = finished(runs, 1.0)
        await subagent("explorer", "x", model=server.model)
    assert first.completed and (runs / str(first.details.run_id)).exists()
    assert (runs / again).exists()
    assert not pruning_is_due(runs)


def test_a_clock_that_was_set_back_does_not_put_off_pruning(tmp_path: Path) -> None:
    assert pruning_is_due(tmp_path)
    ahead = time.time() + 90 * 86_400
    os.utime(tmp_path / ".pruned", (ahead, ahead))
    assert pruning_is_due(tmp_path)


def test_pruning_reads_none_of_the_runs(tmp_path: Path) -> None:
    """A thousand runs of a million characters each are looked at in no time, or never done."""
    now = time.time()
    names = {finished(tmp_path, now) for _ in range(3)}
    for name in names:
        for file in ("session.jsonl", "output.md", "result.json"):
            path = tmp_path / name / file
            path.unlink()
            os.mkfifo(path)  # to read it is to wait for ever
    assert prune(tmp_path, RunsConfig()) == 0
    assert {path.name for path in tmp_path.iterdir()} == names


def test_a_folder_full_of_other_things_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "12345678").mkdir()
    (tmp_path / "abcdefgh").symlink_to("/")
    (tmp_path / "12345679").mkdir()
    (tmp_path / "12345679/result.json").write_text("[" * 100_000)
    assert [run.state for run in recorded_runs(tmp_path)] == ["interrupted", "interrupted"]
    assert recorded_runs(tmp_path / "nowhere") == []


def test_a_disk_that_fills_up_costs_the_record_and_not_the_result(world: Path) -> None:
    """The limit on the size of files stands in for the disk: writes fail in the same way."""
    code = (
        "import resource, sys\n"
        "sys.dont_write_bytecode = True  # a compiled module that was cut would be found again\n"
        "from outrider import subagent_sync\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "result = subagent_sync('explorer', 'x', model='openai-chat:scripted')\n"
        "assert result.completed\n"
        "assert result.details.results[0].output == 'word ' * 1000\n"
        "print(result.text)\n"
    )
    with ScriptedModel([answer("word " * 1000, chunk_size=1_000)]) as server:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **server.environment},
            capture_output=True,
            text=True,
            timeout=100,
        )
    assert done.returncode == 0, done.stderr
    assert "record is incomplete: File too large" in done.stdout


async def test_what_was_cut_for_showing_is_whole_on_the_disk(world: Path) -> None:
    text = "\n".join(f"line {number}" for number in range(6_000))
    with ScriptedModel([answer(text, chunk_size=4_000)]) as server:
        os.environ.update(server.environment)
        result = await subagent("explorer", "x", model=server.model)
    run = result.details.results[0]
    assert run.outcome == "completed" and run.exit_code == 0
    assert result.details.error is not None
    assert result.details.error.code == "SUBAGENT_OUTPUT_TRUNCATED"
    assert result.text.startswith("[Cut: 5,000 of 6,000 lines")
    assert Path(run.output_file or "").read_text() == run.output == text
    kept = json.loads((Path(run.output_file or "").parent / "result.json").read_text())
    assert kept["details"]["results"][0]["output"] == text
