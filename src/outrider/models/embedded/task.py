"""What a task asks for: in which role, about what, and what of it can't be done here."""

import re
from typing import Literal, cast, get_args

from outrider.protocol.data import frozen

Role = Literal["explorer", "reviewer", "tester", "implementer", "researcher"]
MAX_QUESTION = 20_000
_ADDED = "\n<untrusted-content"  # where standard input or a file that was added to a task begins
_ROLE_OF_VERB: dict[str, Role] = {
    "review": "reviewer", "audit": "reviewer", "test": "tester", "cover": "tester",
    "plan": "implementer", "design": "implementer", "implement": "implementer",
    "research": "researcher",
}  # fmt: skip
_JUDGE = "judge (that needs a language model)"
_CANNOT = {
    "change or run anything": """add build change commit create delete deploy edit execute fix
        generate improve insert install migrate modify move refactor remove rename replace rewrite
        run update upgrade write implement""",
    _JUDGE: "review judge assess evaluate rate audit",
    "compare": "compare contrast",
    "decide": "decide recommend choose plan design",
}
_VERBS = {verb: what for what, verbs in _CANNOT.items() for verb in verbs.split()}
_URL = re.compile(r"\bhttps?://[^\s<>\"')\]]{3,}", re.IGNORECASE)
_FILE = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)")
_DEFINED = re.compile(
    r"\b(?:def|class|func|fn|function|interface|struct|trait|enum)\s+(?:\([^)]*\)\s*)?(\w+)"
)
_PATH = re.compile(r"[\w./-]*\w\.[A-Za-z]\w{0,5}\b")
_USES = re.compile(r"\b(uses?|used|using|calls?|called|callers?|references?|depends?)\b|引用|调用")


@frozen
class Task:
    """A task as the embedded model understands it."""

    role: Role
    about: str  # what to search for: the task without its diff
    changes: dict[str, list[int]]  # by path, the numbers of the lines that a diff in the task adds
    urls: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    cannot: str = ""  # what it asks that this model can't do
    wants_uses: bool = False
    changed: tuple[tuple[str, int, str], ...] = ()  # by a diff: path, line and name

    def names(self, definition: str | None) -> bool:
        """Whether the task spells out the name of a definition."""
        name = (definition or "").split(".")[-1]
        return bool(name) and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self.about) is not None


def understand(text: str, agent: str) -> Task:
    """Return what the task of an agent asks for; never fails."""
    text = text.replace("\0", " ").encode(errors="replace").decode()
    start = re.search(r"^(diff --git|--- \S)", text, re.MULTILINE)
    diff = text[start.start() :] if start and _FILE.search(text) else ""
    about = text[: start.start()] if start and diff else text[:MAX_QUESTION]
    about = about.partition(_ADDED)[0] or about
    words = re.findall(r"[a-z]+", about[:200].lower())
    verb = next((word for word in words if word not in ("please", "can", "could", "you")), "")
    role = agent if agent in get_args(Role) else _ROLE_OF_VERB.get(verb, "explorer")
    urls = tuple(dict.fromkeys(url.rstrip(".,;") for url in _URL.findall(text)))[:5]
    judging = {"reviewer": _JUDGE, "tester": _JUDGE, "implementer": "decide"}
    cannot = [_VERBS.get(verb), judging.get(role)]
    cannot += ["compare"] if {"compare", "versus", "vs", "better"}.intersection(words) else []
    cannot += ["open web addresses"] if urls and role != "researcher" else []
    changes, changed = _changes(diff)
    paths = tuple(dict.fromkeys(_PATH.findall(about)))[:5]
    refused = " or ".join(dict.fromkeys(filter(None, cannot)))
    wants_uses = _USES.search(about.lower()) is not None
    about = _URL.sub(" ", about)
    return Task(cast("Role", role), about, changes, urls, paths, refused, wants_uses, changed)


def _changes(diff: str) -> tuple[dict[str, list[int]], tuple[tuple[str, int, str], ...]]:
    """Return the lines that a diff adds, by the paths of its files, and what they are part of."""
    changes: dict[str, list[int]] = {}
    changed: dict[tuple[str, str], int] = {}
    path, number, inside = "", 0, ""
    for line in diff.split("\n"):
        file, hunk = _FILE.match(line), _HUNK.match(line)
        path = file[1].strip() if file else path
        number = int(hunk[1]) if hunk else number
        inside = "" if file else inside
        if defined := _DEFINED.search(line):
            inside = defined[1]
        if hunk or file or line.startswith("\\"):
            continue
        if line.startswith("+"):
            changes.setdefault(path, []).append(number)
        if line.startswith(("+", "-")) and inside and path != "/dev/null":
            changed.setdefault((path, inside), number)
        number += not line.startswith("-")
    added = {path: lines for path, lines in changes.items() if path and path != "/dev/null"}
    return added, tuple((path, at, name) for (path, name), at in changed.items() if path in added)
