"""What a child is told while it works: read once, in order, by the right child, or refused."""

import asyncio
import json
import random
import subprocess
import sys
import threading

import pytest

from conftest import look_around, wait_until
from outrider.testing import ScriptedModel, answer, fail
from test_background import background, door, model  # noqa: F401  (fixtures)

pytestmark = pytest.mark.usefixtures("unmeasured")

TELLER = """
import asyncio, json, random, sys
from pathlib import Path
from outrider.delegation.run_handle import RunHandle

async def main(name, count, *folders):
    for number in range(int(count)):
        folder = random.choice(folders)
        await asyncio.sleep(random.random() / 20)
        text = f"<{name}-{number}>"
        turn = await RunHandle(Path(folder)).tell(text)
        print(json.dumps([folder[-8:], text, turn]), flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def told(request):
    """Return what a request carries beside the task and the calls."""
    return [one["content"] for one in request.messages[2:] if one["role"] == "user"]


def test_a_message_is_read_before_the_next_request_and_kept_in_the_transcript(door, model):  # noqa: F811
    run_id = background(door, model)
    wait_until(lambda: model.requests, "the child at work")
    ended = door.run("tell", run_id, "Leave the tests alone")
    assert ended.code == 0
    turn = int(ended.out.removeprefix("read in turn "))
    assert told(model.requests[turn - 1]) == ["Leave the tests alone"]
    assert told(model.requests[turn - 2]) == []
    events = [json.loads(line) for line in door.run("show", run_id, "--events").out.splitlines()]
    (kept,) = (one for one in events if one["type"] == "user_message")
    assert (kept["turn"], kept["text"]) == (turn, "Leave the tests alone")
    assert door.run("tell", run_id, "--finish", "--json").json["turn"] > turn
    assert "wrap up" in told(model.requests[-1])[-1]


def test_a_run_that_ended_before_says_so(door):  # noqa: F811
    with ScriptedModel([answer("Done.")]) as server:
        run_id = background(door, server)
        door.run("wait", run_id)
    ended = door.run("tell", run_id, "Too late")
    assert (ended.code, ended.out) == (1, "")
    assert "ended before it read the message" in ended.err
    assert door.run("tell", run_id).code == 2
    assert door.run("tell", "00000000", "Who?").code == 2


def test_what_no_model_answered_was_not_read(door):  # noqa: F811
    """The request that carries it fails for good."""
    begun = threading.Event()

    def script(request):
        if told(request):
            return fail(400, message="No.")
        begun.set()
        return look_around(request, 0.05)

    with ScriptedModel(script) as server:
        run_id = background(door, server)
        assert begun.wait(30)
        ended = door.run("tell", run_id, "Hello?", "--json")
        assert (ended.code, ended.json["turn"]) == (1, None)


async def test_300_messages_at_random_are_each_read_once_in_order_by_the_right_child(
    door,  # noqa: F811
):
    """From several processes to several runs, which end at random moments."""
    open_runs, lock = {f"Task {number}" for number in range(4)}, threading.Lock()

    def script(request):
        with lock:
            if request.messages[1]["content"] not in open_runs:
                return answer("Done.")
        return look_around(request, 0.01)

    with ScriptedModel(script) as server:
        tasks = {}
        for task in sorted(open_runs):
            words = ("run", "explorer", task, "-m", server.model, "--bg", "--max-turns", "10000")
            tasks[door.run(*words, env=server.environment).out.strip()] = task
        folders = [str(door.runs / run_id) for run_id in tasks]
        tellers = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", TELLER, f"t{number}", "75", *folders, stdout=subprocess.PIPE
            )
            for number in range(4)
        ]
        lines = [[] for _ in tellers]

        async def read(number):
            async for line in tellers[number].stdout:
                lines[number].append(json.loads(line))
                if sum(map(len, lines)) % 60 == 59:
                    with lock:
                        open_runs.discard(random.choice(sorted(open_runs) or [""]))

        await asyncio.gather(*map(read, range(4)))
        with lock:
            open_runs.clear()
        door.run("wait", *tasks)
        requests = server.requests
    said = [one for teller in lines for one in teller]
    assert len(said) == 300 and any(turn for _, _, turn in said)
    for run_id, task in tasks.items():
        own = [one for one in requests if one.messages[1]["content"] == task]
        last = told(own[-1])
        assert len(last) == len(set(last))
        for teller in lines:
            read_here = [(text, turn) for run, text, turn in teller if run == run_id and turn]
            assert [text for text, _ in read_here] == [
                text for text in last if text in dict(read_here)
            ]
            for text, turn in read_here:
                assert text in told(own[turn - 1])
                assert turn == 1 or text not in told(own[turn - 2])
        mine = {text for run, text, _ in said if run == run_id}
        assert set(last) <= mine
