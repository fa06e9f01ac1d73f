"""`outrider doctor` really tries things: it notices what is broken, and tells what works."""

import json
import os
import subprocess
import sys
from contextlib import closing

import pytest

from cli_door import Door
from outrider.protocol.tool_catalogue import CATALOGUE
from outrider.runtimes.pi.choices import INSTALL
from outrider.testing import ScriptedModel, answer, fail
from outrider.tools.lsp.known_servers import SERVERS
from web_servers import serving

pytestmark = pytest.mark.usefixtures("unmeasured")

STATUSES = ("fail", "warn", "ok", "off")
GROUPS = ("setup", "models", "search", "servers", "converter", "system")
LEFT_RUN = f"{os.getpid():08x}"  # no other test run on this machine has it


@pytest.fixture
def door(tmp_path):
    with closing(Door(tmp_path)) as door:
        yield door


def findings(door, env=None):
    """Return the worst that was found by name; of the models, the one that answers."""
    ended = door.run("doctor", "--json", env=env)
    assert ended.code == 0
    found = {}
    worst_first = sorted(ended.json["checks"], key=lambda check: STATUSES.index(check["status"]))
    for check in worst_first:
        found.setdefault(check["name"], (check["status"], check["message"]))
    model = next(check for check in ended.json["checks"] if check["group"] == "models")
    return {**found, "model": (model["status"], model["message"])}


