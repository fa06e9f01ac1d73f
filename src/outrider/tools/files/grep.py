"""The tool `grep`: matching lines of files, in a fixed order, without secrets.

Guarantees that nothing is shown of credential files, not even whether they match: they are counted
by their names, for any pattern. A number that depended on the pattern would reveal their content,
one question at a time. Nor is a line shown that only its neighbours identify as a secret.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Annotated, Any, BinaryIO

from outrider.masking import Masker
from outrider.protocol.envelope import ToolFault
from outrider.tools.context import ToolContext
from outrider.tools.files.globs import Glob
from outrider.tools.files.matches import MAX_LINE_CHARACTERS, FoundFile, Matches, json_lines
from outrider.tools.files.ripgrep import narrowed_to, searching
from outrider.tools.files.text import Encoding, detect
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool
from outrider.workspaces.workspace import (
    OpenFolder,
    Place,
    Workspace,
    raise_if_stopped,
)

DEFAULT_MATCHES = 100
MAX_MATCHES = 5_000
MAX_COUNTED = 200_000
MAX_BYTES = 48_000
MAX_PATTERN_CHARACTERS = 10_000
# The largest file that is looked at to tell whether a line in it is part of a secret.
MAX_BYTES_AROUND = 8 * 1024 * 1024
# One line of a private key looks like any other base64, `value: …` like any other setting.
_UNCLEAR = re.compile(r"[A-Za-z0-9+/]{40}|\bvalue\b[\"']?[ \t]*[:=]")
_UNCHECKED = "[not shown: it may be part of a secret, and its file can't be looked at]"


def _format_long(data: Any, arguments: Arguments) -> str:
    if not data["matches"]:
        shown = ["No matches."]
    elif "counts" in data:
        shown = [f"{entry['path']}: {entry['count']}" for entry in data["counts"]]
    else:
        shown = [line for found in data["results"] for line in _file_lines(found)]
    return "\n".join([*shown, *_notes(data)])


def _file_lines(found: Any) -> Iterator[str]:
    yield found["path"]
    lines = found["lines"]
    with_context = not all(entry["match"] for entry in lines)
    before = lines[0]["line"]
    for entry in lines:
        number = entry["line"]
        if with_context and number is not None and before is not None and number > before + 1:
            yield "--"
        before = number
        yield f"{'?' if number is None else number}{':' if entry['match'] else '-'} {entry['text']}"


def _notes(data: Any) -> Iterator[str]:
    total = f"{'' if data['exact'] else 'more than '}{data['matches']:,}"
    where = f"in {data['files']:,} file{'' if data['files'] == 1 else 's'}"
    if "counts" in data:
        left = data["files"] - len(data["counts"])
        rest = f"; {left:,} more files not shown" if left else ""
        yield f"[{total} matching lines {where}{rest}]"
    elif data["shown"] < data["matches"]:
        yield (
            f"[{data['shown']:,} of {total} matching lines {where} shown: narrow the pattern, "
            "path or glob, or raise the limit]"
        )
    if data["credentialFiles"]:
        yield f"[{data['credentialFiles']} credential file(s) not searched]"
    if data["unreadable"]:
        yield f"[{data['unreadable']} entries could not be read]"


def _format_short(data: Any, arguments: Arguments) -> str:
    return f"grep {arguments.get('pattern')!r} → {data['matches']} lines in {data['files']} files"


@tool("file:grep", name="grep", format=Formatter(_format_long, _format_short))
def grep(
    tool_context: ToolContext,
    pattern: Annotated[str, {"minLength": 1, "maxLength": MAX_PATTERN_CHARACTERS}],
    path: Annotated[str, {"minLength": 1}] = ".",
    glob: Annotated[str | None, {"minLength": 1}] = None,
    type_: Annotated[str | None, {"pattern": "^[a-z0-9]+$"}] = None,
    literal: bool = False,
    ignore_case: bool = False,
    context: Annotated[int, {"minimum": 0, "maximum": 50}] = 0,
    count: bool = False,
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_MATCHES}] = DEFAULT_MATCHES,
) -> dict[str, Any]:
    """Search file contents with a regular expression (ripgrep's). Honours .gitignore; hidden
    files are searched, .git and credential files are not.

    Args:
        pattern: The regular expression, or plain text with literal.
        path: The file or folder to search.
        glob: Only files whose name or path matches, such as *.py or src/**/*.ts.
        type_: Only files of this type, such as py, js, rust.
        literal: Take the pattern as plain text.
        ignore_case: Don't distinguish upper and lower case.
        context: How many lines to show before and after each match.
        count: Only say how many lines match in each file.
        limit: How many matches (with count: files) to show.
    """
    arguments = ["--json", "--crlf", f"--regexp={pattern}"]
    arguments.append("--ignore-case" if ignore_case else "--case-sensitive")
    if literal:
        arguments.append("--fixed-strings")
    if context and not count:
        arguments.append(f"--context={context}")
    matches = Matches(limit, with_lines=not count, mask=tool_context.mask)
    place = tool_context.workspace.resolve(path)
    if place.is_folder:
        wanted = Glob(glob or "*")
        arguments += [f"--type={type_}"] if type_ else narrowed_to(wanted.names())
        passed_over = _search_folder(tool_context, place, wanted, arguments, matches)
    else:
        with tool_context.workspace.open_file(place) as file:
            passed_over = {"unreadable": _search(tool_context, file, arguments, matches)}
    for found in matches.kept:
        _settle(tool_context, place, found)
    return _data(matches) | passed_over


def _search(
    context: ToolContext, where: OpenFolder | BinaryIO, arguments: list[str], matches: Matches
) -> int:
    """Collect what ripgrep finds; returns how many entries could not be read."""
    with searching(context, arguments, where) as search:
        for record in json_lines(search.chunks()):
            matches.feed(record)
            if matches.total > MAX_COUNTED:
                break
        else:
            if not matches.complete:
                raise search.refusal()
    return search.unreadable()


def _search_folder(
    context: ToolContext, place: Place, glob: Glob, arguments: list[str], matches: Matches
) -> dict[str, int]:
    """Search a folder; returns how many of its files were passed over, by the reason."""
    workspace, above = context.workspace, place.path.rstrip("/")

    def is_credential(path: str) -> bool:
        return workspace.is_credential(f"{above}/{path}")

    matches.wanted = lambda path: glob.matches(path) and not is_credential(path)
    globs = [f"--iglob={one}" for one in _credential_globs(workspace, glob.names())]
    with workspace.open_folder(place) as folder:
        # Both at once: the list of names is complete long before the search is.
        names = searching(context, ["--files", "--null", *globs], folder)
        with names if globs else nullcontext() as listing:
            unreadable = _search(context, folder, arguments, matches)
            found = listing.paths() if listing else []
    passed_over = sum(map(is_credential, filter(glob.matches, found)))
    return {"credentialFiles": passed_over, "unreadable": unreadable}


def _credential_globs(workspace: Workspace, names: Sequence[str]) -> Sequence[str]:
    """Return globs for the credential files that a search passes over.

    None where it only asks for names like *.py, which hardly any of them has.
    """
    globs = workspace.credential_globs
    endings = {os.path.splitext(name)[1] for name in names}
    if endings and "" not in endings and endings.isdisjoint(os.path.splitext(g)[1] for g in globs):
        return ()
    return globs


def _settle(context: ToolContext, place: Place, found: FoundFile) -> None:
    """Record that a file was read, make its path the one to show, and mask its lines."""
    file = context.workspace.below(place, found.path) if place.is_folder else place
    found.path = file.shown
    context.effects.file_read(file.path)
    if context.mask is not None:
        raise_if_stopped(context.stop)
        _hide_secrets(context.workspace, file, found, context.mask)


def _hide_secrets(workspace: Workspace, place: Place, found: FoundFile, mask: Masker) -> None:
    """Mask the kept lines of a file that are secret because of the lines around them."""
    unclear = [line for line in found.lines if _UNCLEAR.search(line.text)]
    if not unclear:
        return
    try:
        with workspace.open_file(place) as file:
            content = file.read(MAX_BYTES_AROUND + 1)
    except ToolFault:
        content = None
    if content is None or len(content) > MAX_BYTES_AROUND:
        for line in unclear:
            line.text = _UNCHECKED
        return
    lines = (detect(content, len(content)) or Encoding()).readable(content).split("\n")
    masked = dict(enumerate(zip(lines, mask.lines(lines), strict=True), 1))
    for line in found.lines:
        before, after = masked.get(line.number or 0, ("", ""))
        # A longer one was masked before it was cut.
        if before != after and len(before) <= MAX_LINE_CHARACTERS:
            line.text = after


def _data(matches: Matches) -> dict[str, Any]:
    data: dict[str, Any] = {
        "matches": matches.total,
        "files": matches.files,
        "exact": matches.complete,
        "credentialFiles": 0,
    }
    if not matches.with_lines:
        return data | {"counts": [{"path": f.path, "count": f.matches} for f in matches.kept]}
    results = list(_results(matches.kept, matches.limit))
    shown = sum(line["match"] for result in results for line in result["lines"])
    return data | {"results": results, "shown": shown}


def _results(files: list[FoundFile], matches: int) -> Iterator[dict[str, Any]]:
    """Yield the files with their lines, until there were enough matches or bytes."""
    room = MAX_BYTES
    for found in files:
        lines: list[dict[str, Any]] = []
        for line in found.lines:
            room -= len(line.text.encode(errors="replace")) + 10
            matches -= line.is_match
            if room < 0 or matches < 0:
                break
            lines.append({"line": line.number, "text": line.text, "match": line.is_match})
        if lines:
            yield {"path": found.path, "lines": lines}
        if room < 0 or matches < 0:
            return
        room -= len(found.path)
