"""Both wires ask the same: of the address, in the headers, with the conversation and the tools."""

from dataclasses import replace
from typing import Any

import pytest

from wires import (
    DONE,
    FINE,
    KEY,
    Case,
    Raw,
    assert_alike,
    bad,
    called,
    chunk,
    counted,
    http,
    ok,
    replaying,
    said,
    sse,
)

LS = {"index": 0, "id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
TURN = sse(said("I look."), called(LS), chunk({}, "tool_calls"), counted())
FULL = http(400, {"error": {"message": "Too long.", "code": "context_length_exceeded"}})
ADDRESSES = {
    "with a slash": "http://HERE/v1/",
    "with two slashes": "http://HERE/v1//",
    "without a path": "http://HERE",
    "of a deeper path": "http://HERE/openai/v1",
    "with blanks around": "  http://HERE/v1 ",
    "of a scheme in capitals": "HTTP://HERE/v1",
    "with a user": "http://me:secret@HERE/v1",
    "with a query": "http://HERE/v1?api-version=1",
    "with a fragment": "http://HERE/v1#x",
    "with an escape": "http://HERE/v%31",
    "with a letter of elsewhere": "http://HERE/v1/ż",
    "with a blank in it": "http://HERE/v 1",
    "with dots": "http://HERE/a/../v1",
}
VARIABLES: dict[str, dict[str, str]] = {
    "a key with blanks around": {"OPENAI_API_KEY": f" {KEY} "},
    "a key of two lines": {"OPENAI_API_KEY": f"{KEY}\nX-Other: 1"},
    "headers of its own": {"OPENAI_CUSTOM_HEADERS": "X-Team: one"},
    "an admin's key": {"OPENAI_ADMIN_KEY": "admin"},
}


def said_before(text: str, *calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "text": text, "toolCalls": list(calls)}


def results(*each: Any) -> dict[str, Any]:
    return {"role": "tools", "results": list(each)}


def result(text: str, *, status: str = "success", **more: Any) -> dict[str, Any]:
    envelope = {"status": status, "message": text, "data": {"text": text}}
    return {"id": "c0", "name": "ls", "envelope": envelope, **more}


ASKED = {"id": "c0", "name": "ls", "args": {"path": "."}}
HISTORIES: dict[str, tuple[Any, ...]] = {
    "of text": ({"role": "user", "text": "Hello."}, said_before("Hi.")),
    "of a call": (
        {"role": "user", "text": "Look."},
        said_before("", ASKED),
        results(result("one")),
    ),
    "of a call with text": (
        {"role": "user", "text": "Look."},
        said_before("I look.", ASKED),
        results(result("one")),
        said_before("It is one."),
    ),
    "of a call that failed": (
        {"role": "user", "text": "Look."},
        said_before("", ASKED),
        results(result("nothing", status="error")),
    ),
    "of a call whose result was dropped": (
        {"role": "user", "text": "Look."},
        said_before("", ASKED),
        results(result("one", dropped=True)),
    ),
    "of a call without arguments": (
        {"role": "user", "text": "Look."},
        said_before("", {"id": "c0", "name": "ls"}),
        results(result("one")),
    ),
    "of arguments that are no json": (
        {"role": "user", "text": "Look."},
        said_before("", {"id": "c0", "name": "ls", "args": "{oops"}),
        results(result("one")),
    ),
    "of an empty answer": ({"role": "user", "text": "Hello."}, said_before("")),
    "of two users' messages": ({"role": "user", "text": "A."}, {"role": "user", "text": "B."}),
}
TASKS = {
    "of letters": "Żółw 🐢 \u2028 \x07 \x7f",
    "of an escape": 'a "quoted" \\ back\\slash </script>',
    "of a lone surrogate": "a\ud800b",
    "that is long": "word " * 40_000,
    "of blanks": " \n ",
}
SHAPED = {
    "type": "object",
    "properties": {
        "where": {"$ref": "#/$defs/place"},
        "others": {"type": "array", "items": {"$ref": "#/$defs/place"}},
    },
    "required": ["where"],
    "$defs": {"place": {"type": "string", "minLength": 1}},
}
RECURRING = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/node"}},
    "$defs": {
        "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}},
    },
}
REPORTED = {"name": "report_back", "arguments": '{"where": "here"}'}
REPORT = sse(called({**LS, "function": REPORTED}), chunk({}, "tool_calls"), counted())
SERVERS = {
    "ollama:qwen3:8b": {"OLLAMA_BASE_URL": "http://HERE/v1"},
    "vllm:Qwen/Qwen3-8B": {"VLLM_BASE_URL": "http://HERE/v1", "VLLM_API_KEY": "vllm-key"},
}
CASES: dict[str, Case] = {
    "two turns": ok(TURN),
    "three turns": ok(
        TURN, sse(said("And again."), called({**LS, "id": "c2"}), chunk({}, "tool_calls"))
    ),
    "a full window": ok(TURN, FULL, FINE),
    "a window that stays full": bad(TURN, FULL, FULL, fails="no longer fits"),
    "a full window before anything": bad(FULL, fails="no longer fits"),
    "a failure after a turn": ok(TURN, http(500, {"error": {"message": "Later."}})),
    **{
        f"an address {name}": Case((TURN,), env={"OPENAI_BASE_URL": address})
        for name, address in ADDRESSES.items()
    },
    **{f"variables: {name}": Case((TURN,), env=env) for name, env in VARIABLES.items()},
    **{f"a history {name}": ok(TURN, history=past) for name, past in HISTORIES.items()},
    **{f"a task {name}": ok(TURN, task=task) for name, task in TASKS.items()},
    **{f"{model}: a turn": ok(TURN, model=model, env=env) for model, env in SERVERS.items()},
    **{
        f"{model}: a report": Case((REPORT,), model=model, env=env, schema=SHAPED)
        for model, env in SERVERS.items()
    },
    **{
        f"{model}: a schema that recurs": Case((REPORT,), model=model, env=env, schema=RECURRING)
        for model, env in SERVERS.items()
    },
    "a schema with definitions": Case((REPORT,), schema=SHAPED),
    "a schema that recurs": Case((REPORT,), schema=RECURRING),
}
CONNECTIONS: dict[str, Case] = {
    "a length that is too long": Case((Raw(FINE.body, framing="length", promised=50),)),
    "a length that is too long, and no end": Case(
        (Raw(FINE.body.removesuffix(DONE), framing="length", promised=50),)
    ),
    "a server that isn't there": bad(
        env={"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, fails="failed or was lost"
    ),
    "a port that is none": Case(env={"OPENAI_BASE_URL": "http://127.0.0.1:99999/v1"}),
    "a scheme that is none": Case(env={"OPENAI_BASE_URL": "ftp://127.0.0.1/v1"}),
    "closed between two turns": ok(replace(TURN, cut=len(b"".join(TURN.pieces())))),
    "closed between two turns, twice": ok(*[replace(TURN, cut=len(b"".join(TURN.pieces())))] * 2),
    "closed at once, twice": bad(Raw(cut=0), Raw(cut=0), fails="failed or was lost"),
    "a reset after the answer": Case((Raw(FINE.body, framing="close", reset=True),)),
    "a reset in the middle": Case((Raw(FINE.body[:300], framing="close", reset=True),), attempts=1),
    "a head of 100 first": ok(Raw(FINE.body, first=b"HTTP/1.1 100 Continue\r\n\r\n")),
    "hints first": ok(Raw(FINE.body, first=b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n")),
    "HTTP/1.0": ok(Raw(FINE.body, framing="close", version="1.0")),
    "HTTP/3.0": Case((Raw(FINE.body, framing="close", version="3.0"),)),
    "no HTTP at all": Case((Raw(FINE.body, framing="close", first=b"SSH-2.0-x\r\n"),)),
    "headers without end": Case(
        (Raw(FINE.body, headers=(("X-Long", "x" * 200_000),), framing="close"),)
    ),
    "a header that is none": Case((Raw(FINE.body, headers=(("X Odd", "\x01"),), framing="close"),)),
    "two lengths": Case((Raw(FINE.body, headers=(("Content-Length", "5"),), framing="length"),)),
    "a length beside chunks": Case((Raw(FINE.body, headers=(("Content-Length", "5"),)),)),
}


@pytest.mark.parametrize("name", CASES)
async def test_both_wires_ask_the_same(name: str) -> None:
    await assert_alike(name, CASES[name])


@pytest.mark.parametrize("name", CONNECTIONS)
async def test_a_connection_means_the_same_on_both_wires(name: str) -> None:
    await assert_alike(name, CONNECTIONS[name])


async def test_no_tool_is_ever_strict() -> None:
    async with replaying() as replay:
        for told in await replay.both(CASES["a schema with definitions"]):
            assert "strict" not in str([tool["function"] for tool in told.requests[0][3]["tools"]])
