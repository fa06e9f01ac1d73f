"""What the page of runs takes: time in the browser with very many, and memory in the server.

`python3 -m benchmarks.viewing` prints how long filtering 5,000 runs takes and opening one of 5,000
events and 20 MB, each until it is drawn, the median of five; and the server's memory after 1,000
and after 10,000 events of ten live runs, each followed by a reader. It needs chromium.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack
from http.cookiejar import CookieJar
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from playwright.sync_api import sync_playwright

from benchmarks.run_listing import record
from outrider.records.runs import RunRecorder

RUNS, EVENTS, BYTES, LIVE, ROUNDS = 5_000, 5_000, 20 << 20, 10, 5
FILTER = """async (state) => {
  const field = document.querySelector("[name=state]"), begun = performance.now();
  field.value = state;
  field.dispatchEvent(new Event("change", { bubbles: true }));
  await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
  return performance.now() - begun;
}"""
OPEN = """async (id) => {
  const begun = performance.now();
  location.hash = `#/run/${id}/steps`;
  while (!document.querySelector(".note[data-kind=end]")) await new Promise(requestAnimationFrame);
  await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
  return performance.now() - begun;
}"""


def turn(number: int, body: str) -> list[dict[str, Any]]:
    """Return the five events of a turn."""
    call, usage = {"id": f"c{number}", "name": "read"}, {"input": 900, "output": 20, "cost": 0.001}
    envelope = {"code": 0, "message": "success", "data": {"text": body}}
    events: list[dict[str, Any]] = [
        {"type": "turn_start", "turn": number},
        {"type": "message_end", "turn": number, "text": f"Part {number}.", "usage": usage},
        {"type": "tool_start", **call, "args": {"path": f"src/part{number}.py"}},
        {"type": "tool_result_end", **call, "envelope": envelope, "summary": "read → 40 lines"},
        {"type": "turn_end", "turn": number, "usage": usage},
    ]
    return [{**one, "at": number * 50 + at * 9} for at, one in enumerate(events)]


def begin(run: RunRecorder) -> None:
    """Write the first line of a run."""
    about = {"agent": "explorer", "task": "A long one", "project": "~/p", "startedAt": time.time()}
    run.add_event({"type": "run", "at": 0, "runId": run.id, **about})


def record_long(runs: Path) -> str:
    """Write a run of very many events, and return its id."""
    with RunRecorder.create(runs) as run:
        begin(run)
        for number in range(EVENTS // 5):
            for event in turn(number, "x" * (BYTES * 5 // EVENTS)):
                run.add_event(event)
        end = {"type": "end", "at": 60_000, "outcome": "completed", "exitCode": 0}
        run.write_result({"details": {"results": [{"outcome": "completed"}]}}, end)
        return run.id


def browser_times(link: str, long: str) -> dict[str, float]:
    """Return how long filtering and opening take in the browser, in milliseconds."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        page = browser.new_page()
        page.goto(link)
        words = f"textContent.includes('{RUNS + 1:,} runs')"
        total = f"() => document.querySelector('.filters span')?.{words}"
        page.wait_for_function(total, timeout=60_000)
        states = ["failed", "completed", ""] * ROUNDS
        filtering = [page.evaluate(FILTER, state) for state in states]
        opening = list[float]()
        for _ in range(ROUNDS):
            opening.append(page.evaluate(OPEN, long))
            page.evaluate("location.hash = '#/'")
            page.wait_for_selector("li.run")
        browser.close()
    return {"filterMs": round(median(filtering), 1), "openMs": round(median(opening), 1)}


def server_memory(link: str, server: psutil.Process, runs: Path) -> dict[str, float]:
    """Return the server's memory as events of live runs come, in megabytes."""
    client = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    client.open(link).read()
    base, found = link.partition("?")[0], dict[str, float]()
    with ExitStack() as held:
        live = [held.enter_context(RunRecorder.create(runs)) for _ in range(LIVE)]
        seen = [0] * LIVE

        def follow(place: int, run_id: str) -> None:
            for line in client.open(f"{base}api/runs/{run_id}/news"):
                if line.startswith(b"data: ["):
                    seen[place] += len(json.loads(line[6:]))

        for place, run in enumerate(live):
            begin(run)
            threading.Thread(target=follow, args=(place, run.id), daemon=True).start()
        written = 1
        for wanted in (1_000, 10_000):
            while written < wanted // LIVE:
                for run in live:
                    for event in turn(written, "x" * 3_000):
                        run.add_event(event)
                written += 5
                while min(seen) < written:
                    time.sleep(0.01)
            found[f"memoryAfter{wanted}EventsMb"] = round(server.memory_info().rss / 1e6, 1)
    return found


def main() -> None:
    """Make the records, serve them, and measure."""
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "OUTRIDER_HOME": home}
        runs = Path(home, "runs")
        runs.mkdir()
        for number in range(RUNS):
            record(runs, number)
        long = record_long(runs)
        command = [sys.executable, "-m", "outrider", "view", "--no-open"]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            link = server.stdout.readline().strip()
            try:
                found: dict[str, float] = browser_times(link, long)
                found |= server_memory(link, psutil.Process(server.pid), runs)
            finally:
                server.terminate()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
