"""Secrets at some distance from the word that promises them: later in a tag, a file, a line."""

from .names import Promise
from .spans import LINE_END, Findings, compiled
from .values import QUOTE, Style, is_literal_secret, quoted_end

_MAX_TAG = 600
_MAX_STATE = 1500
_MAX_KEY_HEAD = 4096

_VALUE_ATTRIBUTE = rf"[\s\"']value=({QUOTE})"
_RESULT = rf"(?s)(?:(?!random_).)*?result{QUOTE}[ \t]{{0,4}}:[ \t]{{0,4}}({QUOTE})"
_KEY_LINES = (
    rf"\d{{1,4}}{LINE_END}"
    rf"((?>(?:[ \t]*+[A-Za-z0-9+/]{{1,80}}+={{0,2}}(?![\w:-]){LINE_END}?)+))"
)


def find_input_value(found: Findings, promise: Promise, start: int, end: int) -> None:
    """Mask `value="…"` in the tag in which another attribute has a secret's name."""
    view = found.view
    first = view.rfind("<", max(0, start - _MAX_TAG), start)
    if first < 0 or not promise or not compiled(r"=\\*[\"'`]\Z").search(view, start - 20, start):
        return
    last = view.find(">", end, end + _MAX_TAG)
    last = last if last >= 0 else min(len(view), end + _MAX_TAG)
    value = compiled(_VALUE_ATTRIBUTE).search(found.folded, first, last)
    if value is not None:
        _judge(found, promise, value.end(), view[value.start(1) : value.end(1)])
    found.leave(first, last)


def find_generated_password(found: Findings, start: int, end: int) -> None:
    """Mask `"result": "…"` below `"type": "random_password"` in the state of Terraform."""
    result = compiled(_RESULT).match(found.view, end, end + _MAX_STATE)
    if result is not None:
        _judge(found, Promise.PASSWORD, result.end(), found.view[result.start(1) : result.end(1)])
    found.leave(start, end + _MAX_STATE)


def find_putty_key(found: Findings, start: int, end: int) -> None:
    """Mask the private lines of a key in PuTTY's format."""
    head = found.view.find("Private-Lines: ", end, end + _MAX_KEY_HEAD)
    lines = None if head < 0 else compiled(_KEY_LINES).match(found.view, head + 15)
    if lines is not None:
        ends = compiled(rf"{LINE_END}?\Z").search(found.view, *lines.span(1))
        found.mask(lines.start(1), ends.start() if ends else lines.end(1), "private-key")
    found.leave(start, end + _MAX_KEY_HEAD if lines is None else lines.end())


def find_htpasswd(found: Findings, start: int, end: int) -> None:
    """Mask the password in `htpasswd -b file user password`; with `n` there is no file."""
    line = compiled(r"[^\n;|&\\\"'`]{1,400}+").match(found.view, end)
    words = [] if line is None else list(compiled(r"\S+").finditer(found.view, *line.span()))
    plain = [word for word in words[1:] if not word.group().startswith("-")]
    place = 1 if words and "n" in words[0].group() else 2
    if len(plain) > place and is_literal_secret(
        Promise.PASSWORD, plain[place].group(), Style.TIGHT
    ):
        found.mask(*plain[place].span(), "secret")
    found.leave(start, end + 400 if line is None else line.end())


def _judge(found: Findings, promise: Promise, position: int, opening: str) -> None:
    end, _ = quoted_end(found.view, position, opening)
    if is_literal_secret(promise, found.text[position:end], Style.QUOTED):
        found.mask(position, end, "secret")
