"""What a writer changed, and what becomes of it, is told and asked at every surface."""

# ruff: noqa: RUF001 (a real minus)

import asyncio
import fcntl
import json
import os
import re
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters

import outrider
from cli_door import Door, Ended, Terminal
from outrider import Changes, Delegation, LandingConflict, OutriderError, delegate
from outrider.protocol.changes import ChangedFile, PathReason
from outrider.settings.places import runs_folder
from outrider.testing import ModelRequest, ScriptedModel, Step, answer, tool_call
from outrider.workspaces.layers.landing import LOCK
from test_ask import main_requests, scripted
from test_chat import chatting, leave

CODE = "x = 1\n"
WRITE = "subagents.allowWrite"


@pytest.fixture
def door(tmp_path: Path, warm_runtime: Path):
    with closing(Door(tmp_path, warm_runtime)) as door:
        (door.project / "a.py").write_text(CODE)
        yield door


def writing(*commands: str) -> list[Step]:
    return [*(tool_call("bash", {"command": one}) for one in commands), answer("Done.")]


GROW = writing("echo y = 2 >> a.py; echo z > 'b c.py'; mkdir -p .git/hooks; touch .git/hooks/x")


def run(door: Door, steps: list[Step], *arguments: str, **env: str) -> Ended:
    with ScriptedModel(steps) as server:
        words = ("run", "coder", "Go.", "--write", "--model", server.model, *arguments)
        return door.run(*words, env={**server.environment, **env})


def run_id(ended: Ended) -> str:
    return re.findall(r"(?:diff|undo) ([0-9a-f]{8})", ended.err)[-1]


def text_of(path: Path) -> str:
    return path.read_text()


# The words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (Changes(), "no files changed"),
        (Changes("pending", 40, 7), "2 files, +40 −7, not landed: outrider diff 3f9a1c20"),
        (
            Changes("pending", 1, 0, conflicts=(PathReason("a", "x"),)),
            "2 files, +1 −0, 1 in conflict, not landed: outrider diff 3f9a1c20",
        ),
        (
            Changes("pending", 1, 0, conflicts=(PathReason(".", "not landed by itself: no"),)),
            "2 files, +1 −0, not landed by itself: no: outrider diff 3f9a1c20",
        ),
        (
            Changes("landed", 1, 0, withheld=(PathReason("a", "x"),)),
            "2 files, +1 −0, 1 withheld, landed: outrider undo 3f9a1c20 takes it back",
        ),
        (Changes("undone", 1, 0), "2 files, +1 −0, undone"),
    ],
)
def test_the_words_say_how_much_and_what_became_of_it(changes: Changes, words: str) -> None:
    files = () if changes.state == "none" else (ChangedFile("a", "added"),) * 2
    told = Changes(
        changes.state, changes.added, changes.removed, files, changes.withheld, changes.conflicts
    )
    assert told.words("3f9a1c20") == words


# The command


def test_a_run_ends_with_what_it_changed_and_the_command_that_goes_on(door: Door) -> None:
    ended = run(door, GROW)
    last = ended.err.splitlines()[-1]
    assert re.fullmatch(
        r"outrider: 2 files, \+2 −0, 1 withheld, not landed: outrider diff \w{8}", last
    )
    assert ended.out == "Done.\n" and text_of(door.project / "a.py") == CODE
    run_ = run_id(ended)
    assert f"1 withheld, not landed: outrider diff {run_}" in door.run("show", run_).err
    assert "completed, not landed" in door.run("runs").out
    assert door.run("land", run_).code == 0
    assert f"landed: outrider undo {run_} takes it back" in door.run("show", run_).err
    assert door.run("undo", run_).code == 0
    assert "completed, undone" in door.run("runs").out
    assert door.run("discard", run_).code == 0
    assert door.run("show", run_).err.endswith("1 withheld, discarded\n")
    assert [one["changes"] for one in door.run("runs", "--json").json["runs"]] == ["discarded"]


