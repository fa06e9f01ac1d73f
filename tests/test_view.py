"""The page's server: who may ask it, what it says, and what it does. Without a browser."""

import json
import socket
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest

from cli_door import Door
from conftest import look_around, wait_until
from outrider.records.runs import RunRecorder
from outrider.testing import ScriptedModel, answer, tool_call
from page_door import Served, record, turn
from test_startup import imported_by

EDIT = {"path": "a.py", "edits": [{"oldText": "x = 1", "newText": "x = 2"}]}


@pytest.fixture
def door(tmp_path: Path, warm_runtime: Path):
    with closing(Door(tmp_path, warm_runtime)) as door:
        (door.project / "a.py").write_text("x = 1\n")
        yield door


@pytest.fixture
def page(door: Door):
    with closing(Served(door)) as page:
        yield page


def written(door: Door) -> str:
    """Return the id of a run that has changed a file, and waits for a review."""
    with ScriptedModel([tool_call("edit", EDIT), answer("Done.")]) as server:
        words = ("run", "coder", "Go.", "--write", "--json", "-m", server.model)
        return door.run(*words, env=server.environment).json["details"]["runId"]


# Who may ask


REFUSED = {
    "no token": {"cookie": ""},
    "another token": {"cookie": "outrider-1=x"},
    "another host": {"host": "evil.example"},
    "a name that leads here": {"host": "evil.example:{port}"},
    "another port": {"host": "127.0.0.1:1"},
    "another origin": {"origin": "http://evil.example"},
    "an origin of another port": {"origin": "http://127.0.0.1:1"},
    "an origin that isn't told": {"origin": "null"},
    "another site": {"sec-fetch-site": "cross-site"},
    "a server of another port": {"sec-fetch-site": "same-site"},
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_request_that_is_not_the_page_s_own_is_refused(door, page, why):
    run_id = record(door.runs)
    for method, path in (
        ("GET", "/"),
        ("GET", f"/api/runs/{run_id}"),
        ("POST", f"/api/runs/{run_id}"),
    ):
        own = {"cookie": page.cookie, "origin": f"http://127.0.0.1:{page.port}"}
        assert page.ask(method, path, {"action": "none"}, **own)[0] in (200, 400)
        headers = own | {name: value.format(port=page.port) for name, value in REFUSED[why].items()}
        assert page.ask(method, path, {"action": "delete"}, **headers)[0] == 403
    assert page.get(f"/api/runs/{run_id}")["runId"] == run_id


def test_a_request_that_changes_something_has_to_say_where_it_comes_from(door, page):
    run_id = record(door.runs)
    assert (
        page.ask("POST", f"/api/runs/{run_id}", {"action": "delete"}, cookie=page.cookie)[0] == 403
    )
    assert page.act(run_id, action="delete")[0] == 200


def test_the_token_becomes_a_cookie_and_leaves_the_address(page):
    _, _, query = page.link.partition("?")
    status, headers, _ = page.ask("GET", f"/?{query}")
    assert (status, headers["location"]) == (303, "/")
    assert "HttpOnly" in headers["set-cookie"] and "SameSite=strict" in headers["set-cookie"]
    assert page.ask("GET", "/?token=wrong")[0] == 403


def test_it_listens_on_loopback_only(page):
    with socket.socket() as probe:
        probe.settimeout(5)
        assert probe.connect_ex((_own_address(), page.port)) != 0


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            address = probe.getsockname()[0]
        except OSError:
            address = "127.0.0.2"
    return "127.0.0.2" if address.startswith("127.0.0.1") else address


def test_every_answer_carries_the_browser_s_own_protection(page):
    for path, cookie in (("/", page.cookie), ("/", ""), ("/none", page.cookie)):
        headers = page.ask("GET", path, cookie=cookie)[1]
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'") and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    ["/api/runs/..%2f..%2f..%2fetc", "/api/runs/../../etc/passwd", "/..%2fserver.py", "/server.py",
     "/api/runs/last", "/api/runs/-1", "/api/runs/%2e%2e", "/api/runs/0000000%00", "/web/app.js"],
)  # fmt: skip
def test_a_path_outside_of_the_runs_is_refused(door, page, path):
    record(door.runs)
    assert page.ask("GET", path, cookie=page.cookie)[0] in (400, 404)


def test_a_link_among_the_runs_leads_nowhere(door, page, tmp_path):
    record(door.runs)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/session.jsonl").write_text("{}\n")
    (door.runs / "deadbeef").symlink_to(tmp_path / "other")
    assert page.ask("GET", "/api/runs/deadbeef", cookie=page.cookie)[0] == 400


# What it says


