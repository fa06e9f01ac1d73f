"""The record of runs: private, complete, found by its id, and pruned without loss."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cli_door import Door
from conftest import COLD, unmeasured_environment, wait_until
from outrider.delegation.api import subagent
from outrider.protocol.errors import Refusal
from outrider.records import runs
from outrider.records.pruning import prune, pruning_is_due
from outrider.records.runs import (
    RESERVED_BYTES,
    RunRecorder,
    find_run,
    recorded_runs,
)
from outrider.settings.keys import RunsConfig
from outrider.testing import ScriptedModel, answer

END = {"type": "end", "at": 5, "outcome": "completed", "exitCode": 0}


def finished(folder: Path, started: float, size: int = 10) -> str:
    with RunRecorder.create(folder) as run:
        run.add_event({"type": "run", "startedAt": started})
        run.add_output("x" * size)
        run.add_event({"type": "message_end", "text": "x" * size})
        run.write_result({"details": {"results": [{"outcome": "completed"}]}}, END)
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
    prune(tmp_path, RunsConfig(keep_bytes=50_000))
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


def test_a_clock_that_was_set_back_does_not_put_off_pruning(tmp_path: Path) -> None:
    assert [pruning_is_due(tmp_path, 1, RunsConfig()) for _ in range(2)] == [True, False]
    ahead = time.time() + 90 * 86_400
    os.utime(tmp_path / ".pruned", (ahead, ahead))
    assert pruning_is_due(tmp_path, 1, RunsConfig())


async def test_the_run_that_exceeds_the_limit_prunes_and_stays(world: Path) -> None:
    runs = Path(os.environ["OUTRIDER_HOME"]) / "runs"
    with ScriptedModel([answer("x" * 15_000, chunk_size=5_000)], repeat=True) as server:
        os.environ.update(server.environment)

        async def newest_run(keep: int) -> Path:
            limit = {"runs.keepBytes": keep}
            result = await subagent("explorer", "x", model=server.model, config=limit)
            return runs / str(result.details.run_id)

        made = [await newest_run(1 << 30) for _ in range(3)]
        assert set(made) == set(folders(runs))
        made.append(await newest_run(size_of(runs)))
        await asyncio.to_thread(wait_until, lambda: not made[0].exists(), "the oldest to go")
        assert {*made[-2:]} <= {*folders(runs)}
        # One that is too big alone takes the place of all others, and stays as well.
        newest = await newest_run(100)
        await asyncio.to_thread(wait_until, lambda: folders(runs) == [newest], "the others to go")
    assert find_run(runs, newest.name).problem is None


def folders(runs: Path) -> list[Path]:
    return [path for path in runs.iterdir() if path.is_dir()]


def size_of(runs: Path) -> int:
    return sum(path.stat().st_size for path in runs.glob("*/*"))


def test_pruning_is_due_for_one_run_in_many(tmp_path: Path) -> None:
    """To look at all runs after each one would take longer than the run."""
    keep, due = RunsConfig(keep_bytes=800_000), 0
    for _ in range(200):
        run = tmp_path / finished(tmp_path, time.time(), size=10_000)
        if pruning_is_due(tmp_path, sum(one.stat().st_size for one in run.iterdir()), keep):
            prune(tmp_path, keep, run)
            due += 1
        assert size_of(tmp_path) <= 800_000
    assert 10 < due < 60


def test_processes_that_prune_at_once_leave_what_is_running(tmp_path: Path) -> None:
    for number in range(60):
        finished(tmp_path, time.time() - number, size=1_000)
    code = f"""
        from pathlib import Path
        from outrider.records.pruning import prune
        from outrider.settings.keys import RunsConfig
        print(prune(Path({str(tmp_path)!r}), RunsConfig(keep_bytes=0)))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with RunRecorder.create(tmp_path) as running:
        running.add_event({"type": "run", "startedAt": 1.0})
        aged(running, 1.0)
        pruning = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
        removed = [int(one.communicate()[0]) for one in pruning]
        assert folders(tmp_path) == [running.folder]
    assert sum(removed) >= 60 and find_run(tmp_path, running.id).state == "interrupted"


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
    assert {path.name for path in folders(tmp_path)} == names


