"""Which model answers, what its child gets to see, and what its failures mean."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from outrider.child.retry import MAX_DELAY_MS, TRANSIENT, RetryPolicy
from outrider.models import failures
from outrider.models.failures import ModelUnavailable, RequestFailed, ending_of
from outrider.models.known_providers import ALIASES, PROVIDERS
from outrider.models.local_servers import ServerKind, first_model, probe_local_servers
from outrider.models.messages import ModelAnswer, UserPrompt
from outrider.models.resolution import (
    ModelChoice,
    choose_model,
    is_embedded,
    is_same_model,
    needs,
    problem_with,
    provider_environment,
)
from outrider.protocol.outcomes import FailureKind
from outrider.protocol.usage import Usage


def choose(env=None, *, flag=None, agent=None, configured=None, server=None) -> ModelChoice:
    return choose_model(
        flag=flag,
        agent=agent,
        configured=configured,
        env=env or {},
        local_servers=lambda *_: server,
    )


@contextmanager
def http_server(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[int, list[str]]]:
    """A loopback server that gives each answer in turn, the last one for ever."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            asked.append(self.path)
            status, headers, body = answers[min(len(asked), len(answers)) - 1]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# The choice


def test_the_order_is_flag_agent_configuration_key_server_embedded():
    env = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "a"}
    names = {"flag": "openai:f", "agent": "openai:a", "configured": "openai:c"}
    assert choose(env, **names).model == "openai:f"
    names.pop("flag")
    assert (choose(env, **names).model, choose(env, **names).reason) == ("openai:a", "agent file")
    names.pop("agent")
    assert choose(env, **names).reason == "configuration"
    assert choose(env).reason == "OPENAI_API_KEY is set"
    assert choose(env).model.startswith("openai:")
    env.pop("OPENAI_API_KEY")
    assert choose(env).model.startswith("anthropic:")
    assert choose({}) == ModelChoice("embedded", "no key and no server")


def test_an_empty_key_counts_as_none():
    assert choose({"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": "  "}).model == "embedded"
    assert choose({}, flag="  ", configured="").model == "embedded"


def test_a_local_server_is_used_before_the_embedded_model_and_after_a_key():
    with http_server((200, {}, b'{"models": [{"name": "llama3:8b"}]}')) as (port, _):
        server = probe_local_servers([ServerKind("Ollama", port, "/api/tags", "ollama")], 30)
    found = choose({}, server=server)
    assert found.model == "ollama:llama3:8b"
    assert found.reason == f"Ollama at 127.0.0.1:{port}"
    assert found.environment({"GITHUB_TOKEN": "secret"}) == {
        "OLLAMA_BASE_URL": f"http://127.0.0.1:{port}/v1"
    }
    assert choose({"OPENAI_API_KEY": "k"}, server=server).model.startswith("openai:")


def test_an_openai_compatible_server_is_found_past_one_that_answers_nonsense():
    nonsense = (200, {}, b"<html>hello</html>")
    models = (200, {}, b'{"data": [{"id": "nomic-embed-text"}, {"id": "qwen3-8b"}]}')
    with http_server(nonsense) as (first, _), http_server(models) as (second, _):
        kinds = [
            ServerKind("llama.cpp", first, "/v1/models", "openai-chat"),
            ServerKind("LM Studio", second, "/v1/models", "openai-chat"),
        ]
        server = probe_local_servers(kinds, 30)
    assert server is not None
    assert server.model == "openai-chat:qwen3-8b"
    assert server.variables["OPENAI_BASE_URL"] == f"http://127.0.0.1:{second}/v1"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"data": 3}',
        b'{"data": [{"id": "a b; rm -rf"}]}',
        b'{"data": [null]}',
        b"[" * 100_000,
        b'{"data": [{"id": "' + b"x" * 300 + b'"}]}',
    ],
)
def test_what_a_local_port_answers_is_not_trusted(body: bytes):
    assert first_model(b"HTTP/1.0 200 OK\r\nx: y\r\n\r\n" + body) is None


def test_nothing_listens_nothing_is_found():
    with http_server((200, {}, b"")) as (port, _):
        pass
    assert probe_local_servers([ServerKind("Ollama", port, "/api/tags", "ollama")], 30) is None


def test_a_key_whose_package_is_missing_is_said_not_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("outrider.models.resolution.find_spec", lambda name: None)
    choice = choose({"GEMINI_API_KEY": "k"})
    assert choice.model == "embedded"
    assert "GEMINI_API_KEY" in choice.reason and "pydantic-ai-slim[google]" in choice.reason


