"""The answer as text: what was found, quoted with its place, how, and what wrote this."""

from collections.abc import Iterable

from outrider.models.embedded.evidence import Evidence
from outrider.models.embedded.kinds import routine_name
from outrider.models.embedded.ranking import Finding
from outrider.models.embedded.words import Question

ABOUT = (
    "This report was put together by Outrider's embedded model, which quotes what it finds and "
    "doesn't reason. Read the quoted lines before relying on them. For a written answer, set a "
    "key such as OPENAI_API_KEY or ANTHROPIC_API_KEY, start a local model server, or name a model "
    "with `--model`."
)
_LINES_BEFORE = 3
_LINES_AFTER = 8
_MAX_WIDTH = 200
_MAX_LISTING = 60


def write_report(question: Question, evidence: Evidence, findings: list[Finding]) -> str:
    """Return the whole report, in Markdown."""
    sections = [
        _opening(question, evidence, findings),
        *_limits(question),
        _findings(evidence, findings),
        _overview(question, evidence),
        _method(question, evidence),
        f"## About this report\n\n{ABOUT}",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def snippet(evidence: Evidence, finding: Finding) -> list[tuple[int, str]]:
    """Return the lines around a finding that were seen without gaps, with their numbers."""
    lines = evidence.lines[finding.path]
    first = last = finding.line
    while first > finding.line - _LINES_BEFORE and first - 1 in lines:
        first -= 1
    while last < finding.line + _LINES_AFTER and last + 1 in lines:
        last += 1
    shown = [(number, lines[number]) for number in range(first, last + 1)]
    while len(shown) > 1 and not shown[-1][1].strip():
        shown.pop()
    return shown


def enclosing(evidence: Evidence, finding: Finding) -> str | None:
    """Return the name of the function or type that contains a finding, if it was seen."""
    lines = evidence.lines[finding.path]
    if name := routine_name(lines[finding.line]):
        return name
    indent = _indent(lines[finding.line])
    number = finding.line - 1
    while number in lines:
        text = lines[number]
        if text.strip() and _indent(text) < indent:
            if name := routine_name(text):
                return name
            # A closing bracket ends a signature that started further up, at the same depth.
            indent = _indent(text) + text.lstrip().startswith((")", "]", "}"))
        number -= 1
    return None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _opening(question: Question, evidence: Evidence, findings: list[Finding]) -> str:
    if findings:
        best = findings[0]
        inside = enclosing(evidence, best)
        where = f"`{best.path}:{best.line}`" + (f", in `{inside}`" if inside else "")
        text = evidence.lines[best.path][best.line].strip()[:_MAX_WIDTH]
        return f"The best match is {where}:\n\n{_fenced([text])}"
    if question.about_everything and (evidence.read or evidence.listing):
        return "What the repository shows of itself:"
    if not question.terms and not question.paths:
        return (
            "Nothing was searched: the task has no word that can be looked for in files. "
            "Name a thing, a file or an identifier."
        )
    if evidence.faults and not evidence.hits:
        return "Nothing could be searched: the search tool failed, see below."
    return "Nothing was found for this task in the files that can be read here."


def _limits(question: Question) -> list[str]:
    """Return what was asked for and can't be done."""
    change = (
        "**Not done:** the task asks for something to be changed or run. The embedded model "
        "only finds and quotes; what follows is where such work would begin."
    )
    web = "**Not done:** the embedded model opens no web address."
    return [change] * question.wants_change + [web] * question.wants_web


def _findings(evidence: Evidence, findings: list[Finding]) -> str:
    if not findings:
        return ""
    blocks = ["## Findings"]
    for number, finding in enumerate(findings, 1):
        inside = enclosing(evidence, finding)
        title = f"### {number}. `{finding.path}:{finding.line}`"
        title += f" in `{inside}`" if inside else ""
        terms = ", ".join(finding.terms[:8])
        rows = _numbered(snippet(evidence, finding))
        blocks.append(f"{title}\n\nMatches: {terms}\n\n{_fenced(rows)}")
    return "\n\n".join(blocks)


def _overview(question: Question, evidence: Evidence) -> str:
    if not question.about_everything:
        return ""
    blocks: list[str] = []
    for path, windows in sorted(evidence.read.items())[:1]:
        first, last = windows[0]
        shown = range(first, min(last, first + 30) + 1)
        rows = _numbered((at, evidence.lines[path].get(at, "")) for at in shown)
        blocks.append(f"### `{path}:{first}`\n\n{_fenced(rows)}")
    if evidence.listing:
        rows = [row[:_MAX_WIDTH] for row in evidence.listing[:_MAX_LISTING]]
        blocks.append(f"### Files\n\n{_fenced(rows)}")
    return "\n\n".join(blocks)


def _method(question: Question, evidence: Evidence) -> str:
    rows: list[str] = []
    for term in question.terms:
        found = evidence.faults.get(term.pattern) or _counted(evidence.hits.get(term.pattern))
        rows.append(f"- searched for `{_inline(term.text)}`: {found[:_MAX_WIDTH]}")
    rows += [f"- looked for the file `{_inline(path)}`" for path in question.paths]
    read = [
        f"`{path}` ({', '.join(f'{first}-{last}' for first, last in sorted(windows))})"
        for path, windows in sorted(evidence.read.items())
    ]
    rows.append(f"- read {', '.join(read)}" if read else "- read no file")
    return "## How this was found\n\n" + "\n".join(rows)


def _counted(hits: int | None) -> str:
    if hits is None:
        return "not searched, because there is no tool for it"
    return f"{hits} line{'' if hits == 1 else 's'}" if hits else "nothing"


def _numbered(lines: Iterable[tuple[int, str]]) -> list[str]:
    return [f"{number:>5}  {text[:_MAX_WIDTH]}" for number, text in lines]


def _inline(text: str) -> str:
    return text.replace("`", "'")[:80]


def _fenced(rows: Iterable[str]) -> str:
    """Return a code block that no quoted text can close."""
    body = "\n".join(rows)
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}\n{body}\n{fence}"
