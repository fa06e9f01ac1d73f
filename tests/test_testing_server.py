"""The scripted model server, seen through the real client and through a bare socket."""

import asyncio
import json
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from openai import AsyncOpenAI
from pydantic_ai import exceptions, messages
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from conftest import unmeasured_environment
from outrider.testing import (
    ModelRequest,
    ScriptedModel,
    Step,
    Usage,
    answer,
    context_overflow,
    cut,
    drip,
    empty,
    endless,
    fail,
    garbage,
    hang_up,
    malformed,
    refusal,
    silence,
    silence_after,
    stream_error,
    tool_call,
    tool_calls,
)

PROMPT = [messages.ModelRequest.user_text_prompt("Where is it?")]
TOOLS = ModelRequestParameters(
    function_tools=[ToolDefinition(name="grep", parameters_json_schema={"type": "object"})]
)
AN_HOUR = 3600


@pytest.fixture
async def connect(monkeypatch: pytest.MonkeyPatch):
    """A function from a server to the model a user would get from its environment."""
    clients: list[AsyncOpenAI] = []

    def connect_to(server: ScriptedModel) -> Model:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        clients.append(AsyncOpenAI(max_retries=0))
        provider = OpenAIProvider(openai_client=clients[-1])
        return infer_model(server.model, provider_factory=lambda _: provider)

    yield connect_to
    for client in clients:
        await client.close()