def test_a_run_that_failed_or_changed_nothing_says_so_too(door: Door) -> None:
    failed = run(door, GROW[:1] * 2, "--max-turns", "1")
    assert failed.code == 1
    assert re.search(r"not landed: outrider diff \w{8}\n$", failed.err)
    assert run(door, writing("true")).err.endswith("outrider: no files changed\n")


def test_with_auto_it_says_that_it_landed_or_why_not(door: Door) -> None:
    auto = ("--set", "subagents.land=auto")
    refused = run(door, GROW, *auto, "--set", "subagents.landCheck=exit 7", "--json")
    assert refused.err.count("the check failed with exit code 7") == 1
    result = refused.json
    assert result["details"]["results"][0]["changes"]["state"] == "pending"
    note = "not landed by itself: the check failed with exit code 7: outrider diff"
    assert note in result["content"][0]["text"]
    landed = run(door, GROW, *auto)
    assert "1 withheld, landed: outrider undo" in landed.err
    assert text_of(door.project / "a.py") == "x = 1\ny = 2\n"


def test_a_failed_check_of_a_landing_is_said_once(door: Door) -> None:
    run_ = run_id(run(door, GROW))
    ended = door.run("land", run_, "--check", "exit 3")
    assert ended.code == 1
    assert ended.err == "outrider: nothing was changed: the check failed with exit code 3.\n"


def test_never_lands_nothing_unless_one_says_so_again(door: Door) -> None:
    run_ = run_id(run(door, GROW))
    never = {"OUTRIDER_SUBAGENTS__LAND": "never"}
    ended = door.run("land", run_, env=never)
    assert ended.code == 2 and "subagents.land is never" in ended.err
    assert text_of(door.project / "a.py") == CODE


def test_a_writer_is_refused_with_the_option_that_allows_it(door: Door) -> None:
    ended = door.run("run", "coder", "Go.", "--model", "embedded")
    assert ended.code == 2 and "--write" in ended.err


def test_show_names_what_a_killed_run_left(door: Door) -> None:
    run_ = run_id(run(door, GROW))
    for name in ("result.json", "landing.json"):
        (door.runs / run_ / name).unlink()
    assert f"'outrider diff {run_}' shows what it changed." in door.run("show", run_).err


# The main agent


def to_coder(*commands: str) -> dict[str, Any]:
    left = list(commands)

    def child(_request: ModelRequest) -> Step:
        return tool_call("bash", {"command": left.pop(0)}) if left else answer("Done.")

    return {"child": child}


DELEGATE = tool_call("subagent", {"agent": "coder", "task": "Go."})
QUESTION = r"Enter to decide later: $"


def asked(door: Door, server: ScriptedModel) -> Terminal:
    words = ("ask", "Go.", "--model", server.model, "--set", f"{WRITE}=true")
    return door.terminal(*words, env=server.environment)


def told_main(server: ScriptedModel) -> str:
    return str(main_requests(server)[-1].messages[-1]["content"])


@pytest.mark.parametrize(
    ("keys", "state", "code"),
    [("d\nl\n", "landed", "x = 1\ny = 2\n"), ("x\n", "discarded", CODE), ("\n", "pending", CODE)],
)
def test_the_person_says_what_becomes_of_it_and_the_model_is_told(
    door: Door, keys: str, state: str, code: str
) -> None:
    with scripted(DELEGATE, answer("Over."), **to_coder("echo y = 2 >> a.py")) as server:
        terminal = asked(door, server)
        for number, key in enumerate(keys.splitlines(keepends=True)):
            terminal.see(rf"(?s)a\.py +\+1 −0.*(later: .*){{{number}}}{QUESTION}")
            terminal.type(key)
        assert terminal.end() == 0
        told = told_main(server)
    words = {"pending": "not landed: outrider diff"}.get(state, state)
    assert re.search(rf'<subagent-output .* changes="(1 file, \+1 −0, )?{words}', told)
    assert "not landed" not in told.partition(">")[2]
    assert ("+y = 2" in terminal.screen) == ("d" in keys)
    assert text_of(door.project / "a.py") == code
    [of_coder] = (one for one in door.run("runs", "--json").json["runs"] if one["agent"] == "coder")
    assert of_coder["changes"] == state