def test_a_folder_full_of_other_things_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "12345678").mkdir()
    (tmp_path / "abcdefgh").symlink_to("/")
    (tmp_path / "12345679").mkdir()
    (tmp_path / "12345679/result.json").write_text("[" * 100_000)
    assert [run.state for run in recorded_runs(tmp_path)] == ["interrupted", "interrupted"]
    assert recorded_runs(tmp_path / "nowhere") == []


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def replaced(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [Path.unlink, cut, replaced])
@pytest.mark.parametrize("part", ["output.md", "session.jsonl", "result.json"])
def test_what_a_record_lacks_is_said(
    tmp_path: Path, part: str, damage: Callable[[Path], None]
) -> None:
    with closing(Door(tmp_path)) as door:
        with RunRecorder.create(door.runs) as run:
            run.add_event({"type": "run", "startedAt": time.time(), "agent": "explorer"})
            run.add_output("First.\nSecond.\n")
            run.write_result({"details": {"results": [{"outcome": "completed"}]}}, END)
        assert find_run(door.runs, run.id).problem is None
        damage(run.folder / part)
        for form in ([], ["--json"], ["--events"], ["--lines", "9:"]):
            shown = door.run("show", run.id, *form)
            assert shown.code == 1 and f"record is incomplete ({part}): " in shown.err
            assert "has no output" not in shown.err and "bug" not in shown.err
        [listed] = door.run("runs", "--json").json["runs"]
        assert listed["state"] == "completed" and f"({part}): " in listed["recordProblem"]


def test_a_result_of_another_shape_breaks_no_listing(tmp_path: Path) -> None:
    shapes = (5, [], {"details": 5}, {"details": {"results": 5}}, {"details": {"results": [5]}})
    odd = {"agent": [], "task": 3, "usage": 7, "durationMs": "x", "model": {}, "outcome": 1}
    for number, shape in enumerate((*shapes, {"details": {"results": [odd]}}, {"summary": odd})):
        folder = tmp_path / f"{number:08}"
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps(shape))
    odd_sizes = {**END, "bytes": {"output.md": "x", "\0": 1}}
    (folder / "session.jsonl").write_text(json.dumps(odd_sizes))
    found = recorded_runs(tmp_path)
    assert len(found) == 7 and {run.state for run in found} == {"failed", "interrupted"}
    assert all(run.summary["runId"] and run.summary["task"] in ("", "3") for run in found)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how much was read")
