"""Handles on runs in Python: begin, follow, tell, stop, and get the result."""

import asyncio
import os
import subprocess
import sys
import threading

import pytest

import outrider
from conftest import COLD, assert_nothing_left, look_around
from outrider.testing import ScriptedModel, answer, tool_call


@pytest.fixture
def model(world):
    """A model that looks around until it is told something, or may answer."""
    os.environ.update(COLD)
    may_answer = threading.Event()

    def script(request):
        if may_answer.is_set() or request.last_user_text == "Finish":
            return answer("Done.")
        return look_around(request, 0.02)

    with ScriptedModel(script) as server:
        os.environ.update(server.environment)
        server.may_answer = may_answer
        yield server


@pytest.mark.parametrize("background", [False, True])
async def test_a_run_is_followed_told_something_and_gives_its_result(model, background):
    run = await outrider.start("explorer", "Look.", model=model.model, background=background)
    kinds, turn = [], None
    async for event in run.events():
        kinds.append(event.type)
        if event.type == "tool_result_end" and turn is None:
            turn = await outrider.attach(run.id).tell("Finish")
    result = await run.result()
    assert (result.details.run_id, result.result.output) == (run.id, "Done.")
    assert kinds[0] == "session" and kinds[-1] == "task_finish"
    assert turn == result.result.usage.turns
    assert await run.tell("Too late") is None
    assert (await outrider.attach(run.id).result()).result.output == "Done."


@pytest.mark.parametrize("background", [False, True])
async def test_stop_ends_a_run_and_returns_its_result(model, background):
    run = await outrider.start("explorer", "Look.", model=model.model, background=background)
    await asyncio.to_thread(model.wait_for_requests, 2)
    assert (await outrider.attach(run.id[:6]).stop()).result.outcome == "cancelled"
    assert (await run.result()).result.outcome == "cancelled"
    assert_nothing_left()


async def test_whoever_stops_waiting_does_not_stop_the_run(model):
    run = await outrider.start("explorer", "Look.", model=model.model)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await run.result()
    model.may_answer.set()
    assert (await run.result()).completed


@pytest.mark.parametrize("background", [False, True])
async def test_what_is_refused_raises(model, background):
    with pytest.raises(outrider.DelegationError) as caught:
        await outrider.start("nobody", "Look.", background=background)
    assert caught.value.code == "UNKNOWN_AGENT"
    with pytest.raises(outrider.DelegationError):
        outrider.attach("00000000")
    if background:
        with pytest.raises(outrider.DelegationError) as caught:
            await outrider.start("explorer", "Look.", background=True, tools=[print])
        assert "tools.modules" in str(caught.value)


async def test_delegate_resumes_a_run(model):
    model.may_answer.set()
    first = await outrider.delegate("explorer", "Look.", model=model.model)
    second = await outrider.delegate("explorer", "And?", resume=first.run_id)
    assert second.result.result.resumes == first.run_id
    texts = [one["content"] for one in model.requests[-1].messages[1:]]
    assert texts == ["Look.", "Done.", "And?"]
    with pytest.raises(outrider.DelegationError) as caught:
        await outrider.delegate("reviewer", "And?", resume=first.run_id)
    assert "is one of explorer" in str(caught.value)


PROGRAM = """
import asyncio, outrider, sys
async def main():
    words = ("explorer", "Look.")
    start = lambda alone: outrider.start(*words, model=sys.argv[1], background=alone)
    runs = [await start(False), await start(True)]
    print(*(run.id for run in runs), flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


async def test_only_the_background_run_goes_on_without_its_program(model):
    command = (sys.executable, "-c", PROGRAM, model.model)
    program = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    ids = (await program.stdout.readline()).decode().split()
    program.kill()
    await program.wait()
    own, background = map(outrider.attach, ids)
    assert "interrupted" in (await own.result()).result.error
    model.may_answer.set()
    assert (await background.result()).completed


async def test_a_confined_child_reaches_no_socket_of_a_run_its_own_included(model, world):
    """Its tools find nothing where the runs are, and its commands nothing to connect to."""
    agent = world / ".outrider/agents/prober.md"
    agent.parent.mkdir(parents=True)
    agent.write_text("---\nname: prober\ntools: bash, read, ls\n---\nYou try.\n")
    other = await outrider.start("explorer", "Look.", model=model.model)
    runs = other.folder.parent
    probe = (
        f'ls -A {runs} | wc -l; {sys.executable} -c "import glob, socket\n'
        f"for path in glob.glob('{runs}/*/control.sock'):\n"
        "    socket.socket(socket.AF_UNIX).connect(path); print('REACHED')\n\"; echo tried"
    )
    steps = [
        tool_call("bash", {"command": probe}),
        tool_call("read", {"path": f"{other.folder}/control.sock"}),
        tool_call("bash", {"command": f"test -S {other.folder}/control.sock && echo REACHED"}),
        answer("I tried."),
    ]
    config = {"subagents.allowWrite": True, "subagents.trustedProjects": ["/"]}
    with ScriptedModel(steps) as server:
        os.environ.update(server.environment)
        result = await outrider.subagent("prober", "Try.", model=server.model, config=config)
        seen = [one for one in server.requests[-1].messages if one["role"] == "tool"]
        await other.stop()
    assert result.completed and result.result.isolation.missing == ()
    assert "tried" in seen[0]["content"] and not any("REACHED" in one["content"] for one in seen)
