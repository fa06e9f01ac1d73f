"""The server is registered with a host by one command, which says what it changes."""

import json
import os
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli_door import Door
from outrider.protocol.errors import Refusal
from outrider.surfaces.jsonc import read_jsonc
from outrider.surfaces.mcp_hosts import HOSTS

FILES = {
    "claude": (".claude.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "qwen": (".qwen/settings.json", "mcpServers"),
    "copilot": (".copilot/mcp-config.json", "mcpServers"),
    "opencode": (".config/opencode/opencode.json", "mcp"),
}
JSONC = """\
\ufeff{\r
\t// Schlüssel für "é"\r
\t"apiKey": "mine", /* stays */\r
\t"mcp": {\r
\t\t"other": {"type": "local"}, // and this\r
\t},\r
}\r
"""
TOML = '# é\r\nmodel = "x"\n[mcp_servers.other]\ncommand = "[mcp_servers.outrider]"\n\n[tui]\na = 1'
KEY = "sk-proj-Zx81kQpR0aB7dEfGh2JkLmN4oPqRsTuV"


@pytest.fixture
def door(tmp_path):
    with closing(Door(tmp_path)) as door:
        yield door


def install(door: Door, host: str, *options: str, verb: str = "install", **env: str) -> str:
    """Return what the command says that it does, once it is done."""
    done = door.run("mcp", verb, host, *options, env=env)
    assert done.code == 0, done.err
    return done.out


def write(door: Door, name: str, text: str) -> Path:
    path = door.home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def servers(path: Path, key: str) -> dict[str, Any]:
    text = path.read_bytes().decode()
    return (tomllib.loads(text) if path.suffix == ".toml" else read_jsonc(text)).get(key, {})


def folder_of(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.parent.iterdir()}


@pytest.mark.parametrize("host", FILES)
def test_a_server_is_added_updated_and_removed_without_a_trace(door, host):
    name, key = FILES[host]
    path = door.home / name
    assert str(path) in install(door, host, "--print") and not path.exists()
    assert "it isn't there" in install(door, host, verb="uninstall")
    assert not path.exists()
    install(door, host)
    [(server, entry)] = servers(path, key).items()
    command = entry["command"] if host == "opencode" else [entry["command"], *entry["args"]]
    assert server == "outrider" and os.access(command[0], os.X_OK) and command[-1] == "mcp"
    once = path.read_bytes()
    install(door, host)
    assert path.read_bytes() == once
    moved = path.read_text().replace(command[0], "/moved/outrider")
    path.write_text(moved)
    install(door, host)
    assert path.read_bytes() == once
    assert install(door, host, verb="uninstall").endswith(f"{path}\n")
    assert list(path.parent.glob(f"{path.name}*")) == []


@pytest.mark.parametrize("host", FILES)
@pytest.mark.parametrize("text", ["", "as written by a person"])
def test_a_user_s_file_is_in_the_end_as_it_was_to_the_byte(door, host, text):
    name, key = FILES[host]
    written = TOML if host == "codex" else JSONC.replace('"mcp"', f'"{key}"')
    path = write(door, name, (text and written) or ("" if host == "codex" else "{}"))
    before = path.read_bytes()
    install(door, host)
    assert set(servers(path, key)) == ({"other", "outrider"} if text else {"outrider"})
    if host != "codex" and text:
        added = path.read_bytes().splitlines(keepends=True)
        kept = [line for line in added if b"outrider" not in line]
        assert kept == before.splitlines(keepends=True)
    install(door, host, verb="uninstall")
    after = path.read_bytes() if path.exists() else b""
    assert after == before


def test_what_a_user_added_to_the_entry_stays_when_it_is_updated(door):
    entry = {"command": "/old/outrider", "args": ["mcp"], "timeout": 90, "env": {"MINE": "1"}}
    path = write(door, ".gemini/settings.json", json.dumps({"mcpServers": {"outrider": entry}}))
    install(door, "gemini")
    updated = servers(path, "mcpServers")["outrider"]
    assert updated["timeout"] == 90 and updated["env"]["MINE"] == "1"
    assert updated["command"] != "/old/outrider"
    toml = '[mcp_servers.outrider]\ncommand = "/old"\nenv_vars = ["MINE", {name = "FAR"}]\n'
    toml += '[mcp_servers.outrider.env]\nA = "é"\n[tui]\na = 1\n'
    path = write(door, ".codex/config.toml", toml)
    install(door, "codex")
    updated = servers(path, "mcp_servers")["outrider"]
    assert "MINE" in updated["env_vars"] and {"name": "FAR"} in updated["env_vars"]
    assert updated["env"] == {"A": "é"}
    assert updated["command"] != "/old" and tomllib.loads(path.read_text())["tui"] == {"a": 1}


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_a_comment_behind_the_table_stays(door, verb):
    ours, theirs = '[mcp_servers.outrider]\ncommand = "/old"\n\n', "# about tui\n[tui]\n# end\n"
    path = write(door, ".codex/config.toml", f'model = "x"\n{ours}{theirs}')
    install(door, "codex", verb=verb)
    text = path.read_text()
    assert theirs in text and "/old" not in text and ("outrider" in text) == (verb == "install")


@pytest.mark.parametrize("kind", ["pipe", "loop", "folder", "read-only"])
def test_what_is_no_file_to_be_changed_is_left_alone(door, kind):
    path = write(door, ".config/opencode/opencode.json", "{}")
    if kind == "read-only":
        path.chmod(0o444)
    else:
        path.unlink()
        make = {"pipe": os.mkfifo, "loop": lambda it: it.symlink_to(it), "folder": Path.mkdir}
        make[kind](path)
    done = door.run("mcp", "install", "opencode")
    if kind != "read-only" or os.geteuid():  # nothing is read-only for root
        assert done.code == 2 and "is unchanged" in done.err
        assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert door.run("modules").code == 0


def test_a_file_keeps_its_mode_its_owner_and_its_link(door):
    dotfile = write(door, "dotfiles/opencode.json", '{"apiKey": "mine"}')
    dotfile.chmod(0o600)
    path = door.home / ".config/opencode/opencode.json"
    path.parent.mkdir(parents=True)
    path.symlink_to(dotfile)
    owner = (dotfile.stat().st_uid, dotfile.stat().st_gid)
    install(door, "opencode")
    assert path.is_symlink() and dotfile.stat().st_mode & 0o777 == 0o600
    assert (dotfile.stat().st_uid, dotfile.stat().st_gid) == owner
    backup = dotfile.with_name("opencode.json.backup")
    assert backup.read_text() == '{"apiKey": "mine"}' and backup.stat().st_mode & 0o777 == 0o600


def test_a_backup_has_what_was_there_before_and_is_not_overwritten(door):
    path = write(door, ".config/opencode/opencode.json", '{"theme": "dark"}')
    install(door, "opencode")
    path.write_text(path.read_text().replace('outrider", "mcp', 'outrider", "old'))
    install(door, "opencode")
    install(door, "opencode", verb="uninstall")
    install(door, "opencode", verb="uninstall")
    assert folder_of(path) == dict.fromkeys(
        ("opencode.json", "opencode.json.backup"), b'{"theme": "dark"}'
    )


def test_a_file_with_comments_beside_is_the_one_that_counts(door):
    path = write(door, ".config/opencode/opencode.jsonc", "{ // mine\n}")
    install(door, "opencode")
    assert "outrider" in servers(path, "mcp") and "// mine" in path.read_text()
    assert not path.with_suffix(".json").exists()
    install(door, "opencode", verb="uninstall")
    assert path.read_text() == "{ // mine\n}"
    other = write(
        door, ".config/opencode/opencode.json", '{"mcp": {"outrider": {"type": "local"}}}'
    )
    install(door, "opencode")
    assert servers(other, "mcp")["outrider"]["command"] and "mcp" not in path.read_text()


def test_a_host_s_folder_can_be_elsewhere(door, tmp_path):
    for host, variable, name in (
        ("opencode", "XDG_CONFIG_HOME", "opencode/opencode.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("claude", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("qwen", "QWEN_HOME", "settings.json"),
        ("copilot", "COPILOT_HOME", "mcp-config.json"),
    ):
        install(door, host, **{variable: str(tmp_path / host)})
        assert servers(tmp_path / host / name, FILES[host][1])["outrider"]
    assert not (door.home / ".config/opencode").exists()


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("opencode", "[]"),
        ("opencode", '{"mcp": []}'),
        ("opencode", '{"a": 1'),
        ("opencode", " "),
        ("claude", '{"mcpServers": {}, "é": "\udce9"}'),
        ("codex", "a = "),
        ("codex", 'mcp_servers = {outrider = {command = "x"}}'),
    ],
)
def test_a_file_that_cannot_be_changed_stays_as_it_was(door, host, text):
    path = door.home / FILES[host][0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(errors="surrogateescape"))
    before = folder_of(path)
    done = door.run("mcp", "install", host)
    assert done.code == 2 and f"{path} is unchanged: " in done.err and "--print" in done.err
    assert ".." not in done.err.replace("../", "")
    assert folder_of(path) == before
    assert door.run("modules").code == 0