def test_an_endpoint_of_ones_own_needs_a_named_model():
    env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    assert "openai-chat:NAME" in (choose(env).problem or "")
    assert choose(env, flag="openai-chat:mine").problem is None
    assert choose({"OPENAI_BASE_URL": "http://h/v1"}, flag="openai-chat:mine").problem is None
    assert choose({**env, "OPENAI_BASE_URL": "https://api.openai.com/v1"}).problem is None


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("gpt-4", "openai:gpt-4"),
        ("claude-sonnet-5", "anthropic:claude-sonnet-5"),
        ("test", "provider:name"),
        ("opnai:gpt-5", "did you mean openai"),
        ("zzzzzz:gpt-5", "known providers are openai"),
        ("openai:", "openai:NAME"),
        ("anthropic:claude-sonnet-5-5", "needs a key: set ANTHROPIC_API_KEY"),
    ],
)
def test_a_model_that_cannot_be_used_is_refused_with_what_to_write(model: str, says: str):
    choice = choose({"OPENAI_API_KEY": "k"}, flag=model)
    assert choice.model == model
    assert says in (choice.problem or "")


def test_short_names_in_agent_files_count_only_where_their_key_is():
    assert choose({}, agent="sonnet").model == "embedded"
    assert choose({"OPENAI_API_KEY": "k"}, agent="opus").model.startswith("openai:")
    assert choose({"ANTHROPIC_API_KEY": "k"}, agent="haiku").model == ALIASES["haiku"]


OTHER_SPELLINGS = {
    "openai/gpt-5": "openai:gpt-5",
    "anthropic/claude-opus-5-5:high": "anthropic:claude-opus-5-5",
    "openrouter/anthropic/claude-opus-5-5": "openrouter:anthropic/claude-opus-5-5",
    "gpt-5": "openai:gpt-5",
    "claude-sonnet-4-5-20250929": "anthropic:claude-sonnet-4-5-20250929",
    "o3": "openai:o3",
}


@pytest.mark.parametrize("written", OTHER_SPELLINGS)
def test_an_agent_file_may_spell_a_model_as_other_hosts_do(written: str):
    env = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"), "k")
    choice = choose(env, agent=written)
    assert (choice.model, choice.reason) == (OTHER_SPELLINGS[written], "agent file")
    assert choice.problem is None and choice.warnings == ()
    instead = choose({}, agent=written)
    assert instead.model == "embedded" and instead.dropped == written
    assert repr(written) in instead.warnings[0] and "needs a key" in instead.warnings[0]


@pytest.mark.parametrize("written", ["nonsense", "nobody/model", "opnai:gpt-5"])
def test_a_model_in_an_agent_file_that_means_nothing_is_refused(written: str):
    assert choose({"OPENAI_API_KEY": "k"}, agent=written).problem


def test_embedded_can_be_asked_for_by_name():
    choice = choose({"OPENAI_API_KEY": "k"}, flag="embedded")
    assert is_embedded(choice.model) and choice.problem is None


# The child's environment


def test_a_child_gets_its_own_providers_variables_and_no_other_secret():
    env = {
        "OPENAI_API_KEY": "o",
        "OPENAI_BASE_URL": "http://h/v1",
        "ANTHROPIC_API_KEY": "a",
        "AWS_SECRET_ACCESS_KEY": "s",
        "GITHUB_TOKEN": "g",
        "HTTPS_PROXY": "http://proxy:1",
        "PATH": "/bin",
    }
    openai = {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "http://h/v1"}
    proxy = {"HTTPS_PROXY": "http://proxy:1"}
    assert provider_environment("openai-chat:x", env) == openai | proxy
    assert provider_environment("anthropic:x", env) == {"ANTHROPIC_API_KEY": "a"} | proxy
    assert provider_environment("bedrock:x", env) == {"AWS_SECRET_ACCESS_KEY": "s"} | proxy
    assert provider_environment("unheard-of:x", env) == proxy
    assert provider_environment("embedded", env) == {}


def test_ollama_is_reached_at_its_usual_place():
    assert "11434" in provider_environment("ollama:x", {})["OLLAMA_BASE_URL"]
    assert needs("ollama:x") == () and problem_with("ollama:x", {}) is None


