"""Paths made relative or shortened to `~`, and long stack traces without their middle."""

import re
from functools import lru_cache
from itertools import islice

from .spans import Findings, compiled, worth_searching

_SLASH = r"\\{0,8}/"
_NAME_ENDS = r"(?![\w-]|\.\w)"

# A path in the working tree goes on with one of these; before anything else it ends.
_PATH_GOES_ON = r"(?=[\w.@~+%$({\[-])"

_USER = r"[\w?-]++(?>(?:\.[\w?-]++)*)"
_HOME = rf"(?:home|Users){_SLASH}(?!Shared\b){_USER}|root(?={_SLASH})"
_WINDOWS_HOME = r"Users\\{1,8}(?![{%$])[^\\/:*?\"<>|\s]{1,64}"

# `/home/…` is also what web sites call their pages. It is one of those where the text before it is
# about routes, or its name is a page's, and nothing below it is what only a file system has.
_ROUTES = (
    r"\b(?:routes?|routers?|endpoints?|pages?|href|redirects?|navigat\w+|urlpatterns)\b"
    r"|\b(?:get|post|put|patch|delete|head) +/|\bapp\.(?:get|post|use)\("
)
_PAGES = r"(?:dashboard|index|profile|settings|log(?:in|out)|about|contact|search|feed|news)\b"
_FILE = (
    r"\S*?(?:/\.|\.\w{1,8}(?![\w/])|/(?:src|bin|lib|etc|opt|include|projects?|repos?|work|code|tmp"
    r"|Desktop|Documents|Downloads|Library|go|venv|build)\b)"
)
_REACH = 160

_MAX_TRACE = 30
_FRAMES_KEPT = 10

# A fast test for a frame; then the whole of it, in plain text and in a string literal.
# Java and JavaScript: "    at name (file:line)", with another one below it.
_CALL = (
    r"at (?:(?<=[ \t][ \t]at )|(?<=n[ \t]at )|(?<=\n[ \t]at ))"
    r"(?:(?=[^\n]{1,400}+\n[ \t]++at )|(?=[^\n\\\"]{1,400}+\\{1,8}n[ \t]++at ))"
)
_CALLS = (r"\n[ \t]++at [^\n]{1,400}+", r"\\n[ \t]++at [^\n\\\"]{1,400}+(?>(?:\\(?=\\))*)")
# Python: a File line and the lines of code below it.
_FRAME = r"File (?=\\{0,8}\")"
_FILES = (
    r"\n[ \t|+-]*+File \"[^\n\"]{1,400}+\", line \d{1,9}[^\n]{0,200}+"
    r"(?>(?:\n(?![ \t|+-]*+File \")[ \t|]{3,}+[^\n]{1,400}+){0,4})",
    r"\\n[ \t|+-]*+File \\{1,8}\"[^\n\"\\]{1,400}+\\{1,8}\", line \d{1,9}[^\n\\\"]{0,200}+"
    r"(?>(?:\\{1,8}n(?![ \t|+-]*+File )[ \t|]{3,}+[^\n\\]{1,400}+){0,4})(?>(?:\\(?=\\))*)",
)


@lru_cache(maxsize=8)
def _folders(project: str | None, home: str | None) -> re.Pattern[str]:
    """Return what finds the project with the slash behind it, this home folder and any other."""
    if home and re.fullmatch(f"/(?:{_HOME})", home):
        home = None  # it is found like any other
    own: list[str] = []
    for name, folder in (("project", project), ("home", home)):
        if folder and folder.strip("/"):
            path = _SLASH.join(map(re.escape, folder.strip("/").split("/")))
            after = rf"(?:(?P<{name}_slash>(?:{_SLASH})+){_PATH_GOES_ON}|{_NAME_ENDS})"
            own.append(f"(?P<{name}>{path}){after}")
    return re.compile(f"/(?:{'|'.join([*own, _HOME])})")


def find_paths(found: Findings, project: str | None, home: str | None) -> None:
    """Note paths inside the project, to become relative, and home folders, to become `~`."""
    if worth_searching(found.view, "/"):
        _find_folders(found, project, home)
    if worth_searching(found.view, "Users\\"):
        _find_windows_homes(found)