def test_after_a_conflict_the_person_is_asked_again(door: Door) -> None:
    with scripted(DELEGATE, answer("Over."), **to_coder("echo x = 3 > a.py")) as server:
        terminal = asked(door, server)
        terminal.see(QUESTION)
        (door.project / "a.py").write_text("x = 2\n")
        terminal.type("l\n")
        terminal.see(rf"(?s)nothing was changed: a\.py: .*{QUESTION}")
        terminal.type("\n")
        assert terminal.end() == 0
    assert text_of(door.project / "a.py") == "x = 2\n"


def test_ctrl_c_at_the_question_stops_the_turn_and_leaves_it_for_later(door: Door) -> None:
    with scripted(DELEGATE, answer("Over."), **to_coder("echo y = 2 >> a.py")) as server:
        terminal = asked(door, server)
        terminal.see(QUESTION)
        terminal.type("\x03")
        assert terminal.end() == 130
    runs = {one["agent"]: one for one in door.run("runs", "--json").json["runs"]}
    assert runs["coder"]["changes"] == "pending" and runs["main"]["state"] == "cancelled"
    main = door.run("show", runs["main"]["runId"], "--json").json["result"]["details"]
    assert [one["runId"] for one in main["delegations"]] == [runs["coder"]["runId"]]


def test_in_chat_the_question_stands_between_the_subagent_and_the_answer(door: Door) -> None:
    may_write = ("--set", f"{WRITE}=true")
    with (
        scripted(DELEGATE, answer("Over."), **to_coder("echo y = 2 >> a.py")) as server,
        chatting(door, server, *may_write) as screen,
    ):
        screen.enter("Go.")
        screen.see_now(r"a\.py +\+1 −0\n\[l\]and, \[d\]iff, .*later:")
        screen.enter("l")
        screen.see(r"1 file, \+1 −0, landed: outrider undo [0-9a-f]{8} takes it back(.|\n)*Over\.")
        assert leave(screen) == 0
    assert text_of(door.project / "a.py") == "x = 1\ny = 2\n"


def test_without_a_terminal_only_the_command_is_said(door: Door) -> None:
    with scripted(DELEGATE, answer("Over."), **to_coder("echo y = 2 >> a.py")) as server:
        words = ("ask", "Go.", "--model", server.model, "--set", f"{WRITE}=true")
        ended = door.run(*words, env=server.environment)
        assert "+1 −0, not landed: outrider diff" in told_main(server)
    assert ended.out == "Over.\n"
    assert re.search(r"outrider: 1 file, \+1 −0, not landed: outrider diff \w{8}\n", ended.err)


# MCP


def mcp(door: Door, server: ScriptedModel, **env: str) -> StdioServerParameters:
    given = {**server.environment, "OUTRIDER_MODEL": server.model, **env}
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "outrider", "mcp"],
        env=door.environment({"OUTRIDER_SUBAGENTS__ALLOW_WRITE": "true", **given}),
        cwd=door.project,
    )


async def call(client: Client, action: str, run: str, **more: Any) -> Any:
    return await client.call_tool("subagent_changes", {"runId": run, "action": action, **more})