def test_choosing_a_model_imports_no_provider():
    code = (
        "import sys; from outrider.models.resolution import choose_model; "
        "choose_model(flag=None, agent=None, configured=None, env={'OPENAI_API_KEY': 'k'}); "
        "print([m for m in ('pydantic', 'pydantic_ai', 'openai', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Building


def test_every_default_model_exists():
    from pydantic_ai.models import known_model_names

    known = set(known_model_names())
    defaults = {f"{p.name}:{p.default}" for p in PROVIDERS.values() if p.default}
    # What OpenRouter routes to is its own affair; pydantic-ai lists no names for it.
    assert {*defaults, *ALIASES.values()} - known == {"openrouter:openrouter/auto"}


def test_every_provider_is_one_that_pydantic_ai_has():
    from pydantic_ai.providers import infer_provider_class

    for name, provider in PROVIDERS.items():
        # Without its package a provider's module can't be imported, which is what `extra` is for.
        with suppress(ImportError) if provider.extra else nullcontext():
            infer_provider_class(name)


def test_a_model_that_cannot_be_built_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    from outrider.models.building import build_model

    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    for model, says in [
        ("deepseek:deepseek-chat", "DEEPSEEK_API_KEY"),
        ("unheard-of:x", "unheard-of:x"),
    ]:
        with pytest.raises(ModelUnavailable) as caught:
            build_model(model)
        assert says in str(caught.value)
        assert "test model" not in str(caught.value)


def test_prices_are_known_before_anything_is_asked():
    from outrider.models.cost import has_price

    for model in ("openai-chat:gpt-5", "openai:gpt-5", "embedded"):
        assert has_price(model, {})
    assert has_price("openai-chat:gpt-5", {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"})
    assert not has_price("openai-chat:something-of-mine", {})
    assert not has_price("ollama:qwen3", {})


async def test_the_price_list_is_loaded_while_the_model_is_waited_for(monkeypatch):
    from outrider.models import cost

    loaded: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    tell = partial(loop.call_soon_threadsafe, loaded.put_nowait)
    monkeypatch.setattr(cost, "import_module", tell)
    monkeypatch.delitem(sys.modules, "genai_prices.data", raising=False)
    cost.load_prices_soon()
    assert loaded.empty()  # the request comes first
    assert await asyncio.wait_for(loaded.get(), 30) == "genai_prices.data"


def test_what_an_answer_cost_is_known_or_said_not_to_be():
    from outrider.models.cost import cost_of

    usage = Usage(input=1000, output=1000)
    cost, known = cost_of(ModelAnswer("openai", model="gpt-5"), usage)
    assert known and cost > 0
    assert cost_of(ModelAnswer("openai", model="mine"), usage) == (0.0, False)
    assert cost_of(ModelAnswer("embedded", model="embedded"), usage) == (0.0, True)


SAME = [
    ("openai:gpt-x", "gpt-x"), ("openai:gpt-x", "gpt-x-2025-08-07"), ("openai:gpt-4", "gpt-4-0613"),
    ("ollama:llama3", "llama3:latest"), ("ollama:llama3:8b", "llama3:8b"),
    ("openrouter:openai/gpt-x", "openai/gpt-x-2025-08-07"), ("openrouter:x/y:free", "x/y"),
    ("openrouter:openrouter/auto", "anthropic/claude-x"), ("moonshotai:kimi-latest", "moonshot-v1"),
    ("mistral:mistral-large-latest", "mistral-large-2411"), ("azure:my-deployment", "gpt-x"),
    ("google:gemini-2.0-flash", "models/gemini-2.0-flash-001"), ("cohere:r", "r-08-2024"),
    ("anthropic:claude-opus-4", "claude-opus-4@20250514"), ("openai-chat:Qwen", "qwen"),
    ("openai-chat:q.gguf", "/models/q.gguf"), ("anthropic:", "claude-opus-4"), ("pi:", "any"),
    ("openrouter:anthropic/claude-sonnet-4", "anthropic/claude-4-sonnet-20250522"),
    ("openrouter:anthropic/claude-x-4.5", "anthropic/claude-4.5-x-20250929"),
    ("anthropic:claude-opus-4-0", "claude-opus-4-20250514"), ("bedrock:x-4-5", "x-4.5"),
]  # fmt: skip
OTHERS = [
    ("openai:gpt-x", "gpt-y"), ("openai:gpt-4", "gpt-4-32k"), ("openai:gpt-4o", "gpt-4o-mini"),
    ("openai:gpt-5", "gpt-5.1"), ("openai:gpt-5", "gpt-5-1"), ("ollama:llama3:8b", "llama3:70b"),
    ("anthropic:claude-x-5", "claude-x-5-5"), ("openai:gpt-x-2025-08-07", "gpt-x-2025-09-01"),
    ("ollama:llama3:latest", "mistral"), ("openai:latest-thing", "other"),
    ("openai:gpt-5.4", "gpt-4.5"), ("openrouter:a/x-4-y", "a/y-5-x"), ("google:x-2.5", "x-25"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "name"), SAME + OTHERS)
def test_a_snapshot_a_tag_or_a_router_makes_no_other_model(asked, name):
    assert is_same_model(asked, f"{asked.partition(':')[0]}:{name}") is ((asked, name) in SAME)


def test_a_short_name_that_is_dropped_is_told():
    env = {"OPENAI_API_KEY": "k"}
    for choice in (choose(env, agent=" Opus "), choose(env, agent="Opus", configured="embedded")):
        assert choice.dropped == "Opus"
        [told] = choice.warnings
        assert "'Opus'" in told and "ANTHROPIC_API_KEY" in told and choice.shown in told
    kept = choose({"ANTHROPIC_API_KEY": "k"}, agent="opus"), choose(env, flag="x", agent="opus")
    assert [one.warnings for one in (*kept, choose(env))] == [(), (), ()]


# Failures, from a real server on loopback


async def failure_of(monkeypatch: pytest.MonkeyPatch, port: int, name: str = "openai-chat:mine"):
    from outrider.models.building import build_model

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{port}")
    model, answer = build_model(name), ModelAnswer()
    try:
        async for _ in model.stream([UserPrompt("hi")], [], None, answer):
            pass
    except RequestFailed as error:
        return error.failure
    return ending_of(answer)[1]


CHUNK = (
    b'data: {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "mine", '
    b'"choices": [{"index": 0, "delta": {"role": "assistant", "content": "half"}, '
    b'"finish_reason": null}]}\n\n'
)
EVENTS = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("answer", "kind", "status"),
    [
        ((401, JSON, b'{"error": {"message": "no"}}'), FailureKind.AUTHENTICATION, 401),
        ((404, JSON, b'{"error": {"message": "no"}}'), FailureKind.NOT_FOUND, 404),
        ((400, JSON, b'{"error": {"message": "no"}}'), FailureKind.REJECTED, 400),
        (
            (400, JSON, b'{"error": {"message": "too long", "code": "context_length_exceeded"}}'),
            FailureKind.WINDOW_OVERFLOW,
            400,
        ),
        (
            (429, JSON, b'{"error": {"message": "pay", "code": "insufficient_quota"}}'),
            FailureKind.QUOTA,
            429,
        ),
        ((500, JSON, b"{}"), FailureKind.SERVER, 500),
        ((503, JSON, b"{}"), FailureKind.LOADING, 503),
        ((200, EVENTS, CHUNK), FailureKind.CUT_STREAM, None),
        ((200, EVENTS, CHUNK + b"data: {nonsense\n\n"), FailureKind.MALFORMED, None),
    ],
)
async def test_a_failure_is_told_by_its_kind(monkeypatch, answer, kind, status):
    with http_server(answer) as (port, _):
        failure = await failure_of(monkeypatch, port)
    assert failure is not None
    assert failure.kind == kind
    assert (f"(HTTP {status})" in failure.message) is (status is not None)
    assert failure.message.startswith(("The ", "A "))
    assert len(failure.message) < 400 and "\n" not in failure.message


def events(*entries: dict[str, Any]) -> bytes:
    return b"".join(
        f"event: {entry['type']}\ndata: {json.dumps(entry)}\n\n".encode() for entry in entries
    )


HALF_A_MESSAGE = events(
    {
        "type": "message_start",
        "message": {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "mine",
            "content": [],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "half an ans"},
    },
)
ITEM = {"type": "message", "id": "i", "role": "assistant", "status": "in_progress", "content": []}
HALF_A_RESPONSE = events(
    {
        "type": "response.created",
        "sequence_number": 0,
        "response": {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "model": "mine",
            "output": [],
            "status": "in_progress",
        },
    },
    {
        "type": "response.output_item.added",
        "sequence_number": 1,
        "output_index": 0,
        "item": ITEM,
    },
    {
        "type": "response.output_text.delta",
        "sequence_number": 2,
        "item_id": "i",
        "output_index": 0,
        "content_index": 0,
        "delta": "half an ans",
        "logprobs": [],
    },
)


@pytest.mark.parametrize(
    ("model", "stream"),
    [("anthropic:claude-sonnet-5-5", HALF_A_MESSAGE), ("openai:mine", HALF_A_RESPONSE)],
)
async def test_a_cut_stream_is_a_failure_with_other_providers_too(monkeypatch, model, stream):
    with http_server((200, EVENTS, stream)) as (port, _):
        failure = await failure_of(monkeypatch, port, model)
    assert failure is not None and failure.kind is FailureKind.CUT_STREAM


def message(reason: Any) -> bytes:
    delta = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}}
    return HALF_A_MESSAGE + events(delta, {"type": "message_stop"})


