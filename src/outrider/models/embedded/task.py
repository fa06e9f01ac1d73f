"""What a task asks for: in which role, about what, and what of it can't be done here."""

import re
from typing import Literal, cast, get_args

from outrider.protocol.data import frozen

Role = Literal["explorer", "reviewer", "tester", "implementer", "researcher"]
MAX_QUESTION = 20_000
_ADDED = "\n<untrusted-content"
"""Where standard input or a file that was added to a task begins."""
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
_PATH = re.compile(r"[\w./-]*\w\.[A-Za-z]\w{0,5}\b")
_USES = re.compile(r"\b(uses?|used|using|calls?|called|callers?|references?|depends?)\b|引用|调用")


@frozen
class Task:
    """A task as the embedded model understands it."""

    role: Role
    about: str
    """What to search for: the task without its diff."""
    changes: dict[str, list[int]]
    """By path, the numbers of the lines that a diff in the task adds."""
    urls: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    cannot: str = ""
    """What it asks that this model can't do."""
    wants_uses: bool = False


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
    return Task(
        role=cast("Role", role),
        about=_URL.sub(" ", about),
        changes=_changes(diff),
        urls=urls,
        paths=tuple(dict.fromkeys(_PATH.findall(about)))[:5],
        cannot=" or ".join(dict.fromkeys(filter(None, cannot))),
        wants_uses=_USES.search(about.lower()) is not None,
    )


def _changes(diff: str) -> dict[str, list[int]]:
    """Return the numbers of the lines that a diff adds, by the paths of its files."""
    changes: dict[str, list[int]] = {}
    path, number = "", 0
    for line in diff.split("\n"):
        if file := _FILE.match(line):
            path = file[1].strip()
        elif hunk := _HUNK.match(line):
            number = int(hunk[1])
        elif line.startswith("+"):
            changes.setdefault(path, []).append(number)
            number += 1
        elif not line.startswith(("-", "\\")):
            number += 1
    return {path: added for path, added in changes.items() if path and path != "/dev/null"}
