"""The page in a real browser while runs and maps are at work."""

import re
import shutil
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from cli_door import Door
from outrider.records.runs import RunRecorder
from outrider.testing import ModelRequest, Reply, ScriptedModel, answer, fail, silence, tool_call
from page_door import Served, has_no_overflow, record, record_map, turn

pytest_plugins = ("page_browser",)
pytestmark = pytest.mark.usefixtures("unmeasured")


@pytest.fixture
def door(tmp_path: Path, warm_runtime: Path):
    with closing(Door(tmp_path, warm_runtime)) as door:
        (door.project / "a.py").write_text("x = 1\n")
        yield door


# A live run


class Directed:
    """A model that goes on when the test says so."""

    def __init__(self, texts: list[str]) -> None:
        self.go = threading.Semaphore(0)
        self._texts = texts

    def __call__(self, request: ModelRequest) -> Reply:
        assert self.go.acquire(timeout=60)
        if request.turn < len(self._texts):
            return tool_call("ls", {"depth": request.turn + 1}, text=self._texts[request.turn])
        return answer("That is **all** of it.")


def started(door: Door, server: ScriptedModel) -> str:
    words = ("run", "explorer", "Look around.", "--bg", "-m", server.model)
    return door.run(*words, env=server.environment).out.strip()


def test_a_live_run_appears_follows_and_ends(door, look):
    record(door.runs, task="An old one")
    model = Directed([f"Paragraph {number}.\n\n" * 30 for number in range(1, 4)])
    page = look()
    expect(page.locator("li.run")).to_have_count(1)
    with ScriptedModel(model) as server:
        run_id = started(door, server)
        row = page.locator(f"li[data-id='{run_id}']")
        expect(row.locator(".state")).to_have_text("running")
        model.go.release()
        expect(row.locator(".about")).to_contain_text("ls")
        row.locator("a").click()
        expect(page.locator(".turn").first).to_contain_text("Paragraph 1.")
        at_end = "() => innerHeight + scrollY >= document.documentElement.scrollHeight - 40"
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        page.wait_for_function(at_end)
        model.go.release()
        expect(page.locator(".turn").nth(1)).to_contain_text("Paragraph 2.")
        page.wait_for_function(at_end)
        page.evaluate("scrollTo(0, 0)")
        model.go.release(2)
        expect(page.locator(".note[data-kind=end]")).to_contain_text("completed")
        assert page.evaluate("scrollY") == 0  # the reader has left the end, and stays there
    expect(page.locator(".head .state")).to_have_text("completed")
    expect(page.get_by_role("button", name="Tell")).to_have_count(0)
    page.get_by_role("link", name="Answer").click()
    expect(page.locator(".md strong")).to_have_text("all")


def test_a_run_is_told_something_and_stopped(door, look):
    model = Directed(["One."] * 50)
    with ScriptedModel(model) as server:
        run_id = started(door, server)
        page = look(f"run/{run_id}")
        page.get_by_label("Tell the agent something").fill("Leave the tests alone")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_contain_text("Sent.")
        # It may come behind the request that is under way, and then needs another one.
        while "Read in turn" not in (page.get_by_role("status").text_content() or ""):
            model.go.release()
            page.wait_for_timeout(200)
        expect(page.locator(".note[data-kind=user_message]")).to_contain_text(
            "Leave the tests alone"
        )
        page.get_by_role("button", name="Stop…").click()
        page.get_by_role("button", name="Stop", exact=True).click()
        expect(page.locator(".head .state")).to_have_text("cancelled")
        model.go.release(50)


COUNTED = """() => {
  window.sources = [];
  window.EventSource = class extends EventSource {
    constructor(...given) {
      super(...given);
      window.sources.push(this);
    }
  };
}"""


def test_a_run_or_map_that_was_left_before_it_was_read_holds_no_connection(door, look):
    run_id, map_id = record(door.runs), record_map(door.runs)
    page = look()
    expect(page.locator("li.run")).to_have_count(2)
    page.evaluate(COUNTED)
    for path in (f"run/{run_id}", f"map/{map_id}"):
        page.evaluate(
            """async (path) => {
              location.hash = `#/${path}`;
              await new Promise((done) => addEventListener("hashchange", done, { once: true }));
              location.hash = "#/";
            }""",
            path,
        )
        expect(page.locator("li.run")).to_have_count(2)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("sources.filter((one) => one.readyState < 2).map((one) => one.url)") == [
        page.evaluate("new URL('/api/runs?after=0', location).href")
    ]


def test_an_unfolded_call_shows_its_result_when_it_comes(door, look):
    start, result = turn(1, "bash", {"command": "make"}, {"text": "It is made."})[2:4]
    with RunRecorder.create(door.runs) as run:
        run.add_event({"type": "run", "startedAt": time.time(), "agent": "a", "task": "Go"})
        run.add_event(start)
        page = look(f"run/{run.id}")
        page.locator(".call summary").click()
        expect(page.locator(".inside")).to_contain_text("It hasn't answered yet.")
        run.add_event(result)
        expect(page.locator(".inside")).to_contain_text("It is made.")


