"""The tool `grep`: matching lines of files, in a fixed order, without what is not to be seen."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from outrider.masking import Masker
from outrider.protocol.envelope import Envelope
from outrider.tools.context import ToolContext
from outrider.tools.files.faults import answer, fault_of, go_on
from outrider.tools.files.globs import Glob
from outrider.tools.files.hiding import hide_secrets
from outrider.tools.files.matches import Collector, FoundFile, Records
from outrider.tools.files.opening import opened_file, opened_folder
from outrider.tools.files.paths import Place, Realm, locate, realm_of, shown_path
from outrider.tools.files.ripgrep import Run, ignoring_from, narrowed_to, ripgrep, running
from outrider.tools.files.withheld import LIST_CREDENTIALS, Shown, is_counted
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool

DEFAULT_MATCHES = 100
MAX_MATCHES = 5_000
MAX_COUNTED = 200_000
MAX_BYTES = 48_000
MAX_PATTERN_CHARACTERS = 10_000


@dataclass(frozen=True, slots=True)
class Query:
    """What to search for, and how much of it to show."""

    pattern: str
    glob: Glob | None
    literal: bool
    ignore_case: bool
    context: int
    limit: int
    file_type: str | None
    count: bool

    def arguments(self) -> list[str]:
        """Return the query as ripgrep's arguments."""
        made = ["--json", "--crlf", f"--regexp={self.pattern}"]
        made += ["--fixed-strings"] if self.literal else []
        made += ["--ignore-case"] if self.ignore_case else ["--case-sensitive"]
        made += [f"--context={self.context}"] if self.context and not self.count else []
        if self.file_type is not None:
            return [*made, f"--type={self.file_type}"]
        return [*made, *(narrowed_to(self.glob.names()) if self.glob else ())]


def format_long(data: Any, arguments: Arguments) -> str:
    """Return the matches under the names of their files, and how many there are beyond."""
    if not data["matches"]:
        return "\n".join(["No matches.", *_notes(data)])
    if "counts" in data:
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
    if data["withheld"]:
        yield f"[{data['withheld']} credential file(s) not searched]"
    if data["unreadable"]:
        yield f"[{data['unreadable']} entries could not be read]"


def format_short(data: Any, arguments: Arguments) -> str:
    """Return one line that says how much was found."""
    return f"grep {arguments.get('pattern')!r} → {data['matches']} lines in {data['files']} files"


@tool("file:grep", name="grep", writes=False, format=Formatter(format_long, format_short))
async def grep(
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
) -> Envelope:
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
    return await answer(
        _grep,
        tool_context,
        path,
        lambda: Query(
            pattern=pattern,
            glob=None if glob is None else Glob(glob),
            literal=literal,
            ignore_case=ignore_case,
            context=context,
            limit=limit,
            file_type=type_,
            count=count,
        ),
    )


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search came to; `place` tells where a path that ripgrep gave leads."""

    collector: Collector
    place: Callable[[str], Place]
    withheld: int = 0
    unreadable: int = 0


def _grep(
    stop: threading.Event, context: ToolContext, path: str, make_query: Callable[[], Query]
) -> dict[str, Any]:
    query = make_query()
    realm = realm_of(context)
    place = locate(realm, path, folder=True)
    try:
        if os.path.isdir(place.path):
            searched = _search_folder(stop, realm, place, query, context.mask)
        else:
            searched = _search_file(stop, realm, locate(realm, path), query, context.mask)
    except OSError as error:
        raise fault_of(error, place.shown) from None
    for found in searched.collector.kept:
        file = searched.place(found.path)
        context.effects.file_read(file.path)
        if context.mask is not None:
            go_on(stop)
            hide_secrets(found, file, context.mask)
    return _data(realm, query, searched)


def _search_folder(
    stop: threading.Event, realm: Realm, place: Place, query: Query, mask: Masker | None
) -> Searched:
    program, ignoring = ripgrep(realm.roots), ignoring_from(place.path)
    shown = Shown(realm, place, query.glob)
    collector = Collector(query.limit, shown, with_lines=not query.count, mask=mask)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(opened_folder(place, listing=True))

        def started(arguments: Sequence[str]) -> Run:
            run = running(program, [*ignoring, *arguments], stop, folder=folder)
            return stack.enter_context(run)

        # Both at once: the list of names is there long before the search is done.
        names = started(LIST_CREDENTIALS) if is_counted(realm, query.glob) else None
        search = started(query.arguments())
        _collect(search, collector)
        withheld = sum(map(shown.withheld, names.paths())) if names else 0
    return Searched(collector, place.below, withheld, search.unreadable())


def _search_file(
    stop: threading.Event, realm: Realm, place: Place, query: Query, mask: Masker | None
) -> Searched:
    collector = Collector(query.limit, lambda path: True, with_lines=not query.count, mask=mask)
    arguments = replace(query, glob=None, file_type=None).arguments()
    program = ripgrep(realm.roots)
    with opened_file(place) as file, running(program, arguments, stop, file=file) as search:
        _collect(search, collector)
    return Searched(collector, lambda path: place)


def _collect(run: Run, collector: Collector) -> None:
    """Read what ripgrep finds, up to the most that is counted; faults where it refuses to run."""
    records = Records()
    for chunk in run.chunks():
        for record in records.feed(chunk):
            collector.feed(record)
        if collector.matches > MAX_COUNTED:
            return
    if not collector.complete:
        raise run.refusal()


def _data(realm: Realm, query: Query, searched: Searched) -> dict[str, Any]:
    collector = searched.collector
    data: dict[str, Any] = {
        "matches": collector.matches,
        "files": collector.files,
        "exact": collector.complete,
        "withheld": searched.withheld,
        "unreadable": searched.unreadable,
    }
    named = [(shown_path(realm, searched.place(f.path).path), f) for f in collector.kept]
    if query.count:
        return data | {"counts": [{"path": path, "count": f.matches} for path, f in named]}
    results = list(_results(named, query.limit))
    shown = sum(line["match"] for result in results for line in result["lines"])
    return data | {"results": results, "shown": shown}


def _results(named: list[tuple[str, FoundFile]], matches: int) -> Iterator[dict[str, Any]]:
    """Yield the files with their lines, until there were enough matches or bytes."""
    room = MAX_BYTES
    for path, found in named:
        lines: list[dict[str, Any]] = []
        for line in found.lines:
            room -= len(line.text.encode(errors="replace")) + 10
            matches -= line.is_match
            if room < 0 or matches < 0:
                break
            lines.append({"line": line.number, "text": line.text, "match": line.is_match})
        if lines:
            yield {"path": path, "lines": lines}
        if room < 0 or matches < 0:
            return
        room -= len(path)