def test_a_listing_opens_one_file_of_a_run_and_reads_little_of_it(tmp_path: Path) -> None:
    names = {finished(tmp_path, time.time(), size=900_000) for _ in range(5)}
    code = f"""
        import os, sys
        from pathlib import Path
        import orjson  # late otherwise, and then what it loads would count
        import outrider.records.runs as runs
        opened = []
        def hear(event, arguments):
            if event == "open" and {str(tmp_path)!r} in str(arguments[0]):
                opened.append(Path(arguments[0]))
        def read_bytes():
            return int(Path("/proc/self/io").read_text().split()[1])
        before = read_bytes()
        sys.addaudithook(hear)
        assert len(runs.recorded_runs(Path({str(tmp_path)!r}))) == 5
        print(len(opened), {{path.name for path in opened}}, read_bytes() - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert told[:2] == [str(len(names)), "{'session.jsonl'}"]
    assert int(told[2]) < len(names) * 50_000


def on_a_small_disk(script: str, server: ScriptedModel, home: Path) -> subprocess.CompletedProcess:
    """Run a shell script whose runs are recorded on a disk with room for 200 KB."""
    namespace = ["unshare", "-m" if os.getuid() == 0 else "-Urm"]
    if not shutil.which("unshare") or subprocess.run([*namespace, "true"]).returncode:
        pytest.skip("no file system can be mounted here")
    home.mkdir()
    mount = 'mount -t tmpfs -o size=200k tmpfs "$OUTRIDER_HOME" && '
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [*namespace, "sh", "-c", mount + script],
        env={**unmeasured_environment(), **COLD, **server.environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_a_disk_that_fills_up_costs_the_record_and_not_the_result(
    world: Path, tmp_path: Path
) -> None:
    run = "outrider run explorer Much. --model openai-chat:scripted --json > result"
    show = "outrider show last --json > shown; echo $? > code; outrider show last > /dev/null"
    then = f"outrider runs --json && outrider runs > listed; {show}"
    with ScriptedModel([answer("word\n" * 60_000, chunk_size=4_096)], repeat=True) as server:
        ended = on_a_small_disk(f"{run} && {then}", server, tmp_path / "state")
    assert ended.returncode == 1, ended.stderr
    assert (world / "code").read_text() == "1\n"
    result = json.loads((world / "result").read_text())
    [single] = result["details"]["results"]
    assert (single["outcome"], single["exitCode"]) == ("completed", 0)
    assert single["output"] == "word\n" * 60_000
    assert "outputFile" not in single
    # The text was cut, and doesn't claim that the rest is somewhere.
    assert "The rest could not be recorded." in result["content"][0]["text"]
    assert result["details"]["error"]["message"] == "The text was cut; the rest is lost."
    [listed] = json.loads(ended.stdout)["runs"]
    assert (listed["state"], listed["recordProblem"]) == ("completed", single["recordProblem"])
    assert " completed, record incomplete " in (world / "listed").read_text()
    assert json.loads((world / "shown").read_text())["recordProblem"] == single["recordProblem"]
    assert "has no output" not in ended.stderr
    assert single["recordProblem"].startswith("The run's record is incomplete (")
    assert single["recordProblem"].endswith(": No space left on device.")
    assert single["recordProblem"] in ended.stderr  # as `show` says too


def test_room_for_the_outcome_is_taken_when_a_run_begins(tmp_path: Path) -> None:
    with RunRecorder.create(tmp_path) as run:
        held = sum(path.stat().st_blocks * 512 for path in run.folder.iterdir())
        assert held >= RESERVED_BYTES
        run.write_result({"details": {}})
    assert find_run(tmp_path, run.id).result == {"details": {}}


def test_a_run_is_not_begun_on_a_disk_without_room_for_its_outcome(
    world: Path, tmp_path: Path
) -> None:
    fill = "head -c 400000 /dev/zero > $OUTRIDER_HOME/full"
    run = "outrider run explorer Go. --model openai-chat:scripted"
    with ScriptedModel([answer("Done.")]) as server:
        ended = on_a_small_disk(f"{fill}; {run}", server, tmp_path / "state")
        assert server.requests == []
    assert ended.returncode == 2
    assert "No space left on device. Free some space there" in ended.stderr


def test_a_run_that_is_not_begun_leaves_no_descriptor_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs, "_reserve", full)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No space left"):
        RunRecorder.create(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_run_that_cannot_go_on_keeps_its_last_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with RunRecorder.create(tmp_path) as run:
        run.add_output("Seven.")
        run.write_result({"details": {}})
        with pytest.raises(BlockingIOError):
            RunRecorder.reopen(run.folder)
    monkeypatch.setattr(runs, "_reserve", full)
    with pytest.raises(OSError, match="No space left"):
        RunRecorder.reopen(run.folder)
    assert (run.folder / "result.json").exists() and Path(run.output_file).read_text() == "Seven."


def test_a_run_that_was_cut_in_a_line_goes_on_in_the_next(tmp_path: Path) -> None:
    with RunRecorder.create(tmp_path) as run:
        run.add_event({"number": 1})
    with Path(run.session_file).open("a") as session:
        session.write('{"number": 2, "te')
    with RunRecorder.reopen(run.folder) as run:
        run.add_event({"number": 3})
    first, _, last = Path(run.session_file).read_text().splitlines()
    assert (json.loads(first), json.loads(last)) == ({"number": 1}, {"number": 3})


def test_a_transcript_goes_on_after_a_line_that_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes) -> int:
        monkeypatch.undo()
        os.write(descriptor, data[:5])
        raise OSError(28, "No space left on device")

    with RunRecorder.create(tmp_path) as run:
        monkeypatch.setattr(os, "write", full)
        for number in range(3):
            run.add_event({"number": number})
        assert (
            run.problem
            == "The run's record is incomplete (session.jsonl): No space left on device."
        )
    *_, second, third = Path(run.session_file).read_text().splitlines()
    assert [json.loads(second), json.loads(third)] == [{"number": 1}, {"number": 2}]


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
