"""Maps that are killed, interrupted, or out of disk: each item still has exactly one result."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing

import pytest

from cli_door import COMMAND, PATIENCE_SECONDS, Door
from conftest import wait_until
from outrider.testing import ScriptedModel, answer, silence, tool_call

ITEMS, KILLS = 200, 10


@pytest.fixture
def door(tmp_path, warm_runtime):
    with closing(Door(tmp_path, warm_runtime)) as door:
        (door.project / "items").write_text("".join(f"Item {n}\n" for n in range(ITEMS)))
        yield door


def words(server, *options, agent="explorer"):
    return ("map", agent, "items", "--model", server.model, "--journal", "j", *options)


def recorded(door):
    """Return the tasks that have a recorded result."""
    found = set()
    with open(door.project / "j", "rb") as lines:
        for line in lines:
            if line.endswith(b"\n") and "end" in (data := json.loads(line)):
                found.add(data["row"]["task"])
    return found


def asked(server):
    return Counter(request.last_user_text for request in server.requests)


@pytest.mark.timeout(600)
def test_a_map_killed_ten_times_gives_each_item_one_result_and_repeats_none(door):
    chance = random.Random(30)
    with ScriptedModel(lambda _: answer("Done.", delay=0.01)) as server:
        for kill in range(KILLS):
            before = len(server.requests)
            process = door.start(*words(server), env=server.environment, stdout=subprocess.DEVNULL)
            server.wait_for_requests(before + chance.randint(1, 25), 120)
            while len(recorded(door)) < kill:  # at a moment that has nothing to do with requests
                process.poll()
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            done, asked_before = recorded(door), asked(server)
            wait_until(lambda: not door.processes(), "the children of a killed map")
        ended = door.run(*words(server), env=server.environment)
        repeated = {task for task in done if asked(server)[task] != asked_before[task]}
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 0, ended.err
    assert len(rows) == len({row["id"] for row in rows}) == ITEMS
    assert {row["task"] for row in rows} == {f"Item {n}" for n in range(ITEMS)}
    assert 10 < len(done) < ITEMS and not repeated


def test_a_writer_that_was_killed_in_the_users_files_is_listed_and_run_again_when_told(door):
    agents = door.home / ".config/outrider/agents"
    agents.mkdir(parents=True)
    (agents / "writer.md").write_text("---\nname: writer\ntools: ls, write\n---\nYou write.")
    options = ("--write", "--set", "subagents.isolation=none", "--limit", "1")
    with ScriptedModel(lambda _: silence()) as server:
        process = door.start(*words(server, *options, agent="writer"), env=server.environment)
        server.wait_for_requests(1)
        process.kill()
        process.communicate()
        wait_until(lambda: not door.processes(), "the children of a killed map")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        ended = door.run(*words(server, *options, agent="writer"), env=server.environment)
        assert ended.code == 1 and not server.requests
        row = json.loads(ended.out)
        assert row["outcome"] == "unfinished" and "--rerun-unfinished" in row["error"]["message"]
        options = (*options, "--rerun-unfinished")
        ended = door.run(*words(server, *options, agent="writer"), env=server.environment)
    assert ended.code == 0 and json.loads(ended.out)["outcome"] == "completed"


def told_turns(door):
    """Return the transcripts that tell the end of a turn."""
    transcripts = door.runs.glob("*/session.jsonl")
    return [one for one in transcripts if '"type":"turn_end"' in one.read_text()]


def test_what_killed_items_have_used_counts_however_often_that_happens(door):
    def step(request):
        return tool_call("ls", {}) if request.turn == 0 else silence()

    for killed in (1, 2):
        with ScriptedModel(step) as server:
            process = door.start(*words(server, "--limit", "1"), env=server.environment)
            wait_until(lambda n=killed: len(told_turns(door)) == n, "the end of its first turn")
            process.kill()
            process.communicate()
            wait_until(lambda: not door.processes(), "the children of a killed map")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        ended = door.run(*words(server, "--limit", "1"), env=server.environment)
    assert ended.code == 0 and "1 completed · 45 tokens" in ended.err


def test_ctrl_c_ends_the_children_and_the_same_command_goes_on(door):
    with ScriptedModel(lambda request: answer("Done.") if request.number < 5 else silence()) as one:
        process = door.start(*words(one), env=one.environment)
        one.wait_for_requests(10)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert b"it was interrupted" in err and b"The same command goes on" in err
    assert len(out.splitlines()) == 5
    door.assert_nothing_left()
    with ScriptedModel(lambda _: answer("Done.")) as server:
        ended = door.run(*words(server, "--limit", "12"), env=server.environment)
    assert ended.code == 0 and len(ended.out.splitlines()) == 12
    assert len(server.requests) == 7


def test_a_reader_that_has_gone_ends_the_map_and_costs_no_result(door):
    with ScriptedModel(lambda _: answer("Done.", delay=0.05)) as server:
        process = door.start(*words(server), env=server.environment)
        assert json.loads(process.stdout.readline())["outcome"] == "completed"
        process.stdout.close()
        assert process.wait(PATIENCE_SECONDS) == 141
        process.stderr.close()
        door.assert_nothing_left()
        done, before = recorded(door), asked(server)
        assert 0 < len(done) < ITEMS
        ended = door.run(*words(server), env=server.environment)
    assert ended.code == 0 and len(ended.out.splitlines()) == ITEMS
    assert not [task for task in done if asked(server)[task] != before[task]]


def test_a_second_map_on_the_journal_is_refused_by_name(door):
    with ScriptedModel(lambda _: silence()) as server:
        first = door.start(*words(server, "--limit", "1"), env=server.environment)
        server.wait_for_requests(1)
        ended = door.run(*words(server), env=server.environment)
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=PATIENCE_SECONDS)
    assert ended.code == 2 and "Another map is at work on the journal j." in ended.err


def test_an_input_that_grows_while_it_is_read_is_read_to_its_end(door):
    items = door.project / "items"
    items.write_text("Item 0\nItem ")

    def step(request):
        if request.number == 0:
            with open(items, "a") as file:
                file.write("1\nItem 2")
        return answer("Done.")

    with ScriptedModel(step) as server:
        ended = door.run(*words(server), env=server.environment)
    assert ended.code == 0
    assert asked(server) == dict.fromkeys(("Item 0", "Item 1", "Item 2"), 1)


def on_small_disk(door, server, folder, kilobytes, fill=False):
    """Run the map with a file system of so many bytes over a folder, and return how it ended."""
    filled = 'cat /dev/zero > "$1/zeros" 2> /dev/null; ' if fill else ""
    mount = f'mount -t tmpfs -o size={kilobytes}k tmpfs "$1"'
    script = f'{mount} || exit; {filled}shift; exec "$@"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(folder)]
    folder.mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        [*command, *COMMAND, *words(server, "--journal", str(folder / "j"))],
        cwd=door.project,
        env=door.environment(server.environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system")
def test_a_journal_on_a_full_disk_ends_the_map_and_says_what_to_do(door, tmp_path):
    with ScriptedModel(lambda _: answer("Done. " * 200)) as server:
        ended = on_small_disk(door, server, tmp_path / "small", 16)
    assert ended.returncode == 1, ended.stderr
    assert b"can't be written: No space left on device" in ended.stderr
    assert b"The same command goes on" in ended.stderr
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert 0 < len(rows) < ITEMS and {row["outcome"] for row in rows} == {"completed"}
    door.assert_nothing_left()


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system")
def test_no_room_for_records_ends_the_map_instead_of_failing_every_row(door):
    with ScriptedModel(lambda _: answer("Done. " * 2000)) as server:
        ended = on_small_disk(door, server, door.runs.parent, 400)
    assert ended.returncode == 1, ended.stderr
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(rows) < ITEMS
    assert b"No space left on device" in ended.stderr
    door.assert_nothing_left()


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system")
def test_a_journal_that_can_not_begin_is_refused(door, tmp_path):
    with ScriptedModel([]) as server:
        ended = on_small_disk(door, server, tmp_path / "full", 4, fill=True)
    assert ended.returncode == 2 and b"No space left on device" in ended.stderr
    assert b"The map can't start: the journal" in ended.stderr and not server.requests


def test_a_full_disk_behind_the_output_ends_the_map_with_what_it_has(door):
    with ScriptedModel(lambda _: answer("Done.")) as server:
        ended = door.run(*words(server, "--output", "/dev/full"), env=server.environment)
        assert ended.code == 1 and "stopped: [Errno 28] No space left on device" in ended.err
        assert len(server.requests) < ITEMS
    door.assert_nothing_left()