def response(status: Any, why: Any = None) -> bytes:
    kind = f"response.{status if status in ('failed', 'incomplete') else 'completed'}"
    details = {"incomplete_details": {"reason": why}} if why else {}
    ended = {"id": "r", "object": "response", "created_at": 1, "model": "mine", "output": []}
    ended |= {"status": status, **details}
    return HALF_A_RESPONSE + events({"type": kind, "sequence_number": 3, "response": ended})


ENDINGS = [
    ("anthropic:mine", message("end_turn"), None),
    ("anthropic:mine", message("max_tokens"), None),
    ("anthropic:mine", message("refusal"), "refused"),
    ("anthropic:mine", message("pause_turn"), "'pause_turn'"),
    ("anthropic:mine", message("nobody_knows"), "'nobody_knows'"),
    ("anthropic:mine", message(7), "7"),
    ("openai:mine", response("completed"), None),
    ("openai:mine", response("incomplete", "max_output_tokens"), None),
    ("openai:mine", response("incomplete", "content_filter"), "refused"),
    ("openai:mine", response("incomplete", "nobody_knows"), "'nobody_knows'"),
    ("openai:mine", response("incomplete"), "cut"),
    ("openai:mine", response("failed"), "'failed'"),
    ("openai:mine", response("cancelled"), "'cancelled'"),
    ("openai:mine", response("nobody_knows"), "'nobody_knows'"),
]