def test_the_list_tells_what_needs_somebody_and_what_runs(door, page):
    ended = record(door.runs)
    with RunRecorder.create(door.runs) as asking, RunRecorder.create(door.runs) as busy:
        for run in (asking, busy):
            run.add_event({"type": "run", "startedAt": time.time(), "agent": "main", "task": "Go"})
            run.add_event(
                {"type": "tool_start", "id": "1", "name": "grep", "args": {"pattern": "x"}}
            )
        permit = {"type": "parent_request", "id": "1", "kind": "permit", "name": "write"}
        asking.add_event(permit)
        busy.add_event(permit)
        busy.add_event({"type": "tool_start", "id": "2", "name": "write", "args": {"path": "a"}})
        rows = {row["runId"]: row for row in _rows(page, 3)}
        assert (rows[asking.id]["state"], rows[asking.id]["needs"]) == ("running", "question")
        assert (rows[busy.id]["needs"], rows[busy.id]["step"]) == ("", "write a")
        assert (rows[ended]["state"], rows[ended]["usage"]["input"]) == ("completed", 900)


def _rows(page: Served, count: int) -> list[dict[str, object]]:
    found = page.news("/api/runs", lambda got: len(_flat(got)) >= count)
    return _flat(found)


def _flat(messages):
    return [row for _, rows in messages for row in rows]


def test_the_list_changes_by_itself(door, page):
    first, done = record(door.runs), list[object]()

    def happened(got):
        states = {row["runId"]: row["state"] for row in _flat(got)}
        if len(states) == 1 and not done:
            done.append(record(door.runs, task="The second"))
        elif len(states) == 2 and len(done) == 1:
            done.append(page.act(first, action="delete"))
        return states.get(first) == "gone"

    page.news("/api/runs", happened)


def test_words_are_found_in_whole_tasks_and_answers(door, page):
    inside = record(door.runs, task="First line\n\nthe NEEDLE is further down")
    said = record(door.runs, answer="Here is the needle.")
    record(door.runs)
    assert sorted(page.get("/api/search?words=needle")) == sorted([inside, said])


def test_a_long_result_is_sent_when_it_is_asked_for(door, page):
    text = "y" * 100_000
    run_id = record(door.runs, turn(1, "read", {"path": "a.py"}, {"text": text}))
    told = page.news(f"/api/runs/{run_id}/news", lambda got: got and got[-1][0] == "end")
    events = [event for kind, data in told if kind == "events" for event in data]
    result = next(event for event in events if event["type"] == "tool_result_end")
    assert result["isCut"] and len(json.dumps(result)) < 2_000
    assert result["envelope"]["code"] == 0 and result["summary"] == "read → done"
    whole = page.get(f"/api/runs/{run_id}/events/{result['begin']}")
    assert whole["envelope"]["data"]["text"] == text
    status = page.ask("GET", f"/api/runs/{run_id}/events/{result['begin'] + 1}", cookie=page.cookie)
    assert status[0] == 400


def test_a_reader_that_was_cut_off_goes_on_where_it_was(door, page):
    run_id = record(door.runs, [{"type": "turn_start", "at": at, "turn": at} for at in range(9)])
    path = f"/api/runs/{run_id}/news"
    told = page.news(path, lambda got: got and got[-1][0] == "end")
    events = [event for kind, data in told if kind == "events" for event in data]
    rest = page.news(f"{path}?after={events[5]['begin']}", lambda got: got and got[-1][0] == "end")
    assert [one for kind, data in rest if kind == "events" for one in data] == events[5:]


def test_what_only_the_provider_reads_and_absolute_folders_stay_away(door, page):
    kept = {"type": "message_end", "turn": 1, "text": "x", "kept": {"opaque": 1}, "at": 1}
    run_id = record(door.runs, [kept, {"type": "prompt", "folder": "/home/somebody", "at": 1}])
    told = json.dumps(
        page.news(f"/api/runs/{run_id}/news", lambda got: got and got[-1][0] == "end")
    )
    assert "opaque" not in told and "/home/somebody" not in told


# What it does


def test_changes_are_shown_landed_undone_and_discarded(door, page):
    run_id, file = written(door), door.project / "a.py"
    changes = page.get(f"/api/runs/{run_id}/changes")
    assert changes["state"] == "pending" and "+x = 2" in changes["files"][0]["diff"]
    assert changes["files"][0]["calls"]
    assert page.act(run_id, action="land") == (200, None) and file.read_text() == "x = 2\n"
    assert page.get(f"/api/runs/{run_id}")["changes"] == "landed"
    assert page.act(run_id, action="undo") == (200, None) and file.read_text() == "x = 1\n"
    assert page.act(run_id, action="discard") == (200, None)
    status, told = page.act(run_id, action="land")
    assert status == 400 and "nothing to land" in told["error"]


def test_a_landing_that_conflicts_says_with_which_files(door, page):
    run_id = written(door)
    (door.project / "a.py").write_text("x = 3\n")
    status, told = page.act(run_id, action="land")
    assert status == 400 and told["conflicts"][0]["path"] == "a.py"
    assert (door.project / "a.py").read_text() == "x = 3\n"


def test_what_the_user_s_settings_forbid_the_page_does_not_do(door):
    run_id = written(door)
    door.write_config({"subagents": {"land": "never"}})
    with closing(Served(door)) as page:
        status, told = page.act(run_id, action="land")
    assert status == 400 and "subagents.land is never" in told["error"]


