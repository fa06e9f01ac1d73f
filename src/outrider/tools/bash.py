"""`bash`: commands in a persistent shell."""

from typing import Annotated, Any

from outrider.processes.keeper_link import CommandResult
from outrider.tools import Arguments, Formatter, ToolCode, ToolContext, ToolFault, tool
from outrider.tools.shell_session import ShellSession

MAX_TIMEOUT_MS = 3_600_000
MAX_COMMAND_CHARACTERS = 4_000_000
MAX_SHOWN_PROCESSES = 10


async def _open_shell(context: ToolContext) -> ShellSession:
    # In the working tree, without the secrets of the environment.
    return ShellSession(context.cwd, context.environment, context.spill_folder())


def _format_long(data: Any, arguments: Arguments) -> str:
    ended = [] if data["exitCode"] is None else [f"exit code {data['exitCode']}"]
    notes = [f"[{note}]" for note in (*ended, *data["notes"])]
    return "\n".join(filter(None, (data["output"].rstrip("\n"), *notes)))


def _format_short(data: Any, arguments: Arguments) -> str:
    lines = len(data["output"].splitlines())
    command = " ".join(arguments["command"].split())[:100]
    return f"$ {command} → exit {data['exitCode']}, {lines} lines"


@tool(
    "shell:bash",
    name="bash",
    writes=True,
    format=Formatter(_format_long, _format_short),
    session=_open_shell,
    keep="ends",
)
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
        message = "command: it contains a NUL character, which a shell can't take"
        raise ToolFault(ToolCode.BAD_PARAMETER, message)
    try:
        result = await session.run(command, timeout_ms)
    except ToolFault:
        context.effects.command(command, None)
        raise
    context.effects.command(command, result.exit_code)
    background = [{"pid": pid, "command": line} for pid, line in result.background]
    data = {"output": result.output, "exitCode": result.exit_code, "cwd": result.cwd}
    data |= {"background": background[:MAX_SHOWN_PROCESSES], "notes": _notes(result)}
    if result.exit_code is None:
        ended = f"The command took longer than {timeout_ms} ms; it and what it started were ended"
        advice = "Give a larger timeoutMs, or run it in the background with its output in a file."
        raise ToolFault(ToolCode.TIMEOUT, f"{ended}. {advice}", data)
    return data


def _notes(result: CommandResult) -> list[str]:
    kept = f"in {result.cwd}, with its exported variables"
    notes = [f"the shell ended and was started anew {kept}"] if result.restarted else []
    if shown := [f"{pid} {line}" for pid, line in result.background[:MAX_SHOWN_PROCESSES]]:
        more = len(result.background) - len(shown)
        rest = f", and {more} more" if more else ""
        notes.append(f"in the background: {', '.join(shown)}{rest}")
    return notes
