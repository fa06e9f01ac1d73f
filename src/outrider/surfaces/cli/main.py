"""The command as a whole: it finds the command asked for, and ends every failure in one line."""

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import takewhile
from typing import Any

from outrider.protocol import exit_codes
from outrider.protocol.errors import Refusal
from outrider.protocol.results import refused
from outrider.protocol.text import as_sentence, most_alike
from outrider.surfaces.parser import CommandParser, bad_call
from outrider.surfaces.reports import REPORTS, parser_for, report
from outrider.surfaces.terminal import output

_OWN = {
    "run": "Delegate a task to an agent and print its answer.",
    "map": "Run an agent on many items, and go on after an interruption.",
    "resume": "Go on with a run that has ended.",
    "ask": "Ask the main agent one question; it delegates larger jobs.",
    "chat": "Chat with the main agent in this terminal.",
    "watch": "Follow runs as they work, whoever started them.",
    "tell": "Tell a running child something.",
    "wait": "Wait for runs to end and print their answers.",
    "stop": "Stop runs, whoever started them.",
    "show": "Print a run's output or its transcript.",
    "view": "Look at runs in the browser, or export one as a page.",
    "diff": "Show what a writer's run changed, before it lands or after.",
    "land": "Put what a run changed into your files, all or nothing.",
    "undo": "Take what a run has landed out of your files again.",
    "discard": "Remove what a run changed and hasn't landed.",
    "find": "Find the code that a question is about, best match first.",
    "web": "Search the web or fetch pages, as agents do.",
    "lsp": "Ask language servers about code, or list them.",
    "pi": "Add Outrider to pi, or remove it.",
    "mcp": "Serve subagents over MCP, or register with a host.",
    "warm": "Show or stop the background process that makes runs start fast.",
    "completion": "Print a completion script for bash, zsh or fish.",
}
_ALL = {**REPORTS, **_OWN}
_GROUPS = {
    "Delegate": ("run", "map", "resume", "ask", "chat"),
    "Runs that go on": ("watch", "tell", "wait", "stop"),
    "Review": ("diff", "land", "undo", "discard"),
    "Look back": ("runs", "show", "view", "logs", "activity"),
    "Look around": ("find", "agents", "models", "lsp", "web"),
}
GROUPS = {title: {name: _ALL.pop(name) for name in names} for title, names in _GROUPS.items()}
GROUPS["Set up"] = _ALL
COMMANDS = {name: said for group in GROUPS.values() for name, said in group.items()}

OVERVIEW = """\
usage: outrider COMMAND …

Delegate one task to a child agent, and get back a result you can trust.

{commands}

examples:
  outrider run "Where is the idle timeout enforced?"
  git diff | outrider run reviewer "Review this diff"

Run 'outrider help COMMAND' for details, 'outrider --version' for the version.
"""


def run_command(arguments: Sequence[str]) -> int:
    """Return the exit code of the command with these arguments; it never raises."""
    output.open_streams()
    try:
        # So far Ctrl-C ended the process at once and without a word: see `outrider.__main__`.
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            code = _dispatch(arguments)
        except Refusal as refusal:
            if "--json" in takewhile(lambda argument: argument != "--", arguments):
                output.write_json(refused(refusal).to_dict())
            else:
                output.say(refusal.message)
            code = exit_codes.EXIT_REFUSED
        output.flush()
        if code == exit_codes.EXIT_CANCELLED and output.reader_has_gone():
            code = exit_codes.EXIT_READER_GONE
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        output.end_line()
        code = exit_codes.EXIT_CANCELLED
    except output.OutputLost as lost:
        if isinstance(lost.__cause__, BrokenPipeError):
            return exit_codes.EXIT_READER_GONE
        output.say(f"can't write to stdout: {lost}.")
        code = exit_codes.EXIT_FAILED
    except Exception as error:
        code = _report_bug(error)
    return code


def _dispatch(arguments: Sequence[str]) -> int:
    if sys.platform == "win32":
        raise bad_call("Windows isn't supported; use Linux, macOS, or Linux in WSL")
    if not arguments:
        _dispatch(["help"])
        return exit_codes.EXIT_REFUSED
    name, *words = arguments
    if name in ("--help", "-h"):
        name = "help"
    if name == "help" and words and not words[0].startswith("-"):
        return _dispatch([words[0], "--help"])
    if name not in COMMANDS:
        raise bad_call(_unknown(name))
    try:
        given = parser_of(name).read(words)
    except SystemExit:  # --help has been printed
        return 0
    if name in _OWN:
        return _module(name).execute(given) or 0
    if name == "help" and not given.json:
        output.write_clean(OVERVIEW.format(commands="\n\n".join(map(_listed, GROUPS))))
    else:
        from outrider.surfaces.reports import help as helping

        made = helping.report(given, COMMANDS) if name == "help" else report(name, words)
        output.write_report(made, as_json=given.json)
    return 0


def parser_of(name: str) -> CommandParser:
    """Return the parser of a command's arguments; it knows their help and all options."""
    return CommandParser(name, _OWN[name], _module(name)) if name in _OWN else parser_for(name)


def _module(name: str) -> Any:
    if name in _GROUPS["Review"]:
        return import_module("outrider.surfaces.cli.review").COMMANDS[name]
    return import_module(f"outrider.surfaces.cli.{name}")


def _listed(group: str) -> str:
    return "\n".join((group, *(f"  {name:<10}  {said}" for name, said in GROUPS[group].items())))


def _unknown(name: str) -> str:
    if name.startswith("-"):
        return f"{name} comes before any command; options come after the command"
    near = most_alike(name, COMMANDS, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(COMMANDS)}"
    return f"unknown command {name!r}; {hint}"


def _report_bug(error: Exception) -> int:
    """Report a bug of ours in one line; Python's development mode adds the traceback."""
    if sys.flags.dev_mode:
        import traceback

        traceback.print_exception(error)
    hint = "'python -X dev -m outrider …' shows the traceback."
    bug = as_sentence(f"this is a bug in Outrider: {type(error).__name__}: {error}")
    output.say(f"{bug} {hint}")
    return exit_codes.EXIT_FAILED
