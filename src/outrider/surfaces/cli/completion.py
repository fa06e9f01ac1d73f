"""`outrider completion`: answers Tab from the parsers; the shells' scripts are beside this file."""

from argparse import REMAINDER, SUPPRESS, Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from outrider.protocol.errors import Refusal
from outrider.surfaces.cli.main import COMMANDS, parser_of
from outrider.surfaces.parser import argument, bad_call
from outrider.surfaces.reports import report
from outrider.surfaces.terminal import output
from outrider.surfaces.text import clean_line

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """\
examples:
  eval "$(outrider completion bash)"      in ~/.bashrc
  eval "$(outrider completion zsh)"       in ~/.zshrc, after compinit
  outrider completion fish | source       in ~/.config/fish/config.fish
"""
ARGUMENTS = (
    argument("shell", metavar="SHELL", nargs="?", choices=SHELLS, help="bash, zsh or fish"),
    argument("--words", nargs=REMAINDER, help=SUPPRESS),
)


def execute(arguments: Namespace) -> None:
    """Print the script, or what the last of the words could become."""
    if arguments.shell:
        return output.write_clean(Path(__file__).with_suffix(f".{arguments.shell}").read_text())
    if not arguments.words:
        raise bad_call(f"completion needs SHELL: {', '.join(SHELLS)}", "completion")
    *before, last = arguments.words
    with suppress(Refusal):  # a shell has nowhere to show it
        for value, meaning in _values(before, last).items():
            if value.startswith(last):
                output.write_clean(f"{clean_line(value)}\t{clean_line(meaning)}\n")
    return None


def _values(before: Sequence[str], last: str) -> Mapping[str, str]:
    """Return what can stand behind these words, each with its meaning."""
    if not before or before[0] not in COMMANDS:
        return {} if before else COMMANDS
    parser = parser_of(before[0])
    expected = parser.expected(before[1:])
    if last.startswith("-") and not (expected and expected.option_strings):
        options = parser.options.items()
        return {name: one.help or "" for name, one in options if one.help != SUPPRESS}
    if expected and expected.choices:
        return dict.fromkeys(map(str, expected.choices), "")
    match expected and expected.metavar:
        case "COMMAND":
            return COMMANDS
        case "AGENT":
            agents = report("agents", []).data["agents"]
            return {agent["name"]: agent["description"] for agent in agents}
        case "RUN":
            runs = report("runs", []).data["runs"]
            return {"last": "the newest run"} | {run["runId"]: run["task"] for run in runs}
        case _:
            return {}
