"""The page of runs as people open it: the command, its link, and records to look at."""

import http.client
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from cli_door import Door
from outrider.records.runs import RunRecorder

USAGE = {"input": 900, "output": 50, "cacheRead": 0, "cacheWrite": 0, "cost": 0.01, "turns": 1}
CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Served:
    """`outrider view` at work."""

    def __init__(self, door: Door, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        words = ("view", "--no-open", "--json", *arguments)
        self.process = door.start(*words, env=env, stderr=subprocess.STDOUT)
        assert self.process.stdout
        lines = b""
        while not lines.rstrip().endswith(b"}"):
            line = self.process.stdout.readline()
            assert line, f"the page's server ended: {lines.decode()}"
            lines += line
        told = json.loads(lines)
        self.link, self.port = told["url"], told["port"]
        self.cookie = self.ask("GET", self.link.partition(str(self.port))[2].partition("#")[0])[1][
            "set-cookie"
        ].partition(";")[0]

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Return the status, the headers and the body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items() if value}
        connection.request(method, path, body and json.dumps(body), sent)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        data = answer.read()
        connection.close()
        return answer.status, found, data

    def get(self, path: str) -> Any:
        """Return what the page gets from an address."""
        status, _, data = self.ask("GET", path, cookie=self.cookie)
        assert status == 200, data
        return json.loads(data)

    def act(self, run_id: str, **said: Any) -> tuple[int, Any]:
        """Do what the page does when a person has said yes."""
        origin = f"http://127.0.0.1:{self.port}"
        headers = {"cookie": self.cookie, "origin": origin}
        status, _, data = self.ask("POST", f"/api/runs/{run_id}", said, **headers)
        return status, json.loads(data)

    def news(self, path: str, enough: Callable[[list[Any]], object]) -> list[Any]:
        """Return the messages of a stream until there are enough: kinds and data."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path, headers={"cookie": self.cookie})
        answer, found, kind = connection.getresponse(), list[Any](), ""
        while not enough(found):
            line = answer.readline().decode()
            assert line, found
            if line.startswith("event: "):
                kind = line[7:].strip()
            elif line.startswith("data: "):
                found.append((kind, json.loads(line[6:])))
        connection.close()
        return found

    def close(self) -> None:
        """End the server, as Ctrl-C does."""
        with suppress(ProcessLookupError):
            self.process.terminate()
        self.process.communicate(timeout=30)


class Look:
    """A window of the browser. What goes wrong in it, and what it loads from elsewhere, counts."""

    def __init__(self, browser: Browser, link: str, **options: Any) -> None:
        self.faults: list[str] = []
        self._own = (link.partition("?")[0], "data:", "file:")
        self.page = browser.new_context(**options).new_page()
        self.page.on("console", lambda said: self._fault(said.type == "error", said.text))
        self.page.on("pageerror", lambda error: self._fault(True, error.message))
        self.page.on("dialog", lambda dialog: self._fault(True, dialog.message))
        self.page.on("request", lambda one: self._fault(not one.url.startswith(self._own), one.url))
        self.page.goto(link)

    def _fault(self, is_one: bool, words: str) -> None:
        self.faults += [words] if is_one else []

    def close(self) -> None:
        self.page.context.close()
        assert self.faults == []


def has_no_overflow(page: Page) -> bool:
    """Whether nothing is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def record(
    runs: Path,
    events: list[dict[str, Any]] | None = None,
    *,
    answer: str = "It is in `src/limits.py:12`.",
    outcome: str = "completed",
    result: Mapping[str, Any] | None = None,
    **about: Any,
) -> str:
    """Write the record of a run that has ended, and return its id."""
    known = {"agent": "explorer", "task": "Where is it?", "model": "m", "project": "~/p", **about}
    ended = {"outcome": outcome, "exitCode": 0, "usage": USAGE}
    with RunRecorder.create(runs) as run:
        run.add_event(
            {
                "type": "run",
                "at": 0,
                "startedAt": time.time(),
                "runId": run.id,
                "tools": [],
                **known,
            }
        )
        for event in events or []:
            run.add_event(event)
        run.add_output(answer)
        one = {**known, **ended, "output": answer, "durationMs": 900, **(result or {})}
        content = [{"type": "text", "text": answer}]
        end = {"type": "end", "at": 900, **ended}
        run.write_result({"content": content, "details": {"results": [one]}}, end)
        return run.id


def turn(number: int, call: str, args: Any, data: Any, text: str = "") -> list[dict[str, Any]]:
    """Return the events of a turn with one call."""
    call_id = f"c{number}"
    said = {"text": text, "toolCalls": [{"id": call_id, "name": call}], "stopReason": "tool_call"}
    envelope = {"code": 0, "message": "success", "data": data}
    done = {"id": call_id, "name": call, "envelope": envelope, "summary": f"{call} → done"}
    steps: list[dict[str, Any]] = [
        {"type": "turn_start", "turn": number},
        {"type": "message_end", "turn": number, **said, "usage": USAGE},
        {"type": "tool_start", "id": call_id, "name": call, "args": args, "timeoutMs": 1000},
        {"type": "tool_result_end", **done},
        {"type": "turn_end", "turn": number, "usage": USAGE},
    ]
    return [{**one, "at": number * 50 + at * 10} for at, one in enumerate(steps)]


def record_map(runs: Path, lines: list[dict[str, Any]] | None = None, **about: Any) -> str:
    """Write the journal of a map, by default one of an item in each state; return its id."""
    known = {"outriderMap": 1, "agent": "explorer", "task": "Look at {path}", "at": 1.0, **about}
    path = runs.parent / "maps" / f"{os.urandom(8).hex()}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in (known, *(lines or STATES))))
    return path.stem


STATES: list[dict[str, Any]] = [{"call": 9, "most": [5.0, None], "at": 1.0}]
for _outcome in ("completed", "failed", "cancelled", "unfinished"):
    STATES += [
        {"start": _outcome, "at": 2.0},
        {"run": _outcome, "runId": "12345678", "at": 2.0},
        {"end": _outcome, "row": {"outcome": _outcome, "usage": USAGE}, "at": 9.0},
    ]
STATES += [{"start": "open", "at": 9.0}, {"run": "open", "runId": "12345678", "at": 9.0}]
