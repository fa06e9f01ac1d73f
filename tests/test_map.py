"""`outrider map`: items, rows, files, and what a person is told and asked."""

import csv
import json
import re
import shutil
import time
from collections import Counter
from contextlib import closing

import pytest

from cli_door import Door
from outrider.testing import ScriptedModel, answer, fail, silence, tool_call

SCHEMA = {"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"]}


@pytest.fixture
def door(tmp_path, warm_runtime):
    with closing(Door(tmp_path, warm_runtime)) as door:
        yield door


def run_map(door, server, *options, agent="explorer", stdin=b"", code=0):
    """Run `outrider map`, and return its rows by id, in their order, and what it said."""
    words = ("map", agent, *options, "--model", server.model)
    ended = door.run(*words, env=server.environment, stdin=stdin)
    assert ended.code == code, (ended.out, ended.err)
    return {row["id"]: row for row in map(json.loads, ended.out.splitlines())}, ended.err


def asked(server):
    """Return how often each task was asked for, its first turn only."""
    return Counter(one.last_user_text for one in server.requests if one.turn == 0)


def write_items(door, *items):
    path = door.project / "items.jsonl"
    lines = (one if isinstance(one, str) else json.dumps(one) for one in items)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_each_item_has_one_row_and_a_bad_line_is_one_bad_row(door):
    write_items(door, {"id": "a", "task": "First?"}, '{"id": ', "Second?")
    with ScriptedModel(lambda request: answer(f"On {request.last_user_text}")) as server:
        rows, said = run_map(door, server, "items.jsonl", code=1)
    assert len(rows) == 3
    assert (rows["a"]["outcome"], rows["a"]["output"]) == ("completed", "On First?")
    assert rows["a"]["usage"]["input"] == 10 and len(rows["a"]["runId"]) == 8
    outcomes = Counter(row["outcome"] for row in rows.values())
    assert outcomes == {"completed": 2, "refused": 1}
    assert "2 completed · 1 failed · 30 tokens" in said


def test_the_journal_tells_those_who_watch_how_many_there_are_and_when_what_happened(door):
    write_items(door, {"id": "a", "task": "First?"}, '{"id": ', "Second?")
    begun = time.time()
    with ScriptedModel(lambda _: answer("Done.")) as server:
        run_map(door, server, "items.jsonl", "--max-tokens", "900", "--journal", "own", code=1)
    # It has a place of its own, and is listed among the others.
    [listed] = (door.runs.parent / "maps").iterdir()
    assert listed.resolve() == (door.project / "own").resolve()
    lines = [json.loads(line) for line in listed.read_text().splitlines()]
    [call] = [one for one in lines if "call" in one]
    assert (call["call"], call["most"]) == (3, [None, 900])
    [refused] = [one["refused"] for one in lines if "refused" in one]
    assert "line 2: It isn't JSON" in refused
    assert lines[-1]["stop"] is None
    times = [one["at"] for one in lines]
    assert begun - 1 < times[0] and times == sorted(times) and times[-1] < time.time() + 1


def test_the_exit_code_is_0_only_if_every_item_completed(door):
    write_items(door, "One", "Two")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        run_map(door, server, "items.jsonl", code=0)
    write_items(door, "One", "Two", "Three")
    with ScriptedModel(lambda _: fail(401)) as server:
        rows, _ = run_map(door, server, "items.jsonl", code=1)
    assert Counter(row["outcome"] for row in rows.values()) == {"completed": 2, "failed": 1}
    assert [row["error"]["code"] for row in rows.values() if "error" in row] == ["SUBAGENT_FAILED"]


def test_a_template_is_filled_from_csv_and_the_rows_are_written_as_csv(door):
    (door.project / "items.csv").write_text('id,path,concern\n1,a.py,"bugs, or ""odd"""\n2,b.py\n')
    with ScriptedModel(lambda request: answer(f'"{request.last_user_text}",\nnext')) as server:
        words = ("items.csv", "--task", "Review {path} for {concern}", "--output", "out.csv")
        rows, _ = run_map(door, server, *words, code=1)
    assert not rows
    with open(door.project / "out.csv", newline="") as file:
        found = {row["id"]: row for row in csv.DictReader(file)}
    assert found["1"]["output"] == '"Review a.py for bugs, or "odd"",\nnext'
    assert Counter(row["outcome"] for row in found.values()) == {"completed": 1, "refused": 1}


