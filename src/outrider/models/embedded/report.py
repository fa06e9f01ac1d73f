"""The answer in words: what was found, each with its place; what can't be done comes first.

The first part fits a screen; how it was found, and by whom, stands below a line.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from outrider.models.embedded.evidence import (
    Finding,
    PlannedCall,
    code,
    diagnostics,
    findings,
    is_test,
    uses,
)
from outrider.models.embedded.task import Role, Task

ABOUT = (
    "This report was put together by Outrider's embedded model, which quotes what it finds and "
    "doesn't reason. Read the quoted lines before relying on them. For a written answer, set a "
    "key such as OPENAI_API_KEY or ANTHROPIC_API_KEY, start a local model server, or name a model "
    "with `--model`."
)
_NOT_DONE = "**Not done:** the embedded model can't {what}; it finds and quotes."
MAX_WIDTH = 160
_MAX_QUOTED = 2
_MAX_ROWS = 8
_MAX_SENTENCES = 8
_MAX_LISTING = 30

Place = tuple[str, int, str]
Section = Callable[[Task, Sequence[PlannedCall]], Iterator[str]]

# Each is wrong, or worth a look, wherever it stands: the ending of the path, the line, the reason.
_CHECKS = (
    (r"\.py$", r"\s*except\s*:", "a bare `except` also swallows KeyboardInterrupt"),
    (r"\.py$", r".*except\b.*:\s*pass\s*$", "an error is swallowed"),
    (r"\.py$", r"\s*(async )?def .*=\s*(\[\]|\{\}|set\(\))", "a mutable default is shared"),
    (r"\.py$", r".*[=!]=\s*None\b", "None is compared by `==` instead of `is`"),
    (r"\.py$", r".*\bshell\s*=\s*True", "a shell gets the text of a command"),
    (r"\.py$", r".*\b(pickle\.loads?|yaml\.load)\((?!.*Loader)", "loaded data can run code"),
    (r"\.[cm]?[jt]sx?$", r".*catch\s*(\([^)]*\))?\s*\{\s*\}", "an error is swallowed"),
    (r"\.[cm]?[jt]sx?$", r".*(\.innerHTML\s*=|dangerouslySetInnerHTML)", "text becomes HTML"),
    (r"\.c(c|pp)?$", r".*\b(gets|strcpy|sprintf)\(", "a buffer is filled without its size"),
    (r"", r".*(verify\s*=\s*False|rejectUnauthorized:\s*false)", "certificates are not checked"),
    (r"", r".*(?<![\w.])eval\(", "text is run as code"),
    (r"", r".*\b(breakpoint\(\)|pdb\.set_trace\(\)|debugger;)", "left over from debugging"),
    (r"", r"(<{7}|>{7}) ", "a merge conflict is not resolved"),
    (r"", r".*\b(TODO|FIXME|XXX)\b", "marked as unfinished"),
)
_EDGES = (
    (r"\b(int|float|number|[iu]\d+|size_t|usize|long)\b", "0, 1, negative, very large"),
    (r"\b(str|string|String|char|text)\b", "empty, very long, in other scripts"),
    (r"\b([lL]ist|tuple|set|Sequence|Iterable|Array|Vec)\b|\[\]", "empty, one, many, doubles"),
    (r"\b(dict|Mapping|Map|HashMap|Record|object)\b", "empty, a key that is missing"),
    (r"\b(Path|path|file|folder|dir)", "missing, a folder, without permission"),
    (r"\b(bool|boolean)\b", "both values"),
    (r"None|Optional|null|\?:", "left out"),
    (r"timeout|deadline|seconds|_ms\b", "0, already over"),
    (r"Callable|callback|=>", "one that raises"),
)


def embedded_report(task: Task, made: Sequence[PlannedCall]) -> str:
    """Return the whole report, in Markdown."""
    sections = [_NOT_DONE.format(what=task.cannot)] if task.cannot else []
    found = task.changes or task.role == "researcher" or findings(made)
    sections += _SECTIONS[task.role](task, made) if found else _nothing(made)
    method = "\n".join(_method(made)) or "- called no tool"
    return "\n\n".join([*sections, f"---\n\n## How this was found\n\n{method}", ABOUT]) + "\n"


def _explorer(task: Task, made: Sequence[PlannedCall]) -> Iterator[str]:
    found = findings(made)
    yield f"The best match is `{found[0].place}`: {found[0].sentence()}"
    for number, finding in enumerate(found, 1):
        inside = f" in `{finding.name}`" if finding.name else ""
        row = f"{number}. `{finding.place}`{inside}: {finding.sentence()}"
        yield f"{row}\n\n{_quoted(finding)}" if number <= _MAX_QUOTED else row
    if task.wants_uses:
        yield from _listed("Uses", uses(made))


def _reviewer(task: Task, made: Sequence[PlannedCall]) -> Iterator[str]:
    found = findings(made)
    read = {path: dict(added) for path, added in task.changes.items()}
    read = read or {finding.path: dict(finding.lines) for finding in found}
    checked = [
        (path, number, f"{why}: {code(text)}")
        for path, lines in read.items()
        for number, text in sorted(lines.items())
        for ending, pattern, why in _CHECKS
        if re.search(ending, path) and re.match(pattern, text)
    ]
    touched = {path: {number for number, _ in added} for path, added in task.changes.items()}
    told = [one for one in diagnostics(made) if not touched or one[1] in touched.get(one[0], ())]
    what = "the lines that the diff adds" if task.changes else "the places that fit the task best"
    if not checked and not told:
        yield f"The checks found nothing in {what}. That doesn't mean that they are right."
    yield from _listed("From language servers", told)
    yield from _listed("From checks of single lines", checked)
    if task.changes:
        rows = [
            (path, added[0][0], f"{len(added)} lines added") for path, added in task.changes.items()
        ]
        yield from _listed("What the diff touches", rows)
    yield from _around(found, made)


def _tester(task: Task, made: Sequence[PlannedCall]) -> Iterator[str]:
    found = [finding for finding in findings(made) if not is_test(finding.path)]
    tested = " ".join(text for path, _, text in uses(made) if is_test(path))
    rows = [
        (one.path, one.line, f"`{one.name}` is in no test that was found")
        for one in found[:3]
        if one.name and not re.search(rf"\b{re.escape(one.name)}\b", tested)
    ]
    yield from _listed("Without a test", rows)
    yield from _listed("Edges of signatures", [row for f in found[:3] for row in _edges(f)])
    yield from _listed("Errors to provoke", [row for f in found[:3] for row in _raised(f)])
    yield from _around(found, made)


def _implementer(task: Task, made: Sequence[PlannedCall]) -> Iterator[str]:
    found = findings(made)
    source = [one for one in found if not is_test(one.path)] or found
    yield from _listed("Places to touch", list(map(_described, source)))
    yield from _around(found, made)


def _researcher(task: Task, made: Sequence[PlannedCall]) -> Iterator[str]:
    pages = [
        p for call in made if call.name == "fetch_content" and call.data for p in call.data["pages"]
    ]
    words = {word[:5] for word in re.findall(r"\w{4,}", task.about.lower())}
    scored: list[tuple[float, int, str, str]] = []
    for page in (page for page in pages if page.get("text")):
        for place, sentence in enumerate(_sentences(page["text"])):
            own = {word[:5] for word in re.findall(r"\w{4,}", sentence.lower())}
            scored.append((-len(own & words) - 1 / (place + 2), place, sentence, page["url"]))
    best = sorted(one for one in scored if one[0] <= -1)[:_MAX_SENTENCES]
    if not best:
        yield "No page was found that answers this." if pages or made else "There is no web tool."
    yield from (f"- {code(sentence)} ({url})" for _, _, sentence, url in best)
    failed = [f"- {page['url']}: {page['error']}" for page in pages if page.get("error")]
    if failed:
        yield "Not read:\n\n" + "\n".join(failed)


_SECTIONS: dict[Role, Section] = {
    "explorer": _explorer,
    "reviewer": _reviewer,
    "tester": _tester,
    "implementer": _implementer,
    "researcher": _researcher,
}


def _sentences(text: str) -> list[str]:
    lines = (line for line in text.split("\n") if not line.startswith(("#", "|", "```")))
    parts = (part for line in lines for part in re.split(r"(?<=[.!?。])\s*", line))
    return [" ".join(part.split()) for part in parts if 20 < len(part) < 400]


def _around(found: Sequence[Finding], made: Sequence[PlannedCall]) -> Iterator[str]:
    """Yield who uses what was found, and which tests are near it."""
    used = uses(made)
    tests = [_described(one) for one in found if is_test(one.path)]
    yield from _listed("Callers and uses", [use for use in used if not is_test(use[0])])
    yield from _listed("Nearest tests", [*(use for use in used if is_test(use[0])), *tests])


def _described(finding: Finding) -> Place:
    name = f"`{finding.name}`: " if finding.name else ""
    return finding.path, finding.line, name + finding.sentence()


def _edges(finding: Finding) -> Iterator[Place]:
    for part in re.split(r",\s*(?![^\[(<]*[\])>])", finding.signature()):
        name = re.match(r"\W*(?:(?:const|final|mut)\s+)?(\w+)", part)
        values = [values for pattern, values in _EDGES if re.search(pattern, part)]
        if name and name[1] not in ("self", "cls", "this") and values:
            yield finding.path, finding.start, f"{code(part)}: {'; '.join(values)}"


def _raised(finding: Finding) -> Iterator[Place]:
    for number in range(finding.start, finding.end + 1):
        text = finding.lines.get(number, "")
        if re.match(r".*\b(raise|throw)\s+\w|.*\b(panic!|Err)\(", text):
            yield finding.path, number, code(text)


def _listed(title: str, rows: Sequence[Place]) -> Iterator[str]:
    if rows:
        shown = [f"- `{path}:{line}` {text.strip()[:MAX_WIDTH]}" for path, line, text in rows]
        more = [f"- and {len(rows) - _MAX_ROWS} more"] if len(rows) > _MAX_ROWS else []
        yield f"## {title}\n\n" + "\n".join([*shown[:_MAX_ROWS], *more])


def _nothing(made: Sequence[PlannedCall]) -> Iterator[str]:
    """Yield what can be said where no place was found: what the folder shows of itself."""
    searched = [call for call in made if call.name == "find" and "about" in call.arguments]
    if faults := [call.fault for call in searched if call.fault]:
        yield f"Nothing could be searched: {faults[0]}"
    elif not searched:
        yield "Nothing was searched: there is no task, or no tool to search with."
    elif searched[0].data["words"]:
        yield f"Nothing was found for this task in {searched[0].data['files']:,} files."
    else:
        yield "The task has no word that can be looked for."
    shown = [call for call in made if call.name in ("read", "ls") and call.data]
    yield from ["What the folder shows of itself:"] if shown else []
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
        arguments = ", ".join(
            f"{name} {code(str(value))}" for name, value in call.arguments.items()
        )
        missing: list[str] = call.data["missing"] if call.data and "about" in call.arguments else []
        note = f"; in no file: {', '.join(missing)}" if missing else ""
        note = f": {call.fault}" if call.fault else note
        yield f"- `{call.name}` {arguments}{note}"


def _quoted(finding: Finding) -> str:
    return _fenced(f"{number:>5}  {text[:MAX_WIDTH]}" for number, text in finding.quoted())


def _fenced(rows: Iterable[str]) -> str:
    """Return a code block that no quoted text can close."""
    body = "\n".join(rows)
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}\n{body}\n{fence}"
