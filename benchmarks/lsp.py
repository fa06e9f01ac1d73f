"""What the tool `lsp` costs beside the bare server, on this repository.

    python3 -m benchmarks.lsp [rounds]

Both start `ty`, open the same file and ask for the same definition, by turns and in one process
each: the bare way with the fewest messages that the server needs, the other through the executor,
with all checks. The aims: the first answer takes at most 1.5 times as long, and each later one at
most 20 ms longer.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from outrider.settings.keys import READ_ONLY_LSP_ACTIONS, LspConfig
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.loading import builtin_tools
from outrider.tools.lsp.session import LspSession

ROOT = Path(__file__).resolve().parent.parent
FILE, NAME = "src/outrider/child/main.py", "ToolExecutor"
FIRST_AIM, LATER_AIM_MS = 1.5, 20.0
LATER = 20
TY = str(Path(sys.executable).parent / "ty")


def place() -> tuple[int, int]:
    """Return the line and column of the last use of the name, from 1."""
    lines = (ROOT / FILE).read_text().splitlines()
    number = max(number for number, line in enumerate(lines) if NAME in line)
    return number + 1, lines[number].index(NAME) + 1


class Bare:
    """The server, spoken to directly."""

    def __init__(self) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([TY, "server"], cwd=ROOT, **pipes)
        uri = ROOT.as_uri()
        folders = [{"uri": uri, "name": "root"}]
        hello = {"processId": os.getpid(), "rootUri": uri, "workspaceFolders": folders}
        # Else it would check the file unasked, and the answer come later.
        self.ask("initialize", {**hello, "capabilities": {"textDocument": {"diagnostic": {}}}})
        self.send({"method": "initialized", "params": {}})
        named = {"uri": (ROOT / FILE).as_uri(), "version": 1, "languageId": "python"}
        named["text"] = (ROOT / FILE).read_text()
        self.send({"method": "textDocument/didOpen", "params": {"textDocument": named}})

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def ask(self, method: str, params: Any) -> Any:
        self.send({"id": 1, "method": method, "params": params})
        while True:
            length = 0
            while (line := self.process.stdout.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length"):
                    length = int(line.split(b":")[1])
            message = json.loads(self.process.stdout.read(length))
            if "method" not in message:
                return message["result"]
            if "id" in message:
                self.send({"id": message["id"], "result": None})

    def definition(self, line: int, column: int) -> None:
        position = {"line": line - 1, "character": column - 1}
        named = {"textDocument": {"uri": (ROOT / FILE).as_uri()}, "position": position}
        assert self.ask("textDocument/definition", named)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def bare(line: int, column: int) -> tuple[float, float]:
    """Return the milliseconds of the first answer, from the start on, and of a later one."""
    begin = time.perf_counter()
    server = Bare()
    server.definition(line, column)
    first, later = time.perf_counter() - begin, list[float]()
    for _ in range(LATER):
        begin = time.perf_counter()
        server.definition(line, column)
        later.append(time.perf_counter() - begin)
    server.close()
    return first * 1000, statistics.median(later) * 1000


async def through_tool(line: int, column: int) -> tuple[float, float]:
    """Return the same times through the tool."""
    tools = [tool for tool in builtin_tools() if tool.name == "lsp"]
    session = LspSession(LspConfig(), READ_ONLY_LSP_ACTIONS)
    context = ToolContext(cwd=ROOT, environment=dict(os.environ), lsp=session)
    asked = {"action": "definition", "path": FILE, "line": line, "column": column}
    times: list[float] = []
    async with ToolExecutor(tools, context) as executor:
        for _ in range(LATER + 1):
            begin = time.perf_counter()
            outcome = await executor.execute("lsp", asked)
            times.append(time.perf_counter() - begin)
            assert NAME in outcome.text, outcome.text
    return times[0] * 1000, statistics.median(times[1:]) * 1000


def main() -> None:
    """Print the table; end with 1 where an aim is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    where = place()
    pairs = [(bare(*where), asyncio.run(through_tool(*where))) for _ in range(rounds + 1)][1:]
    first = [statistics.median(pair[way][0] for pair in pairs) for way in (0, 1)]
    later = [statistics.median(pair[way][1] for pair in pairs) for way in (0, 1)]
    print(f"{'definition':12}{'bare ty':>10}{'lsp':>10}")
    print(f"{'first':12}{first[0]:8.1f}ms{first[1]:8.1f}ms{first[1] / first[0]:8.2f} times")
    print(f"{'later':12}{later[0]:8.1f}ms{later[1]:8.1f}ms{later[1] - later[0]:+8.1f} ms")
    sys.exit(first[1] > FIRST_AIM * first[0] or later[1] - later[0] > LATER_AIM_MS)


if __name__ == "__main__":
    main()
