"""Settings: later layers win, a project only lowers, and nothing is ignored in silence."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cli_door import Door
from file_tools import make_socket
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.settings.files import load_settings
from outrider.settings.keys import DEFAULTS, KEYS, ProjectRule
from outrider.settings.layers import Layer, Origin, SettingError, check, effective, merge, narrowed


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def user_file(text: str) -> None:
    write(Path(os.environ["HOME"]) / ".config/outrider/config.json", text)


def test_the_order_is_default_user_project_environment_flag(world: Path) -> None:
    def timeout(flags: dict | None = None) -> int:
        return load_settings(world, os.environ, flags).config.subagents.timeout_ms

    assert timeout() == 900_000
    user_file('{"subagents": {"timeoutMs": 5000}}')
    assert timeout() == 5000
    write(world / ".outrider/config.json", '{"subagents": {"timeoutMs": 4000}}')
    assert timeout() == 4000
    os.environ["OUTRIDER_SUBAGENTS__TIMEOUT_MS"] = "6000"
    assert timeout() == 6000
    assert timeout({"subagents.timeoutMs": "7000"}) == 7000
    del os.environ["OUTRIDER_SUBAGENTS__TIMEOUT_MS"]


LOOSENING = {
    "subagents.allowWrite": True,
    "subagents.enabled": True,
    "subagents.timeoutMs": 10_000_000,
    "subagents.maxDepth": 9,
    "subagents.budget.maxTurns": 1_000,
    "subagents.allowedLspActions": ["definition", "rename"],
    "subagents.trustedProjects": ["/"],
    "subagents.projectAgentPolicy": "allow",
    "subagents.nonInteractivePolicy": "allow",
    "subagents.maskToolResults": "never",
    "files.allowedRoots": ["/"],
    "files.allowCredentialFiles": True,
    "tools.modules": ["evil"],
    "web.allowPrivateNetwork": True,
    "web.allowedHosts": ["127.0.0.1"],
    "web.useProxy": True,
    "web.endpoints": {"tavily": "https://evil.example"},
    "lsp.servers": {"own": {"command": ["./evil"]}},
    "lsp.preferred": {"python": "own"},
    "lsp.tool.allowMutatingActions": True,
    "model": "openai:expensive",
    "runs.keepDays": 0,
    "runs.keepBytes": 0,
}


@pytest.mark.parametrize("name", LOOSENING)
def test_a_project_cannot_loosen(world: Path, name: str) -> None:
    nested: dict = {}
    place = nested
    *sections, last = name.split(".")
    for section in sections:
        place = place.setdefault(section, {})
    place[last] = LOOSENING[name]
    write(world / ".outrider/config.json", json.dumps(nested))
    settings = load_settings(world, os.environ)
    assert {key.name: value for key, value in effective(settings.config)} == {
        key.name: value for key, value in effective(DEFAULTS)
    }
    assert any(name in warning for warning in settings.warnings)


def test_a_project_can_switch_off_and_lower(world: Path) -> None:
    write(
        world / ".outrider/config.json",
        '{"subagents": {"enabled": false, "disabled": ["tester"], "maxConcurrent": 2,'
        ' "allowedLspActions": ["hover"], "budget": {"maxTokens": 100}}}',
    )
    settings = load_settings(world, os.environ)
    found = settings.config.subagents
    assert not settings.warnings
    assert found.enabled is False
    assert found.disabled == ("tester",)
    assert found.max_concurrent == 2
    assert found.allowed_lsp_actions == ("hover",)
    assert found.budget.max_tokens == 100


@given(st.data())
def test_no_project_value_is_ever_looser_than_the_users(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(list(KEYS.values())))
    values = {
        bool: st.booleans(),
        int: st.integers(0, 10**9),
        float: st.floats(0, 10**9),
        str: st.sampled_from(key.choices or ("a", "b")),
        tuple: st.lists(st.sampled_from(key.choices or ("a", "b", "c"))).map(tuple),
        dict: st.dictionaries(st.sampled_from("abc"), st.text()),
    }
    user, wanted = data.draw(values[key.kind]), data.draw(values[key.kind])
    try:
        made = narrowed(key, user, wanted)
    except SettingError:
        return
    if key.project is ProjectRule.ADD:
        assert set(made) >= set(user)
    elif key.kind is bool:
        assert made is False
    elif key.kind is tuple:
        assert set(made) <= set(user)
    else:
        assert made <= user


def test_a_typo_is_named_with_what_was_meant(world: Path) -> None:
    user_file('{"subagents": {"timeOutMs": 5, "retries": 3}, "modle": "x:y"}')
    warnings = "\n".join(load_settings(world, os.environ).warnings)
    assert "did you mean subagents.timeoutMs?" in warnings
    assert "unknown key subagents.retries" in warnings
    assert "did you mean model?" in warnings


def test_an_unknown_variable_is_named(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_SUBAGENTS__TIMEOUT", "5")
    [warning] = load_settings(world, os.environ).warnings
    assert "OUTRIDER_SUBAGENTS__TIMEOUT" in warning
    assert "did you mean subagents.timeoutMs?" in warning


@pytest.mark.parametrize("name", ["OUTRIDER_subagents__timeout_ms", "OUTRIDER_model"])
def test_a_variable_in_lower_case_sets_nothing_and_is_named(
    world: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = load_settings(world, os.environ)
    monkeypatch.setenv(name, "5")
    settings = load_settings(world, os.environ)
    assert settings.config == before.config and settings.origins == before.origins
    assert [warning.partition(":")[0] for warning in settings.warnings] == [name]


@pytest.mark.parametrize("value", ['"fast"', "true", "-1", "0", "1e400", "[]", "1.5", "null"])
def test_a_bad_value_in_a_file_is_a_warning_and_the_default(world: Path, value: str) -> None:
    user_file(f'{{"subagents": {{"timeoutMs": {value}}}}}')
    settings = load_settings(world, os.environ)
    assert settings.config.subagents.timeout_ms == 900_000
    [warning] = settings.warnings
    assert "subagents.timeoutMs" in warning


@pytest.mark.parametrize("value", ["fast", "-1", "0", "", "nan"])
def test_a_bad_value_in_a_variable_or_flag_is_refused(world: Path, value: str) -> None:
    with pytest.raises(Refusal) as refusal:
        load_settings(world, os.environ, {"subagents.timeoutMs": value})
    assert refusal.value.code is ErrorCode.INVALID_INPUT
    assert "subagents.timeoutMs" in refusal.value.message
    with pytest.raises(Refusal):
        load_settings(world, {**os.environ, "OUTRIDER_SUBAGENTS__TIMEOUT_MS": value})


@pytest.mark.parametrize("text", ["{", "[]", "nonsense", "\x00", "[" * 100_000])
def test_a_file_that_is_not_json_is_refused_and_named(world: Path, text: str) -> None:
    user_file(text)
    with pytest.raises(Refusal) as refusal:
        load_settings(world, os.environ)
    assert refusal.value.code is ErrorCode.INVALID_INPUT
    assert "config.json" in refusal.value.message


@pytest.mark.parametrize("whose", ["user", "project"])
@pytest.mark.parametrize(
    "make",
    [os.mkfifo, os.mkdir, make_socket, partial(os.symlink, "/dev/zero")],
    ids=["pipe", "folder", "socket", "device"],
)
def test_what_is_no_plain_file_is_refused_as_configuration_at_once(
    world: Path, whose: str, make: Callable[[Path], None]
) -> None:
    user = Path(os.environ["HOME"]) / ".config/outrider/config.json"
    path = user if whose == "user" else world / ".outrider/config.json"
    path.parent.mkdir(parents=True)
    make(path)
    with pytest.raises(Refusal) as refusal:
        load_settings(world, os.environ)
    assert str(path) in refusal.value.message


def test_a_pipe_that_has_a_writer_does_not_hang_either(world: Path) -> None:
    path = Path(os.environ["HOME"]) / ".config/outrider/config.json"
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    with open(path, "r+b", buffering=0), pytest.raises(Refusal, match="not a regular file"):
        load_settings(world, os.environ)


def test_lists_and_booleans_come_from_variables_too(world: Path) -> None:
    flags = {
        "subagents.disabled": "tester, reviewer",
        "subagents.enabled": "FALSE",
        "subagents.trustedProjects": '["/a", "/b"]',
        "subagents.budget.maxCost": "0.5",
    }
    found = load_settings(world, os.environ, flags).config.subagents
    assert found.disabled == ("tester", "reviewer")
    assert found.enabled is False
    assert found.trusted_projects == ("/a", "/b")
    assert found.budget.max_cost == 0.5


def test_every_value_says_where_it_came_from(world: Path) -> None:
    user_file('{"subagents": {"maxDepth": 2}}')
    origins = load_settings(world, os.environ, {"model": "a:b"}).origins
    assert origins["subagents.maxDepth"].startswith("user ")
    assert origins["model"] == "flag model"
    assert "subagents.enabled" not in origins


@given(
    st.sampled_from(list(KEYS)),
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists),
)
def test_no_value_at_all_breaks_the_merge(name: str, value: object) -> None:
    settings = merge([Layer(Origin.USER, "user", {name: value})])
    for key, effective_value in effective(settings.config):
        if effective_value is not None:
            assert check(key, effective_value) == effective_value


# Changing the user's file by command


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    with closing(Door(tmp_path / "door")) as door:
        yield door


def own_file(door: Door) -> Path:
    return door.home / ".config/outrider/config.json"


def test_a_setting_is_set_and_unset_by_command(door: Door) -> None:
    path = door.write_config('{\n  "model": "embedded"\n}\n')
    ended = door.run("config", "set", "subagents.timeoutMs", "90s")
    assert ended.code == 0 and str(path) in ended.err
    assert json.loads(path.read_text()) == {"model": "embedded", "subagents": {"timeoutMs": 90_000}}
    door.run("config", "set", "files.allowedRoots", "/a, /b")
    data = door.run("config", "--json").json["values"]
    assert data["files.allowedRoots"]["value"] == ["/a", "/b"]
    for key in ("subagents.timeoutMs", "files.allowedRoots"):
        assert door.run("config", "unset", key).code == 0
    assert path.read_text() == '{\n  "model": "embedded"\n}\n'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "subagents.allowWrit", "true"), "did you mean subagents.allowWrite?"),
        (("set", "subagents.allowWrite", "maybe"), "subagents.allowWrite: expected true or false"),
        (("set", "subagents.timeoutMs", "soon"), "write 90s"),
        (("set", "web.maxResponseBytes", "1"), "it is called web.maxBytes here"),
        (("unset", "nonsense"), "unknown key nonsense"),
        (("set", "model"), "set KEY VALUE"),
        (("import",), "nothing to import"),
    ],
)
def test_a_bad_change_of_the_settings_changes_nothing(door: Door, words: Any, said: str) -> None:
    ended = door.run("config", *words)
    assert ended.code == 2 and said in ended.err and not own_file(door).exists()


def test_a_setting_that_stays_overridden_is_told(door: Door) -> None:
    ended = door.run("config", "set", "model", "ollama:x", env={"OUTRIDER_MODEL": "embedded"})
    assert ended.code == 0 and "OUTRIDER_MODEL" in ended.err and "wins" in ended.err


def test_a_child_cannot_change_the_settings(door: Door) -> None:
    call = ("config", "set", "subagents.allowWrite", "true")
    ended = door.run(*call, env={"PI_SUBAGENT_CHILD": "1"})
    assert ended.code == 2 and not own_file(door).exists()


def test_the_settings_of_devkit_pi_are_taken_over_and_the_rest_is_named(door: Door) -> None:
    old = door.home / ".pi/agent/extensions/devkit-pi/config.json"
    old.parent.mkdir(parents=True)
    web = {"provider": "ddgs", "providerPriority": ["tavily", "brave"], "timeoutMs": 9}
    web |= {"maxResponseBytes": 2048, "maxResults": 8, "searxng": {"baseUrl": "http://s.example"}}
    subagents = {"timeoutMs": 120_000, "maxDepth": 1, "allowWrite": "yes"}
    more = {"lsp": {"tool": {"enabled": False}, "hook": {"mode": "disabled"}}}
    old.write_text(json.dumps({"subagents": subagents, "web": web, **more}))
    said = door.run("config", "import", "--json").json
    taken = {row["key"]: row["value"] for row in said["changed"]}
    assert taken == {
        "subagents.timeoutMs": 120_000,
        "web.providerPriority": ["tavily", "brave"],
        "web.timeoutMs": 9,
        "web.maxBytes": 2048,
        "web.endpoints": {"searxng": "http://s.example"},
        "lsp.enabled": False,
    }
    left = {row["key"]: row["why"] for row in said["notTaken"]}
    refused = {"subagents.allowWrite", "web.provider"}
    assert set(left) == {*refused, "web.maxResults", "lsp.hook.mode"}
    assert "expected true or false" in left["subagents.allowWrite"]
    assert "warning" not in door.run("config").err
