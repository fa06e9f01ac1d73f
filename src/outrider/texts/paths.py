"""Paths made relative or shortened to `~`, and long stack traces without their middle."""

import re
from functools import lru_cache
from itertools import islice

from .spans import Findings, compiled, find_rare

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

# What a frame has, of Java and JavaScript ("    at name (file:line)") and of Python; found fast.
_FRAME_MARKS = (r"at (?<=[ \t\n][ \t]at )", r"File (?=\\{0,8}\")")
_FRAME_START = r"(?:[ \t]++at |[ \t|+-]*+File \\{0,8}\")"
_END = r"(?:\n|\\{1,8}n)"
_LINE = r"(?>(?:[^\n\\]|\\(?!\\{0,7}n)){1,400})"
# Below it may be some lines of code.
_FRAME = (
    rf"(?P<end>{_END}){_FRAME_START}{_LINE}"
    rf"(?>(?:{_END}(?!{_FRAME_START})[ \t|]{{3,}}+{_LINE}){{0,4}})"
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
    if f"{project}{home}".isascii():
        _find_folders(found, found.view, project, home)
    else:  # only the text has what isn't ASCII, and any other home is found better without it
        _find_folders(found, found.text, project, home)
        _find_folders(found, found.view, None, None)
    for match in find_rare(compiled(_WINDOWS_HOME), found.view, "U"):
        before = found.text[max(0, match.start() - 10) : match.start()]
        drive = compiled(r"[A-Za-z]:\\{1,8}\Z").search(before)
        if drive is not None:
            found.replace(match.start() - len(drive.group()), match.end(), "~")


def _find_folders(found: Findings, text: str, project: str | None, home: str | None) -> None:
    for match in find_rare(_folders(project, home), text, "/"):
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


def find_long_traces(found: Findings) -> None:
    """Note the middle of every stack trace of more than 30 frames."""
    rare = (find_rare(compiled(mark), found.view, mark[0]) for mark in _FRAME_MARKS)
    marks = (islice(some, _MAX_TRACE) for some in rare)
    if max(len(list(some)) for some in marks) < _MAX_TRACE:
        return
    frames: list[re.Match[str]] = []
    for frame in compiled(_FRAME).finditer(found.view):
        if frames and frame.start() != frames[-1].end():
            _cut(found, frames)
            frames = []
        frames.append(frame)
    _cut(found, frames)


def _cut(found: Findings, frames: list[re.Match[str]]) -> None:
    if len(frames) > _MAX_TRACE:
        first, last = frames[_FRAMES_KEPT], frames[-_FRAMES_KEPT]
        words = f"{first.group('end')}    [{len(frames) - 2 * _FRAMES_KEPT} frames cut]"
        found.replace(first.start(), last.start(), words)
