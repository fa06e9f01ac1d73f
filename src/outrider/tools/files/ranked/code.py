"""What kind of file a path names, and what a line of code defines."""

import re
from collections.abc import Sequence
from keyword import kwlist
from pathlib import Path

_KINDS = {
    "generated": re.compile(
        r"(^|/)(node_modules|dist|build|vendor|_vendor|third_party|site-packages|__snapshots__|"
        r"generated|cjs|esm|umd|out|target)/|[.-]lock(\.\w+)?$|_pb2\.pyi?$|"
        r"\.(min\.(js|css)|map|svg|snap|patch|diff|pb\.go|sum|d\.[cm]?ts|log)$"
    ),
    "test": re.compile(
        r"(^|/)(tests?([_-]?(data|cases|files|suite))?|t|__tests__|specs?|fixtures|snapshots|e2e|"
        r"bench(es|marks?)?|examples?|mocks?)/|"
        r"(^|/)(test_[^/]*|conftest)\.|[._-](tests?|spec|bench)\.\w+$|[a-z]Tests?\.\w+$"
    ),
    "docs": re.compile(
        r"(^|/)(docs?|documentation|changelogs?|locales?)/|"
        r"\.(md|mdx|rst|txt|adoc|html?|org|po|man|[1-8])$|"
        r"(^|/)(readme|changelog|changes|news|history|licen[sc]e|copying|contributing)[^/]*$",
        re.IGNORECASE,
    ),
    # What a shell completes only repeats which options there are.
    "data": re.compile(r"(^|/)complet(e|ions?)/(.*/)?[^/]*\.((ba|z|fi)sh|ps1|elv|nu)$"),
}
# They stand in a file of their own, so that a search in this code doesn't find the lists.
_LISTS = Path(__file__).with_name("vocabulary.txt").read_text("utf-8")
*VOCABULARY, _endings, _defining = re.split(r"^# .*\n", _LISTS, flags=re.MULTILINE)[1:]
_SOURCE, DEFINING = frozenset(_endings.split()), tuple(_defining.split())
KEYWORDS = frozenset([*kwlist, *DEFINING, "const", "let", "var", "new", "export", "public", "pub"])
# A template is what is made of it, and a backup what it was.
_WRAPPED = re.compile(r"(\.(in|j2|jinja2?|tmpl|tpl|orig|bak)|~)+$")
_GENERATED = re.compile(r"\b(code|automatically) generated\b|@generated|\bdo not edit\b", re.I)
_STANDING = {"generated": 0.1, "test": 0.25, "docs": 0.35, "data": 0.5, "source": 1.0}
_INDEX = re.compile(r"(^|/)(__init__\.py|index\.\w+|mod\.rs)$")
_ROUTINE = re.compile(
    r"\s*(?:(?:export|default|declare|public|private|protected|internal|static|async|abstract|"
    r"final|pub(?:\([a-z]+\))?|unsafe|override|virtual|inline|extern|const)\s+)*"
    rf"(?:{'|'.join(DEFINING)}|type|macro_rules!)\*?\s+(?:\([^()]{{0,80}}\)\s*)?"
    r"(?P<name>[\w$]+(?:(?:\.|::)[\w$]+)*)"
)
# A function as in C, Java or TypeScript, without a keyword; or one that is kept in a variable.
_METHOD = re.compile(
    r"\s*(?:[\w<>\[\],.?*&:]+\s+){0,5}[*&]*(?P<name>[A-Za-z_$~][\w$:~]*)\s*"
    r"\([^;{}]{0,200}\)[^;={}()]{0,80}\{\s*"
)
# Its body, or more parameters, begin on the next line: then it has a type, and isn't indented.
_FUNCTION = re.compile(
    r"(?:[\w<>\[\],.?*&:]+\s+){1,5}[*&]*(?P<name>[A-Za-z_$~][\w$:~]*)\s*\([^;{}=]{0,200}[,)]\s*"
)
_VALUE = re.compile(
    r"(?:(?:export|const|let|var|static|#define|final|readonly|public|private|pub)\s+)*"
    r"(?P<name>[A-Za-z_$][\w$]*)\s*(?::[^=]{0,80})?(?:=(?!=)|\s\d|\s\()"
)
# A member of an object in JSON, but for those deep inside; or a section of TOML or INI.
_KEY = re.compile(r'\s{0,2}"(?P<key>[\w$-]+)":|\[(?:[\w-]+\.)*(?P<section>[\w-]+)\]\s*$')
_NO_METHOD = re.compile(
    r"\s*(?:[})]|(?:if|for|while|switch|catch|return|else|new|await|throw|do|try|using|with|assert|"
    r"raise|yield|print|elif|not|and|or|in|lambda|import|from|use|del|goto|case)\b)"
)
IMPORT = re.compile(
    r"\s*(import\b|from\s+\S+\s+import\b|#\s*include\b|use\s+[\w:{]+|.*\brequire\(|export\s+[*{])"
)
TYPE = re.compile(r"\s*(?:\w+\s+){0,3}(class|interface|trait|struct|enum|protocol|type)\s")
HANDED_ON = re.compile(r"\b(\w+) ?[=:] ?\1\b")
COMMENT = re.compile(r"\s*(#(?!define|\[)|//|/\*|\*(?!\w)|--|;|\"\"\"|'''|<!--)")