def test_a_running_run_is_told_and_stopped_and_not_deleted(door, page):
    with ScriptedModel(lambda request: look_around(request, 0.1)) as server:
        words = ("run", "explorer", "Go.", "--bg", "-m", server.model)
        run_id = door.run(*words, env=server.environment).out.strip()
        server.wait_for_requests(1)
        assert page.act(run_id, action="delete")[0] == 400
        status, told = page.act(run_id, action="tell", text="Leave the tests alone")
        assert status == 200 and told["turn"] >= 1
        assert page.act(run_id, action="stop")[0] == 200
        wait_until(lambda: page.get(f"/api/runs/{run_id}")["state"] == "cancelled", "its end")
    assert page.act(run_id, action="dance")[0] == 400


def test_the_editor_opens_files_of_the_run_s_folder_and_no_others(door, tmp_path):
    run_id, said, tool = written(door), tmp_path / "said", tmp_path / "my editor"
    tool.write_text(f'#!/bin/sh\necho "$@" > "{said}"\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "secret").write_text("s")
    (door.project / "out").symlink_to(tmp_path / "secret")
    env = {"OUTRIDER_VIEW__EDITOR": f"'{tool}' --goto {{path}}:{{line}}"}
    with closing(Served(door, env=env)) as page:
        assert page.get(f"/api/runs/{run_id}")["hasEditor"]
        for path in ("../secret", str(tmp_path / "secret"), "out", "none.py", "/etc/passwd", "."):
            assert page.act(run_id, action="open", path=path, line=1)[0] == 400
        assert page.act(run_id, action="open", path="a.py", line=7)[0] == 200
        wait_until(lambda: said.exists() and said.read_text(), "the editor")
    assert said.read_text() == f"--goto {door.project / 'a.py'}:7\n"


# The command


def test_the_link_leads_to_a_run_and_ctrl_c_ends_the_server(door):
    run_id = record(door.runs)
    page = Served(door, "last")
    assert page.link.endswith(f"#/run/{run_id}")
    page.close()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", page.port)) != 0
    door.assert_nothing_left()


def test_a_port_that_is_taken_is_named(door, page):
    ended = door.run("view", "--port", str(page.port), "--no-open")
    assert ended.code == 2 and f"Port {page.port} can't be used" in ended.err
    assert door.run("view", "--port", "99999", "--no-open").code == 2


def test_a_port_from_the_settings_is_used_and_a_repository_sets_none(door):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    door.write_config({"view": {"port": port}})
    (door.project / ".outrider").mkdir()
    bad = {"view": {"port": 1, "editor": "rm {path}"}}
    (door.project / ".outrider/config.json").write_text(json.dumps(bad))
    with closing(Served(door)) as page:
        assert page.port == port
    assert door.run("config", "--json").out.count("rm {path}") <= 1


# The export


def test_an_export_has_everything_masked_and_says_what_is_left_out(door, tmp_path):
    long = turn(1, "read", {"path": "a.py"}, {"text": "y" * 200_000})
    run_id = record(door.runs, long, task="</script><script>alert(1)</script>")
    file = tmp_path / "run.html"
    ended = door.run("view", run_id, "--export", str(file))
    assert ended.code == 0 and "left out: events of more than 100,000 bytes: 1" in ended.err
    page = file.read_text()
    assert page.count("<script") == 2 and "\\u003c/script>" in page
    assert "src=" not in page and 'href="style.css"' not in page
    assert "sha256-" in page and "unsafe" not in page


def test_an_export_masks_what_the_diff_shows(door, tmp_path):
    secret = "hunter2-correct-horse"
    steps = [
        tool_call("bash", {"command": "echo key = $PART-correct-horse >> a.py"}),
        answer("Done."),
    ]
    with ScriptedModel(steps) as server:
        words = ("run", "coder", "Go.", "--write", "--json", "-m", server.model)
        env = {**server.environment, "PART": "hunter2"}
        run_id = door.run(*words, env=env).json["details"]["runId"]
    assert secret in door.run("diff", run_id).out
    env = {"MY_API_KEY": secret}
    assert door.run("view", run_id, "--export", str(tmp_path / "x.html"), env=env).code == 0
    page = (tmp_path / "x.html").read_text()
    assert secret not in page and "[masked:" in page and str(door.home) not in page


def test_an_export_that_can_not_be_says_why(door, tmp_path):
    assert "--export needs RUN" in door.run("view", "--export", "x.html").err
    run_id = record(door.runs)
    ended = door.run("view", run_id, "--export", str(tmp_path / "none/x.html"))
    assert ended.code == 2 and "can't be written" in ended.err
    with RunRecorder.create(door.runs) as run:
        run.add_event({"type": "run", "startedAt": time.time(), "agent": "a", "task": "Go"})
        ended = door.run("view", run.id, "--export", str(tmp_path / "x.html"))
    assert ended.code == 2 and "still running" in ended.err


def test_nothing_else_loads_the_page_s_server(tmp_path):
    code = "sys.argv = ['outrider', 'runs']\nfrom outrider.__main__ import main\nmain()"
    loaded = imported_by(code, HOME=str(tmp_path))
    assert not {"starlette", "uvicorn", "outrider.surfaces.page"} & set(loaded)