@pytest.mark.parametrize(("model", "stream", "words"), ENDINGS)
async def test_only_known_endings_are_good_with_other_providers_too(
    monkeypatch, model, stream, words
):
    with http_server((200, EVENTS, stream)) as (port, _):
        failure = await failure_of(monkeypatch, port, model)
    assert (failure is None) == (words is None), failure
    assert failure is None or words in failure.message


@pytest.mark.parametrize(
    ("own", "behind", "good"),
    [("stop", "eot_id", True), ("error", "stop", False), (None, "eot_id", False)],
)
def test_of_a_router_its_own_reason_counts(own, behind, good):
    from pydantic_ai.messages import ModelResponse, TextPart

    from outrider.models.sdk.model import fill_answer

    said = ModelResponse([TextPart("x")], finish_reason=own, provider_name="openrouter")
    said.provider_details = {"finish_reason": behind}
    answer = ModelAnswer()
    fill_answer(answer, said)
    assert (ending_of(answer)[1] is None) is good


async def test_a_rate_limit_says_how_long_to_wait_and_is_not_retried_behind_our_back(monkeypatch):
    answer = (429, {**JSON, "retry-after": "7"}, b'{"error": {"message": "slow down"}}')
    with http_server(answer) as (port, asked):
        failure = await failure_of(monkeypatch, port)
    assert failure is not None
    assert (failure.kind, failure.retry_after) == (FailureKind.RATE_LIMIT, 7.0)
    assert len(asked) == 1


async def test_a_refused_key_is_named_and_not_shown(monkeypatch):
    with http_server((401, JSON, b'{"error": {"message": "bad sk-secret"}}')) as (port, _):
        failure = await failure_of(monkeypatch, port)
    assert failure is not None
    assert "OPENAI_API_KEY" in failure.message and "sk-secret" not in failure.message


