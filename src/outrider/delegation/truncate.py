"""What is shown of a long text: its beginning, under a line that says how to get the rest."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shown:
    """A text cut to its limits; `cut` says whether anything is missing."""

    text: str
    cut: bool


def truncate(text: str, *, max_bytes: int, max_lines: int, run_id: str, whole: str | None) -> Shown:
    """Return as much of `text` as fits, whole lines and whole characters only."""
    size = len(text.encode())
    lines = text.split("\n")
    if size <= max_bytes and len(lines) <= max_lines:
        return Shown(text, cut=False)
    kept: list[str] = []
    used = 0
    for line in lines[:max_lines]:
        used += len(line.encode()) + 1
        if used > max_bytes + 1:
            break
        kept.append(line)
    body = "\n".join(kept) if kept else _first_bytes(lines[0], max_bytes)
    rest = f"outrider show {run_id} --lines {max(len(kept), 1)}:{len(lines)}"
    place = f", or read {whole}" if whole else ""
    head = (
        f"[Cut: {len(kept):,} of {len(lines):,} lines and {len(body.encode()):,} of {size:,} bytes "
        f"are shown. For the rest: `{rest}`{place}]"
    )
    return Shown(f"{head}\n{body}", cut=True)


def _first_bytes(line: str, max_bytes: int) -> str:
    return line.encode()[:max_bytes].decode(errors="ignore")
