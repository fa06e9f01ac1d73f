"""What a writer changed, as a terminal shows it: lines for each file, and the diff in colours."""

from collections.abc import Iterator, Sequence

from outrider.protocol.changes import MINUS, change_totals
from outrider.surfaces.terminal import output
from outrider.surfaces.text import pad, width
from outrider.workspaces.layers.review import FileDiff

COLOURS = {"+": "green", "-": "red", "@": "cyan", "\\": "dim"}


def diff_lines(files: Sequence[FileDiff]) -> Iterator[str]:
    """Yield the lines of all diffs."""
    for line in (line for one in files for line in one.lines):
        is_head = line.startswith(("--- ", "+++ "))
        yield output.coloured(line, "bold" if is_head else COLOURS.get(line[:1]))


def stat_lines(files: Sequence[FileDiff]) -> list[str]:
    """Return a line for each file, and one for all."""
    room = max((width(one.file.path) for one in files), default=0)
    lines = [f"  {pad(one.file.path, room)}  {_counts(one)}" for one in files]
    return [*lines, totals(files)]


def _counts(one: FileDiff) -> str:
    plus, minus = f"+{one.added}", f"{MINUS}{one.removed}"
    kind = "" if one.file.kind == "modified" else f"  {one.file.kind}"
    return f"{output.coloured(plus, 'green')} {output.coloured(minus, 'red')}{kind}"


def totals(files: Sequence[FileDiff]) -> str:
    """`3 files, +40 -7`."""
    added, removed = sum(one.added for one in files), sum(one.removed for one in files)
    return change_totals(len(files), added, removed)
