"""All processes keep one record of activity: masked, bounded, a line for each call and run."""

import json
import signal
import socket
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from cli_door import PATIENCE_SECONDS, Door
from conftest import unmeasured_environment
from outrider.records import activity
from outrider.records.activity import ActivityLog, host_and_path, of_call
from outrider.testing import ScriptedModel, answer, tool_call
from web_servers import serving

KEY = "sk-proj-Ab3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"
WRITER = """
import sys
from pathlib import Path
from outrider.records import activity
activity.MAX_FILE_BYTES = int(sys.argv[3])
log = activity.ActivityLog(Path(sys.argv[1]))
for number in range(300):
    log.add({"kind": "fetch", "what": [f"{sys.argv[2]}-{number}", "x" * 100]})
"""


@pytest.fixture
def door(tmp_path):
    with closing(Door(tmp_path)) as door:
        yield door


@pytest.fixture
def log(tmp_path):
    return ActivityLog(tmp_path / "state")


def write_from_processes(folder, most):
    started = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(number), str(most)])
        for number in range(3)
    ]
    assert [process.wait(60) for process in started] == [0, 0, 0]


def test_processes_that_write_at_once_lose_and_mix_no_line(tmp_path):
    write_from_processes(tmp_path, 10 << 20)
    written = {line["what"][0] for line in ActivityLog(tmp_path).lines()}
    assert written == {f"{process}-{number}" for process in range(3) for number in range(300)}


def test_two_files_of_bounded_size_are_kept(tmp_path):
    most = 20_000
    write_from_processes(tmp_path, most)
    files = sorted(tmp_path.iterdir())
    # There is no newer one where the last line of all has filled the file.
    assert [file.name for file in files] == ["activity.1.jsonl", "activity.jsonl"][: len(files)]
    # Those that were about to write when the file was replaced add a line each.
    assert all(file.stat().st_size < most + 3 * 200 for file in files)
    assert all(json.loads(line) for file in files for line in file.read_text().splitlines())


def test_files_are_private_and_lead_nowhere_else(tmp_path, log):
    log.add({"kind": "fetch", "what": []})
    path = tmp_path / "state/activity.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    log.add({"kind": "fetch", "what": []})
    assert not (tmp_path / "elsewhere").exists()


def test_what_cannot_be_written_costs_nothing_else(tmp_path):
    (tmp_path / "file").write_text("")
    log = ActivityLog(tmp_path / "file/state")
    log.add({"kind": "fetch", "what": []})
    assert log.lines() == []


def test_damaged_lines_are_skipped(tmp_path, log):
    log.add({"kind": "fetch", "what": []})
    with (tmp_path / "state/activity.jsonl").open("ab") as file:
        file.write(b'{"kind": "fet\n[1]\n{"kind": 3}\n\xff\xfe\n' + b"[" * 100_000 + b"\n")
    log.add({"kind": "search", "what": []})
    assert [line["kind"] for line in log.lines()] == ["fetch", "search"]


def test_a_line_that_a_full_disk_cuts_costs_no_other(tmp_path, log):
    log.add({"kind": "fetch", "what": ["first"]})
    code = f"""
import os, resource
from pathlib import Path
from outrider.records.activity import ActivityLog
path = Path({str(tmp_path / "state")!r})
room = (path / "activity.jsonl").stat().st_size + 10
resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
ActivityLog(path).add({{"kind": "fetch", "what": ["cut"]}})
"""
    # What measures the coverage, and Python's own cache, would meet the limit as well.
    command = [sys.executable, "-B", "-c", code]
    subprocess.run(command, env=unmeasured_environment(), check=True)
    log.add({"kind": "fetch", "what": ["last"]})
    assert [line["what"] for line in log.lines()] == [["first"], ["last"]]