def test_each_file_is_an_item(door):
    for name in ("src/a.py", "src/deep/b.py", "src/c.txt"):
        (door.project / name).parent.mkdir(parents=True, exist_ok=True)
        (door.project / name).touch()
    with ScriptedModel(lambda _: answer("Fine.")) as server:
        words = ("--files", "src/**/*.py", "--task", "Review {path}", "--ordered")
        rows, _ = run_map(door, server, *words)
    assert list(rows) == ["src/a.py", "src/deep/b.py"]
    assert set(asked(server)) == {"Review src/a.py", "Review src/deep/b.py"}


def test_files_are_those_that_a_shell_would_match(door):
    strange = (
        "x",
        "src/ü b.py",
        "src/new\nline.py",
        "src/deep/c.py",
        "src/.hidden/d.py",
        "src/.e.py",
    )
    for name in strange:
        (door.project / name).parent.mkdir(parents=True, exist_ok=True)
        (door.project / name).touch()
    for name in ("one", "two"):  # each leads into both
        (door.project / "src" / name).symlink_to("..")
    (door.project / "src/gone.py").symlink_to("nowhere.py")
    asked_for = {
        "src/**/*.py": {"src/ü b.py", "src/new\nline.py", "src/deep/c.py"},
        "src/**": {"src/ü b.py", "src/new\nline.py", "src/deep/c.py"},
        "src/.h*/*": {"src/.hidden/d.py"},
        f"{door.project}/src/d*/*": {f"{door.project}/src/deep/c.py"},
    }
    for pattern, paths in asked_for.items():
        words = ("--files", pattern, "--task", "Review {path}", "--dry-run")
        with ScriptedModel([]) as server:
            rows, _ = run_map(door, server, *words)
        assert set(rows) == paths
        assert {row["task"] for row in rows.values()} == {f"Review {path}" for path in paths}


def test_what_holds_for_a_run_holds_for_each_item(door):
    write_items(door, "a")
    for words, step, outcome in (
        (("--timeout", "1s"), silence(), "timed_out"),
        (("--max-turns", "1"), tool_call("ls", {}), "over_budget"),
        (("--check", "false"), answer("Done."), "check_failed"),
        (("--schema", json.dumps(SCHEMA)), answer("Done."), "schema_failed"),
    ):
        with ScriptedModel(lambda _, step=step: step) as server:
            rows, _ = run_map(door, server, "items.jsonl", "--journal", outcome, *words, code=1)
        assert [row["outcome"] for row in rows.values()] == [outcome]


def test_rows_are_written_to_a_file_of_json_lines(door):
    write_items(door, "a", "b")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        for _ in range(2):  # it is written anew
            rows, _ = run_map(door, server, "items.jsonl", "--output", "out.jsonl")
            assert not rows
            found = [*map(json.loads, (door.project / "out.jsonl").read_text().splitlines())]
            assert [row["output"] for row in found] == ["Done.", "Done."]


def test_an_item_names_its_own_agent_model_folder_and_schema(door):
    (door.project / "sub").mkdir()
    write_items(
        door,
        {"id": "a", "task": "t", "agent": "tester", "cwd": "sub", "schema": SCHEMA},
        {"id": "b", "task": "t", "agent": "nobody"},
        {"id": "c", "task": "t", "cwd": "missing"},
        {"id": "d", "task": "t", "model": "nonsense:x"},
    )
    with ScriptedModel(lambda _: tool_call("report_back", {"line": 7})) as server:
        rows, _ = run_map(door, server, "items.jsonl", code=1)
    assert rows["a"]["structuredOutput"] == {"line": 7} and "output" not in rows["a"]
    assert {rows[key]["outcome"] for key in "bcd"} == {"refused"}
    assert rows["b"]["error"]["code"] == "UNKNOWN_AGENT"
    assert "`tester`" in server.requests[0].messages[0]["content"]
    assert "/sub`" in server.requests[0].messages[0]["content"]


