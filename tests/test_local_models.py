"""Models on this machine, through the command: without a key, while they load, with odd names."""

from pathlib import Path

import pytest

from cli_door import Door
from outrider.models.local_servers import ServerKind, own_endpoint, probe_local_servers
from outrider.models.resolution import choose_model, shown_model
from outrider.testing import ScriptedModel, answer, fail
from test_model_resolution import http_server


@pytest.fixture
def door(tmp_path: Path, warm_runtime: Path) -> Door:
    return Door(tmp_path, warm_runtime)


def test_a_server_that_openai_base_url_names_needs_no_key(door: Door) -> None:
    with ScriptedModel([answer("Here.")]) as server:
        env = {"OPENAI_BASE_URL": server.base_url}
        ended = door.run("run", "explorer", "Go", "--model", server.model, env=env)
    assert (ended.code, ended.out) == (0, "Here.\n"), ended.err


@pytest.mark.parametrize("key", [{}, {"OPENAI_API_KEY": "k"}])
def test_its_model_needs_no_name_either(door: Door, key: dict[str, str]) -> None:
    with ScriptedModel([answer("Here.")], name="qwen3") as server:
        ended = door.run("run", "explorer", "Go", env={"OPENAI_BASE_URL": server.base_url, **key})
    assert (ended.code, ended.out) == (0, "Here.\n"), ended.err
    assert "on openai-chat:qwen3 (OPENAI_BASE_URL at 127.0.0.1:" in ended.err


def test_a_model_that_was_not_asked_for_stands_in_the_summary(door: Door) -> None:
    agents = door.home / ".config" / "outrider" / "agents"
    agents.mkdir(parents=True)
    (agents / "thinker.md").write_text("---\nname: thinker\nmodel: opus\n---\nThink.\n")
    with ScriptedModel([answer("Here.", model="gpt-y"), answer("Here.")], name="gpt-x") as server:
        other = door.run("run", "explorer", "Go", "--model", server.model, env=server.environment)
        env = {**server.environment, "OUTRIDER_MODEL": server.model}
        dropped = door.run("run", "thinker", "Go", env=env)
        found = door.run("show", "last", "--json", env=env)
    assert "· openai-chat:gpt-y instead of openai-chat:gpt-x ·" in other.err
    assert (
        "warning: the agent asks for 'opus', but anthropic:claude-opus-5-5 needs a key"
        in dropped.err
    )
    assert "· openai-chat:gpt-x instead of opus ·" in dropped.err
    assert found.code == 0


@pytest.mark.parametrize("task", ["What is new in HTTP?", "Read http://127.0.0.1:9/page"])
def test_a_researcher_that_could_not_search_has_failed(door: Door, task: str) -> None:
    env = {"OUTRIDER_WEB__PROVIDER": "tavily"}  # which has no key here
    ended = door.run("run", "researcher", task, "--model", "embedded", "--json", env=env)
    [run] = ended.json["details"]["results"]
    assert (ended.code, ended.error_code, run["outcome"]) == (1, "SUBAGENT_FAILED", "failed")
    first = run["output"].splitlines()[0]
    assert first.startswith("I could not search: ") and run["error"] == first
    tool = "fetch_content" if "http:" in task else "web_search"
    assert f"every call of {tool} failed: {first.partition(': ')[2]}" in run["warnings"]
    plain = door.run("run", "researcher", task, "--model", "embedded", env=env)
    assert plain.code == 1 and plain.out.startswith(first)


def test_a_question_that_nobody_could_search_for_has_failed(door: Door) -> None:
    (door.project / "main.py").write_text("def main(): ...\n")
    env = {"OUTRIDER_WEB__PROVIDER": "tavily"}
    ended = door.run("ask", "Research what is new in HTTP", "--model", "embedded", env=env)
    assert ended.code == 1 and "couldn't be delegated" in ended.out


