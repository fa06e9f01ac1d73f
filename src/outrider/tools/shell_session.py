"""A persistent shell whose end ends everything it started.

What a command prints can't be taken for an answer of the shell: they come through separate pipes.
"""

import asyncio
import fcntl
import os
import re
import shlex
import shutil
import tempfile
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from outrider.processes.keeper import RUN, STOP
from outrider.processes.keeper_link import CommandResult, KeeperLink
from outrider.protocol.errors import OutriderError

MAX_ANSWER_SECONDS = 30.0
"""How long the keeper and a new shell may take for what they do at once."""
MAX_HEAD_BYTES = MAX_TAIL_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 65_536
_QUIET = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
_UNWANTED = {"BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS"}
_ESCAPE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor moves
    r"|[\]PX^_].*?(?:\x07|\x1b\\|\Z)"  # titles, links, device strings
    r"|[ -/]*[0-~])",  # the short ones
    re.DOTALL,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

# The loop of the shell: it is told to run a command and answers on 3, commands print on 4.
# One line, so that a shell's messages count the lines of the command and not those of the loop.
_LOOP = (
    "__outrider_keep() {{"
    " {builtin}printf '%s/' \"$PWD\" >| {folder}/cwd;"
    " {{ {builtin}export -p; {functions}; }} >| {folder}/state; }};"
    " if [ -f {folder}/state ]; then . {folder}/state; fi;"
    ' if [ -f {folder}/cwd ]; then cd -- "$({cat} {folder}/cwd)"; fi;'
    " trap __outrider_keep EXIT;"
    " {builtin}printf '  %s\\0' \"$PWD\" >&3;"
    " while IFS= {builtin}read -r __outrider_line <&3; do"
    ' {builtin}eval "$({cat} {folder}/command)" </dev/null >&4 2>&1 3<&- 4>&-;'
    " __outrider_status=$?; __outrider_keep;"
    ' {builtin}printf \'%s %s %s\\0\' "$__outrider_line" "$__outrider_status" "$PWD" >&3;'
    " done"
)


class ShellEnded(OutriderError):
    """The shell is gone for good, with everything that it ran."""


class ShellSession:
    """One shell, one command at a time."""

    def __init__(
        self, cwd: Path, environment: Mapping[str, str], place: Path | None = None
    ) -> None:
        """Start a shell in `cwd`, with a folder of its own in `place` or the temporary folder."""
        kept = {name: value for name, value in environment.items() if name not in _UNWANTED}
        program = shell_program(kept.get("PATH"))
        folder = tempfile.mkdtemp(prefix="outrider-shell-", dir=place)
        self._link = KeeperLink(shell_command(program, folder), folder, cwd, {**kept, **_QUIET})
        self._command_file = Path(folder, "command")
        self._is_new = True
        self._is_idle = True

    @property
    def alive(self) -> bool:
        """Whether another command can be run."""
        return self._is_idle and self._link.alive

    async def run(self, command: str, timeout_ms: int) -> CommandResult:
        """Return the result of a command; one that is cancelled takes the shell with it."""
        output = OutputBuffer()
        self._is_idle = False
        try:
            if self._is_new:  # the keeper answers the start too
                async with asyncio.timeout(MAX_ANSWER_SECONDS):
                    await self._link.answer()
            self._is_new = False
            self._command_file.write_bytes(command.encode())
            result = await self._result(output, timeout_ms / 1000)
        except FileNotFoundError:  # `rm -rf /tmp/*`
            raise ShellEnded("the shell's own folder was removed") from None
        except ConnectionError:
            raise ShellEnded("the shell was ended from outside") from None
        self._drain(output)
        self._is_idle = True
        return replace(result, output=output.text())

    async def aclose(self) -> None:
        """End the shell and everything it started."""
        self._is_idle = False
        await self._link.aclose()

    async def _result(self, output: "OutputBuffer", seconds: float) -> CommandResult:
        loop = asyncio.get_running_loop()
        # Only during commands: between them, a process that floods its output has to wait.
        loop.add_reader(self._link.output, self._read, output)
        answer = asyncio.create_task(self._link.answer())
        self._link.send(RUN)
        try:
            # Not cancelled at the timeout: an answer that comes at that moment would be lost.
            done, _ = await asyncio.wait({answer}, timeout=seconds)
            if done:
                return answer.result()
            self._link.send(STOP)
            async with asyncio.timeout(MAX_ANSWER_SECONDS):
                return replace(await answer, exit_code=None)
        finally:
            loop.remove_reader(self._link.output)
            answer.cancel()

    def _read(self, output: "OutputBuffer") -> int:
        try:
            chunk = os.read(self._link.output, _CHUNK_BYTES)
        except BlockingIOError:
            return 0
        output.add(chunk)
        return len(chunk)

    def _drain(self, output: "OutputBuffer") -> None:
        """Take what the command left in the pipe, which is no more than the pipe holds."""
        ask: int | None = getattr(fcntl, "F_GETPIPE_SZ", None)
        left = _CHUNK_BYTES if ask is None else fcntl.fcntl(self._link.output, ask)
        while left > 0 and (taken := self._read(output)):
            left -= taken


def shell_program(path: str | None) -> str:
    """Return the shell to use: bash, or else sh."""
    for name in ("bash", "sh"):
        found = shutil.which(name, path=path) or shutil.which(name, path=os.defpath)
        if found:
            return found
    raise FileNotFoundError("neither bash nor sh was found on PATH")


def shell_command(program: str, folder: str) -> list[str]:
    """Return how to start a shell that runs `folder/command` each time it is told to.

    After each command, and when it ends, it keeps its working directory, its functions (bash
    only) and its exported variables in the folder; a shell that is started there takes them up.
    """
    folder = shlex.quote(folder)
    if not program.endswith("bash"):
        script = _LOOP.format(builtin="", folder=folder, functions=":", cat="cat")
        return [program, "-c", script, "sh"]
    functions = "builtin declare -f"
    script = _LOOP.format(builtin="builtin ", folder=folder, functions=functions, cat="<")
    return [program, "--norc", "--noprofile", "-c", script, "bash"]


class OutputBuffer:
    """The first and the last megabytes of what a command prints, without the middle of a flood."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """Take what was printed next."""
        room = MAX_HEAD_BYTES - len(self._head)
        self._head += chunk[:room]
        if rest := chunk[room:]:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= MAX_TAIL_BYTES:
            oldest = self._tail.popleft()
            self._tail_bytes -= len(oldest)
            self._dropped += len(oldest)

    def text(self) -> str:
        """Return all that was kept, as plain text that says what was dropped."""
        tail = b"".join(self._tail)
        if not self._dropped:
            return plain_text(bytes(self._head) + tail)
        gap = f"\n[{self._dropped:,} bytes of output were not kept]\n"
        return plain_text(bytes(self._head)) + gap + plain_text(tail)


def plain_text(raw: bytes) -> str:
    """Return terminal output as text, without escape sequences and control characters."""
    text = raw.decode(errors="replace")
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    return _CONTROL.sub("", text.replace("\r\n", "\n"))