def test_a_server_that_stands_in_a_table_of_others_is_left_to_the_user(door):
    path = door.home / FILES["codex"][0]
    path.parent.mkdir(parents=True)
    path.write_text('[mcp_servers]\noutrider = {command = "x"}\n')
    done = door.run("mcp", "uninstall", "codex")
    assert done.code == 2 and "isn't a table of its own" in done.err and "--print" in done.err
    assert path.read_text() == '[mcp_servers]\noutrider = {command = "x"}\n'


@pytest.mark.parametrize("step", ["chown", "replace"])
def test_a_change_that_fails_half_way_leaves_nothing_behind(door, monkeypatch, step):
    path = write(door, ".qwen/settings.json", "{}")
    monkeypatch.setenv("HOME", str(door.home))

    def refuse(*_args: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, step, refuse)
    with pytest.raises(Refusal, match=r"is unchanged: .*Permission denied"):
        HOSTS["qwen"].change("add", [])
    assert folder_of(path) == {path.name: b"{}"}


@pytest.mark.parametrize("host", ["codex", "gemini"])
def test_a_host_that_keeps_its_environment_is_told_which_variables_to_pass(door, host):
    name, key = FILES[host]
    path = door.home / name
    env = {"OPENAI_API_KEY": KEY, "BRAVE_SEARCH_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    said = install(door, host, **env, OUTRIDER_SUBAGENTS__MAX_DEPTH="1", HTTPS_PROXY="")
    entry = servers(path, key)["outrider"]
    passed = entry["env_vars"] if host == "codex" else entry["env"]
    wanted = {"OPENAI_API_KEY", "BRAVE_SEARCH_API_KEY"}
    assert ("OUTRIDER_SUBAGENTS__MAX_DEPTH" in passed) == (host == "codex")  # others pass it on
    assert wanted <= set(passed) and not {"ANTHROPIC_API_KEY", "HTTPS_PROXY"} & set(passed)
    if host != "codex":
        assert passed["OPENAI_API_KEY"] == "${OPENAI_API_KEY:-}"
    assert KEY not in path.read_text() and KEY not in said


def test_where_a_host_cannot_be_told_to_pass_a_key_on_the_user_is_told_what_to_do(door):
    done = door.run("mcp", "install", "copilot", env={"OPENAI_API_KEY": KEY})
    path = door.home / FILES["copilot"][0]
    assert done.code == 0 and "env" not in servers(path, "mcpServers")["outrider"]
    assert '"env": {"OPENAI_API_KEY": "${MY_KEY}"}' in done.err and str(path) in done.err
    [(words, status)] = hosts(door, OPENAI_API_KEY=KEY).items()
    assert status == "warn" and "doesn't get OPENAI_API_KEY: export it as MY_KEY" in words
    text = path.read_text().replace('"args"', '"env": {"OPENAI_API_KEY": "${MY_KEY}"}, "args"')
    path.write_text(text)
    install(door, "copilot", OPENAI_API_KEY=KEY)
    assert "${MY_KEY}" in path.read_text()
    assert list(hosts(door, OPENAI_API_KEY=KEY).values()) == ["ok"]


def test_a_key_that_the_configuration_needs_is_passed_before_it_is_set(door):
    config = door.home / ".config/outrider/config.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"model": "deepseek:deepseek-chat"}')
    install(door, "codex")
    entry = servers(door.home / ".codex/config.toml", "mcp_servers")["outrider"]
    assert "DEEPSEEK_API_KEY" in entry["env_vars"]


def hosts(door: Door, **env: str) -> dict[str, str]:
    checks = door.run("doctor", "--json", env=env).json["checks"]
    return {check["message"]: check["status"] for check in checks if check["name"] == "hosts"}


def test_doctor_tries_each_registered_server_and_says_what_it_does_not_get(door):
    install(door, "opencode")
    install(door, "codex", OUTRIDER_MODEL="embedded")
    write(door, ".qwen/settings.json", '{"mcpServers": {"outrider": {"command": "/gone/x"}}}')
    write(door, ".gemini/settings.json", '{"mcpServers": {"outrider": {"command": 1, "args": 2}}}')
    found = hosts(door, OPENAI_API_KEY=KEY)
    by_host = {words.partition(" (")[0]: (words, status) for words, status in found.items()}
    assert by_host["OpenCode"][1] == "ok" and "the server answers" in by_host["OpenCode"][0]
    assert by_host["Qwen Code"][1] == by_host["Gemini CLI"][1] == "warn"
    assert by_host["Codex"][1] == "warn"
    assert "doesn't get OPENAI_API_KEY: run `outrider mcp install codex`" in by_host["Codex"][0]
    install(door, "codex", OPENAI_API_KEY=KEY)
    again = [
        status for words, status in hosts(door, OPENAI_API_KEY=KEY).items() if "Codex" in words
    ]
    assert again == ["ok"]


@pytest.mark.parametrize(("host", "key"), [("cursor", "mcpServers"), ("vscode", "servers")])
def test_what_to_paste_is_printed(door, host, key):
    done = door.run("mcp", "install", host)
    where, _, pasted = done.out.partition("\n")
    assert done.code == 0 and "mcp.json" in where
    assert json.loads(pasted)[key]["outrider"]["args"][-1] == "mcp"


def test_a_bad_call_says_what_there_is(door):
    assert "claude" in door.run("mcp", "install").err
    assert door.run("mcp", "install", "nothing").code == 2
