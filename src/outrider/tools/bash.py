"""`bash`: commands in a persistent shell, whose end ends everything it started.

What a command prints can't be taken for an answer of the shell: they come through separate pipes.
"""

import asyncio
import errno
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from outrider.processes.cell_start import NO_CELL, Cells
from outrider.processes.keeper import RUN, STOP
from outrider.processes.keeper_link import CommandResult, KeeperLink
from outrider.protocol.text import SEQUENCE
from outrider.tools import Arguments, Formatter, ToolCode, ToolContext, ToolFault, tool

MAX_TIMEOUT_MS = 3_600_000
MAX_COMMAND_CHARACTERS = 4_000_000
MAX_SHOWN_PROCESSES = 10
MAX_ANSWER_SECONDS = 30.0  # how long the keeper and a new shell may take for what they do at once
MAX_HEAD_BYTES = MAX_TAIL_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 65_536
_MAX_PIPE_BYTES = 1 << 20
_QUIET = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
_UNWANTED = {"BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS"}
# What has no width is left: a command may be run to see what is in a file, as `read` shows it.
_UNSHOWN = re.compile(rf"{SEQUENCE}|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?=\n)")
# What writing to the folder of the shell comes to where a command has put something else there.
_SPOILED = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)

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


class OutputBuffer:
    """The first and the last megabytes of what a command prints, without the middle of a flood."""

    def __init__(self) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
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


class ShellSession:
    """One shell, one command at a time."""

    def __init__(self, context: ToolContext) -> None:
        """Start a shell in the working tree, without the secrets of the environment."""
        given = context.environment
        kept = {name: given[name] for name in given if name not in _UNWANTED}
        found = (shutil.which("bash", path=path) for path in (kept.get("PATH"), os.defpath))
        if (program := next(filter(None, found), None)) is None:
            raise ToolFault(ToolCode.NOT_AVAILABLE, "bash is not installed, or not on PATH")
        folder = tempfile.mkdtemp(prefix="outrider-shell-", dir=context.spill_folder())
        loop = _LOOP.format(folder=shlex.quote(folder))
        command = [program, "--norc", "--noprofile", "-c", loop, "bash"]
        self._cells = context.cells
        cell = self._cells.for_commands(folder) if self._cells else NO_CELL
        self._link = KeeperLink(command, folder, context.cwd, {**kept, **_QUIET}, cell)
        self._folder = folder
        self._is_new = True
        self._is_idle = True

    @property
    def alive(self) -> bool:
        return self._is_idle and self._link.alive

    async def run(self, command: str, timeout_ms: int) -> CommandResult:
        """Return the result of a command; one that is cancelled takes the shell with it."""
        output = OutputBuffer()
        self._is_idle = False
        try:
            if self._is_new:  # the keeper answers the start too
                async with asyncio.timeout(MAX_ANSWER_SECONDS):
                    started = await self._link.answer()
                if self._cells:
                    self._cells.tell(started.lacks)
            self._is_new = False
            self._put_command(command.encode())
            result = await self._result(output, timeout_ms / 1000)
        except (*_SPOILED, ConnectionError):  # `rm -rf /tmp/*`, `kill -9 $PPID`
            message = "the shell or its folder is gone; the next command starts a new one"
            raise ToolFault(ToolCode.UPSTREAM_FAILED, message) from None
        for _ in range(_MAX_PIPE_BYTES // _CHUNK_BYTES):  # what the command left in the pipe
            if not self._read(output):
                break
        self._is_idle = True
        return replace(result, output=output.text())

    def _put_command(self, command: bytes) -> None:
        """Write a command for the shell, through no link that an earlier one has put there."""
        folder = os.open(self._folder, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with suppress(FileNotFoundError):
                os.unlink("command", dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            file = os.open("command", flags, 0o600, dir_fd=folder)
        finally:
            os.close(folder)
        with open(file, "wb") as opened:
            opened.write(command)

    async def aclose(self) -> None:
        self._is_idle = False
        await self._link.aclose()

    async def _result(self, output: OutputBuffer, seconds: float) -> CommandResult:
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

    def _read(self, output: OutputBuffer) -> bool:
        try:
            chunk = os.read(self._link.output, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        output.add(chunk)
        return bool(chunk)


async def _open_shell(context: ToolContext) -> ShellSession:
    return ShellSession(context)


def _format_long(data: Any, arguments: Arguments) -> str:
    ended = [] if data["exitCode"] is None else [f"exit code {data['exitCode']}"]
    notes = [f"[{note}]" for note in (*ended, *data["notes"])]
    return "\n".join(filter(None, (data["output"].rstrip("\n"), *notes)))


def _format_short(data: Any, arguments: Arguments) -> str:
    lines = len(data["output"].splitlines())
    command = " ".join(arguments["command"].split())[:100]
    return f"$ {command} → exit {data['exitCode']}, {lines} lines"


_FORMAT = Formatter(_format_long, _format_short)


@tool("shell:bash", name="bash", format=_FORMAT, session=_open_shell, keep="ends")
async def bash(
    context: ToolContext,
    session: ShellSession,
    command: Annotated[str, {"minLength": 1, "maxLength": MAX_COMMAND_CHARACTERS}],
    timeout_ms: Annotated[int, {"minimum": 1, "maximum": MAX_TIMEOUT_MS}] = 120_000,
) -> dict[str, Any]:
    """Run a shell command. Directory, variables and functions stay for the next command. There
    is no input. Send the output of a background process (`… > log &`) to a file; it ends with
    the task.

    Args:
        command: The command, of any number of lines.
        timeout_ms: When to end it.
    """
    if "\0" in command:
        raise ToolFault(ToolCode.BAD_PARAMETER, "command: a shell can't take a NUL character")
    try:
        result = await session.run(command, timeout_ms)
    except ToolFault:
        context.effects.command(command, None)
        raise
    context.effects.command(command, result.exit_code)
    background = [{"pid": pid, "command": line} for pid, line in result.background]
    data = {"output": result.output, "exitCode": result.exit_code, "cwd": result.cwd}
    data |= {"background": background[:MAX_SHOWN_PROCESSES], "notes": _notes(result, context.cells)}
    if result.exit_code is None:
        ended = f"The command took longer than {timeout_ms} ms and was ended with all it started."
        advice = "Give a larger timeoutMs, or run it in the background with its output in a file."
        raise ToolFault(ToolCode.TIMEOUT, f"{ended} {advice}", data)
    return data


def _notes(result: CommandResult, cells: Cells | None) -> list[str]:
    kept = f"in {result.cwd}, with its exported variables"
    notes = [f"the shell ended and was restarted {kept}"] if result.restarted else []
    if shown := [f"{pid} {line}" for pid, line in result.background[:MAX_SHOWN_PROCESSES]]:
        more = len(result.background) - len(shown)
        rest = f", and {more} more" if more else ""
        notes.append(f"in the background: {', '.join(shown)}{rest}")
    if cells and result.exit_code != 0:
        notes += _walls_met(result, cells)
    return notes


def _walls_met(result: CommandResult, cells: Cells) -> Iterator[str]:
    """Yield which of its walls a failed command ran into: its own fault looks the same."""
    if result.tried_network:
        yield "it tried to reach the network, which commands here don't have; only loopback works"
    if os.strerror(errno.EROFS).lower() in result.output.lower():
        yield f"it tried to write outside of {', '.join(cells.writable)}: all else is read-only"