def test_what_is_closed_is_not_called_empty(door):
    state = door.home / ".local/state/outrider"
    (state / "activity.jsonl").mkdir(parents=True)
    (state / "runs").symlink_to("runs")
    for command in ("logs", "activity", "runs", "show last"):
        ended = door.run(*command.split())
        assert ended.code == 2 and "can't be read: " in ended.err, command
        assert "nothing" not in ended.err and "no runs" not in ended.err and "bug" not in ended.err


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("https://example.org/a/b?token=x#y", "example.org/a/b"),
        ("http://user:word@example.org:8080/", "example.org:8080/"),
        ("https://[::1", "an address that can't be read"),
        ("example.org/a?b", "example.org/a"),
    ],
)
def test_addresses_are_cut_to_host_and_path(address, kept):
    assert host_and_path(address) == kept


@pytest.mark.parametrize("args", [None, "x", [], {"urls": 3}, {"url": {}}, {"queries": [1, None]}])
@pytest.mark.parametrize("envelope", [None, {}, {"code": "x", "data": [], "meta": 1}])
def test_call_of_any_shape_has_a_line(args, envelope):
    assert of_call("fetch_content", args, envelope)["kind"] == "fetch"


def test_call_that_the_run_s_end_cuts_off_has_a_line(door):
    door.write_config({"subagents": {"trustedProjects": [str(door.project)]}})
    door.write_agent("finder", "tools: fetch_content")
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        step = tool_call("fetch_content", {"url": f"http://{host}/never"})
        with ScriptedModel([step]) as server:
            env = {**server.environment, "OUTRIDER_MODEL": server.model}
            env["OUTRIDER_WEB__ALLOWED_HOSTS"] = json.dumps([host])
            process = door.start("run", "finder", "Look.", env=env)
            silent.settimeout(PATIENCE_SECONDS)
            connection, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE_SECONDS)
            connection.close()
    assert process.returncode == 130
    run, fetch = lines_of(door)
    assert run["outcome"] == "cancelled" and run["run"] == fetch["run"]
    assert fetch["what"] == [f"{host}/never"] and fetch["code"] is None


def test_providers_that_were_asked_in_vain_lower_their_rate(door):
    log = ActivityLog(door.home / ".local/state/outrider")
    others = [{"provider": "exa", "code": 2003}, {"provider": "tavily", "code": 2005}]
    data = {"searches": [{"provider": "brave", "others": others, "results": []}]}
    log.add(of_call("web_search", {"query": "tea"}, {"code": 0, "data": data}))
    providers = door.run("activity", "--json").json["kinds"]["search"]["providers"]
    assert {name: sums["successRate"] for name, sums in providers.items()} == {"brave": 1, "exa": 0}


def test_long_subjects_are_cut():
    line = of_call("web_search", {"queries": ["x" * 5000] * 99}, {"code": 0, "data": None})
    assert len(line["what"]) == activity.MAX_SUBJECTS
    assert len(json.dumps(line)) < 10_000


def test_providers_of_a_search_are_named():
    data = {"queries": [{"provider": "brave"}], "responseId": "x"}
    assert of_call("web_search", {"query": "a"}, {"code": 0, "data": data})["provider"] == "brave"


def lines_of(door: Door, *options: str) -> list:
    return door.run("logs", "--json", *options).json["lines"]


def test_calls_of_a_child_and_its_run_are_recorded_masked(door):
    (door.project / "a.csv").write_text("a\n1\n")
    door.write_config({"subagents": {"trustedProjects": [str(door.project)]}})
    door.write_agent("finder", "tools: fetch_content, convert_content")
    with serving({}) as server:
        host = server.host
        steps = [
            tool_call("fetch_content", {"url": f"http://{host}/page?key={KEY}"}),
            tool_call("convert_content", {"path": "a.csv"}),
            answer("Done."),
        ]
        with ScriptedModel(steps) as server:
            env = {**server.environment, "OUTRIDER_MODEL": server.model}
            ended = door.run("run", "finder", "Look.", env=env)
        assert ended.code == 0, ended.err
    run, convert, fetch = lines_of(door)
    assert (run["kind"], run["what"], run["outcome"]) == ("run", ["finder"], "completed")
    assert fetch["what"] == [f"{host}/page"] and fetch["code"] == 1004
    assert convert["what"] == ["a.csv"] and convert["code"] == 0 and convert["bytes"] > 0
    assert run["run"] == convert["run"] == fetch["run"]
    assert all(isinstance(line["ms"], int | float) for line in (run, convert, fetch))
    text = (door.home / ".local/state/outrider/activity.jsonl").read_text()
    assert KEY not in text and "key=" not in text