class Conversation:
    """What came of one streamed request, whether it ended well or not."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.events = 0
        self.text = ""
        self.response: ModelResponse | None = None


async def stream(model: Model, seen: Conversation | None = None) -> Conversation:
    seen = seen or Conversation()
    request = model_request_stream(model, PROMPT, model_request_parameters=TOOLS)
    async with request as response:
        async for _ in response:
            seen.events += 1
            seen.text = "".join(p.content for p in response.get().parts if isinstance(p, TextPart))
            seen.begun.set()
        seen.response = response.get()
    return seen


async def reply_to(model: Model) -> ModelResponse:
    response = (await stream(model)).response
    assert response is not None
    return response


def calls_of(response: ModelResponse) -> list[ToolCallPart]:
    return [part for part in response.parts if isinstance(part, ToolCallPart)]


# Answers


async def test_answer_comes_in_pieces_and_reports_usage(connect):
    with ScriptedModel([answer("one two three", chunk_size=4, usage=(70, 30, 20))]) as server:
        seen = await stream(connect(server))
    assert seen.text == "one two three"
    assert seen.events >= 4
    assert seen.response.usage.input_tokens == 70
    assert seen.response.usage.output_tokens == 30
    assert seen.response.usage.cache_read_tokens == 20


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
async def test_finish_reason_reaches_the_client(connect, reason):
    with ScriptedModel([answer("so far", finish_reason=reason)]) as server:
        assert (await reply_to(connect(server))).finish_reason == reason


async def test_answer_without_finish_reason_has_none_on_the_wire(connect):
    with ScriptedModel([answer("so far", finish_reason=None)]) as server:
        response = await reply_to(connect(server))
    assert "finish_reason" not in response.provider_details


@pytest.mark.parametrize(
    "text", ["", "a\nb\r\n\r\ndata: [DONE]\n\n", "käse 日本 🎉", "lone \ud800"]
)
async def test_any_text_arrives_unchanged(connect, text):
    with ScriptedModel([answer(text, chunk_size=3)]) as server:
        assert (await stream(connect(server))).text == text


async def test_tool_call_is_streamed_with_its_arguments_in_pieces(connect):
    args = {"pattern": "idle.*timeout", "path": "src"}
    with ScriptedModel([tool_call("grep", args, id="call-7", text="Looking.")]) as server:
        seen = await stream(connect(server))
    [call] = calls_of(seen.response)
    assert (call.tool_name, call.args_as_dict(), call.tool_call_id) == ("grep", args, "call-7")
    assert seen.text == "Looking."
    assert seen.events > 6
    assert seen.response.finish_reason == "tool_call"


async def test_malformed_arguments_reach_the_client_as_they_are(connect):
    with ScriptedModel([tool_call("grep", '{"pattern": "x')]) as server:
        [call] = calls_of(await reply_to(connect(server)))
    assert call.args == '{"pattern": "x'


async def test_several_tool_calls_in_one_turn_keep_apart(connect):
    step = tool_calls([tool_call("grep", {"pattern": "x"}), ("ls", {}), ("ls", {"path": "src"})])
    with ScriptedModel([step]) as server:
        calls = calls_of(await reply_to(connect(server)))
    assert [(c.tool_name, c.args_as_dict()) for c in calls] == [
        ("grep", {"pattern": "x"}),
        ("ls", {}),
        ("ls", {"path": "src"}),
    ]
    assert len({c.tool_call_id for c in calls}) == 3


async def test_generated_call_ids_differ_between_turns(connect):
    with ScriptedModel([tool_call("ls", {})], repeat=True) as server:
        model = connect(server)
        ids = [calls_of(await reply_to(model))[0].tool_call_id for _ in range(3)]
    assert len(set(ids)) == 3


async def test_empty_answer_is_finished_and_has_no_parts(connect):
    with ScriptedModel([empty()]) as server:
        response = await reply_to(connect(server))
    assert (response.parts, response.finish_reason) == ([], "stop")


async def test_refusal_is_not_taken_for_text(connect):
    with ScriptedModel([refusal("I will not do that.")]) as server:
        response = await reply_to(connect(server))
    assert response.parts == []
    assert response.provider_details["refusal"] == "I will not do that."


async def test_drip_is_a_complete_answer(connect):
    with ScriptedModel([drip("slow but sure", 0.001)]) as server:
        assert (await stream(connect(server))).text == "slow but sure"


@pytest.mark.parametrize(
    ("step", "parts"),
    [
        (answer("Whole."), [TextPart("Whole.")]),
        (empty(), []),
        (refusal("No."), []),
        (drip("slow", 0.001), [TextPart("slow")]),
        (
            tool_call("grep", {"a": 1}, id="z", text="Hm."),
            [TextPart("Hm."), ToolCallPart("grep", '{"a": 1}', "z")],
        ),
    ],
)
async def test_request_without_streaming_gets_one_object(connect, step, parts):
    with ScriptedModel([step]) as server:
        response = await model_request(connect(server), PROMPT, model_request_parameters=TOOLS)
        assert not server.requests[0].stream
    assert response.parts == parts
    assert response.usage.input_tokens == Usage().input


# Failures


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (fail(401), exceptions.ModelAuthenticationError),
        (fail(404), exceptions.ModelNotFoundError),
        (fail(429), exceptions.ModelRateLimitError),
        (fail(429, code="insufficient_quota"), exceptions.ModelQuotaExceededError),
        (fail(500), exceptions.ModelServerError),
        (fail(529), exceptions.ModelOverloadedError),
        (context_overflow(), exceptions.ModelContextWindowExceededError),
        (hang_up(), exceptions.ModelConnectionError),
        (cut("part", reset=True), exceptions.ModelConnectionError),
        (malformed("part"), exceptions.ModelAPIError),
        (garbage(), exceptions.UnexpectedModelBehavior),
        (stream_error("boom", "overloaded"), exceptions.ModelOverloadedError),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_failure_has_the_class_a_real_one_has(connect, step, error, streamed):
    with ScriptedModel([step]) as server:
        model = connect(server)
        with pytest.raises(error):
            await (stream(model) if streamed else model_request(model, PROMPT))
        assert len(server.requests) == 1


async def test_failure_carries_message_code_and_headers(connect):
    step = fail(429, message="Slow down.", retry_after=7, code="rate", headers={"X-Why": "test"})
    with ScriptedModel([step]) as server, pytest.raises(exceptions.ModelHTTPError) as caught:
        await stream(connect(server))
    assert caught.value.body["message"] == "Slow down."
    assert caught.value.body["code"] == "rate"
    headers = caught.value.__cause__.response.headers
    assert (headers["retry-after"], headers["x-why"]) == ("7", "test")


@pytest.mark.parametrize(
    "step",
    [
        cut("what there was", reset=True),
        malformed("what there was"),
        stream_error(text="what there was"),
    ],
    ids=["reset", "malformed", "stream_error"],
)
async def test_text_before_a_break_is_not_lost(connect, step):
    seen = Conversation()
    with ScriptedModel([step]) as server, pytest.raises(exceptions.AgentRunError):
        await stream(connect(server), seen)
    assert seen.text == "what there was"


async def test_clean_cut_lacks_finish_reason_and_usage(connect):
    with ScriptedModel([cut("what there was")]) as server:
        response = await reply_to(connect(server))
    assert response.parts == [TextPart("what there was")]
    assert "finish_reason" not in response.provider_details
    assert response.usage.output_tokens == 0


async def test_clean_cut_of_a_whole_answer_breaks_the_connection(connect):
    with (
        ScriptedModel([cut("what there was")]) as server,
        pytest.raises(exceptions.ModelConnectionError),
    ):
        await model_request(connect(server), PROMPT)


# Waiting, and not waiting


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "step",
    [
        silence(),
        silence_after("then nothing"),
        drip("slow", AN_HOUR),
        endless("and so on "),
        endless("and so on ", delay=AN_HOUR),
    ],
    ids=["silence", "silence_after", "drip", "endless", "slow endless"],
)
class TestUnfinishedAnswer:
    async def test_ends_when_the_client_leaves(self, connect, step: Step, streamed: bool):
        with ScriptedModel([step]) as server:
            model = connect(server)
            client = asyncio.ensure_future(
                stream(model) if streamed else model_request(model, PROMPT)
            )
            await asyncio.to_thread(server.wait_for_requests, 1)
            client.cancel()
            await asyncio.gather(client, return_exceptions=True)
            await asyncio.to_thread(server.wait_until_idle)

    async def test_ends_when_the_server_closes(self, connect, step: Step, streamed: bool):
        with ScriptedModel([step]) as server:
            model = connect(server)
            client = asyncio.ensure_future(
                stream(model) if streamed else model_request(model, PROMPT)
            )
            await asyncio.to_thread(server.wait_for_requests, 1)
        with pytest.raises(exceptions.ModelConnectionError):
            await client
        assert "scripted-model" not in {thread.name for thread in threading.enumerate()}


async def test_silence_after_shows_its_text_first(connect):
    seen = Conversation()
    with ScriptedModel([silence_after("then nothing")]) as server:
        client = asyncio.create_task(stream(connect(server), seen))
        await seen.begun.wait()
        assert seen.text == "then nothing"
    with pytest.raises(exceptions.ModelConnectionError):
        await client


async def test_endless_output_stops_at_its_safety_limit(connect):
    with ScriptedModel([endless("more ", max_bytes=20_000)]) as server:
        seen = await stream(connect(server))
    assert 0 < len(seen.text) < 20_000


# The script


async def test_steps_are_handed_out_in_order_across_connections(connect):
    with ScriptedModel([answer("first"), fail(500), answer("third")]) as server:
        assert (await stream(connect(server))).text == "first"
        with pytest.raises(exceptions.ModelServerError):
            await stream(connect(server))
        assert (await stream(connect(server))).text == "third"


async def test_request_past_the_end_is_refused_and_recorded(connect):
    with ScriptedModel([answer("only")]) as server:
        model = connect(server)
        await stream(model)
        with pytest.raises(exceptions.ModelServerError, match="script is exhausted"):
            await stream(model)
        assert len(server.requests) == 2
        assert "has 1 steps, and this is request 2" in server.faults[0]


async def test_last_step_repeats_when_asked(connect):
    with ScriptedModel([answer("first"), answer("again")], repeat=True) as server:
        model = connect(server)
        assert [(await stream(model)).text for _ in range(3)] == ["first", "again", "again"]
        assert server.faults == []


async def test_function_sees_the_conversation(connect):
    def script(request: ModelRequest) -> Step:
        return answer(f"{request.turn} {request.last_user_text} {request.tool_names}")

    with ScriptedModel(script) as server:
        model = connect(server)
        first = await reply_to(model)
        history = [*PROMPT, first, messages.ModelRequest.user_text_prompt("And then?")]
        second = await model_request(model, history)
    assert first.parts == [TextPart("0 Where is it? ['grep']")]
    assert second.parts == [TextPart("1 And then? []")]


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        (lambda _: 1 / 0, "The script raised ZeroDivisionError"),
        (lambda _: "text", "'text' is not a step"),
    ],
)
async def test_faulty_function_is_named_to_client_and_test(connect, script, fault):
    with ScriptedModel(script) as server:
        with pytest.raises(exceptions.ModelServerError, match=fault):
            await stream(connect(server))
        assert fault in server.faults[0]


@pytest.mark.parametrize(
    ("script", "repeat", "error"),
    [
        (["text"], False, TypeError),
        ([], True, ValueError),
        (lambda _: answer(""), True, ValueError),
    ],
)
def test_script_that_cannot_work_is_refused_at_once(script, repeat, error):
    with pytest.raises(error):
        ScriptedModel(script, repeat=repeat)


def test_chunk_size_that_cannot_work_is_refused_at_once():
    with pytest.raises(ValueError, match="chunk_size is 0"):
        answer("text", chunk_size=0)


# What is recorded


async def test_requests_are_recorded_with_body_headers_and_time(connect):
    before = time.monotonic()
    with ScriptedModel([answer("x")], name="gpt-4o") as server:
        assert server.model == "openai-chat:gpt-4o"
        await stream(connect(server))
        [request] = server.wait_for_requests(1)
    assert request.model == "gpt-4o"
    assert request.messages[-1] == {"role": "user", "content": "Where is it?"}
    assert request.tools[0]["function"]["name"] == "grep"
    assert request.headers["authorization"] == f"Bearer {server.environment['OPENAI_API_KEY']}"
    assert before <= request.at <= time.monotonic()


def test_waiting_in_vain_says_how_many_came():
    with ScriptedModel([]) as server, pytest.raises(TimeoutError, match="0 of 2 requests"):
        server.wait_for_requests(2, timeout=0.01)


def test_text_of_a_message_in_parts_is_joined():
    parts = [{"type": "text", "text": "Hel"}, {"type": "image_url"}, {"type": "text", "text": "lo"}]
    body = {"messages": [{"role": "user", "content": parts}, {"role": "tool", "content": "x"}]}
    assert ModelRequest(body, {}, 0, 0).last_user_text == "Hello"


def test_conversation_without_a_user_has_no_user_text():
    body = {"messages": [{"role": "system", "content": "x"}]}
    assert ModelRequest(body, {}, 0, 0).last_user_text == ""


# The wire itself


@asynccontextmanager
async def wire_to(server: ScriptedModel) -> AsyncIterator[tuple]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    try:
        yield reader, writer
    finally:
        writer.close()


def port_of(server: ScriptedModel) -> int:
    return int(server.base_url.split(":")[2].removesuffix("/v1"))


def raw(body: object = None, *, method="POST", path="/v1/chat/completions", headers="") -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    return head.encode() + data


def chat(**extra: object) -> bytes:
    return raw({"model": "m", "messages": [{"role": "user", "content": "hi"}], **extra})


async def test_usage_is_sent_only_to_those_who_ask():
    with ScriptedModel([answer("x")], repeat=True) as server:
        async with wire_to(server) as (reader, writer):
            writer.write(chat(stream=True))
            silent = await reader.readuntil(b"\r\n0\r\n\r\n")
            writer.write(chat(stream=True, stream_options={"include_usage": True}))
            asked = await reader.readuntil(b"\r\n0\r\n\r\n")
    assert b"prompt_tokens" not in silent
    assert b'"choices":[],"usage":{"prompt_tokens":10' in asked
    assert asked.rstrip().endswith(b"data: [DONE]\n\n\r\n0")


async def test_requests_in_one_go_or_byte_by_byte_are_answered_in_order():
    def script(request: ModelRequest) -> Step:
        return answer(f"number {request.number}")

    with ScriptedModel(script) as server:
        async with wire_to(server) as (reader, writer):
            writer.write(chat(stream=True) * 3)
            answers = [await reader.readuntil(b"\r\n0\r\n\r\n") for _ in range(3)]
            for byte in chat(stream=True):
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            answers.append(await reader.readuntil(b"\r\n0\r\n\r\n"))
    assert all(f"number {n}".encode() in got for n, got in enumerate(answers))


async def test_large_request_is_taken_whole():
    with ScriptedModel(lambda request: answer(str(len(request.last_user_text)))) as server:
        async with wire_to(server) as (reader, writer):
            writer.write(raw({"messages": [{"role": "user", "content": "x" * 10_000_000}]}))
            assert b'"content":"10000000"' in await reader.readuntil(b"]")


async def test_large_answer_waits_for_a_client_that_reads_late():
    size = 32 << 20  # more than the kernel's buffers hold
    with ScriptedModel([answer("x" * size, chunk_size=size)]) as server:
        async with wire_to(server) as (reader, writer):
            writer.write(chat(stream=True))
            await asyncio.to_thread(server.wait_for_requests, 1)
            with pytest.raises(TimeoutError, match="1 requests are still being answered"):
                server.wait_until_idle(timeout=0.01)
            received = 0
            while received <= size:
                received += len(await reader.read(1 << 20))
            await asyncio.to_thread(server.wait_until_idle)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (raw(method="GET", path="/v1/models?limit=1"), b"200"),
        (raw(method="GET", path="/v1/nothing"), b"404"),
        (raw(["not", "a", "chat"]), b"400"),
        (raw({"messages": ["text"]}), b"400"),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 3\r\n\r\n{\xff}", b"400"),
        (b"hello\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
        (b"x" * 100_000, b"400"),
    ],
    ids=range(9),
)
async def test_anything_that_is_no_chat_gets_a_plain_answer(request_bytes, status):
    with ScriptedModel([]) as server:
        async with wire_to(server) as (reader, writer):
            writer.write(request_bytes)
            assert (await reader.readline()).split()[1] == status
        assert server.requests == []


async def test_connection_closes_when_the_client_asks():
    with ScriptedModel([]) as server:
        async with wire_to(server) as (reader, writer):
            writer.write(raw(method="GET", path="/v1/models", headers="Connection: close\r\n"))
            assert b'"id":"scripted"' in await reader.read()


async def test_a_thousand_clients_at_once_are_all_answered():
    count = 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * count + 200
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"needs {needed} open files, and the limit is {hard}")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))

    async def ask(server: ScriptedModel, all_connected: asyncio.Barrier) -> bytes:
        async with wire_to(server) as (reader, writer):
            await all_connected.wait()
            writer.write(chat(stream=True))
            return await reader.readuntil(b"\r\n0\r\n\r\n")

    try:
        with ScriptedModel([answer("here")], repeat=True) as server:
            barrier = asyncio.Barrier(count)
            answers = await asyncio.gather(*(ask(server, barrier) for _ in range(count)))
            assert len(server.requests) == count
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert all(b"[DONE]" in got for got in answers)


def test_closing_drops_connections_that_never_asked_anything():
    with ScriptedModel([]) as server:
        clients = [socket.create_connection(("127.0.0.1", port_of(server))) for _ in range(20)]
    for client in clients:
        with client:
            client.settimeout(30)
            # A reset is what a client gets that the server had not accepted yet.
            with suppress(ConnectionResetError):
                assert client.recv(1) == b""


# For people, and for users


def test_command_echoes_and_ends_on_interrupt():
    command = [sys.executable, "-m", "outrider.testing"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        url = process.stdout.readline().decode().strip()
        body = json.dumps({"messages": [{"role": "user", "content": "Hello, echo."}]}).encode()
        with urllib.request.urlopen(f"{url}/chat/completions", body, timeout=30) as response:
            message = json.load(response)["choices"][0]["message"]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert message["content"] == "Hello, echo."
    assert (process.returncode, errors) == (0, b"")


def test_it_needs_nothing_but_the_standard_library():
    probe = (
        "import sys, outrider.testing;"
        "print([m for m in sys.modules if m.split('.')[0] not in sys.stdlib_module_names"
        " and m not in ('__main__', 'outrider', 'sitecustomize')"  # Debian's Python has the last
        " and not m.startswith('outrider.testing')"
        " and getattr(sys.modules[m], '__file__', None) and not m.startswith('_')])"
    )
    out = subprocess.run(
        [sys.executable, "-I", "-c", probe],
        env=unmeasured_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.strip() == "[]"