def test_healthy_machine_is_found_healthy_and_left_as_it_was(door, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {"TMPDIR": str(temporary), "OUTRIDER_MODEL": "embedded"}
    found = findings(door, env)
    # What the machine's kernel offers is its own affair.
    others = found.keys() - {"confinement", *(server.name for server in SERVERS)}
    assert {found[name][0] for name in others} <= {"ok", "off"}
    assert found["ty"][0] == "ok" and "answers" in found["ty"][1]
    assert found["git"][1].startswith(("git version", "not installed"))
    assert found["processes left over"] == ("ok", "none")
    assert "did a small task in" in found["child"][1]
    assert found["ripgrep"][1].startswith("ripgrep ")
    assert f"Python {sys.version.split()[0]}" in found["platform"][1]
    assert list(temporary.iterdir()) == []
    assert list(door.runs.iterdir()) == []
    door.assert_nothing_left()


def test_pi_is_named_with_its_version_or_how_to_install_it(door, tmp_path):
    (tmp_path / "bin").mkdir()
    pi = tmp_path / "bin/pi"
    env = {"OUTRIDER_MODEL": "embedded", "PATH": f"{pi.parent}:/usr/bin:/bin"}
    assert INSTALL in findings(door, env)["pi"][1]
    pi.write_text("#!/bin/sh\necho 0.99.0\n")
    pi.chmod(0o755)
    assert findings(door, env)["pi"] == ("ok", f"0.99.0 ({pi})")
    pi.write_text("#!/bin/sh\nexit 3\n")
    status, words = findings(door, env)["pi"]
    assert status == "fail" and "exit status 3" in words


def test_a_program_that_is_slow_is_not_called_a_failure(door, tmp_path):
    pi = tmp_path / "bin/pi"
    pi.parent.mkdir()
    pi.write_text("#!/bin/sh\nexec sleep 600\n")
    pi.chmod(0o755)
    code = (
        "import sys, outrider.surfaces.reports.doctor as doctor; doctor.MAX_PROGRAM_SECONDS = 0.1; "
        "sys.argv = ['outrider', 'doctor', '--json']; "
        "from outrider.__main__ import main; sys.exit(main())"
    )
    variables = f"OUTRIDER_MODEL=embedded PATH={pi.parent}:/usr/bin:/bin"
    ended = door.shell(f'export {variables}; exec "$0" -c "{code}"')
    [(status, words)] = [
        (check["status"], check["message"])
        for check in ended.json["checks"]
        if check["name"] == "pi"
    ]
    assert status == "warn" and "timed out after 0.1 seconds" in words and str(pi) in words


def test_it_is_told_where_background_runs_end_with_the_session(door, tmp_path):
    program = tmp_path / "bin/loginctl"
    program.parent.mkdir()
    for said, status in (("yes", "warn"), ("no", "ok")):
        program.write_text(f"#!/bin/sh\necho KillUserProcesses={said}\n")
        program.chmod(0o755)
        env = {"OUTRIDER_MODEL": "embedded", "PATH": f"{program.parent}:/usr/bin:/bin"}
        checks = door.run("doctor", "--json", env=env).json["checks"]
        (found,) = (one for one in checks if one["name"] == "background runs")
        assert found["status"] == status
        assert ("systemd-run" in found["message"]) == (said == "yes")


def test_report_for_people_begins_every_line_with_the_finding(door):
    door.write_agent("no name")
    ended = door.run("doctor", "--all", env={"OUTRIDER_MODEL": "embedded"})
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert all(line.split()[0] in ("ok", "off", "warn", "fail") for line in lines)
    assert any(line.split()[:2] == ["off", "tavily:"] for line in lines)
    assert any(line.startswith("fail  agents: ") and "no name.md:2" in line for line in lines)


def test_problems_come_first_and_then_a_line_for_each_group(door):
    door.write_agent("no name")
    ended = door.run("doctor", env={"OUTRIDER_MODEL": "embedded"})
    lines = ended.out.splitlines()
    found = [line.split()[0] for line in lines]
    assert len(lines) < 15 and found[0] in ("warn", "fail") and "--all" in ended.err
    assert any("no name.md:2" in line for line in lines[: -len(GROUPS)])
    assert [line.split()[1] for line in lines[-len(GROUPS) :]] == [f"{one}:" for one in GROUPS]
    assert lines[-len(GROUPS)].startswith("fail  setup: 1 fail, ")


def test_report_on_a_terminal_has_groups_and_is_never_overrun(door):
    door.write_agent("evil", "description: x", "desc\x1b[2Jription: x")
    terminal = door.terminal("doctor", "--all", columns=50, env={"OUTRIDER_MODEL": "embedded"})
    assert terminal.end() == 0
    lines = terminal.screen.splitlines()
    assert max(map(len, lines)) <= 50 and "\x1b[2J" not in terminal.raw
    assert {"setup", "models", "search", "servers", "converter", "system"} <= set(lines)
    assert all(
        line[:4].strip() in ("", "ok", "off", "warn", "fail") for line in lines if "  " in line[:5]
    )


def test_broken_things_are_findings_not_failures(door, tmp_path):
    path = door.write_config("{")
    (door.home / ".local").write_text("in the way")
    found = findings(door, {"OUTRIDER_MODEL": "embedded"})
    assert found["configuration"][0] == "fail" and str(path) in found["configuration"][1]
    assert found["state folder"][0] == "fail"
    assert found["child"][0] == "ok"


def test_a_state_folder_in_which_nothing_can_be_written_is_named(door):
    door.runs.parent.mkdir(parents=True)
    door.runs.symlink_to("/proc" if sys.platform == "linux" else "/System")
    found = findings(door, {"OUTRIDER_MODEL": "embedded"})
    assert_found(found, "state folder", "fail", "doesn't work: ")
    assert str(door.runs) in found["state folder"][1]


def test_tools_that_are_there_and_those_that_are_not_are_named(door):
    door.write_config({"subagents": {"allowWrite": True}})
    env = {"OUTRIDER_MODEL": "embedded"}
    assert findings(door, env)["tools"] == ("ok", f"{len(CATALOGUE)} tools built in, 0 of your own")
    rows = door.run("modules", "--json", env=env).json["modules"]
    tools = {row["name"]: row for row in rows if row["kind"] == "tools"}
    assert list(tools) == list(CATALOGUE)
    assert all(tool["on"] and tool["why"] == "built in" for tool in tools.values())


def test_each_trouble_is_noticed_and_named(door, tmp_path):
    door.write_config({"modell": "x"})
    door.runs.mkdir(parents=True)
    door.runs.chmod(0o755)
    program = tmp_path / "bin/rg"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    found = findings(door, {"PATH": path, "OUTRIDER_MODEL": "anthropic:claude-x"})
    assert_found(found, "configuration", "warn", "did you mean model?")
    assert_found(found, "state folder", "warn", "chmod 700")
    assert_found(found, "ripgrep", "fail", "exit status 3")
    assert_found(found, "model", "fail", "ANTHROPIC_API_KEY")


def assert_found(found, name, status, words):
    assert found[name][0] == status
    assert words in found[name][1]


def test_model_s_own_server_is_asked(door):
    with ScriptedModel([answer("x")]) as server:
        env = {**server.environment, "OUTRIDER_MODEL": server.model}
        status, message = findings(door, env)["model"]
        assert status == "ok" and message.endswith("answers")
        assert server.environment["OPENAI_API_KEY"] not in message
    status, message = findings(door, env)["model"]
    assert status == "fail" and "doesn't answer" in message


def all_findings(door, *options, env=None):
    ended = door.run("doctor", "--json", *options, env=env)
    assert ended.code == 0, ended.err
    return [(check["name"], check["status"], check["message"]) for check in ended.json["checks"]]


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """What is found behind a door with much to tell of, and that door."""
    with closing(Door(tmp_path_factory.mktemp("troubled"))) as door:
        door.write_agent("writer", "tools: read, write")
        door.write_agent("explorer")
        door.write_config(
            {"subagents": {"disabled": ["tester"]}, "tools": {"modules": ["no_such_tools"]}}
        )
        folder = door.home / ".config/outrider/agents"
        folder.mkdir(parents=True)
        (folder / "broken.md").write_text("no frontmatter")
        (folder / "explorer.md").write_text("---\nname: explorer\n---\nMine.")
        (door.project / "inner").mkdir()
        for name in ("git", "gopls"):
            program = door.project / name
            program.write_text(f"#!/bin/sh\ntouch {door.home}/ran\n")
            program.chmod(0o755)
        record = door.runs / LEFT_RUN
        record.mkdir(parents=True)
        (record / "session.jsonl").write_text('{"type": "run"}\n')
        keys = {"OPENAI_API_KEY": "x", "DEEPSEEK_API_KEY": "y", "ALIBABA_API_KEY": "z"}
        path = {"PATH": f".:{door.project}:{os.environ['PATH']}"}
        mark = {"OUTRIDER_SUBAGENT_RUN": LEFT_RUN}
        with subprocess.Popen(["sleep", "600"], env={**mark, **path}) as left:
            try:
                found = all_findings(door, "--cwd", "inner", env={**keys, **path})
                yield door, found, left.pid
            finally:
                left.kill()


def said_of(troubled, name):
    return [(status, message) for of, status, message in troubled[1] if of == name]


def test_permissions_are_told_with_what_each_agent_gets(troubled):
    allowed = [message for _, message in said_of(troubled, "permissions")]
    assert "subagents.allowWrite is false" in allowed
    assert "this project is not in subagents.trustedProjects" in allowed
    assert any(one.startswith('subagents.allowedLspActions is ["definition", ') for one in allowed)
    said = [message for _, message in said_of(troubled, "agents")]
    assert any("writer gets read; without write: subagents.allowWrite is" in one for one in said)
    assert any(one.startswith("tester ") and "subagents.disabled" in one for one in said)


def test_agents_of_the_user_that_are_skipped_are_named_with_the_reason(troubled):
    door, said = troubled[0], said_of(troubled, "agents")
    folder, ours = door.home / ".config/outrider/agents", door.project / ".outrider/agents"
    assert any(status == "fail" and "broken.md:1" in message for status, message in said)
    lost = f"{folder}/explorer.md: not used; {ours}/explorer.md also defines explorer"
    assert ("ok", lost) in said


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these means")
def test_it_is_tried_whether_what_children_start_is_confined(troubled):
    found = said_of(troubled, "confinement")
    held = [("ok", "what children start has its own processes, network and files")]
    assert found == held or all("not fully confined here" in one for _, one in found[:1])


def test_every_provider_with_a_key_is_named(troubled):
    models = {name: rest for name, *rest in troubled[1] if ":" in name}
    openai, deepseek, alibaba = models.values()
    assert [name.partition(":")[0] for name in models] == ["openai", "deepseek", "alibaba"]
    assert openai[0] == "ok" and openai[1].startswith(
        "used by default: OPENAI_API_KEY is set, sdk wire; "
    )
    assert deepseek[0] == "ok" and "not tried" in deepseek[1]
    assert alibaba == ["warn", "it has no default model: name one"]


def test_process_that_a_run_left_behind_is_named(troubled):
    [(status, message)] = said_of(troubled, "processes left over")
    assert status == "warn"
    assert f"process {troubled[2]} of run {LEFT_RUN}: sleep 600" in message


def test_tool_of_ones_own_that_cannot_be_loaded_is_named(troubled):
    said = said_of(troubled, "tools")
    assert any(status == "warn" and "no_such_tools" in message for status, message in said)


def test_program_of_the_project_s_own_is_not_run(troubled):
    [(status, _)] = said_of(troubled, "git")
    assert status == "ok" and not (troubled[0].home / "ran").exists()


def test_online_sends_one_request_to_the_model_and_to_each_search_provider(door):
    results = {"results": [{"url": "https://example.org/", "title": "x", "content": "y"}]}
    page = (200, "application/json", json.dumps(results).encode())
    with serving({"/search": page}) as searched, ScriptedModel([fail(401)]) as server:
        host = searched.host
        # Nobody on the network is asked: of those in the list, the other one has no key.
        web = {"allowedHosts": [host], "endpoints": {"searxng": f"http://{host}"}}
        door.write_config({"web": {**web, "providerPriority": ["searxng", "brave"]}})
        env = {**server.environment, "OUTRIDER_MODEL": server.model}
        found = {name: rest for name, *rest in all_findings(door, "--online", env=env)}
        assert len(server.requests) == 1 and len(searched.asked) == 1
    asked = found[server.model]
    assert asked[0] == "fail" and "a small task failed" in asked[1]
    assert found["searxng"] == ["ok", f"it is at {host}; it answers"]
    assert found["brave"][1] == "not used: BRAVE_SEARCH_API_KEY is not set"
    assert found["duckduckgo"][1].startswith("not used: web.providerPriority")


def test_check_that_fails_or_hangs_is_a_finding_and_so_is_little_room_for_runs(door):
    code = (
        "import os, sys, time, outrider.surfaces.reports.doctor as doctor; "
        "os.defpath = os.environ['PATH'] = '/nonexistent'; doctor.LOW_FREE_BYTES = 1 << 80; "
        "doctor.MAX_CHECK_SECONDS = 1; doctor._permissions = lambda: []; "
        "doctor._tools = lambda project: time.sleep(600); "
        "doctor._child = doctor._confinement = lambda: []; doctor._service = lambda *_: []; "
        "sys.argv = ['outrider', 'doctor', '--json']; "
        "from outrider.__main__ import main; sys.exit(main())"
    )
    ended = door.shell(f'exec "$0" -c "{code}"')
    found = {check["name"]: check["message"] for check in ended.json["checks"]}
    [free] = [one for one in ended.json["checks"] if "GiB free" in one["message"]]
    assert (free["name"], free["status"]) == ("state folder", "warn")
    assert ended.code == 0 and ended.err == ""
    assert found["bash"] == "not installed; the bash tool needs it"
    assert found["permissions"].startswith("can't be checked: TypeError")
    assert found["tools"] == "no answer within 1 s"
    assert "fail" not in {one["status"] for one in ended.json["checks"] if one["name"] == "tools"}