def test_ordered_rows_come_in_the_order_of_the_items(door):
    write_items(door, *({"id": str(number), "task": f"{number}"} for number in range(9)))

    def step(request):
        return answer("Done.", delay=0.3 if request.last_user_text in "036" else 0)

    with ScriptedModel(step) as server:
        rows, _ = run_map(door, server, "items.jsonl", "--ordered", "--concurrency", "4")
        assert list(rows) == [str(number) for number in range(9)]
        again, _ = run_map(door, server, "items.jsonl", "--ordered")
    assert list(again.items()) == list(rows.items())
    assert len(server.requests) == 9


def test_limit_tries_the_first_and_the_same_command_does_the_rest(door):
    write_items(door, *"abcdef")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        first, _ = run_map(door, server, "items.jsonl", "--limit", "2")
        assert set(asked(server)) == {"a", "b"}
        rows, _ = run_map(door, server, "items.jsonl")
    assert len(rows) == 6 and first.items() <= rows.items()
    assert set(asked(server).values()) == {1}


def test_lines_can_be_added_removed_and_moved(door):
    write_items(door, "a", "b", "c")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        run_map(door, server, "items.jsonl")
        write_items(door, "d", "c", "a")
        rows, _ = run_map(door, server, "items.jsonl")
    assert len(rows) == 3 and asked(server) == dict.fromkeys("abcd", 1)


def test_another_agent_template_or_input_is_another_map(door):
    write_items(door, "a").rename(door.project / "other.jsonl")
    write_items(door, "a")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        for agent, words in (
            ("explorer", ["items.jsonl"]),
            ("tester", ["items.jsonl"]),
            ("explorer", ["other.jsonl"]),
            ("explorer", ["items.jsonl", "--task", "{task}"]),
            ("explorer", ["./items.jsonl"]),  # which is the first once more
        ):
            run_map(door, server, *words, agent=agent)
    assert len(server.requests) == 4


def test_dry_run_shows_the_tasks_and_runs_nothing(door):
    write_items(door, {"id": "a", "path": "x"}, {"id": "b"})
    with ScriptedModel([]) as server:
        rows, _ = run_map(door, server, "items.jsonl", "--task", "See {path}", "--dry-run", code=1)
    assert rows["a"]["task"] == "See x"
    assert "The task needs {path}" in rows["b"]["error"]
    assert not server.requests and not door.runs.exists()


def test_stop_after_failures_starts_no_more(door):
    write_items(door, *map(str, range(20)))
    with ScriptedModel(lambda _: fail(401)) as server:
        words = ("items.jsonl", "--stop-after", "3", "--concurrency", "1")
        rows, said = run_map(door, server, *words, code=1)
    assert len(rows) == len(server.requests) == 3
    assert "stopped: 3 items failed. 17 items not run." in said


def test_failed_items_are_run_again_only_when_asked_for(door):
    write_items(door, "a", "b")
    with ScriptedModel([fail(401), answer("Done.")]) as server:
        run_map(door, server, "items.jsonl", "--concurrency", "1", code=1)
    with ScriptedModel(lambda _: answer("Done.")) as server:
        run_map(door, server, "items.jsonl", code=1)
        run_map(door, server, "items.jsonl", "--retry", "timed_out", code=1)
        assert not server.requests
        run_map(door, server, "items.jsonl", "--retry", "timed_out,failed")
        run_map(door, server, "items.jsonl", "--retry-failed")
    assert len(server.requests) == 1


def test_a_summary_counts_outcomes_and_errors(door):
    write_items(door, "a", "b", "{")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        _, said = run_map(door, server, "items.jsonl", "--summary", code=1)
    assert "2  completed\n1  refused    INVALID_INPUT\n" in said


