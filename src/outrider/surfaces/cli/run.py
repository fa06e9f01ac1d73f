"""`outrider run`: one delegation, with the answer alone on stdout."""

import asyncio
import json
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from outrider.delegation.perform import Caller, perform
from outrider.delegation.preparation import Prepared
from outrider.delegation.request import MAX_TASK_BYTES, Request, invalid
from outrider.protocol.errors import ErrorCode
from outrider.protocol.outcomes import EXIT_FAILED, EXIT_REFUSED
from outrider.protocol.results import ToolResult
from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser
from outrider.surfaces.cli.text import one_line
from outrider.surfaces.cli.views import QuietView, View, summary, without_tools

EXAMPLES = """\
examples:
  outrider run explorer "Where is the idle timeout enforced?"
  git diff | outrider run reviewer -
  outrider run tester "Which tests are slow?" --model openai-chat:gpt-6.1-terra
  outrider run explorer "List the error codes" --json --schema codes.schema.json
  outrider run explorer "…" --set subagents.timeoutMs=60000

The exit code says how it ended: 0 completed, 2 refused before a child was started,
124 timed out, 130 cancelled, 128+n killed by signal n, 1 any other failure.
"""

SCHEMA_BYTES = 1 << 20
STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REFUSALS = (
    ErrorCode.INVALID_INPUT,
    ErrorCode.SUBAGENTS_DISABLED,
    ErrorCode.UNKNOWN_AGENT,
    ErrorCode.SUBAGENT_DISABLED,
    ErrorCode.SUBAGENT_DEPTH_EXCEEDED,
)


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `run`."""
    parser.add_argument("agent", metavar="AGENT", help="who does it; 'outrider agents' lists them")
    parser.add_argument("task", metavar="TASK", help="what to do; - reads it from stdin")
    parser.add_argument("--model", metavar="NAME", help="the model, as provider:name or embedded")
    parser.add_cwd()
    parser.add_argument(
        "--schema", metavar="FILE", help="a JSON Schema for the answer: a file, or the JSON itself"
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="any setting, for this run; 'outrider config' lists them; can be repeated",
    )
    parser.add_argument(
        "--no-warm", action="store_true", help="start cold, and leave no warm process behind"
    )


def execute(arguments: Namespace) -> int:
    """Delegate, and print what came of it."""
    flags = read_flags(arguments.set)
    if arguments.no_warm:
        flags["warm.keepMinutes"] = 0
    schema = None if arguments.schema is None else read_schema(arguments.schema)
    request = Request(
        agent=arguments.agent,
        task=_task_on_stdin() if arguments.task == "-" else arguments.task,
        output_schema=schema,
        model=arguments.model,
        cwd=None if arguments.cwd is None else Path(arguments.cwd),
    )
    with _view() as view:
        result = asyncio.run(_perform(request, flags, view))
    return _tell(result, as_json=arguments.json)


def read_flags(settings: Sequence[str]) -> dict[str, object]:
    """Return the settings of `--set`, by key."""
    flags: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise invalid(f"--set {setting!r} can't be read: write it as --set KEY=VALUE.")
        flags[key.strip()] = value.strip()
    return flags


def read_schema(given: str) -> Any:
    """Return the JSON Schema that is given as JSON, or as the path of a file that holds it."""
    inline = given.strip()
    if inline.startswith("{") or inline in ("true", "false"):
        return _parsed_schema(inline.encode(errors="replace"), "--schema")
    try:
        with open(given, "rb") as file:
            raw = file.read(SCHEMA_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise invalid(f"--schema {given!r} is neither JSON nor a file: {reason}.") from None
    if len(raw) > SCHEMA_BYTES:
        raise invalid(f"--schema {given!r} is larger than {SCHEMA_BYTES:,} bytes.")
    return _parsed_schema(raw, f"--schema {given!r}")


def _parsed_schema(raw: bytes, label: str) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise invalid(f"{label} isn't JSON: {error}.") from None


def _task_on_stdin() -> str:
    if output.is_terminal(sys.stdin):
        output.say("type the task, then press Ctrl-D.")
    try:
        raw = sys.stdin.buffer.read(MAX_TASK_BYTES + 1)
    except OSError as error:
        raise invalid(f"The task can't be read from stdin: {error.strerror}.") from None
    if len(raw) > MAX_TASK_BYTES:
        raise invalid(
            f"The task on stdin is longer than {MAX_TASK_BYTES:,} bytes. "
            "Put the bulk into a file and name the file in the task."
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"The task on stdin isn't UTF-8: byte {error.start + 1} is no character."
        raise invalid(message) from None


def _view() -> View:
    if output.is_plain(sys.stderr) or "utf" not in sys.stderr.encoding.lower():
        return QuietView()
    from outrider.surfaces.cli.live import LiveView

    return LiveView()


async def _perform(request: Request, flags: dict[str, object], view: View) -> ToolResult:
    cancelled = asyncio.Event()

    def stop() -> None:
        if not cancelled.is_set():
            view.stopping()
        cancelled.set()

    def started(prepared: Prepared, run_id: str) -> None:
        # From here on there is a child to end in good order. Before, Python's own way is right:
        # nothing would look at an event while a person is asked for a confirmation.
        _on_signals(stop)
        for warning in (*prepared.warnings, *without_tools(prepared)):
            output.say(f"warning: {warning}.")
        view.started(prepared, run_id)

    caller = Caller(
        env=os.environ,
        flags=flags,
        confirm=_confirm if _can_ask() else None,
        on_update=view.updated,
        on_start=started,
        cancelled=cancelled,
        one_shot=True,
    )
    _interrupt_at_once()
    return await perform(request, caller)


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in STOPPING_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            loop.add_signal_handler(number, stop)


def _interrupt_at_once() -> None:
    """Undo asyncio's handler, under which a first Ctrl-C wouldn't end a wait for input."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _can_ask() -> bool:
    return output.is_terminal(sys.stdin) and output.is_terminal(sys.stderr)


def _confirm(reason: str) -> bool:
    print(f"{one_line(reason)}. Let it run? [y/N] ", end="", file=sys.stderr, flush=True)
    said = sys.stdin.readline()
    if not said.endswith("\n"):
        output.end_line()
    return said.strip().lower() in ("y", "yes")


def _tell(result: ToolResult, *, as_json: bool) -> int:
    single, error = result.result, result.details.error
    if as_json:
        output.write_json(result.to_dict())
    elif single is not None and single.output.strip():
        output.write_text(single.output)
        output.flush()
    if single is not None:
        for line in summary(single, result.details.run_id or ""):
            output.say(line)
        return single.exit_code
    if error is None or not as_json:
        output.say(error.message if error else result.text)
    return EXIT_REFUSED if error and error.code in REFUSALS else EXIT_FAILED
