"""`outrider run`: one delegation, with the answer alone on stdout."""

import asyncio
import json
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from functools import cache
from typing import Any

from outrider.delegation.perform import Caller, perform
from outrider.delegation.preparation import Prepared
from outrider.delegation.request import MAX_TASK_BYTES, Request, invalid
from outrider.processes.hiding import hide_environment
from outrider.protocol.catalogue import run_commands
from outrider.protocol.errors import ErrorCode
from outrider.protocol.outcomes import EXIT_FAILED, EXIT_REFUSED
from outrider.protocol.results import ToolResult
from outrider.surfaces.cli import output
from outrider.surfaces.cli.options import add_options, option_flags
from outrider.surfaces.cli.views import UpdatesView, View, summary
from outrider.surfaces.parser import CommandParser, bad_call
from outrider.surfaces.text import one_line

EXAMPLES = """\
examples:
  outrider run explorer "Where is the idle timeout enforced?"
  git diff | outrider run reviewer -
  outrider run tester "Which tests are slow?" --model openai-chat:gpt-6.1-terra
  outrider run explorer "List the error codes" --json --schema codes.schema.json
  outrider run explorer "…" --set subagents.timeoutMs=60000

The exit code says how it ended: 0 completed, 2 refused before a child was
started, 124 timed out, 130 cancelled, 128+n killed by signal n, 1 any other
failure.
"""

MAX_SCHEMA_BYTES = 1 << 20
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `run`."""
    add = parser.add_argument
    add("agent", metavar="AGENT", help="who does it; 'outrider agents' lists them")
    add("task", metavar="TASK", help="what to do; - reads it from stdin")
    updates = "before the result, print how far it is: JSON, one line each; needs --json"
    add("--updates", action="store_true", help=updates)
    add("--schema", metavar="FILE", help="a JSON Schema for the answer: a file, or the JSON itself")
    add_options(parser)


def execute(arguments: Namespace) -> int:
    """Delegate, and print the result."""
    flags = option_flags(arguments)
    schema = None if arguments.schema is None else _schema(arguments.schema)
    task = task_on_stdin() if arguments.task == "-" else arguments.task
    request = Request(arguments.agent, task, schema, arguments.model, arguments.cwd)
    if arguments.updates and not arguments.json:
        raise bad_call("--updates needs --json", "run")
    with closing(UpdatesView() if arguments.updates else _view()) as view:
        result = asyncio.run(_perform(request, flags, view))
    code = told(result, as_json=arguments.json)
    if result.result is not None:
        for line in summary(result.result, result.details.run_id or ""):
            output.say(line)
    return code


def _schema(given: str) -> Any:
    """Return the JSON Schema that is given as JSON, or as the path of a file that holds it."""
    inline = given.strip()
    if inline.startswith("{") or inline in ("true", "false"):
        return _parsed(inline.encode(errors="replace"), "--schema")
    try:
        with open(given, "rb") as file:
            raw = file.read(MAX_SCHEMA_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise invalid(f"--schema {given!r} is neither JSON nor a file: {reason}.") from None
    if len(raw) > MAX_SCHEMA_BYTES:
        raise invalid(f"--schema {given!r} is larger than {MAX_SCHEMA_BYTES:,} bytes.")
    return _parsed(raw, f"--schema {given!r}")


def _parsed(raw: bytes, label: str) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise invalid(f"{label} isn't JSON: {error}.") from None


def task_on_stdin() -> str:
    """Return the task that a person types or a program pipes; raises `Refusal`."""
    if sys.stdin.isatty():
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
        raise invalid(f"The task on stdin isn't UTF-8: see byte {error.start + 1}.") from None


def _view() -> View:
    if output.is_plain(sys.stderr) or "utf" not in sys.stderr.encoding.lower():
        return View()
    from outrider.surfaces.cli.live import LiveView

    return LiveView()


async def _perform(request: Request, flags: dict[str, object], view: View) -> ToolResult:
    cancelled = asyncio.Event()

    def stop() -> None:
        if not cancelled.is_set():
            view.stopping()
        cancelled.set()

    def updated(partial: ToolResult) -> None:
        try:
            view.updated(partial)
        except output.OutputLost:  # whoever wanted the result is gone
            stop()
            raise

    def started(prepared: Prepared, run_id: str) -> None:
        # From now on a signal has to end the child first. Until now Python's own handling was
        # right: while a person is asked for a confirmation, nothing would look at an event.
        _on_signals(stop)
        hide_secrets(prepared)
        view.started(prepared, run_id)

    can_ask = sys.stdin.isatty() and sys.stderr.isatty()
    caller = Caller(
        env=os.environ,
        flags=flags,
        confirm=_confirm if can_ask else None,
        on_update=updated,
        on_start=started,
        cancelled=cancelled,
        one_shot=True,
    )
    _interrupt_at_once()
    return await perform(request, caller)


def hide_secrets(prepared: Prepared) -> None:
    """Keep our secrets from the commands of a child that runs any."""
    if run_commands(prepared.permit.tools):
        _hide(frozenset(os.environ.keys() - prepared.project.plain_env.keys()))


@cache
def _hide(names: frozenset[str]) -> None:
    """Hide these variables once: the second time there would be nothing to copy them from."""
    hide_environment(names)


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            loop.add_signal_handler(number, stop)


def _interrupt_at_once() -> None:
    """Undo asyncio's handler: with it, the first Ctrl-C wouldn't end a wait for input."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _confirm(reason: str) -> bool:
    print(f"{one_line(reason)}. Let it run? [y/N] ", end="", file=sys.stderr, flush=True)
    said = sys.stdin.readline()
    if not said.endswith("\n"):
        output.end_line()
    return said.strip().lower() in ("y", "yes")


def told(result: ToolResult, *, as_json: bool) -> int:
    """Print the result, and return the exit code."""
    run = result.result
    if as_json:
        output.write_json(result.to_dict())
    elif run is None:
        output.say(result.text)
    elif run.output.strip():
        output.write_text(run.output)
        output.flush()
    if run is None:
        # No child was started: by a refusal, or because its run can't be recorded.
        error = result.details.error
        failed = error is None or error.code is ErrorCode.SUBAGENT_FAILED
        return EXIT_FAILED if failed else EXIT_REFUSED
    return run.exit_code
