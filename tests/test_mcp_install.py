"""The server is registered with a host by one command, which says what it changes."""

import json
import stat
from contextlib import closing

import pytest

from cli_door import Door

OWN = {
    "claude": "mcp add --scope user outrider -- {command} mcp",
    "codex": "mcp add outrider -- {command} mcp",
    "copilot": "mcp add outrider -- {command} mcp",
    "gemini": "mcp add -s user outrider {command} -- mcp",
    "qwen": "mcp add -s user outrider {command} -- mcp",
}


@pytest.fixture
def door(tmp_path):
    with closing(Door(tmp_path)) as door:
        yield door


def with_program(door: Door, name: str, script: str) -> dict[str, str]:
    """Return the environment in which a host's program does what the script says."""
    program = door.home / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{program.parent}:{door.environment()['PATH']}"}


@pytest.mark.parametrize("host", OWN)
def test_a_host_s_own_command_is_called_and_told_before(door, host):
    env = with_program(door, host, f'echo "$@" >> {door.home}/called')
    done = door.run("mcp", "install", host, env=env)
    assert done.code == 0, done.err
    called = (door.home / "called").read_text().split()
    command = next(word for word in called if word.startswith("/"))
    assert " ".join(called) == OWN[host].format(command=command)
    assert done.out == f"run: {host} {' '.join(called)}\n"
    door.run("mcp", "uninstall", host, env=env)
    assert (door.home / "called").read_text().splitlines()[1].startswith("mcp remove")


def test_a_host_that_is_missing_or_fails_is_told(door):
    missing = door.run("mcp", "install", "claude", env={"PATH": "/nowhere"})
    assert missing.code == 2 and "--print" in missing.err
    failing = door.run("mcp", "install", "codex", env=with_program(door, "codex", "exit 3"))
    assert failing.code == 2 and "3" in failing.err


def test_opencode_s_file_is_changed_with_a_backup_and_doctor_finds_it(door):
    path = door.home / ".config/opencode/opencode.json"
    path.parent.mkdir(parents=True)
    before = '{"theme": "dark", "mcp": {"other": {"type": "local"}}}'
    path.write_text(before)
    shown = door.run("mcp", "install", "opencode", "--print")
    assert str(path) in shown.out and path.read_text() == before
    assert door.run("mcp", "install", "opencode").code == 0
    after = json.loads(path.read_text())
    assert after["theme"] == "dark" and set(after["mcp"]) == {"other", "outrider"}
    assert after["mcp"]["outrider"]["command"][-1] == "mcp"
    assert path.with_name("opencode.json.backup").read_text() == before
    codex = door.home / ".codex/config.toml"
    codex.parent.mkdir()
    codex.write_text('[mcp_servers.outrider]\ncommand = "/gone/outrider"\nargs = ["mcp"]\n')
    checks = door.run("doctor", "--json").json["checks"]
    found = {check["message"]: check["status"] for check in checks if check["name"] == "hosts"}
    assert [status for words, status in found.items() if "OpenCode" in words] == ["ok"]
    assert [status for words, status in found.items() if "Codex" in words] == ["warn"]
    assert door.run("mcp", "uninstall", "opencode").code == 0
    assert set(json.loads(path.read_text())["mcp"]) == {"other"}


def test_a_file_with_comments_is_left_alone(door):
    path = door.home / ".config/opencode/opencode.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"theme": "dark" // mine\n}')
    done = door.run("mcp", "install", "opencode")
    assert done.code == 2 and "is unchanged" in done.err
    assert "// mine" in path.read_text()


def test_a_file_keeps_its_mode_and_its_link_and_none_is_made_to_remove_from(door):
    path = door.home / ".config/opencode/opencode.json"
    assert door.run("mcp", "uninstall", "opencode").code == 0 and not path.exists()
    dotfile = door.home / "dotfiles/opencode.json"
    for folder in (path.parent, dotfile.parent):
        folder.mkdir(parents=True, exist_ok=True)
    dotfile.write_text('{"apiKey": "mine"}')
    dotfile.chmod(0o600)
    path.symlink_to(dotfile)
    assert door.run("mcp", "install", "opencode").code == 0
    assert path.is_symlink() and dotfile.stat().st_mode & 0o777 == 0o600
    assert json.loads(dotfile.read_text())["apiKey"] == "mine"


@pytest.mark.parametrize("text", ["[]", '{"mcp": {"outrider": {"command": 1, "args": null}}}'])
def test_a_file_that_holds_something_else_breaks_no_report(door, text):
    path = door.home / ".config/opencode/opencode.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert door.run("modules").code == 0
    if text == "[]":
        assert door.run("mcp", "install", "opencode").code == 2 and path.read_text() == text


@pytest.mark.parametrize(("host", "key"), [("cursor", "mcpServers"), ("vscode", "servers")])
def test_what_to_paste_is_printed(door, host, key):
    done = door.run("mcp", "install", host)
    where, _, pasted = done.out.partition("\n")
    assert done.code == 0 and "mcp.json" in where
    assert json.loads(pasted)[key]["outrider"]["args"][-1] == "mcp"


def test_a_bad_call_says_what_there_is(door):
    assert "claude" in door.run("mcp", "install").err
    assert door.run("mcp", "install", "nothing").code == 2