def test_stdin_is_read_as_it_comes_and_says_that_it_can_not_go_on(door):
    with ScriptedModel(lambda _: answer("Done.")) as server:
        words = ("map", "explorer", "-", "--model", server.model)
        process = door.start(*words, env=server.environment, stdin=-1)
        process.stdin.write(b"One\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["output"] == "Done."
        process.stdin.write(b"Two")
        out, err = process.communicate()
    assert len(out.splitlines()) == 1 and process.returncode == 0
    assert b"use --journal FILE" in err


def test_it_is_said_only_of_what_can_go_on_that_it_does_and_with_what(door):
    write_items(door, "a", "b")
    goes_on = "The same command goes on"
    with ScriptedModel(lambda _: fail(401)) as server:
        words = ("--concurrency", "1", "--stop-after", "1")
        _, said = run_map(door, server, *words, stdin=b"One\nTwo\n", code=1)
        assert "stopped: 1 item failed." in said and goes_on not in said
        _, said = run_map(door, server, *words, "--journal", "j", stdin=b"One\nTwo\n", code=1)
        assert f"{goes_on}." in said
    with ScriptedModel(lambda _: answer("Done.")) as server:
        words = ("items.jsonl", "--concurrency", "1", "--max-tokens", "10")
        _, said = run_map(door, server, *words, code=1)
    assert f"the purse is used up. 1 item not run. {goes_on} with a larger purse." in said


def test_stdin_goes_on_with_a_journal(door):
    with ScriptedModel(lambda _: answer("Done.")) as server:
        for _ in range(2):
            rows, said = run_map(door, server, "--journal", "j.jsonl", stdin=b"One\nTwo\n")
            assert len(rows) == 2 and "use --journal" not in said
    assert len(server.requests) == 2


def test_no_items_at_all_is_said(door):
    write_items(door)
    with ScriptedModel([]) as server:
        rows, said = run_map(door, server, "items.jsonl")
    assert not rows and "there were no items" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explorer"], "no items"),  # stdin, which is empty
        (["explorer", "missing.txt"], "can't be read from 'missing.txt': No such file"),
        (["explorer", "x", "--files", "*"], "needs either FILE, - for stdin, or --files"),
        (["explorer", "--files", "*.nope", "--task", "{path}"], "matches --files '*.nope'"),
        (["explorer", "--files", "", "--task", "{path}"], "matches --files ''."),
        (["explorer", "--files", ".", "--task", "{path}"], "matches --files '.'."),
        (["explorer", "--files", "*"], "--files needs a task"),
        (["explorer", "x", "--task", "a } b"], "lone '}'"),
        (["nobody", "x"], "Unknown agent: nobody"),
        (["explorer", "x", "--max-cost", "0"], "write a number above 0"),
        (["explorer", "x", "--retry", "oops"], "'oops' is none of cancelled"),
        (["explorer", "x", "--output", "x"], "is the file with the items"),
        (["explorer", "x", "--output", "same"], "'same' is the file with the items"),
        (["explorer", "x", "--output", "j", "--journal", "./j"], "'j' is the journal"),
        (["explorer", ""], "can't be read from ''"),
        (["explorer", "x", "--journal", ""], "The journal . can't be used: Is a directory"),
        (["explorer", "."], "can't be read from '.': Is a directory"),
        (["explorer", "--files", "a**", "--task", "{path}"], "--files 'a**' i"),
        (
            ["explorer", "x", "--journal", "/dev/null/j"],
            "/dev/null/j can't be used: Not a directory. Name",
        ),
        (["explorer", "x", "--output", "."], "Is a directory"),
        (["explorer", "x", "--journal", "x"], "isn't the journal of a map"),
        (["explorer", "x", "--concurency", "3"], "did you mean --concurrency?"),
    ],
)
def test_a_call_that_can_not_be_is_refused_before_anything_runs(door, words, said):
    (door.project / "x").write_text("One\n")
    (door.project / "same").hardlink_to(door.project / "x")
    with ScriptedModel([]) as server:
        ended = door.run("map", *words, "--model", server.model, env=server.environment)
    assert ended.code == (0 if said == "no items" else 2)
    assert said in ended.err and not server.requests
    assert (door.project / "x").read_text() == "One\n"


def test_an_unknown_price_is_refused_where_the_cost_is_limited(door):
    write_items(door, "a")
    with ScriptedModel([]) as server:
        _, said = run_map(door, server, "items.jsonl", "--max-cost", "5", code=2)
    assert "The price of" in said and "--max-cost 5 can't be enforced" in said


def test_results_of_other_options_are_told_from_these(door):
    write_items(door, "a")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        run_map(door, server, "items.jsonl")
        _, said = run_map(door, server, "items.jsonl", "--schema", json.dumps(SCHEMA))
    assert "has results of another output_schema; remove it to redo" in said


