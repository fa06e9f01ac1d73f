"""The frontmatter of an agent file: a small, tolerant parser that never raises.

Not YAML: the value of `key: value` is the rest of the line, colons included. Of YAML it supports
what agent files use: quotes, comments, lists, folded lines and block scalars.
"""

import re
from typing import Literal

from outrider.protocol.data import frozen

_MAX_LINES = 100
_MAX_DIAGNOSTICS = 20

_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*:(.*)")
_ITEM = re.compile(r"[ \t]*-(?:[ \t]+(.*))?$")
_BLOCK = re.compile(r"([|>])[-+0-9]{0,2}[ \t]*(?:#.*)?$")
_FENCE = re.compile(r"---[ \t]*$")
_COMMENT = re.compile(r"(?:^|[ \t])#.*$")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\s*|\s+#.*)$', re.DOTALL)
_SINGLE = re.compile(r"'((?:[^']|'')*)'(?:\s*|\s+#.*)$", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_LISTED = re.compile(r"(?:[^,\n(]+|\([^)]*\)?)+")  # up to a comma that isn't in parentheses
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


@frozen
class Diagnostic:
    """What is wrong with an agent file. An error makes the file unusable, a warning doesn't."""

    path: str
    line: int | None
    message: str
    severity: Literal["error", "warning"]
    concerns_run: bool = False  # whoever runs the agent should know it, not only its author

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.severity}: {self.message}"


class Notes:
    """The diagnostics of one file, while it is read."""

    def __init__(self, path: str, diagnostics: list[Diagnostic] | None = None) -> None:
        self.path = path
        self.diagnostics = [] if diagnostics is None else diagnostics

    def error(self, line: int | None, message: str) -> None:
        """Note why the file can't be used."""
        self.diagnostics.append(Diagnostic(self.path, line, message, "error"))

    def warn(self, line: int | None, message: str, *, concerns_run: bool = False) -> None:
        """Note what is ignored or read in another way."""
        self.diagnostics.append(Diagnostic(self.path, line, message, "warning", concerns_run))

    def bounded(self) -> list[Diagnostic]:
        """Return the diagnostics, errors first, and a count in place of those above the limit."""
        ordered = sorted(self.diagnostics, key=lambda note: (note.severity, note.line or 0))
        if (more := len(ordered) - _MAX_DIAGNOSTICS) <= 0:
            return ordered
        rest = Diagnostic(self.path, None, f"and {more} more warnings", "warning")
        return [*ordered[:_MAX_DIAGNOSTICS], rest]


@frozen
class Field:
    """One key with its value, and the line of the key."""

    key: str
    line: int
    text: str = ""  # the value as free text: a `#` is part of it
    word: str = ""  # the value as a single word: a `# comment` after it is dropped
    items: tuple[str, ...] = ()  # its `- item` lines

    @property
    def names(self) -> tuple[str, ...]:
        """The value as a list, written `a, b` or `[a, b]` or as `- item` lines."""
        word = self.word
        texts = self.items or (word[1:].removesuffix("]") if word.startswith("[") else word,)
        parts = [part.strip() for text in texts for part in _LISTED.findall(text)]
        return tuple(_unquoted(part) or part for part in parts if part)


def parse_frontmatter(text: str, notes: Notes) -> tuple[list[Field], str] | None:
    """Return the fields and the body of an agent file; None, with an error noted, if unusable."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    start = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if not _FENCE.match(lines[start]):
        notes.error(start + 1, "no frontmatter: start the file with a line `---`")
        return None
    end = next((at for at in range(start + 1, len(lines)) if _FENCE.match(lines[at])), None)
    if end is None:
        notes.error(start + 1, "the frontmatter isn't closed: end it with a line `---`")
        return None
    fields = _fields(lines[:end], start + 1, notes)
    return None if fields is None else (fields, "\n".join(lines[end + 1 :]).strip())


def _fields(lines: list[str], at: int, notes: Notes) -> list[Field] | None:
    fields: list[Field] = []
    ignored: list[int] = []
    while at < len(lines):
        line, stop = lines[at], at + 1
        if match := _KEY.match(line):
            value = match[2].strip()
            stop = _end(lines, stop, value)
            fields.append(_field(match[1], at + 1, value, lines[at + 1 : stop]))
        elif line.strip() and not line.lstrip().startswith("#"):
            ignored.append(at)
        if max(len(fields), len(ignored)) > _MAX_LINES:
            # Going on without the rest could miss a `readonly`.
            kind = "keys" if len(fields) > _MAX_LINES else "lines that aren't `key: value`"
            notes.error(at + 1, f"more than {_MAX_LINES} {kind}")
            return None
        at = stop
    for at in ignored:
        notes.warn(at + 1, f"not a `key: value` line, ignored: {lines[at].strip()[:60]!r}")
    return fields


def _end(lines: list[str], at: int, value: str) -> int:
    """Return where the lines of the value end that starts before `at`."""
    is_open_list = value.startswith("[") and "]" not in value
    is_bare = not _without_comment(value)
    for number, line in enumerate(lines[at:], at):
        if is_open_list and line.lstrip().startswith("]"):
            return number + 1
        is_item = is_bare and _ITEM.match(line)
        if line.strip() and line[0] not in " \t#" and not is_item:
            return number
    return len(lines)


def _field(key: str, line: int, value: str, rest: list[str]) -> Field:
    rest = [item for item in rest if not item.startswith("#")]
    if block := _BLOCK.match(value):
        text = _block_text(rest, folded=block[1] == ">")
        return Field(key, line, text, text.strip())
    if value[:1] not in ('"', "'"):
        rest = [item for item in rest if not item.lstrip().startswith("#")]
    filled = [item.strip() for item in rest if item.strip()]
    if not _without_comment(value) and filled and _ITEM.match(filled[0]):
        written = [_without_comment(match[1] or "") for match in map(_ITEM.match, filled) if match]
        items = tuple(_unquoted(text) or text for text in written if text)
        text = ", ".join(items)
        return Field(key, line, text, text, items)
    lines = [value, *filled] if value else filled
    if (literal := _unquoted(" ".join(lines))) is not None:
        return Field(key, line, literal, literal.strip())
    return Field(key, line, " ".join(lines), " ".join(filter(None, map(_without_comment, lines))))


def _block_text(lines: list[str], *, folded: bool) -> str:
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    text = "\n".join(line[min(indents, default=0) :].rstrip() for line in lines).strip("\n")
    # Folding joins lines; an empty line stays a break.
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text) if folded else text


def _without_comment(text: str) -> str:
    if quoted := _DOUBLE.match(text) or _SINGLE.match(text):
        return text[: quoted.end(1) + 1]
    return _COMMENT.sub("", text).strip()


def _unquoted(text: str) -> str | None:
    """Return what is between the quotes, or None if `text` isn't one quoted string."""
    if match := _DOUBLE.match(text):
        return _ESCAPE.sub(_unescaped, match[1])
    if match := _SINGLE.match(text):
        return match[1].replace("''", "'")
    return None


def _unescaped(match: re.Match[str]) -> str:
    digits = match[1] or match[2]
    if not digits:
        return _ESCAPED.get(match[3], match[3])
    code = int(digits, 16)
    # No path can contain a NUL, and no UTF-8 half of a surrogate pair.
    return "\ufffd" if code == 0 or 0xD800 <= code < 0xE000 else chr(code)