def _find_folders(found: Findings, project: str | None, home: str | None) -> None:
    if f"{project}{home}".isascii():
        _find_in(found, found.view, project, home)
    else:  # only the text has what isn't ASCII, and any other home is found better without it
        _find_in(found, found.text, project, home)
        _find_in(found, found.view, None, None)


def _find_in(found: Findings, text: str, project: str | None, home: str | None) -> None:
    for match in _folders(project, home).finditer(text):
        start = _path_start(found.text, match.start())
        if start is None:
            continue
        place: dict[str, str | None] = match.groupdict()
        if not place.get("project"):
            _note_home(found, match, start, home)
            continue
        found.replace(start, match.end(), "" if place["project_slash"] else ".")
        # A home below the project, or the same folder: what replaces more of the path wins.
        below = _folders(None, home).match(text, match.start())
        if below is not None:
            _note_home(found, below, start, home)


def _note_home(found: Findings, match: re.Match[str], start: int, home: str | None) -> None:
    if match.groupdict().get("home"):
        found.replace(start, match.end("home"), "~")
    elif match.group().replace("\\", "") == home or not _is_route(found, match):
        found.replace(start, match.end(), "~")


def _is_route(found: Findings, match: re.Match[str]) -> bool:
    """Return whether it is the address of a page: `/home/?tab=2`, `GET /home/orders`."""
    start, end = match.span()
    if "?" in found.text[start:end]:
        return True
    if compiled(_FILE).match(found.view, end, end + _REACH) or found.view[start - 1 : start] == "/":
        return False
    page = compiled(rf"/(?:home|root|Users)/{_PAGES}").match(found.view, start)
    before = found.folded[max(0, start - _REACH) : start + 1]
    return page is not None or compiled(_ROUTES).search(before) is not None


def _path_start(text: str, position: int) -> int | None:
    """Return where the path with its slash at `position` begins; None inside another path."""
    before = text[max(0, position - 8) : position].rstrip("\\")
    start = position - (min(8, position) - len(before))
    drive = compiled(r"(?:\A|.*[^A-Za-z0-9])(/?[A-Za-z]:)").fullmatch(before)
    if drive is not None:
        return start - len(drive.group(1))
    last = before[-1:]
    if not (last.isalnum() or last in {"_", ".", "~", "%", "/", "}", ")", "]"}) or not last:
        return start
    if before.endswith("file://") or compiled(r"(?:\A|.*[\s\"'=])-[A-Za-z]").fullmatch(before):
        return start
    # \n/home/…: the letter belongs to an escape.
    return start if before[-2:-1] == "\\" and last in "nrt" else None


def _find_windows_homes(found: Findings) -> None:
    for match in compiled(_WINDOWS_HOME).finditer(found.view):
        before = found.text[max(0, match.start() - 10) : match.start()]
        drive = compiled(r"[A-Za-z]:\\{1,8}\Z").search(before)
        if drive is not None:
            found.replace(match.start() - len(drive.group()), match.end(), "~")


def find_long_traces(found: Findings) -> None:
    """Note the middle of every stack trace of more than 30 frames."""
    if len(found.view) < _MAX_TRACE * len("\n at f"):
        return
    for frame, patterns in ((_CALL, _CALLS), (_FRAME, _FILES)):
        frames = compiled(frame).finditer(found.view)
        if sum(1 for _ in islice(frames, _MAX_TRACE)) == _MAX_TRACE:
            for pattern in patterns:
                _find_traces(found, compiled(pattern))


def _find_traces(found: Findings, frame: re.Pattern[str]) -> None:
    frames: list[int] = []
    end = -1
    for match in frame.finditer(found.view):
        if match.start() != end:
            _cut(found, frames)
            frames = []
        frames.append(match.start())
        end = match.end()
    _cut(found, frames)


def _cut(found: Findings, frames: list[int]) -> None:
    if len(frames) <= _MAX_TRACE:
        return
    first, last = frames[_FRAMES_KEPT], frames[-_FRAMES_KEPT]
    line_end = "\n" if found.view[first] == "\n" else "\\n"
    # A line end that is escaped more than once has backslashes left over: they end the cut.
    escapes = found.view[last - 8 : last]
    escapes = escapes[len(escapes.rstrip("\\")) :]
    count = len(frames) - 2 * _FRAMES_KEPT
    found.replace(first, last, f"{line_end}    [{count} frames cut]{escapes}")
