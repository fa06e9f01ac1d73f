"""The answer in words: what was found, each with its place; what can't be done comes first.

The first part fits a screen; how it was found, and by whom, stands below a line.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from outrider.models.embedded import evidence
from outrider.models.embedded.evidence import MAX_SENTENCE, Finding, PlannedCall, code, is_test
from outrider.models.embedded.task import Task

ABOUT = (
    "This report was put together by Outrider's embedded model, which quotes what it finds and "
    "doesn't reason. Read the quoted lines before relying on them. For a written answer, set a "
    "key such as OPENAI_API_KEY or ANTHROPIC_API_KEY, start a local model server, or name a model "
    "with `--model`."
)
_NOT_DONE = "**Not done:** the embedded model can't {what}; it finds and quotes."
_MAX_QUOTED = 2
_MAX_ROWS = 8
_MAX_SENTENCES = 8
_MAX_LISTING = 30
_UNRESOLVED = re.compile(r"unresolved[- ]import|cannot find module|could not be resolved", re.I)

Place = tuple[str, int, str]


class Unanswered(str):
    """A report that answers nothing; its first line says why."""


def embedded_report(task: Task, made: Sequence[PlannedCall]) -> str:
    """Return the whole report, in Markdown; an `Unanswered` one where nothing was searched."""
    reason = evidence.unsearched(task, made)
    sections = [f"I could not search: {reason}"] if reason else []
    sections += [_NOT_DONE.format(what=task.cannot)] if task.cannot else []
    if reason:
        sections += _contents(made)
    elif task.role == "researcher":
        sections += _from_pages(task, made)
    elif task.changes or evidence.findings(made):
        sections += _from_files(task, made)
    else:
        sections += _nothing(made)
    method = "\n".join(_method(made)) or "- called no tool"
    sections += [f"---\n\n## How this was found\n\n{method}", ABOUT]
    return (Unanswered if reason else str)("\n\n".join(sections) + "\n")


def _from_files(task: Task, made: Sequence[PlannedCall]) -> Iterator[str]:
    found, used, changes = evidence.findings(made), evidence.uses(made), task.changes
    touched = [
        (path, lines[0], f"{len(lines)} line{'s' * (len(lines) != 1)} added")
        for path, lines in changes.items()
    ]
    yield from _listed("What the diff touches", touched)
    changed = [(path, line, code(name)) for path, line, name in task.changed]
    yield from _listed("Changed definitions", changed)
    asks_for_uses = task.wants_uses and any(map(task.names, (one.name for one in found[:1])))
    if asks_for_uses:
        yield from _listed("Uses", used)
    if task.role == "implementer":
        source = [one for one in found if not is_test(one.path)] or found
        yield from _listed("Places to touch", list(map(_described, source)))
    elif not changes:
        yield from _best_first(found, is_weak=evidence.is_weak(made))
    if task.role == "explorer":
        yield from () if asks_for_uses else _listed("Uses", used)
        return
    tests = [_described(one) for one in found if is_test(one.path)]
    yield from _listed("Callers and uses", [use for use in used if not is_test(use[0])])
    yield from _listed("Nearest tests", [*(use for use in used if is_test(use[0])), *tests])
    wrong = evidence.diagnostics(made)
    wrong = [one for one in wrong if not changes or one[1] in changes.get(one[0], ())]
    missing = [one for one in wrong if _UNRESOLVED.search(one[2])]
    yield from _listed("From language servers", [one for one in wrong if one not in missing])
    if missing:
        yield f"Imports that can't be resolved here: {len(missing)}. Dependencies may be missing."


def _best_first(found: Sequence[Finding], *, is_weak: bool) -> Iterator[str]:
    what = "Weak match: nothing fits well. The nearest is" if is_weak else "The best match is"
    yield from (f"{what} `{best.place}`: {best.sentence()}" for best in found[:1])
    for number, finding in enumerate(found, 1):
        inside = f" in `{finding.name}`" if finding.name else ""
        row = f"{number}. `{finding.place}`{inside}: {finding.sentence()}"
        quoted = (f"{line:>5}  {text[:MAX_SENTENCE]}" for line, text in finding.quoted())
        yield f"{row}\n\n{_fenced(quoted)}" if number <= _MAX_QUOTED else row


def _from_pages(task: Task, made: Sequence[PlannedCall]) -> Iterator[str]:
    fetched = [call.data for call in made if call.name == "fetch_content" and call.data]
    pages = [page for data in fetched for page in data["pages"]]
    words = {word[:5] for word in re.findall(r"\w{4,}", task.about.lower())}
    scored: list[tuple[float, int, str, str]] = []
    for page in (page for page in pages if page.get("text")):
        for place, sentence in enumerate(_sentences(page["text"])):
            own = {word[:5] for word in re.findall(r"\w{4,}", sentence.lower())}
            scored.append((-len(own & words) - 1 / (place + 2), place, sentence, page["url"]))
    best = sorted(one for one in scored if one[0] <= -1)[:_MAX_SENTENCES]
    if not best:
        yield "Found no page that answers this."
    yield from (f"- {code(sentence)} ({url})" for _, _, sentence, url in best)
    failed = [f"- {page['url']}: {page['error']}" for page in pages if page.get("error")]
    if failed:
        yield "Not read:\n\n" + "\n".join(failed)


def _sentences(text: str) -> list[str]:
    lines = (line for line in text.split("\n") if not line.startswith(("#", "|", "```")))
    parts = (part for line in lines for part in re.split(r"(?<=[.!?。])\s*", line))
    return [" ".join(part.split()) for part in parts if 20 < len(part) < 400]


def _described(finding: Finding) -> Place:
    name = f"`{finding.name}`: " if finding.name else ""
    return finding.path, finding.line, name + finding.sentence()


def _listed(title: str, rows: Sequence[Place]) -> Iterator[str]:
    if rows:
        shown = [f"- `{path}:{line}` {text.strip()[:MAX_SENTENCE]}" for path, line, text in rows]
        more = [f"- and {len(rows) - _MAX_ROWS} more"] if len(rows) > _MAX_ROWS else []
        yield f"## {title}\n\n" + "\n".join([*shown[:_MAX_ROWS], *more])


def _nothing(made: Sequence[PlannedCall]) -> Iterator[str]:
    """Yield what can be said where no place was found."""
    searched = [call for call in made if call.name == "find" and "about" in call.arguments]
    if not searched:
        yield "Nothing was searched: there is no task."
    elif searched[0].data["words"]:
        yield f"Nothing was found for this task in {searched[0].data['files']:,} files."
    else:
        yield "The task has no word to search for."
    yield from _contents(made)


def _contents(made: Sequence[PlannedCall]) -> Iterator[str]:
    shown = [call for call in made if call.name in ("read", "ls") and call.data]
    yield from ["What the folder contains:"] if shown else []
    for call in shown:
        if call.data.get("lines"):
            yield f"`{call.data['path']}`:\n\n{_fenced(call.data['lines'][:20])}"
        elif entries := call.data.get("entries"):
            yield _fenced([*_tree(entries, "")][:_MAX_LISTING])


def _tree(entries: Sequence[dict[str, object]], indent: str) -> Iterator[str]:
    for entry in entries:
        yield f"{indent}{entry['name']}{'/' if entry['kind'] == 'folder' else ''}"
        yield from _tree(entry.get("entries", ()), indent + "  ")  # pyright: ignore[reportArgumentType]


def _method(made: Sequence[PlannedCall]) -> Iterator[str]:
    for call in made:
        arguments = ", ".join(f"{key} {code(str(one))}" for key, one in call.arguments.items())
        missing: list[str] = call.data["missing"] if call.data and "about" in call.arguments else []
        note = f"; in no file: {', '.join(missing)}" if missing else ""
        note = f": {call.fault}" if call.fault else note
        yield f"- `{call.name}` {arguments}{note}"


def _fenced(rows: Iterable[str]) -> str:
    """Return a code block that no quoted text can close."""
    body = "\n".join(rows)
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}\n{body}\n{fence}"
