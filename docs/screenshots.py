"""Draws the pictures in docs/view.md anew: the real page in a real browser.

python3 dev screenshots
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from outrider.records.runs import RunRecorder
from outrider.testing import ScriptedModel, answer, fail, silence, tool_call, tool_calls

ROOT = Path(__file__).resolve().parent.parent
SIZE = {"width": 1100, "height": 640}
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PAST = (
    ("explorer", "Where is the idle timeout enforced?", "completed", 41_200, 0.021),
    ("reviewer", "Review the diff of the retry limit", "completed", 88_400, 0.094),
    ("tester", "Why does the landing test fail on a full disk?", "timed_out", 900_100, 0.310),
    ("researcher", "What do other clients do about Retry-After?", "completed", 63_000, 0.048),
    ("explorer", "Which settings can a repository lower?", "completed", 12_900, 0.008),
    ("explorer", "List all places that read result.json", "failed", 3_100, 0.002),
    ("reviewer", "Look for races in the fork server", "over_budget", 240_700, 0.500),
)
EDIT = {"oldText": "LIMIT = 3", "newText": "LIMIT = 5"}
STEPS = [
    tool_calls(
        [("grep", {"pattern": "LIMIT"}), ("ls", {"depth": 2})],
        text="I look for the limit, and for what else depends on it.",
        usage=(2_310, 88),
    ),
    fail(503, retry_after=0.4),
    tool_call("bash", {"command": "sleep 0.6; python3 -m compileall -q ."}, usage=(2_904, 51)),
    tool_call("edit", {"path": "client.py", "edits": [EDIT]}, usage=(3_120, 97)),
    answer("`LIMIT` in client.py:3 is **5** now. `fetch` is its only user.", usage=(3_380, 42)),
]


def record(runs: Path, number: int) -> None:
    """Write the record of a run that ended some time ago."""
    agent, task, outcome, ms, cost = PAST[number]
    about = {"agent": agent, "task": task, "model": "openai-chat:my-model", "project": "~/retry"}
    usage = {"input": ms // 5, "output": ms // 60, "cost": cost, "costKnown": True}
    ended = {"outcome": outcome, "exitCode": 0, "usage": usage}
    with RunRecorder.create(runs) as run:
        started = time.time() - 700 * (number + 1)
        run.add_event({"type": "run", "at": 0, "startedAt": started, "runId": run.id, **about})
        step = {"name": "read", "args": {"path": "src/client.py"}}
        run.add_event({"type": "tool_start", "at": 9, "id": "1", **step})
        end = {"type": "end", "at": ms, **ended}
        run.write_result({"details": {"results": [{**about, **ended}]}}, end)


@contextmanager
def mapped(runs: Path) -> Iterator[str]:
    """Write the journal of a map, and keep it as one that is at work does; yield its id."""
    about = {"agent": "reviewer", "task": "Review {path}", "model": "openai-chat:my-model"}
    lines: list[dict[str, Any]] = [{"outriderMap": 1, **about, "at": time.time() - 400}]
    lines.append({"call": 300, "most": [5.0, None], "at": time.time() - 400})
    for number in range(180):
        outcome = {7: "failed", 23: "timed_out"}.get(number % 29, "completed")
        usage = {"input": 4_100, "output": 210, "cost": 0.0123}
        lines.append({"start": f"src/{number}.py", "at": 0})
        lines.append({"run": f"src/{number}.py", "runId": f"{number:08x}", "at": 0})
        row = {"row": {"outcome": outcome, "usage": usage}, "at": time.time() - 400 + number * 2}
        lines += [{"end": f"src/{number}.py", **row}] if number < 172 else []
    folder = runs.parent / "maps"
    folder.mkdir()
    with (folder / f"{'0' * 16}.jsonl").open("w") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        journal.write("".join(json.dumps(one) + "\n" for one in lines))
        journal.flush()
        yield "0" * 16


def start(home: Path, server: ScriptedModel, *words: str) -> "subprocess.Popen[str]":
    """Start a command in a home of its own."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    env |= {"OUTRIDER_WARM__KEEP_MINUTES": "0", **server.environment}
    command = [sys.executable, "-m", "outrider", *words]
    return subprocess.Popen(command, cwd=home / "retry", env=env, stdout=subprocess.PIPE, text=True)


def draw(browser: Browser, link: str, path: str, wanted: str, file: Path, **scheme: Any) -> None:
    """Draw one view, when it shows what is wanted."""
    page = browser.new_page(viewport=SIZE, **scheme)
    page.goto(f"{link}#/{path}")
    page.wait_for_selector(wanted, timeout=90_000)
    page.wait_for_timeout(300)
    end = "document.querySelector('main').lastElementChild.getBoundingClientRect().bottom"
    height = min(page.evaluate(end) + 24, SIZE["height"])
    page.screenshot(path=file, clip={"x": 0, "y": 0, "width": SIZE["width"], "height": height})
    page.close()


def main(folder: Path) -> None:
    """Draw them, with a run to review, one at work, some that ended, and a map."""
    with (
        tempfile.TemporaryDirectory(prefix="or") as place,
        ScriptedModel(STEPS, name="my-model") as writer,
        ScriptedModel(
            [tool_call("grep", {"pattern": "retry"}), silence()], name="my-model"
        ) as busy,
        sync_playwright() as playwright,
    ):
        home, runs = Path(place), Path(place, ".local/state/outrider/runs")
        (home / "retry").mkdir()
        (home / "retry/client.py").write_text(
            "import time\n\nLIMIT = 3\n\n\ndef fetch(get):\n    pass\n"
        )
        for number in range(len(PAST)):
            runs.mkdir(parents=True, exist_ok=True)
            record(runs, number)
        task = "Raise the retry limit to five"
        start(home, writer, "run", "coder", "--write", task, "-m", writer.model).communicate()
        changed = next(runs.glob("*/landing.json")).parent.name
        explorer = ("run", "explorer", "Where are requests sent again?", "-m", busy.model)
        working, view = start(home, busy, *explorer), start(home, busy, "view", "--no-open")
        try:
            assert view.stdout
            link, program = view.stdout.readline().strip(), shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
            busy.wait_for_requests(2)
            draw(browser, link, "", "section[data-group=running] li", folder / "view-runs.png")
            steps, dark = f"run/{changed}/steps", {"color_scheme": "dark"}
            draw(browser, link, steps, ".note[data-kind=end]", folder / "view-run.png", **dark)
            with mapped(runs) as name:
                draw(browser, link, f"map/{name}", "a.square", folder / "view-map.png")
            browser.close()
        finally:
            for process in (working, view):
                process.terminate()
                process.communicate()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs"))