def kind(path: str, head: str = "") -> str:
    """Return what a file is by its path, and by its first lines where they are known."""
    if _GENERATED.search(head):
        return "generated"
    path = _WRAPPED.sub("", path)
    _, dot, ending = path.rpartition("/")[2].rpartition(".")
    # What has another ending is data, or a script, as its first line says.
    is_source = (dot and ending.lower() in _SOURCE) or head.startswith("#!")
    other = "source" if is_source else "data"
    return next((name for name, looks in _KINDS.items() if looks.search(path)), other)


def standing(path: str, asked: set[str], head: str = "") -> float:
    """Return how much a file counts, for a question that asks for some kinds of files."""
    what = kind(path, head)
    if asked and what != "generated":
        return 1.0 if what in asked else 0.5 * _STANDING[what]
    return _STANDING[what] * (0.8 if _INDEX.search(path) else 1.0)


def first_test(lines: Sequence[str]) -> int:
    """Return the line at which the tests begin that stand below the code, as they do in Rust."""
    marks = (at for at, line in enumerate(lines, 1) if line.startswith("#[cfg(test)]"))
    return next((at for at in marks if "mod " in "".join(lines[at : at + 2])), len(lines) + 1)


def defined(line: str) -> str | None:
    """Return the name of the function, type or top-level value that a line defines, or None."""
    if found := _ROUTINE.match(line):
        return found["name"]
    if found := _KEY.match(line):
        return found["key"] or found["section"]
    if _NO_METHOD.match(line) or COMMENT.match(line):
        return None
    found = (_METHOD.fullmatch(line) or _FUNCTION.fullmatch(line)) if "(" in line else None
    found = found or _VALUE.match(line)
    return found["name"] if found else None


def enclosing(lines: Sequence[str], number: int) -> tuple[str | None, int, int]:
    """Return the name of the definition that holds a line, and its first and last line."""
    first, depth = number, indent(lines[number - 1])
    name = defined(lines[number - 1])
    while name is None and first > 1:
        first -= 1
        line = lines[first - 1]
        if line.strip() and indent(line) < depth:
            name = defined(line)
            # A closing bracket ends a signature that started further up, at the same depth.
            depth = indent(line) + line.lstrip().startswith((")", "]", "}"))
    if name is None:
        return None, number, number
    last, depth = first, indent(lines[first - 1])
    while last < len(lines) and (not lines[last].strip() or indent(lines[last]) > depth):
        last += 1
    while last > first and not lines[last - 1].strip():
        last -= 1
    return name, first, max(last, number)


def indent(text: str) -> int:
    return len(text) - len(text.lstrip())