async def test_the_tool_is_offered_only_while_writers_are(door: Door) -> None:
    with ScriptedModel([]) as server:
        off = mcp(door, server, OUTRIDER_SUBAGENTS__ALLOW_WRITE="false")
        async with Client(off) as client:
            assert "subagent_changes" not in [t.name for t in (await client.list_tools()).tools]
            with pytest.raises(MCPError, match="no tool"):
                await call(client, "diff", "00000000")
        async with Client(mcp(door, server)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    hints = tools["subagent_changes"].annotations
    assert (hints.read_only_hint, hints.destructive_hint) == (False, True)
    assert len(json.dumps(tools["subagent_changes"].input_schema)) < 400


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_host_reads_the_diff_and_the_person_lands_and_undoes(door: Door, mode: str) -> None:
    asked: list[str] = []
    answers = iter(["decline", "accept", "accept", "accept"])

    async def on_question(_context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        action: Any = next(answers)
        return types.ElicitResult(action=action, content={} if action == "accept" else None)

    steps = writing("echo y = 2 >> a.py; echo key = sk-ant-api03-$(seq -s a 40) > b.py")
    with ScriptedModel(steps) as server:
        given = mcp(door, server)
        async with Client(given, mode=mode, elicitation_callback=on_question) as client:
            done = await client.call_tool("subagent", {"agent": "coder", "task": "Go."})
            run = done.structured_content["runId"]
            told = done.structured_content["changes"]
            assert told["summary"] == f"2 files, +2 −0, not landed: outrider diff {run}"
            assert told["files"][0] == {"path": "a.py", "kind": "modified"}
            assert f"changes: {told['summary']}\nfiles: a.py, b.py\n" in done.content[0].text
            assert "hunks" not in json.dumps(done.structured_content)
            again = await client.call_tool("subagent_result", {"runId": run})
            assert again.structured_content["changes"] == told

            diff = await call(client, "diff", run)
            assert not diff.is_error and "\n+y = 2\n" in diff.content[0].text
            assert "<subagent-output" in diff.content[0].text and "sk-ant-api03" not in str(diff)
            part = await call(client, "diff", run, paths=["b.py"])
            assert "y = 2" not in part.content[0].text and asked == []

            no = await call(client, "land", run)
            assert no.is_error and "said no" in no.content[0].text
            assert text_of(door.project / "a.py") == CODE
            yes = await call(client, "land", run, paths=["a.py"])
            assert yes.structured_content["outcome"] == "pending"  # the rest
            assert text_of(door.project / "a.py") == "x = 1\ny = 2\n"
            assert not (door.project / "b.py").exists()
            assert (await call(client, "undo", run)).structured_content["outcome"] == "pending"
            gone = await call(client, "discard", run)
            assert gone.structured_content["outcome"] == "discarded" and not gone.is_error
    assert text_of(door.project / "a.py") == CODE
    assert [one.split()[0] for one in asked] == ["Land", "Land", "Undo", "Throw"]
    assert "2 files, +2 −0: a.py, b.py" in asked[0] and "1 file, +1 −0: a.py" in asked[1]
    assert str(door.project) in asked[0]


async def test_where_the_host_cannot_ask_the_answer_is_what_to_type(door: Door) -> None:
    run = run_id(await asyncio.to_thread(run_it, door))
    with ScriptedModel([]) as server:
        async with Client(mcp(door, server)) as client:
            for action in ("land", "undo", "discard"):
                if action == "undo":
                    assert door.run("land", run).code == 0
                told = await call(client, action, run)
                assert told.is_error
                if action == "discard":
                    assert "nothing to discard" in told.content[0].text
                else:
                    assert f"type: outrider {action} {run}" in told.content[0].text
                assert text_of(door.project / "a.py") == (
                    CODE if action == "land" else "x = 1\ny = 2\n"
                )


def run_it(door: Door) -> Ended:
    return run(door, GROW)


async def test_what_a_host_may_not_do_is_refused(door: Door, tmp_path: Path) -> None:
    run = run_id(await asyncio.to_thread(run_it, door))
    other = tmp_path / "other"
    other.mkdir()
    with ScriptedModel([]) as server:
        never = mcp(door, server, OUTRIDER_SUBAGENTS__LAND="never")
        async with Client(never, elicitation_callback=never_asked) as client:
            told = await call(client, "land", run)
            assert told.is_error and "subagents.land is never" in told.content[0].text
            for given in ({"action": "merge"}, {"action": "undo", "paths": ["a.py"]}):
                told = await client.call_tool("subagent_changes", {"runId": run, **given})
                assert told.is_error and "INVALID_INPUT" in told.content[0].text
        elsewhere = mcp(door, server)
        elsewhere.cwd = other
        async with Client(elsewhere, elicitation_callback=never_asked) as client:
            told = await call(client, "diff", run)
            assert told.is_error and "another folder" in told.content[0].text


async def never_asked(_context: Any, _params: Any) -> types.ElicitResult:
    raise AssertionError("nobody is to be asked")


async def test_with_auto_only_a_completed_run_lands_without_a_question(door: Door) -> None:
    done = run_id(await asyncio.to_thread(run_it, door))
    failed = run_id(await asyncio.to_thread(run, door, GROW[:1] * 2, "--max-turns", "1"))
    with ScriptedModel([]) as server:
        async with Client(mcp(door, server, OUTRIDER_SUBAGENTS__LAND="auto")) as client:
            told = await call(client, "land", failed)
            assert told.is_error and f"outrider land {failed}" in told.content[0].text
            told = await call(client, "land", done)
            assert told.structured_content["outcome"] == "landed"
            (door.project / "a.py").write_text("x = 1\ny = 3\n")
    assert text_of(door.project / "b c.py") == "z\n"


async def test_a_conflict_is_told_and_changes_nothing(door: Door) -> None:
    run = run_id(await asyncio.to_thread(run_it, door))
    (door.project / "b c.py").write_text("mine\n")

    async def yes(_context: Any, _params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={})

    with ScriptedModel([]) as server:
        async with Client(mcp(door, server), elicitation_callback=yes) as client:
            told = await call(client, "land", run)
    assert told.is_error and "Nothing was changed: b c.py: " in told.content[0].text
    assert text_of(door.project / "a.py") == CODE


# Python


async def written(world: Path, *commands: str, **options: Any) -> Delegation[str]:
    (world / "a.py").write_text(CODE)
    with ScriptedModel(writing(*commands)) as server:
        os.environ.update(server.environment)
        config = {WRITE: True, **options.pop("config", {})}
        return await delegate("coder", "Go.", model=server.model, config=config, **options)


async def test_an_answer_lands_is_undone_and_discarded_in_python(world: Path) -> None:
    answer = await written(world, "echo y = 2 >> a.py; echo z > b.py")
    assert answer.changes is not None and answer.changes.state == "pending"
    assert (await answer.land(only=["a.py"], check="grep -q y a.py")).state == "pending"
    assert text_of(world / "a.py") == "x = 1\ny = 2\n" and not (world / "b.py").exists()
    assert (await answer.land()).state == "landed"
    assert text_of(world / "b.py") == "z\n"
    assert (await answer.undo()).state == "undone"
    assert text_of(world / "a.py") == CODE
    assert (await answer.discard()).state == "discarded"
    with pytest.raises(OutriderError, match="nothing to land"):
        await answer.land()


async def test_a_conflict_or_a_failed_check_is_raised_and_changes_nothing(world: Path) -> None:
    answer = await written(
        world, "echo x = 3 > a.py", config={"subagents.landCheck": "! grep -q 3 a.py"}
    )
    with pytest.raises(OutriderError, match="the check failed with exit code 1"):
        await answer.land()
    (world / "a.py").write_text("x = 2\n")
    with pytest.raises(LandingConflict) as raised:
        await answer.land()
    assert [one.path for one in raised.value.conflicts] == ["a.py"]
    assert text_of(world / "a.py") == "x = 2\n"
    assert outrider.LandingConflict is LandingConflict


async def test_a_landing_does_not_block_the_loop(world: Path) -> None:
    answer = await written(world, "echo y = 2 >> a.py")
    await answer.land()
    await answer.undo()
    [lock] = runs_folder(os.environ).glob(f"{LOCK}*")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        landing = asyncio.create_task(answer.land())
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "the loop goes on"), 60)
        assert not landing.done()
    assert (await landing).state == "landed"


async def test_a_check_is_asked_for_by_name(world: Path) -> None:
    answer = await written(world, "echo y = 2 >> a.py", check="grep -q y a.py")
    told = answer.result.details.results[0].check
    assert told is not None and (told["exitCode"], told["attempts"]) == (0, 1)


async def test_a_reader_has_no_changes(world: Path) -> None:
    with ScriptedModel([answer("Here.")]) as server:
        os.environ.update(server.environment)
        found = await delegate("explorer", "Where?", model=server.model)
    assert found.changes is None
    with pytest.raises(OutriderError, match="only writers"):
        await found.land()
