"""Asking the person whether the main agent may write, or run a command."""

import difflib
from contextlib import suppress
from pathlib import Path
from typing import Any

from outrider.delegation.main_session import Decision
from outrider.protocol.data import as_object, member
from outrider.settings.files import read_plain_file
from outrider.surfaces.terminal.asking import read_answer
from outrider.surfaces.terminal.progress import View
from outrider.surfaces.text import as_text, clean_line, quoted

MAX_SHOWN = 4_000
MAX_READ = 1 << 20
CHOICES = "Allow it? [o]nce, for the [s]ession, [N]o: "
ANSWERS: dict[str, Decision] = {"o": "once", "y": "once", "yes": "once", "s": "session"}


async def ask_permission(view: View, folder: Path, name: str, args: Any) -> Decision:
    """Return what the person says to a call, which they see whole or are told they don't."""
    shown = quoted(_shown(args, folder) or as_text(args), MAX_SHOWN)
    with view.pause():
        said = await read_answer(f"main wants to use {clean_line(name)}:\n{shown}\n{CHOICES}")
    return ANSWERS.get(said, "no")


def _shown(args: Any, folder: Path) -> str | None:
    """Return a call as people read it: a command as it is, a change of a file as a diff."""
    match args:
        case {"command": str(command), **rest} if rest.keys() <= {"timeoutMs"}:
            return command
        case {"path": str(path), "content": str(content), **rest} if not rest:
            before = ""
            with suppress(OSError, ValueError):
                before = read_plain_file(folder / path, MAX_READ).decode()
            pairs = [(before, content)]
        case {"path": str(path), "edits": [*edits], **rest} if not rest:
            pairs = [(member(one, "oldText"), member(one, "newText")) for one in edits]
            if any(as_object(one).keys() != {"oldText", "newText"} for one in edits):
                return None  # it says more than a diff shows
        case _:
            return None
    lines = [(str(old).splitlines(), str(new).splitlines()) for old, new in pairs]
    diffs = [[*difflib.unified_diff(old, new, lineterm="")][2:] for old, new in lines]
    return "\n".join([path, *(line for diff in diffs for line in diff)])