def test_a_terminal_shows_what_it_will_cost_and_asks_and_draws_a_bar(door):
    write_items(door, "a", "b", "c")
    with ScriptedModel(lambda _: answer("Done.", delay=0.3)) as server:
        run_map(door, server, "items.jsonl", "--limit", "1")
        words = ("map", "explorer", "items.jsonl", "--model", server.model)
        terminal = door.terminal(*words, env=server.environment)
        terminal.see("2 items for explorer on .*, 1 done already: about 30 tokens and ")
        terminal.see(r"Start\? \[y/N\]")
        terminal.type("n\n")
        assert terminal.end() == 130 and len(server.requests) == 1
        words = (*words, "--max-tokens", "5000")
        terminal = door.terminal(*words, env=server.environment)
        terminal.see(r"at most 1,250 tokens\.\s+Start\? ")
        terminal.type("y\n")
        terminal.see(r"\[#+ *\] \d of 3 · \d running · 0 failed · ")
        assert terminal.end() == 0
        terminal_of_yes = door.terminal(*words, "--yes", env=server.environment)
        assert terminal_of_yes.end() == 0 and "Start?" not in terminal_of_yes.screen
    assert terminal.screen.count('"outcome":"completed"') == 3
    assert len(server.requests) == 3


def test_a_terminal_is_told_of_items_that_are_run_again_and_draws_no_wider_than_it_is(door):
    write_items(door, "a", "b")
    with ScriptedModel([answer("Done."), fail(401), answer("Done.", delay=0.5)]) as server:
        run_map(door, server, "items.jsonl", "--concurrency", "1", code=1)
        words = ("map", "explorer", "items.jsonl", "--model", server.model, "--retry-failed")
        with open(door.project / "out", "wb") as file:
            terminal = door.terminal(
                *words, env=server.environment, columns=20, stdout=file.fileno()
            )
            terminal.see(r"1 item for explorer on .*, 1 done already[^?]*Start\? ")
            terminal.type("y\n")
            assert terminal.end() == 0
    drawn = re.findall(r"\r(\[[^\x1b]*)\x1b\[K", terminal.raw)
    assert drawn and {len(line) for line in drawn} == {19}
    assert len((door.project / "out").read_text().splitlines()) == 2


def test_who_agrees_to_an_agent_of_the_repository_agrees_to_no_other_of_that_name(door):
    door.write_agent("helper", "tools: ls")
    other = door.home / "other"
    (other / ".git").mkdir(parents=True)
    shutil.copytree(door.project / ".outrider", other / ".outrider")
    (other / ".outrider/agents/helper.md").write_text("---\nname: helper\n---\nYou steal.")
    write_items(door, {"id": "a", "task": "t"}, {"id": "b", "task": "t", "cwd": str(other)})
    with ScriptedModel(lambda _: answer("Done.")) as server:
        words = ("map", "helper", "items.jsonl", "--model", server.model, "--output", "out.jsonl")
        terminal = door.terminal(*words, env=server.environment)
        terminal.see(r"Run it\? ")
        terminal.type("y\n")
        terminal.see(r"Start\? ")
        terminal.type("y\n")
        assert terminal.end() == 1
    found = map(json.loads, (door.project / "out.jsonl").read_text().splitlines())
    assert {row["id"]: row["outcome"] for row in found} == {"a": "completed", "b": "refused"}
    assert terminal.screen.count("Run it?") == 1


def test_strange_bytes_in_a_row_spoil_no_other_row(door):
    (door.project / "items.csv").write_bytes(b"id,task\ncaf\xe9,One\nb,caf\xe9\nc,Three\n")
    with ScriptedModel(lambda _: answer("Dönê\x1b[31m\r\n=1+1")) as server:
        words = ("items.csv", "--ordered", "--output", "out.csv")
        run_map(door, server, *words, code=1)
        rows, _ = run_map(door, server, "items.csv", "--ordered", code=1)
    assert [row["outcome"] for row in rows.values()] == ["completed", "refused", "completed"]
    assert "isn't valid Unicode" in rows["b"]["error"]["message"]
    with open(door.project / "out.csv", newline="", encoding="utf-8") as file:
        assert [row["outcome"] for row in csv.DictReader(file)][1] == "refused"
