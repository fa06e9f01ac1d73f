"""The tool `grep`: matching lines of files, in a fixed order, without secrets.

Guarantees that nothing is shown of credential files, not even whether they match: that would reveal
their content, one question at a time. For the same reason nothing that masking hides is matched
(see `masked_search`).
"""

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from outrider.masking import Masker
from outrider.processes.threads import raise_if_stopped
from outrider.tools import Arguments, Formatter, ToolCode, ToolContext, ToolFault, tool
from outrider.tools.files.globs import Glob
from outrider.tools.files.masked_search import MAX_BLOCK_BYTES, Block, blocks_of
from outrider.tools.files.ripgrep import RipgrepProcess, matching_lines, narrowed_to, searching
from outrider.workspaces.opening import OpenFolder
from outrider.workspaces.place import Place

DEFAULT_MATCHES = 100
MAX_MATCHES = 5_000
MAX_COUNTED = 200_000
MAX_PATTERN_CHARACTERS = 10_000
MAX_BYTES = 45_000
MAX_LINE_CHARACTERS = 500
_BEFORE_MATCH = 100
# How much is looked at in files that match, after those that are shown, to count their matches.
MAX_BYTES_SEARCHED = 64 * 1024 * 1024
MAX_BYTES_MASKED = 32 * 1024 * 1024
_WITHOUT_UNICODE = re.compile(r"\?[A-Za-z]*-[A-Za-z]*u[A-Za-z]*[:)]")

Line = dict[str, Any]
Hit = tuple[int, int]  # the number of a line that matches, and its match's first byte in it