def test_a_run_that_is_deleted_and_a_server_that_has_ended_are_told_of(door, chromium):
    # Not with `look`: a browser notes each of these as an error of the page.
    with closing(Served(door)) as served, closing(chromium.new_context()) as context:
        page = context.new_page()
        with RunRecorder.create(door.runs) as run:
            run.add_event({"type": "run", "startedAt": time.time(), "agent": "a", "task": "Go"})
            page.goto(f"{served.link}#/run/{run.id}")
            expect(page.locator(".head .state")).to_have_text("running")
            shutil.rmtree(run.folder)
        expect(page.locator("main")).to_contain_text(f"No run '{run.id}'.")
        page.get_by_role("link", name="Outrider").click()
        expect(page.get_by_text("No runs yet.")).to_be_visible()
        served.close()
        expect(page.get_by_role("status")).to_contain_text("The server has ended.")


# A map


def test_a_map_is_a_square_for_each_item_that_leads_to_its_run(door, look):
    (door.project / "items").write_text("Good\nBad\nSlow\n{\nLater\nLast\n")
    go = threading.Event()

    def script(request: ModelRequest) -> Reply:
        if request.last_user_text == "Slow":
            assert go.wait(60)
        return fail(400) if request.last_user_text == "Bad" else answer("Done.", usage=(90, 10))

    with ScriptedModel(script) as server:
        words = ("map", "explorer", "items", "--concurrency", "1", "--max-tokens", "5000")
        command = door.start(*words, "--model", server.model, env=server.environment)
        page = look()
        row = page.locator("section[data-group=running] li", has_text="map · explorer")
        expect(row.locator(".task")).to_have_text("items")
        row.locator("a").click()
        legend, figures = page.locator(".legend"), page.locator(".sums")
        words = "1 completed1 failed1 running3 not started"
        expect(legend).to_have_text(re.compile(words.replace("", r"\s*")))
        expect(figures).to_contain_text("2 of 6 done")
        expect(figures).to_contain_text(
            re.compile(r"100 of 5,000 tokens.* a (second|minute) · about .* left")
        )
        assert page.locator(".squares .square").count() == 6
        go.set()
        command.communicate()
    expect(page.locator(".head .state")).to_have_text("failed")
    expect(legend).to_have_text(re.compile("4 completed 1 failed 1 refused".replace(" ", r"\s*")))
    expect(figures).to_contain_text("6 of 6 done")
    expect(figures).not_to_contain_text("left")
    expect(page.get_by_title("It isn't JSON")).to_have_count(1)
    page.get_by_role("link", name="failed").click()
    expect(page.locator("h1")).to_have_text("Bad")


def test_a_map_that_was_killed_and_goes_on_shows_that(door, look):
    """What was running then is interrupted; the page follows the next call."""
    (door.project / "items").write_text("One\nTwo\nThree\n")
    go = threading.Event()

    def script(request: ModelRequest) -> Reply:
        return answer("Done.") if request.last_user_text == "One" or go.is_set() else silence()

    with ScriptedModel(script) as server:
        words = ("map", "explorer", "items", "--concurrency", "2", "--model", server.model)
        command = door.start(*words, env=server.environment)
        server.wait_for_requests(3)
        command.kill()
        command.communicate()
        page = look()
        row = page.locator("section[data-group=ended] li", has_text="map · explorer")
        expect(row.locator(".state")).to_have_text("interrupted")
        row.locator("a").click()
        expect(page.locator(".legend")).to_contain_text("2 interrupted")
        expect(page.locator(".sums")).to_contain_text("1 of 3 done")
        go.set()
        assert door.run(*words, env=server.environment).code == 0
    expect(page.locator(".legend")).to_have_text(re.compile(r"^\s*3 completed$"))
    expect(page.locator(".head .state")).to_have_text("completed")


def test_a_hostile_map_of_ten_thousand_items_stays_text_and_fits_a_phone(door, look):
    """Its squares are drawn at once, and the keys lead through them."""
    text = "<img src=x onerror=window.hacked=1>\u202e" + "W" * 300
    row = {"outcome": text[:50], "task": text, "error": {"message": text}, "runId": text[:30]}
    lines: list[dict[str, Any]] = [
        {"call": 20_000, "most": [text, text], "at": 1.0},
        {"refused": text * 99},
    ]
    for number in range(10_000):
        key = f"{text}{number}"
        lines += [{"start": key, "at": 2.0}, {"run": key, "runId": f"{number:08x}"}]
        lines.append({"end": key, "row": row, "at": 3.0})
    record_map(door.runs, lines, agent=text, task=text, folder=text)
    page = look(viewport={"width": 390, "height": 844})
    page.locator("li.run a").click()
    expect(page.locator("a.square[href]")).to_have_count(10_000)
    expect(page.locator(".squares .square:not([href])")).to_have_count(10_000)
    assert page.evaluate("window.hacked") is None and has_no_overflow(page)
    assert page.locator("main").locator("script, img, style, link").count() == 0
    assert "\u202e" not in page.evaluate("document.body.innerText")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("a.square[href]").nth(1)).to_be_focused()
    expect(page.locator(":focus")).to_have_attribute("href", "#/run/00000001")