def filled(door: Door) -> ActivityLog:
    log = ActivityLog(door.home / ".local/state/outrider")
    for number in range(20):
        code = 0 if number % 4 else 2001
        about = {"kind": "search", "what": [f"query {number}"], "code": code, "bytes": 10}
        log.add({**about, "provider": "brave" if number % 2 else "exa", "ms": number * 100})
    log.add({"kind": "fetch", "what": ["example.org/\x1b[31mred\u202e"], "code": 0, "ms": 5})
    for outcome, code in (("completed", 0), ("completed", 0), ("timed_out", 124)):
        log.add({"kind": "run", "what": ["explorer"], "outcome": outcome, "code": code, "ms": 1})
    return log


def test_logs_are_newest_first_of_one_kind_and_as_many_as_asked_for(door):
    filled(door)
    newest = lines_of(door, "--fetch", "--search", "--limit", "3")
    assert [line["what"][0][:8] for line in newest] == ["example.", "query 19", "query 18"]
    assert len(lines_of(door, "--runs")) == 3
    ended = door.run("logs")
    assert ended.code == 0 and "query 7" in ended.out and "timed_out" in ended.out.splitlines()[0]
    assert "\x1b" not in ended.out and "\u202e" not in ended.out
    assert door.run("logs", "--limit", "many").code == 2


def test_activity_sums_up_calls_providers_and_delegations(door):
    filled(door)
    sums = door.run("activity", "--json").json
    search = sums["kinds"]["search"]
    assert (search["calls"], search["succeeded"], search["successRate"]) == (20, 15, 0.75)
    assert (search["medianMs"], search["p95Ms"], search["bytes"]) == (950, 1805, 200)
    assert search["providers"]["brave"]["successRate"] == 1
    assert search["providers"]["exa"]["calls"] == 10
    assert sums["agents"]["explorer"]["outcomes"] == {"completed": 2, "timed_out": 1}
    ended = door.run("activity")
    assert ended.code == 0 and "75%" in ended.out and "timed_out: 1" in ended.out


def test_activity_sums_money_by_day_agent_and_model(door):
    for model in ("gpt-4o", "gpt-4o", "gpt-4o-mini"):
        with ScriptedModel([answer("Done.", usage=(1_000, 100))], name=model) as server:
            assert door.run("run", "Go.", "-m", server.model, env=server.environment).code == 0
    sums = door.run("activity", "--json").json
    large, small = (sums["models"][f"openai-chat:{one}"] for one in ("gpt-4o", "gpt-4o-mini"))
    assert (large["calls"], large["tokens"]) == (2, 2_200) and large["cost"] > small["cost"] > 0
    [day] = sums["days"].values()
    whole = large["cost"] + small["cost"]
    assert day["cost"] == pytest.approx(whole)
    assert sums["agents"]["explorer"]["cost"] == pytest.approx(whole)
    assert f"${whole:.4f}" in door.run("activity").out


def test_nothing_recorded_is_no_fault(door):
    for command in ("logs", "activity"):
        ended = door.run(command)
        assert ended.code == 0 and ended.out == "" and "nothing" in ended.err


def test_lines_of_strange_types_break_no_listing(door):
    log = ActivityLog(door.home / ".local/state/outrider")
    log.add({"kind": "fetch", "at": "never", "what": None, "ms": "x", "bytes": [], "failed": {}})
    log.add({"kind": "run", "at": 1, "what": 3, "code": {}, "outcome": ["x"]})
    log.add({"kind": "run", "at": 1e300, "what": [{}], "ms": 1e300})
    log.add({"kind": "fetch", "at": -1e300, "what": []})
    assert door.run("logs").code == door.run("activity").code == 0
