"""Going on with a run that has ended: the same agent, model, tools and conversation."""

import json
import os
from dataclasses import replace

import pytest

from outrider import subagent
from outrider.models.keeping import kept_of, restored
from outrider.models.messages import ModelAnswer, ModelCall
from outrider.testing import ScriptedModel, answer, fail, silence_after, tool_call, tool_calls
from test_background import background, door, model, supervisor_of  # noqa: F401  (fixtures)


@pytest.fixture
def project(world):
    os.environ["OUTRIDER_WARM__KEEP_MINUTES"] = "0"
    for number in range(60):
        (world / f"file{number}.txt").write_text(f"Zeile {number}: grün, 漢字\n" * (number + 1))
    (world / "long.txt").write_text(
        "\n".join(f"{number} words and more words" for number in range(9_000))
    )
    return world


def fifty_turns(request):
    """Answer with calls of all kinds, good and bad, and at last with an answer."""
    number = request.turn
    steps = [
        tool_call("read", {"path": f"file{number}.txt"}, text=f"Let me see: „{number}“."),
        tool_call("grep", '{"pattern":"grün",  "path": "."  }'),
        tool_calls([("ls", {"path": "."}), ("read", {"path": "missing.txt"})]),
        tool_call("read", '{"path": "long.txt", "limit": null, "offset": 1.0}'),
        tool_call("nonsense", {"a": [1, 2.5, None, "ü"]}),
        tool_call("find", '{"pattern": "*.txt"'),
    ]
    return steps[number % len(steps)] if number < 49 else answer("It is in file 7.")


def sent(request):
    """Return the body of a request as it came, up to the end of its last message."""
    body = request.raw.decode()
    _, end = json.JSONDecoder().raw_decode(body, body.index("[", body.index('"messages":')))
    return body[: end - 1]


@pytest.mark.parametrize("wire", ["auto", "sdk"])
async def test_fifty_turns_are_sent_again_byte_for_byte(project, wire):
    config = {"models.wire": wire, "subagents.budget.maxTurns": 54}
    with ScriptedModel(fifty_turns) as server:
        os.environ.update(server.environment)
        first = await subagent("explorer", "Where is it?", model=server.model, config=config)
        assert first.completed, first.text
        asked = server.requests[-1]
        run_id = first.details.run_id
        second = await subagent("explorer", "And tested?", resume=run_id, config=config)
        third = await subagent("", "And used?", resume=second.details.run_id, config=config)
        again, once_more = server.requests[-2:]
    assert len(server.requests) == 52
    assert len(asked.messages) > 100
    assert sent(again).startswith(sent(asked)) and sent(once_more).startswith(sent(again))
    new = json.loads(f"[{sent(again)[len(sent(asked)) + 1 :]}]")
    assert [one["content"] for one in new] == ["It is in file 7.", "And tested?"]
    assert again.tools == asked.tools and again.model == asked.model
    assert (second.result.resumes, third.result.resumes) == (run_id, second.details.run_id)
    assert not any("masked" in one or "changed" in one for one in second.result.warnings)