async def test_a_refused_connection_is_a_connection_failure(monkeypatch):
    with http_server((200, {}, b"")) as (port, _):
        pass
    failure = await failure_of(monkeypatch, port)
    assert failure is not None and failure.kind is FailureKind.CONNECTION
    assert f"(http://127.0.0.1:{port}/v1): Connection refused. Check that" in failure.message
    for address, advice in {"http://127.0.0.1:1/v1": "server", "https://u:pw@x": "net"}.items():
        told = failures.failure_of(FailureKind.CONNECTION, detail="Gone.", base_url=address).message
        assert "Gone. Check" in told and advice in told and "pw" not in told


def test_words_in_an_error_decide_nothing():
    from outrider.models.sdk.errors import classify

    for error in (RuntimeError("timeout, rate limit 429, overloaded"), ValueError("503")):
        assert classify(error).kind is FailureKind.UNKNOWN
    assert classify(TimeoutError()).kind is FailureKind.TIMEOUT
    assert classify(ConnectionResetError()).kind is FailureKind.CONNECTION


@pytest.mark.parametrize("reason", [None, "stop"])
def test_an_answer_without_a_finish_reason_was_cut(reason):
    failure = ending_of(ModelAnswer(text="half an ans", endings=[reason] if reason else []))[1]
    assert (failure is None) == (reason is not None)


# Retrying


def delay(policy: RetryPolicy, kind=FailureKind.SERVER, attempt=1, after=None, left=None, at=0.5):
    return policy.delay_ms(kind, attempt, after, left, at)


def test_only_what_may_pass_is_tried_again():
    policy = RetryPolicy(max_attempts=9)
    tried = {kind for kind in FailureKind if delay(policy, kind) is not None}
    assert tried == TRANSIENT
    assert FailureKind.AUTHENTICATION not in tried and FailureKind.CUT_STREAM in tried


def test_attempts_are_bounded_and_can_be_switched_off():
    assert delay(RetryPolicy(max_attempts=2), attempt=2) is None
    assert delay(RetryPolicy(max_attempts=2), attempt=1) is not None
    assert delay(RetryPolicy(max_attempts=1)) is None


def test_back_off_grows_to_a_ceiling_and_is_spread():
    policy = RetryPolicy(max_attempts=10_000)
    assert [delay(policy, attempt=n, at=0.999) for n in (1, 2, 3)] == [499, 999, 1998]
    assert delay(policy, attempt=9_000, at=0.999) < MAX_DELAY_MS
    assert delay(policy, at=0.0) == 0


def test_retry_after_is_never_undercut():
    policy = RetryPolicy(max_attempts=3)
    assert all(delay(policy, after=7.0001, at=at) >= 7001 for at in (0.0, 0.5, 0.99))
    assert delay(policy, after=float("inf")) is not None
    assert delay(policy, after=-5.0, at=0.0) == 0


def test_a_wait_that_outlasts_the_run_is_not_begun():
    policy = RetryPolicy(max_attempts=3)
    assert delay(policy, after=60.0, left=59_000) is None
    assert delay(policy, after=None, left=100, at=0.9) is None
    assert delay(policy, after=5.0, left=5_100, at=0.99) == 5_000


# The docs


def test_the_table_of_keys_in_the_docs_is_that_of_the_code():
    page = (Path(__file__).parent.parent / "docs" / "models.md").read_text()
    rows = [
        "| {} | `{}:{}` | {} |".format(
            " or ".join(f"`{key}`" for key in provider.keys),
            provider.name,
            provider.default,
            f"`pip install 'pydantic-ai-slim[{provider.extra}]'`"
            if provider.extra
            else "the default install",
        )
        for provider in PROVIDERS.values()
        if provider.default
    ]
    assert "\n".join(rows) in page


def test_a_price_is_looked_up_once_and_a_miss_is_remembered(monkeypatch: pytest.MonkeyPatch):
    import genai_prices.data  # noqa: F401
    from genai_prices.data_snapshot import DataSnapshot

    from outrider.models.cost import cost_of, remember_price

    for name in ("gpt-5", "something-nobody-sells"):
        remember_price(f"openai-chat:{name}")
    looked_up: list[str] = []
    monkeypatch.setattr(
        DataSnapshot, "find_provider", lambda _, model, *__: looked_up.append(model)
    )
    usage = Usage(input=1_000, output=10)
    for address in ("http://127.0.0.1:8080/v1", "https://api.openai.com/v1"):
        assert cost_of(ModelAnswer("openai", address, "gpt-5"), usage)[1]
        assert not cost_of(ModelAnswer("openai", address, "something-nobody-sells"), usage)[1]
    assert not looked_up
