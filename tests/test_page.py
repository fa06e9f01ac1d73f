"""The page in a real browser: what people see and do there, and what hostile runs can't."""

import json
import re
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import npm
from cli_door import Door
from outrider.records.runs import RunRecorder
from outrider.testing import ScriptedModel, answer, tool_call
from page_door import Look, Served, has_no_overflow, record, record_map, turn
from test_view import written

pytest_plugins = ("page_browser",)
pytestmark = pytest.mark.usefixtures("unmeasured")
MANY = 5_000


@pytest.fixture
def door(tmp_path: Path, warm_runtime: Path):
    with closing(Door(tmp_path, warm_runtime)) as door:
        (door.project / "a.py").write_text("x = 1\n")
        yield door


# The list


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with very many runs."""
    door = Door(tmp_path_factory.mktemp("many"))
    for number in range(MANY):
        record(
            door.runs,
            agent=("explorer", "tester")[number % 2],
            outcome=("completed", "failed")[number % 5 == 0],
            project=("~/one", "~/two")[number % 4 == 0],
            task=f"Look at part {number}",
            startedAt=time.time() - 7_200 * (number % 10 == 0),
            answer=f"Here is needle-{number}.",
        )
    return door.home


def test_five_thousand_runs_are_filtered_and_searched(many, chromium, tmp_path):
    door = Door(tmp_path)
    door.home = many
    with closing(Served(door)) as served, closing(Look(chromium, served.link)) as window:
        page = window.page
        total = page.locator(".filters span")
        expect(total).to_have_text("5,000 runs")
        assert page.locator("li.run").count() <= 200  # the others are drawn when they are reached
        page.get_by_label("Outcome").select_option("failed")
        expect(total).to_have_text("1,000 of 5,000 runs")
        page.get_by_label("Agent").select_option("tester")
        expect(total).to_have_text("500 of 5,000 runs")
        page.get_by_label("Project").select_option("~/two")
        expect(total).to_have_text("0 of 5,000 runs")
        expect(page.get_by_text("No runs match.")).to_be_visible()
        for label in ("Outcome", "Agent", "Project"):
            page.get_by_label(label).select_option("")
        page.get_by_label("Time").select_option("Last hour")
        expect(total).to_have_text("4,500 of 5,000 runs")
        page.get_by_label("Time").select_option("Last 24 hours")
        expect(total).to_have_text("5,000 runs")
        search = page.get_by_label("Search tasks and answers")
        search.fill("part 4321")
        expect(page.locator("li.run")).to_have_count(1)
        search.fill("NEEDLE-77.")
        expect(page.locator("li.run .task")).to_have_text(["Look at part 77"])
        search.fill("")
        expect(total).to_have_text("5,000 runs")
        page.keyboard.press("End")
        before = page.locator("li.run").count()
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_function(f"() => document.querySelectorAll('li.run').length > {before}")


def test_those_that_need_somebody_come_first(door, look):
    record(door.runs, task="An old one")
    pending = written(door)
    record(door.runs, turn(1, "grep", {"pattern": "x"}, "y"), task="A newer one")
    page = look()
    expect(page.locator("li.run")).to_have_count(3)
    first = page.locator("section:visible").first
    expect(first.locator("h2")).to_have_text("Needs you 1")
    expect(first.locator("li")).to_have_attribute("data-id", pending)
    expect(first.locator(".state")).to_have_text("to review")
    ended = page.locator("section[data-group=ended] li")
    expect(ended.locator(".task")).to_have_text(["A newer one", "An old one"])
    expect(ended.first).to_contain_text("completed")
    expect(ended.first.locator(".about")).to_have_text("explorer · p · grep x")
    expect(ended.first.locator("time")).to_have_text("just now")
    expect(ended.first.locator(".took")).to_have_text("900 ms")
    expect(ended.first.locator(".tokens")).to_have_text("950 tok")
    expect(ended.first.locator(".cost")).to_have_text("$0.0100")


def test_runs_are_deleted_after_a_question(door, look):
    ids = [record(door.runs, task=f"Part {number}") for number in range(3)]
    page = look()
    for run_id in ids[:2]:
        page.get_by_label(f"Select run {run_id}").check()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("li.run")).to_have_count(3)
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("li.run")).to_have_count(1)
    assert [one.name for one in door.runs.iterdir()] == ids[2:]


def test_two_runs_stand_side_by_side(door, look):
    for number in range(2):
        read = {"receipt": {"filesRead": ["both.py", f"only{number}.py"]}}
        record(door.runs, task=f"Part {number}", answer=f"Answer {number}", result=read)
    page = look()
    expect(page.get_by_role("checkbox")).to_have_count(2)
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Compare").click()
    cells = page.locator(".two")
    for words in ("Part 0", "Part 1", "Answer 0", "Answer 1", "only0.py", "both.py", "950"):
        expect(cells).to_contain_text(words)


# One run


def test_a_long_result_opens_in_place(door, look):
    text = "first line\n" + "y" * 120_000
    run_id = record(door.runs, turn(1, "read", {"path": "a.py"}, {"text": text}, "Reading."))
    page = look(f"run/{run_id}/steps")
    call = page.locator("details.call").last
    assert page.locator("pre").count() == 0
    call.locator("summary").click()
    expect(call.locator("pre").last).to_contain_text("first line")
    call.get_by_role("button", name=re.compile("more characters")).click()
    page.wait_for_function("() => document.querySelector('.inside').textContent.length > 120000")


def test_the_timeline_leads_to_the_step(door, look):
    events = [event for number in range(1, 60) for event in turn(number, "grep", {}, "x", "Text.")]
    events.insert(
        5, {"type": "retry", "at": 60, "turn": 2, "attempt": 1, "message": "Busy.", "delayMs": 500}
    )
    page = look(f"run/{record(door.runs, events)}/steps")
    bars = page.locator(".timeline [data-lane=tool]")
    expect(bars).to_have_count(59)
    expect(page.locator(".timeline [data-lane=retry]")).to_have_count(1)
    expect(page.locator(".turn h3").first).to_have_text("Turn 110 ms · 900 in, 50 out · $0.0100")
    bars.nth(50).dispatch_event("click")
    expect(page.locator(".call").nth(50).locator("summary")).to_be_focused()
    expect(page.locator(".call").nth(50)).to_be_in_viewport()


def test_changes_are_reviewed_landed_and_undone_each_after_a_question(door, look):
    run_id, file = written(door), door.project / "a.py"
    page = look(f"run/{run_id}/changes")
    expect(page.locator(".diff [data-line=ins]")).to_have_text(["+x = 2\n"])
    expect(page.locator(".diff [data-line=del]")).to_have_text(["-x = 1\n"])
    page.get_by_label("by call").check()
    expect(page.locator("h3")).to_contain_text("edit")
    page.get_by_role("button", name="Land…").click()
    page.get_by_role("button", name="Cancel").click()
    assert file.read_text() == "x = 1\n"
    for action, state, text in (("Land", "landed", "x = 2\n"), ("Undo", "undone", "x = 1\n")):
        page.get_by_role("button", name=f"{action}…").click()
        page.get_by_role("button", name=action, exact=True).click()
        expect(page.locator(".body .state")).to_have_text(state)
        assert file.read_text() == text
    page.get_by_role("button", name="Discard…").click()
    page.get_by_role("button", name="Discard", exact=True).click()
    expect(page.locator(".body .state")).to_have_text("discarded")


def test_a_main_agent_s_run_links_to_those_it_delegated(door, look):
    child = record(door.runs, task="The part")
    data = {"runId": child, "agent": "explorer", "outcome": "completed", "text": "Here."}
    page = look(f"run/{record(door.runs, turn(1, 'subagent', {'agent': 'explorer'}, data))}")
    tree = page.locator(".tree")
    expect(tree).to_contain_text("Delegated runs")
    expect(tree).to_contain_text("all together 1,900 tokens, $0.0200")
    tree.get_by_role("link", name="The part").click()
    expect(page.locator("h1")).to_have_text("The part")


def test_a_path_is_copied_and_opened_where_an_editor_is_set(door, look, tmp_path):
    run_id = written(door)
    events = (door.runs / run_id / "output.md").read_text()
    assert events == "Done."
    (door.runs / run_id / "output.md").write_text("See a.py:1 and [masked:secret].")
    said = tmp_path / "said"
    page = look(f"run/{run_id}/answer", env={"OUTRIDER_VIEW__EDITOR": f"touch {said}-{{line}}"})
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="a.py:1", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("Copied a.py:1")
    assert page.evaluate("navigator.clipboard.readText()") == "a.py:1"
    page.get_by_role("button", name="Open a.py:1 in your editor").click()
    page.wait_for_timeout(0)
    for _ in range(3000):
        if Path(f"{said}-1").exists():
            break
        page.wait_for_timeout(10)
    assert Path(f"{said}-1").exists()
    expect(page.locator("mark")).to_have_text("[masked:secret]")


def test_the_keyboard_is_enough(door, look):
    record(door.runs, task="The first")
    events = [event for number in (1, 2) for event in turn(number, "grep", {}, "found", "Text.")]
    record(door.runs, events, task="The second")
    page = look()
    expect(page.locator("li.run")).to_have_count(2)
    page.keyboard.press("/")
    page.keyboard.type("second")
    expect(page.locator("li.run")).to_have_count(1)
    page.keyboard.press("Escape")
    for key in ("j", "j", "k", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("h1")).to_have_text("The second")
    page.keyboard.press("2")
    expect(page.locator(".turn")).to_have_count(2)
    for key in ("j", "j", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".inside")).to_contain_text("found")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next, previous")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("li.run")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_system_s_colours_and_fits_a_phone(door, look, scheme):
    run_id = written(door)
    page = look(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    for path in (
        "",
        f"run/{run_id}/answer",
        f"run/{run_id}/steps",
        f"run/{run_id}/changes",
        f"run/{run_id}/receipt",
        f"map/{record_map(door.runs)}",
    ):
        page.evaluate("path => { location.hash = `#/${path}`; }", path)
        expect(page.locator("li.run, .body, a.square[href]").first).to_be_visible()
        assert has_no_overflow(page), path
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(map(int, re.findall(r"\d+", back))) / 3
    assert (light > 200) == (scheme == "light")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(door, look, scheme):
    source = (npm.installed("axe") / "axe-core/axe.min.js").read_text()
    record(door.runs, outcome="failed", result={"error": "It failed."})
    run_id, page = written(door), look(color_scheme=scheme)
    other = record(
        door.runs,
        turn(
            1,
            "grep",
            {"pattern": "x"},
            "y",
            "# Title\n\n| a | b |\n|---|---|\n| 1 | [l](https://example.com) |",
        ),
    )
    views = ["", f"run/{run_id}/changes", f"run/{other}/answer", f"run/{other}/steps"]
    views += [f"run/{run_id}/receipt", f"compare/{run_id}/{other}", f"map/{record_map(door.runs)}"]
    for view in views:
        page.evaluate("path => { location.hash = `#/${path}`; }", view)
        expect(page.locator("li.run, .body, .two, a.square[href]").first).to_be_visible()
        for summary in page.locator(".call summary").all():
            summary.click()
        page.evaluate(source)
        found = page.evaluate("axe.run().then((told) => told.violations)")
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert not serious, json.dumps(serious, indent=1)[:3000]


# The export


def test_the_export_opens_from_a_file_without_a_server(door, chromium, tmp_path):
    run_id, file = written(door), tmp_path / "run.html"
    assert door.run("view", run_id, "--export", str(file)).code == 0
    with closing(Look(chromium, file.as_uri())) as window:
        page = window.page
        expect(page.locator(".head")).to_contain_text("Left out: nothing.")
        expect(page.locator(".md")).to_contain_text("Done.")
        for name, words in (("Steps", "edit"), ("Changes", "+x = 2"), ("Receipt", "tool calls")):
            page.get_by_role("link", name=name).click()
            expect(page.locator(".body")).to_contain_text(words)
        page.get_by_role("link", name="Steps").click()
        page.locator(".call").last.locator("summary").click()
        expect(page.locator(".inside")).to_contain_text("oldText")
        assert page.get_by_role("button", name=re.compile("Land|Delete|Stop")).count() == 0


# Hostile runs


HOSTILE = [
    "<script>window.hacked = 1</script>",
    '<img src=x onerror="window.hacked = 1">',
    "<svg onload='window.hacked = 1'><style>body { display: none }</style></svg>",
    '"><iframe src="http://evil.example/"></iframe>',
    "[press](javascript:window.hacked=1) [data](data:text/html,<script>1</script>)",
    "![pixel](http://evil.example/pixel.png) <link rel=stylesheet href=//evil.example>",
    "</script></style></title></textarea><script>window.hacked = 1</script>",
    "`<b onmouseover=window.hacked=1>` **<i onclick=window.hacked=1>x</i>**",
    "# <img src=x onerror=hacked=1>\n\n| <img src=x onerror=hacked=1> | b |\n|-|-|\n| ] | y |",
    "safe\u202egnp.exe\u2066\u200f \x1b[31mred\x1b]0;title\x07\x1b[2J \x00\x7f",
    "[masked:\"><script>window.hacked = 1</script>] a.py:1\" onclick=\"window.hacked=1",
    "W" * (1 << 20),
    "- " * 3_000 + "\n" + "> " * 3_000 + "\n" + "[" * 5_000 + "*" * 5_000 + "`" * 5_001,
]  # fmt: skip


def hostile_events(text: str) -> list[dict[str, Any]]:
    odd: Any = {"path": text, text: [text, {"__proto__": text}]}
    retry = {"type": "retry", "at": 9, "turn": 1, "attempt": text, "message": text, "delayMs": text}
    said = {"type": "user_message", "turn": 1, "text": text, "id": "1", "at": 9}
    strange = [
        retry,
        said,
        {"type": "fault", "message": text},
        {"type": text},
        {"type": "constructor"},
    ]
    strange += [{"type": "dropped", "ids": text}, {"type": "unconfined", "missing": [text]}]
    return [*turn(1, text[:300], odd, {"text": text, "runId": text[:50]}, text), *strange]


def assert_harmless(page: Page) -> None:
    assert page.evaluate("window.hacked") is None
    assert (
        page.locator("main").locator("script, iframe, img, style, link, object, embed").count() == 0
    )
    for link in page.locator("main a").all():
        assert re.match(r"(#/|https?://)", link.get_attribute("href") or ""), link
    attributes = "[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())"
    assert not [name for name in page.evaluate(attributes) if name.startswith("on")]
    text = page.evaluate("document.body.innerText")
    assert not set("\u202e\u2066\u200f\x1b\x07\x00\x7f") & set(text)
    assert has_no_overflow(page)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_nothing_that_a_run_says_runs_loads_or_breaks_the_layout(
    door, look, number, tmp_path, chromium
):
    text = HOSTILE[number]
    result = {
        "error": text,
        "warnings": [text],
        "receipt": {"toolCalls": text, "filesRead": [text], "commands": [{"command": text}]},
    }
    run_id = record(
        door.runs, hostile_events(text), agent=text, task=text, model=text, project=text,
        answer=text, outcome="failed", result=result,
    )  # fmt: skip
    page = look()
    expect(page.locator("li.run")).to_have_count(1)
    assert_harmless(page)
    for view in ("answer", "steps", "receipt"):
        page.evaluate("path => { location.hash = path; }", f"#/run/{run_id}/{view}")
        expect(page.locator(".tabs [aria-current]")).to_have_text(view.capitalize())
        if view == "steps":
            page.locator(".call summary").first.click()
            expect(page.locator(".inside").first).to_be_visible()
        assert_harmless(page)
    page.evaluate("path => { location.hash = path; }", f"#/compare/{run_id}/{run_id}")
    expect(page.locator(".two")).to_be_visible()
    assert_harmless(page)
    assert door.run("view", run_id, "--export", str(tmp_path / "x.html")).code == 0
    with closing(Look(chromium, (tmp_path / "x.html").as_uri())) as window:
        expect(window.page.locator(".head h1")).to_be_visible()
        assert_harmless(window.page)


ODD: dict[str, Any] = {"toString": 1, "valueOf": [], "onclick": "window.hacked=1", "length": -1}


@pytest.mark.parametrize("odd", [ODD, [ODD], 5, True, "text", [[None]]])
def test_a_record_whose_parts_have_other_types_is_shown_all_the_same(door, look, odd):
    names = ("receipt", "isolation", "check", "warnings", "error", "attempts", "askedModel")
    result: dict[str, Any] = dict.fromkeys(names, odd)
    events = [{**one, "usage": odd} for one in turn(1, "read", odd, odd, "Text.")]
    kinds = ("message_end", "tool_start", "tool_result_end", "retry", "dropped", "unconfined")
    names = ("name", "words", "text", "envelope", "summary", "ids", "missing", "delayMs", "turn")
    events += [{"type": kind, "at": odd, **dict.fromkeys(names, odd)} for kind in kinds]
    about = {"withheld": odd, "resumes": odd}
    run_id = record(door.runs, events, outcome="failed", result=result, **about)
    page = look()
    for view in ("answer", "steps", "receipt"):
        page.evaluate("path => { location.hash = path; }", f"#/run/{run_id}/{view}")
        expect(page.locator(".tabs [aria-current]")).to_have_text(view.capitalize())
    page.get_by_role("link", name="Steps").click()
    expect(page.locator(".note[data-kind=end]")).to_have_text("Ended: failed after 900 ms.")
    page.evaluate("path => { location.hash = path; }", f"#/compare/{run_id}/{run_id}")
    expect(page.locator(".two")).to_be_visible()
    assert_harmless(page)


def test_a_run_that_began_in_the_future_took_no_time(door, look):
    with RunRecorder.create(door.runs) as run:
        begun = {"startedAt": time.time() + 90_000, "agent": "a", "task": "Go"}
        run.add_event({"type": "run", **begun})
        page = look()
        expect(page.locator(".took")).to_have_text("0 ms")
        expect(page.locator("time")).to_have_text("just now")


def test_hostile_names_of_files_are_only_names(door, look):
    name = "<img src=x onerror=window.hacked=1>\u202e.py"
    steps = [
        tool_call("write", {"path": name, "content": "</pre><script>window.hacked=1</script>\n"}),
        answer("Done."),
    ]
    with ScriptedModel(steps) as server:
        words = ("run", "coder", "Go.", "--write", "--json", "-m", server.model)
        run_id = door.run(*words, env=server.environment).json["details"]["runId"]
    page = look(f"run/{run_id}/changes")
    expect(page.locator(".diff [data-line=ins]")).to_contain_text("</pre><script>")
    assert_harmless(page)
