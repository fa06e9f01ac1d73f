"""`bash`: commands in a shell that stays."""

from typing import Annotated, Any

from outrider.protocol.envelope import (
    Envelope,
    ToolCode,
    build_error_response,
    build_success_response,
)
from outrider.tools.context import ToolContext
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool
from outrider.tools.shell_session import ShellEnded, ShellResult, ShellSession

MAX_TIMEOUT_MS = 3_600_000
MAX_COMMAND_CHARACTERS = 4_000_000


async def open_shell(context: ToolContext) -> ShellSession:
    """Return a shell in the working tree, without the secrets of the environment."""
    return ShellSession(context.cwd, context.environment)


def format_long(data: Any, arguments: Arguments) -> str:
    """Return the output, then what there is to know about its end."""
    notes: list[str] = list(data["notes"])
    if data["exitCode"] is not None:
        notes.insert(0, f"exit code {data['exitCode']}")
    output = data["output"].rstrip("\n")
    return "\n".join([*([output] if output else []), *(f"[{note}]" for note in notes)])


def format_short(data: Any, arguments: Arguments) -> str:
    """Return the command and its exit code."""
    lines = len(data["output"].splitlines())
    return (
        f"$ {' '.join(arguments['command'].split())[:100]} → exit {data['exitCode']}, {lines} lines"
    )


@tool(
    "shell:bash",
    name="bash",
    writes=True,
    format=Formatter(format_long, format_short),
    session=open_shell,
    keep="ends",
)
async def bash(
    context: ToolContext,
    session: ShellSession,
    command: Annotated[str, {"minLength": 1, "maxLength": MAX_COMMAND_CHARACTERS}],
    timeout_ms: Annotated[int, {"minimum": 1, "maximum": MAX_TIMEOUT_MS}] = 120_000,
) -> Envelope:
    """Run a shell command. Directory, variables and functions stay for the next command. There
    is no input. Send the output of a background process (`… > log &`) to a file; it ends with
    the task.

    Args:
        command: The command, of any number of lines.
        timeout_ms: When to end it.
    """
    if "\0" in command:
        return build_error_response(
            ToolCode.BAD_PARAMETER, "command: it holds a NUL character, which no shell can take"
        )
    try:
        result = await session.run(command, timeout_ms)
    except ShellEnded as fault:
        context.effects.command(command, None)
        return build_error_response(
            ToolCode.UPSTREAM_FAILED, f"{fault}; the next command starts a new one in {context.cwd}"
        )
    context.effects.command(command, result.exit_code)
    if result.exit_code is None:
        return build_error_response(ToolCode.TIMEOUT, _timeout_text(timeout_ms), _data(result))
    return build_success_response(_data(result))


def _data(result: ShellResult) -> dict[str, Any]:
    return {
        "output": result.output,
        "exitCode": result.exit_code,
        "cwd": result.cwd,
        "background": [{"pid": one.pid, "command": one.command} for one in result.background],
        "notes": _notes(result),
    }


def _notes(result: ShellResult) -> list[str]:
    notes: list[str] = []
    if result.restarted:
        notes.append(
            f"the shell ended and was started anew in {result.cwd}, with its exported variables"
        )
    if result.background:
        shown = ", ".join(f"{one.pid} {one.command}" for one in result.background[:10])
        more = result.background_count - min(len(result.background), 10)
        notes.append(f"in the background: {shown}{f', and {more} more' if more else ''}")
    return notes


def _timeout_text(timeout_ms: int) -> str:
    return (
        f"The command took longer than {timeout_ms} ms; it and what it started were ended. "
        "Give a larger timeoutMs, or run it in the background with its output in a file."
    )
