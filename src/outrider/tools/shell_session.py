"""A persistent shell whose end ends everything it started.

What a command prints can't be taken for an answer of the shell: they come through separate pipes.
"""

import asyncio
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from outrider.processes.keeper import RUN, STOP
from outrider.processes.keeper_link import CommandResult, KeeperLink
from outrider.protocol.envelope import ToolCode, ToolFault

MAX_ANSWER_SECONDS = 30.0
"""How long the keeper and a new shell may take for what they do at once."""
MAX_HEAD_BYTES = MAX_TAIL_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 65_536
_MAX_PIPE_BYTES = 1 << 20
_QUIET = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
_UNWANTED = {"BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS"}
# What has no width is left: a command may be run to see what is in a file, as `read` shows it.
_UNSHOWN = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor moves
    r"|[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # titles, links, device strings
    r"|[ -/]*[0-~])"  # the short ones
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?=\n)"
)

# The loop of the shell: it is told to run a command and answers on 3, commands print on 4.
# One line, so that a shell's messages count the lines of the command and not those of the loop.
# After each command, and when it ends, it keeps its working directory, its functions and its
# exported variables in its folder; a shell that is started there takes them up.
_LOOP = (
    "__outrider_keep() {{"
    " builtin printf '%s/' \"$PWD\" >| {folder}/cwd;"
    " {{ builtin export -p; builtin declare -f; }} >| {folder}/state; }};"
    " if [ -f {folder}/state ]; then . {folder}/state; fi;"
    ' if [ -f {folder}/cwd ]; then cd -- "$(< {folder}/cwd)"; fi;'
    " trap __outrider_keep EXIT;"
    " builtin printf '  %s\\0' \"$PWD\" >&3;"
    " while IFS= builtin read -r __outrider_line <&3; do"
    ' builtin eval "$(< {folder}/command)" </dev/null >&4 2>&1 3<&- 4>&-;'
    " __outrider_status=$?; __outrider_keep;"
    ' builtin printf \'%s %s %s\\0\' "$__outrider_line" "$__outrider_status" "$PWD" >&3;'
    " done"
)


class ShellSession:
    """One shell, one command at a time."""

    def __init__(
        self, cwd: Path, environment: Mapping[str, str], place: Path | None = None
    ) -> None:
        """Start a shell in `cwd`, with a folder of its own in `place` or the temporary folder."""
        kept = {name: value for name, value in environment.items() if name not in _UNWANTED}
        found = (shutil.which("bash", path=path) for path in (kept.get("PATH"), os.defpath))
        if (program := next(filter(None, found), None)) is None:
            raise ToolFault(ToolCode.NOT_AVAILABLE, "bash is not installed, or not on PATH")
        folder = tempfile.mkdtemp(prefix="outrider-shell-", dir=place)
        loop = _LOOP.format(folder=shlex.quote(folder))
        command = [program, "--norc", "--noprofile", "-c", loop, "bash"]
        self._link = KeeperLink(command, folder, cwd, {**kept, **_QUIET})
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
        except (FileNotFoundError, ConnectionError):  # `rm -rf /tmp/*`, `kill -9 $PPID`
            message = "the shell or its folder is gone; the next command starts a new one"
            raise ToolFault(ToolCode.UPSTREAM_FAILED, message) from None
        for _ in range(_MAX_PIPE_BYTES // _CHUNK_BYTES):  # what the command left in the pipe
            if not self._read(output):
                break
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

    def _read(self, output: "OutputBuffer") -> bool:
        try:
            chunk = os.read(self._link.output, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        output.add(chunk)
        return bool(chunk)


class OutputBuffer:
    """The first and the last megabytes of what a command prints, without the middle of a flood."""

    def __init__(self) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """Take what was printed next."""
        room = MAX_HEAD_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        extra = max(0, len(self._tail) - MAX_TAIL_BYTES)
        del self._tail[:extra]
        self._dropped += extra

    def text(self) -> str:
        """Return all that was kept, as plain text that says what was dropped."""
        parts = [self._head, self._tail] if self._dropped else [self._head + self._tail]
        texts = (_UNSHOWN.sub("", part.decode(errors="replace")) for part in parts)
        return f"\n[{self._dropped:,} bytes of output were not kept]\n".join(texts)