async def test_what_the_run_was_told_and_reminded_of_is_part_of_the_conversation(project):
    """A schema, a reminder, rejected reports and messages of ours: all of it comes again."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    steps = [
        answer("I forgot to report."),
        tool_calls([("report_back", {"n": "x"}), ("ls", {"path": "."})]),
        tool_call("report_back", {"n": 1}),
        tool_call("report_back", '{"n": 2}'),
    ]
    with ScriptedModel(steps) as server:
        os.environ.update(server.environment)
        first = await subagent("explorer", "Count.", schema, server.model)
        assert first.result.structured_output == {"n": 1}
        second = await subagent("explorer", "Again.", resume=first.details.run_id)
        assert second.result.structured_output == {"n": 2}
        last, again = server.requests[-2:]
    assert sent(again).startswith(sent(last))
    assert again.messages[-1] == {"role": "user", "content": "Again."}


@pytest.mark.parametrize("ending", ["failed", "cancelled", "interrupted", "over_budget"])
def test_a_run_can_be_resumed_however_it_ended(door, ending):  # noqa: F811
    steps = {"failed": fail(400, message="No."), "over_budget": tool_call("ls", {"path": "."})}
    begin = tool_call("read", {"path": "missing.txt"}, text="Looking.")
    script = [begin, steps.get(ending, silence_after("I think " * 100)), answer("At last.")]
    with ScriptedModel(script) as server:
        run_id = background(door, server, "--max-turns", "2")
        server.wait_for_requests(2)
        if ending == "cancelled":
            door.run("stop", run_id)
        elif ending == "interrupted":
            supervisor_of(door, run_id).kill()
        door.run("wait", run_id)
        assert door.run("runs", "--json").json["runs"][0]["state"] == ending
        resumed = door.run("resume", "last", "Go on.", "--json", env=server.environment)
        assert resumed.code == 0, resumed.out
        messages = server.requests[-1].messages
    (result,) = resumed.json["details"]["results"]
    assert (result["resumes"], result["output"]) == (run_id, "At last.")
    assert messages[:4] == server.requests[1].messages[:4]
    assert messages[-1] == {"role": "user", "content": "Go on."}
    opening = door.run("show", "last", "--events").out.splitlines()[0]
    assert json.loads(opening)["resumes"] == run_id


async def test_what_was_masked_goes_to_the_model_masked_and_the_result_says_so(project):
    os.environ["MY_API_KEY"] = secret = "sk-proj-9fK3nQz81LmX5vB7tR2w"
    with ScriptedModel([answer(f"It is {secret}."), answer("Done.")]) as server:
        os.environ.update(server.environment)
        first = await subagent("explorer", f"Is {secret} in use?", model=server.model)
        second = await subagent("explorer", "Sure?", resume=first.details.run_id)
        texts = [str(one["content"]) for one in server.requests[-1].messages]
    assert not any(secret in text for text in texts)
    assert sum("[masked" in text for text in texts) == 2
    assert any("went to the model masked" in one for one in second.result.warnings)


async def test_what_has_changed_since_is_told(project):
    agent = project / ".outrider/agents/helper.md"
    agent.parent.mkdir(parents=True)
    agent.write_text("---\nname: helper\ntools: read, ls\n---\nYou help.\n")
    steps = [tool_call("read", {"path": "file1.txt"}), answer("Done."), answer("Again.")]
    with ScriptedModel(steps) as server:
        os.environ.update(server.environment)
        first = await subagent("helper", "Read.", model=server.model)
        agent.write_text("---\nname: helper\ntools: read, grep\n---\nYou help otherwise.\n")
        (project / "file1.txt").write_text("Something else.")
        second = await subagent("helper", "And now?", resume=first.details.run_id)
        system = [one.messages[0] for one in server.requests]
        tools = server.requests[-1].tool_names
    said = " ".join(second.result.warnings)
    for words in ("instructions have changed", "without tools that run", "doesn't get grep"):
        assert words in said
    assert "files have changed since" in said and "file1.txt" in said
    assert tools == ["read"] and system[0] == system[-1]


@pytest.mark.usefixtures("unmeasured")
def test_what_cannot_be_resumed_is_refused_with_the_reason(door, model):  # noqa: F811
    run_id = background(door, model)
    running = door.run("resume", run_id, "Go on.")
    assert running.code == 2 and "is still running" in running.err
    door.run("stop", run_id)
    session = door.runs / run_id / "session.jsonl"
    lines = session.read_text().splitlines(keepends=True)
    session.write_text("".join(line for line in lines if '"type":"prompt"' not in line))
    lost = door.run("resume", run_id, "Go on.", "--json")
    assert (lost.code, lost.error_code) == (2, "INVALID_INPUT")
    assert "doesn't have its messages" in lost.out
    pi = [line.replace('"systemPrompt":"', '"systemPrompt":null,"was":"') for line in lines]
    session.write_text("".join(pi))
    assert "ran in pi" in door.run("resume", run_id, "Go on.").err
    with ScriptedModel([answer("Hello.")]) as server:
        door.run("ask", "Hello?", "--model", server.model, env=server.environment)
    assert "chat --resume" in door.run("resume", "last", "Go on.").err
    assert door.run("resume", "00000000", "Go on.").code == 2


def test_what_only_the_provider_understands_is_kept_and_given_back():
    calls = [ModelCall("1", "read", '{"path": "x"}', {"signature": "c2ln"}), ModelCall("2", "ls")]
    said = ModelAnswer(text="So.", calls=calls, thoughts={"reasoning_content": "Hm."})
    parsed = [replace(calls[0], arguments={"path": "x"}, extra=None), calls[1]]
    again = restored("So.", parsed, json.loads(json.dumps(kept_of(said))))
    assert (again.text, again.calls, again.thoughts) == (said.text, said.calls, said.thoughts)
    assert kept_of(ModelAnswer(text="So.")) is None


def test_signed_thoughts_of_the_provider_layer_are_kept_and_given_back():
    from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

    thought = ThinkingPart("Hm.", signature="c2lnbmVk", provider_name="anthropic")
    parts = [thought, TextPart("So."), ToolCallPart("read", '{"path": "x"}', "1")]
    response = ModelResponse(parts, model_name="m", provider_name="anthropic")
    kept = json.loads(json.dumps(kept_of(ModelAnswer(native=response))))
    again = restored("So.", [], kept, native=True)
    assert again.native.parts == parts and again.native.provider_name == "anthropic"
    assert restored("So.", [], kept, native=False).native is None
