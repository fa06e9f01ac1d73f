"""Draws docs/run.svg and docs/review.svg anew: real commands in a real terminal (tmux).

python3 dev picture
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from outrider.testing import ScriptedModel, answer, drip, tool_call, tool_calls

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 86, 24
TASK = "Where is the idle timeout enforced?"
ANSWER = """\
The **idle timeout** is enforced in `delegation/supervision.py`:

- `_check_idleness` ends a run when nothing has moved for `subagents.idleTimeoutMs`
- a running tool counts as activity until its own timeout, and so does the pause
  before a request is sent again

The child is told nothing: its guardian ends it, and the run is recorded as
`timed_out` with what there was of its answer. **Unsure:** whether a main agent that
waits for a person is idle; `Collector.waited` suggests that it isn't.
"""
CALLS = [
    ("grep", {"pattern": "idle_timeout", "path": "src"}),
    ("read", {"path": "src/outrider/delegation/supervision.py"}),
]
CHANGE = "Make the retry limit configurable"
SOURCE = """\
import time

LIMIT = 3


def fetch(get, url):
    for attempt in range(LIMIT):
        if answer := get(url):
            return answer
        time.sleep(2**attempt)
    raise TimeoutError(url)
"""
EDITS = [
    {"oldText": "import time\n\nLIMIT = 3\n", "newText": "import time\n"},
    {"oldText": "def fetch(get, url):", "newText": "def fetch(get, url, *, attempts=3):"},
    {"oldText": "range(LIMIT)", "newText": "range(attempts)"},
]
DONE = "`fetch` takes `attempts` now, with the old limit as its default."
# What differs from run to run, as it stands in the picture.
STEADY = {
    r"(run|diff|land) [0-9a-f]{8}": r"\1 4f2a91c7",
    r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]": "⠹",
    r"tokens · \d+:\d\d": "tokens · 0:04",
    r"· [\d.]+ m?s ·": "· 6.2 s ·",
    r"[\d,]+ tokens": "3,482 tokens",
}


class Terminal:
    """A window of tmux with some commands in it."""

    def __init__(self, folder: str, cwd: str, server: ScriptedModel, *commands: list[str]) -> None:
        self._socket = f"{folder}/tmux"
        env = {"HOME": folder, "LANG": "C.UTF-8", "TERM": "screen-256color", **server.environment}
        env |= {"PATH": os.environ["PATH"], "OUTRIDER_WARM__KEEP_MINUTES": "0"}
        given = [f"{name}={value}" for name, value in env.items()]
        start = ["env", "-i", *given, sys.executable, "-m", "outrider"]
        shown = "; ".join(shlex.join([*start, *command]) for command in commands)
        size = ("-x", str(COLUMNS), "-y", str(ROWS))
        begin = ("new-session", "-d", *size, "-c", cwd, f"{shown}; exec sleep 60")
        self._tmux("-f", "/dev/null", *begin)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    def frame(self, pattern: str) -> list[str]:
        """Return the lines on the screen, with their colours, as soon as it shows `pattern`."""
        give_up = time.monotonic() + 60
        while not re.search(pattern, plain := self._tmux("capture-pane", "-p")):
            if time.monotonic() > give_up:
                sys.exit(f"{pattern!r} never came:\n{plain}")
            time.sleep(0.05)
        return self._tmux("capture-pane", "-p", "-e").rstrip().splitlines()

    def close(self) -> None:
        self._tmux("kill-server")


def run_picture() -> str:
    """Return the picture: the command, the live view, and what stays when the run has ended."""
    steps = [tool_calls(CALLS, usage=(2100, 64)), drip(ANSWER, 0.05)]
    with (
        tempfile.TemporaryDirectory(prefix="or") as folder,
        ScriptedModel(steps, name="my-model") as server,
        closing(Terminal(folder, str(ROOT), server, ["run", TASK, "-m", server.model])) as window,
    ):
        live = window.frame(r"_check_idleness ends(.*\n)+.*turn 2")
        end = window.frame(r"completed · 2 turns")
    # The answer, and how it ended: the lines before stand above the live view already.
    begun = max(number for number, line in enumerate(end) if "started as run" in line) + 1
    return drawn([f'$ outrider run "{TASK}"', *live, "", *end[begun:]], "run")


def review_picture() -> str:
    """Return the picture of a writer's run and its review."""
    steps = [tool_call("edit", {"path": "client.py", "edits": EDITS}), answer(DONE)]
    with tempfile.TemporaryDirectory(prefix="or") as folder:
        project = Path(folder, "project")
        project.mkdir()
        (project / "client.py").write_text(SOURCE)
        with ScriptedModel(steps, name="my-model") as server:
            write = ["run", "coder", "--write", CHANGE, "-m", server.model]
            commands = (write, ["diff", "last"])
            with closing(Terminal(folder, str(project), server, *commands)) as window:
                end = window.frame(r"range\(attempts\)(.*\n)+.*not landed: outrider land")
    at = min(number for number, line in enumerate(end) if "client.py" in line and "---" in line)
    lines = [f'$ outrider run coder --write "{CHANGE}"', *end[:at], "$ outrider diff 4f2a91c7"]
    return drawn([*lines, *end[at:]], "review")


def drawn(lines: list[str], name: str) -> str:
    """Return lines of a terminal as a picture."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), color_system="256")
    for line in lines:
        for pattern, steady in STEADY.items():
            line = re.sub(pattern, steady, line)
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop")
    picture = console.export_svg(title="outrider", theme=DIMMED_MONOKAI, unique_id=name)
    # The reader's own font: a picture in a README loads none.
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs")
    (folder / "run.svg").write_text(run_picture())
    (folder / "review.svg").write_text(review_picture())