@dataclass(slots=True)
class Matches:
    """Takes the hits of files in the order of their paths; keeps the first and the lines around.

    What limits it depends on lines that match, and on nothing else.
    """

    limit: int
    context: int
    max_bytes: int  # how much is looked at in files that match, only to count what isn't kept
    total: int = 0
    files: int = 0
    shown: int = 0
    complete: bool = True  # whether all hits were taken
    kept: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The files, each with its path and its lines."""
    _path: str = ""
    _bytes: int = 0
    _room: int = MAX_BYTES

    def take(self, block: Block, hits: Sequence[Hit]) -> None:
        """Count the hits in a block of a file, and keep them while there is room."""
        if not hits or not self.complete:
            return
        left, is_full = MAX_COUNTED - self.total, self.shown >= self.limit or self._room < 0
        self.complete = len(hits) <= left and not (is_full and self._bytes > self.max_bytes)
        if not self.complete and (is_full or not left):
            return
        hits = hits[:left]
        self._bytes += len(block.content)
        self.total += len(hits)
        if block.path != self._path:
            self._path = block.path
            self.files += 1
            self._room -= len(block.path)
            if not is_full:
                self.kept.append({"path": block.path, "lines": []})
        if not is_full:
            self._keep_lines(block, hits)

    def _keep_lines(self, block: Block, hits: Sequence[Hit]) -> None:
        wanted = hits[: self.limit - self.shown]
        for line in _lines(block, wanted, {number for number, _ in hits}, self.context):
            self.kept[-1]["lines"].append(line)
            self.shown += line["match"]
            self._room -= len(line["text"].encode(errors="replace")) + 10
            if self._room < 0:
                break


def _lines(block: Block, hits: Sequence[Hit], matching: set[int], context: int) -> Iterator[Line]:
    lines = block.content.split(b"\n")
    columns = dict(hits)
    done, end = 0, block.first + block.lines
    for hit, _ in hits:
        for number in range(max(block.first, hit - context, done), min(end, hit + context + 1)):
            done = number + 1
            if number in columns or number not in matching:
                line, column = lines[number - block.first], columns.get(number, 0)
                text = _shown(line, column, block.shown.get(number))
                yield {"line": number, "text": text, "match": number in columns}


def _shown(line: bytes, column: int, masked: str | None) -> str:
    """Return a line as text, cut around its match at byte `column` where it is long."""
    text = line.rstrip(b"\r").decode(errors="replace") if masked is None else masked
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    first = max(0, len(line[:column].decode(errors="replace")) - _BEFORE_MATCH)
    last = first + MAX_LINE_CHARACTERS
    ends = "…" if first else "", "…" if last < len(text) else ""
    return f"{ends[0]}{text[first:last]}{ends[1]} [cut: {len(text):,} characters]"


def _format_long(data: Any, arguments: Arguments) -> str:
    shown = [line for found in data["results"] for line in _file_lines(found)]
    return "\n".join([*(shown or ["No matches."]), *_notes(data)])


def _file_lines(found: Any) -> Iterator[str]:
    yield found["path"]
    lines = found["lines"]
    with_context = not all(entry["match"] for entry in lines)
    before = lines[0]["line"]
    for entry in lines:
        number = entry["line"]
        if with_context and number > before + 1:
            yield "--"
        before = number
        yield f"{number}{':' if entry['match'] else '-'} {entry['text']}"


def _notes(data: Any) -> Iterator[str]:
    if data["shown"] < data["matches"]:
        total = f"{'' if data['exact'] else 'more than '}{data['matches']:,}"
        where = f"in {data['files']:,} file{'' if data['files'] == 1 else 's'}"
        shown = f"{data['shown']:,} of {total} matching lines {where} shown"
        yield f"[{shown}: narrow the pattern, path or glob, or raise the limit]"
    if data["longLines"]:
        yield f"[{data['longLines']} line(s) over 8 MB not searched]"
    if data["unreadable"]:
        yield f"[{data['unreadable']} entries could not be read]"


@tool("file:grep", name="grep", format=Formatter(_format_long))
def grep(
    tool_context: ToolContext,
    pattern: Annotated[str, {"minLength": 1, "maxLength": MAX_PATTERN_CHARACTERS}],
    path: Annotated[str, {"minLength": 1}] = ".",
    glob: Annotated[str | None, {"minLength": 1}] = None,
    literal: bool = False,
    ignore_case: bool = False,
    context: Annotated[int, {"minimum": 0, "maximum": 50}] = 0,
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_MATCHES}] = DEFAULT_MATCHES,
) -> dict[str, Any]:
    """Search file contents with a regular expression (ripgrep's). Honours .gitignore; hidden
    files are searched, .git, credential files and masked secrets are not.

    Args:
        pattern: The regular expression, or plain text with literal.
        path: The file or folder to search.
        glob: Only files whose name or path matches, such as *.py or src/**/*.ts.
        literal: Take the pattern as plain text.
        ignore_case: Don't distinguish upper and lower case.
        context: How many lines to show before and after each match.
        limit: How many matches to show.
    """
    mask = tool_context.mask
    if mask is not None and not literal and _WITHOUT_UNICODE.search(pattern):
        raise ToolFault(ToolCode.BAD_PARAMETER, "the flag -u isn't allowed: it matches bytes")
    arguments = ["--crlf", f"--regexp={pattern}"]
    arguments.append("--ignore-case" if ignore_case else "--case-sensitive")
    arguments += ["--fixed-strings"] if literal else []
    matches = Matches(limit, context, MAX_BYTES_SEARCHED if mask is None else MAX_BYTES_MASKED)
    workspace, too_long, unreadable = tool_context.workspace, 0, 0
    place = workspace.resolve(path)
    if place.is_folder:
        wanted = Glob(glob or "*")
        arguments += narrowed_to(wanted.names())
        too_long, unreadable = _search_folder(tool_context, place, wanted, arguments, matches)
    else:
        with workspace.open_file(place) as file:
            blocks = blocks_of(place.path, file, binary=True)
            too_long = _search(tool_context, blocks, arguments, matches)
    for found in matches.kept:
        file = workspace.below(place, found["path"]) if place.is_folder else place
        found["path"] = file.shown
        tool_context.effects.file_read(file.path)
    data = {"matches": matches.total, "files": matches.files, "shown": matches.shown}
    data |= {"exact": matches.complete, "longLines": too_long, "unreadable": unreadable}
    return {**data, "results": matches.kept}


def _search(context: ToolContext, blocks: Iterator[Block], how: list[str], matches: Matches) -> int:
    """Search blocks of files, many at a time; returns how many lines are too long for that."""
    # What is masked beyond the limit is masked in vain.
    size = MAX_BLOCK_BYTES if context.mask is None else MAX_BYTES_MASKED // 32
    only_secrets = context.mask and replace(context.mask, only_secrets=True)
    too_long = 0
    while matches.complete and (batch := list(_batch(blocks, size))):
        raise_if_stopped(context.stop)
        too_long += sum(block.is_too_long for block in batch)
        content = b"".join(block.content for block in batch)
        # Twice as many as are counted: some may be dropped.
        found = _by_block(batch, matching_lines(context, how, content, 2 * MAX_COUNTED))
        if only_secrets is not None:
            found = _without_secrets(context, only_secrets, how, list(found))
        for block, hits in found:
            matches.take(block, hits)
    return too_long


def _batch(blocks: Iterator[Block], size: int) -> Iterator[Block]:
    for block in blocks:
        yield block
        size -= len(block.content)
        if size <= 0:
            return


def _by_block(batch: list[Block], hits: list[Hit]) -> Iterator[tuple[Block, list[Hit]]]:
    """Yield the blocks with hits, whose numbers are those of the lines in all blocks together."""
    done = first = 0
    for block in batch:
        shift = block.first - done - 1
        done += block.lines
        last = bisect.bisect(hits, (done + 1,), lo=first)
        if first < last:
            yield block, [(number + shift, column) for number, column in hits[first:last]]
        first = last


def _without_secrets(
    context: ToolContext, mask: Masker, arguments: list[str], found: list[tuple[Block, list[Hit]]]
) -> Iterator[tuple[Block, list[Hit]]]:
    """Yield the blocks masked, with the hits that there are whatever is hidden in them."""
    changed: list[dict[int, bytes]] = []
    for block, _ in found:
        raise_if_stopped(context.stop)
        changed.append(block.hide_secrets(mask))
    pairs = list(zip(found, changed, strict=True))
    again = [lines[number] for (_, hits), lines in pairs for number, _ in hits if number in lines]
    content = b"".join(line + b"\n" for line in again)
    columns = dict(matching_lines(context, arguments, content, len(again))) if again else {}
    places = itertools.count(1)
    for (block, hits), lines in pairs:
        now = [(n, columns.get(next(places), -1) if n in lines else at) for n, at in hits]
        yield block, [(number, column) for number, column in now if column >= 0]


def _search_folder(
    context: ToolContext, place: Place, glob: Glob, arguments: list[str], matches: Matches
) -> tuple[int, int]:
    """Search a folder; returns how many lines are too long for that, and unreadable entries."""
    # ripgrep only proposes files: what they hold is read through the workspace, which no link that
    # was put in ripgrep's way leads out of the tree.
    workspace, above = context.workspace, place.path.rstrip("/")
    with workspace.open_folder(place) as folder:
        proposed, search = _propose(context, folder, arguments)
        wanted = filter(glob.matches, proposed)
        paths = (path for path in wanted if not workspace.is_credential(f"{above}/{path}"))
        too_long = _search(context, _blocks(folder, paths), arguments, matches)
    matches.complete &= not search.cut
    # Why a file was proposed may be a secret in it.
    return 0 if context.mask else too_long, search.unreadable()


def _propose(
    context: ToolContext, folder: OpenFolder, arguments: list[str], *how: str
) -> tuple[list[str], RipgrepProcess]:
    """Return the files that ripgrep finds a match in, and what it says about the others."""
    with searching(context, [*arguments, "--files-with-matches", "--null", *how], folder) as search:
        paths, status = search.paths(), search.status()
    if status < 0 and not how:
        # Perhaps by a line too long for its memory. Mapped files take none, but more time.
        return _propose(context, folder, arguments, "--mmap")
    if status < 0:
        raise search.refusal()
    if status > 1:  # for one entry, or for all of them?
        matching_lines(context, arguments, b"", 1)
    return paths, search


def _blocks(folder: OpenFolder, paths: Iterable[str]) -> Iterator[Block]:
    for path in paths:
        file = folder.open(path)
        if file is not None:
            with file:
                yield from blocks_of(path, file, binary=False)
