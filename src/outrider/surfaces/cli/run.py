"""`outrider run`: one delegation, with the answer alone on stdout."""

import asyncio
import os
import signal
import sys
from argparse import Namespace
from contextlib import closing
from functools import partial

from outrider.agents.definitions import AgentDefinition
from outrider.delegation.perform import Caller, perform
from outrider.delegation.preparation import Prepared
from outrider.delegation.project import open_project
from outrider.delegation.request import Request
from outrider.protocol import jsonl
from outrider.protocol.exit_codes import result_exit_code
from outrider.protocol.results import Details, ToolResult, text_result
from outrider.protocol.text import most_alike
from outrider.surfaces.cli.run_options import BACKGROUND, OPTIONS, WRITING, option_flags
from outrider.surfaces.cli.task_input import schema_from, whole_task
from outrider.surfaces.parser import argument, bad_call, flag
from outrider.surfaces.terminal import output
from outrider.surfaces.terminal.progress import View, summary
from outrider.surfaces.text import clean_line

EXAMPLES = """\
examples:
  git diff | outrider run reviewer "Review this diff" --timeout 5m
Exit codes: 0 completed, 1 failed, 2 refused, 124 timed out, 130 cancelled.
"""
DEFAULT_AGENT = "explorer"
ARGUMENTS = (
    argument("agent", metavar="AGENT", nargs="?", help=f"the agent (default: {DEFAULT_AGENT})"),
    argument("task", metavar="TASK", help="what to do; - reads it from stdin"),
    argument("--file", metavar="FILE", action="append", default=[], help="add a file; repeatable"),
    argument("--schema", metavar="FILE", help="JSON Schema for the answer: a file or inline JSON"),
    *WRITING,
    flag("--updates", "with --json: also print progress"),
    *BACKGROUND,
    *OPTIONS,
)


def execute(arguments: Namespace) -> int:
    """Delegate, and print the result."""
    if arguments.updates and (arguments.bg or not arguments.json):
        raise bad_call("--updates needs --json, and a run in the foreground", "run")
    schema = None if arguments.schema is None else schema_from(arguments.schema)
    if arguments.agent is None:
        _check_is_task(arguments.task, arguments.cwd)
    agent = DEFAULT_AGENT if arguments.agent is None else arguments.agent
    task = whole_task(arguments.task, arguments.file)
    request = Request(agent, task, schema, arguments.model, arguments.cwd, check=arguments.check)
    return delegate_to(request, arguments)


def delegate_to(request: Request, arguments: Namespace) -> int:
    """Delegate as the options of a command say, print the result, and return the exit code."""
    flags = option_flags(arguments) | ({"subagents.allowWrite": True} if arguments.write else {})
    if arguments.notify is not None and not arguments.bg:
        raise bad_call("--notify needs --bg", "run")
    if arguments.bg:
        return _leave(request, flags, arguments)
    with closing(View()) as view:
        result = asyncio.run(_perform(request, flags, view, arguments))
    return print_ended(result, as_json=arguments.json)


def print_ended(result: ToolResult, *, as_json: bool) -> int:
    """Print the result with what the run took and changed, and return the exit code."""
    code = print_result(result, as_json=as_json)
    if (run := result.result) is not None:
        run_id = result.details.run_id or ""
        for line in (*summary(run, run_id), *([run.changes.words(run_id)] if run.changes else ())):
            output.say(line)
    return code


def _leave(request: Request, flags: dict[str, object], arguments: Namespace) -> int:
    """Start a run that goes on by itself, and print its id."""
    from outrider.delegation.background import start_background

    caller = Caller(os.environ, flags, confirm=_confirm if _can_ask() else None)
    run_id = asyncio.run(start_background(request, caller, arguments.notify))
    if arguments.json:
        output.write_json(text_result(run_id, Details(run_id=run_id)).to_dict())
    else:
        output.write_text(run_id)
    output.flush()
    output.say(f"'outrider watch {run_id}' follows it, 'outrider wait {run_id}' gets its answer.")
    return 0


def _check_is_task(word: str, cwd: str | None) -> None:
    """Refuse a single argument that is an agent's name, or nearly one: its task is missing."""
    if len(word.split()) == 1 and word != "-":
        word = word.strip()
        if near := most_alike(word.lower(), open_project(cwd).discovery.agents):
            raise bad_call(f"run needs TASK: {word!r} looks like the agent {near[0]}", "run")


async def _perform(
    request: Request, flags: dict[str, object], view: View, arguments: Namespace
) -> ToolResult:
    cancelled, caught = asyncio.Event(), stop_signals()

    def stop() -> None:
        if not cancelled.is_set():
            cancelled.set()
            view.say("stopping …")

    def on_update(so_far: ToolResult) -> None:
        try:
            output.write_json_text(jsonl.encode(so_far.to_dict()).decode())
        except output.OutputLost:  # whoever wanted the result is gone
            stop()
            raise

    def on_start(prepared: Prepared, run_id: str) -> None:
        # From now on a signal has to end the child first. Until now Python's own handling was
        # right: while a person is asked for a confirmation, nothing would look at an event.
        for number in caught:
            asyncio.get_running_loop().add_signal_handler(number, stop)
        output.watch_reader(stop)
        if "agent" in arguments and arguments.agent is None:
            output.say(f"no agent given, so {request.agent} takes the task.")
        view.show_start(prepared, run_id)

    caller = Caller(
        env=os.environ,
        flags=flags,
        confirm=_confirm if _can_ask() else None,
        on_event=partial(view.watch, ""),
        on_update=on_update if "updates" in arguments and arguments.updates else None,
        on_start=on_start,
        cancelled=cancelled,
        one_shot=True,
    )
    if signal.SIGINT in caught:  # with asyncio's, the first Ctrl-C wouldn't end a wait for input
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return await perform(request, caller)


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


async def _confirm(_agent: AgentDefinition, reason: str) -> bool:
    """Ask whether an agent may run, and return whether the answer is yes."""
    print(f"{clean_line(reason)}. Run it? [y/N] ", end="", file=sys.stderr, flush=True)
    said = sys.stdin.readline()
    if not said.endswith("\n"):
        output.end_line()
    return said.strip().lower() in ("y", "yes")


def stop_signals() -> list[signal.Signals]:
    """Return the signals that end a command, without those that are ignored as under nohup."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [one for one in numbers if signal.getsignal(one) is not signal.SIG_IGN]


def print_result(result: ToolResult, *, as_json: bool) -> int:
    """Print the result, and return the exit code."""
    run = result.result
    if as_json:
        output.write_json(result.to_dict())
    elif run is None:
        output.say(result.text)
    elif run.has_structured_output:
        output.write_text(run.output)
    elif run.output.strip():
        output.write_answer(run.output)
    output.flush()
    return result_exit_code(result)