def test_a_server_that_does_not_answer_is_said(door: Door) -> None:
    with ScriptedModel([]) as server:
        pass
    env = {"OPENAI_BASE_URL": server.base_url}
    assert "nothing answers at OPENAI_BASE_URL" in door.run("run", "explorer", "Go", env=env).err


def test_a_server_that_loads_its_model_is_waited_for(door: Door) -> None:
    loading = fail(503, message="Loading model", type="unavailable_error")
    # More often than any other failure would be tried again.
    with ScriptedModel([loading, loading, answer("Here.")]) as server:
        env, flags = server.environment, ("--model", server.model, "--json")
        ended = door.run("run", "explorer", "Go", *flags, env=env)
    [result] = ended.json["details"]["results"]
    assert (ended.code, result["output"], result["attempts"]) == (0, "Here.", 3)


def test_a_server_that_loads_its_model_is_named_where_nothing_is_tried_again(door: Door) -> None:
    with ScriptedModel([fail(503, message="Loading model")]) as server:
        env = {**server.environment, "OUTRIDER_SUBAGENTS__RETRY__ENABLED": "false"}
        ended = door.run("run", "explorer", "Go", "--model", server.model, env=env)
    assert ended.code == 1 and "still loading its model" in ended.err


def test_a_server_that_cannot_name_its_model_yet_is_named_not_passed_over(door: Door) -> None:
    with http_server((503, {}, b'{"error": {"message": "Loading model"}}')) as (port, _):
        env = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"}
        ended = door.run("run", "explorer", "Go", env=env)
        kinds = [ServerKind("llama.cpp", port, "/v1/models", "openai-chat")]
        server = probe_local_servers(kinds, 30)
    assert ended.code == 2 and "still loading its model" in ended.err
    assert server is not None and server.is_loading
    choice = choose_model(
        flag=None, agent=None, configured=None, env={}, local_servers=lambda *_: server
    )
    assert choice.reason == f"llama.cpp at 127.0.0.1:{port}" and choice.problem


def test_a_server_that_is_ready_comes_before_one_that_loads() -> None:
    ready = (200, {}, b'{"data": [{"id": "qwen3"}]}')
    with http_server((503, {}, b"")) as (first, _), http_server(ready) as (second, _):
        kinds = [ServerKind("x", port, "/v1/models", "openai-chat") for port in (first, second)]
        server = probe_local_servers(kinds, 30)
    assert server is not None and server.model == "openai-chat:qwen3"


def test_a_model_whose_name_is_a_path_is_shown_by_the_last_part_and_asked_for_by_the_whole(
    door: Door,
) -> None:
    name = "/srv/My models/qwen3-8b.gguf"
    with ScriptedModel([answer("Here.")], name=name) as server:
        env = {"OPENAI_BASE_URL": server.base_url}
        ended = door.run("run", "explorer", "Go", env=env)
        listed = door.run("agents", env=env).out
        assert server.requests[0].model == name
    assert (ended.code, ended.out) == (0, "Here.\n"), ended.err
    for shown in (ended.err, listed, door.run("runs", "--json").out):
        assert "openai-chat:qwen3-8b.gguf" in shown and "/srv" not in shown


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("openai-chat:/m/a.gguf", "openai-chat:a.gguf"),
        ("openai-chat:../m/a", "openai-chat:a"),
        ("openai-chat:m/a.gguf", "openai-chat:a.gguf"),
        ("groq:openai/gpt-oss-120b", "groq:openai/gpt-oss-120b"),
        ("ollama:qwen3:8b", "ollama:qwen3:8b"),
        ("embedded", "embedded"),
    ],
)
def test_only_a_path_is_shortened(model: str, shown: str) -> None:
    assert shown_model(model) == shown


@pytest.mark.parametrize(
    "url",
    [None, "", "https://127.0.0.1/v1", "http://127.0.0.1.example.org/v1", "http://10.0.0.1/v1"],
)
def test_only_what_is_on_this_machine_is_asked(url: str | None) -> None:
    assert own_endpoint(url) is None
    assert own_endpoint("http://[::1]:8080/v1/") is not None
