"""What kind of file and line something was found in, judged by its name and shape."""

import re
from enum import StrEnum

from outrider.models.embedded import vocabulary


class FileKind(StrEnum):
    """The role a file has in a repository."""

    CODE = "code"
    TEST = "test"
    DOCS = "docs"
    GENERATED = "generated"
    OTHER = "other"


_GENERATED_PARTS = frozenset(
    ("node_modules", "dist", "build", "vendor", "third_party", "site-packages", "__snapshots__")
)
_GENERATED_NAME = re.compile(
    r"(.*[.-]lock(\.\w+)?|.*\.(min\.(js|css)|map|svg|snap|pb\.go|lock|sum)|.*_pb2\.py"
    r"|package-lock\.json|pnpm-lock\.yaml|go\.sum)"
)
_TEST_PARTS = frozenset(("test", "tests", "__tests__", "spec", "specs", "testdata", "fixtures"))
_TEST_NAME = re.compile(r"(test_.*|.*[._-](test|tests|spec)\.\w+|conftest\.py)")
_DOC_PARTS = frozenset(("doc", "docs", "documentation"))
_DOC_NAME = re.compile(r"(readme|changelog|changes|license|contributing|history)\b.*")


def file_kind(path: str) -> FileKind:
    """Return what `path` looks like."""
    *folders, name = path.lower().split("/")
    suffix = name.rsplit(".", 1)[-1] if "." in name else ""
    if not _GENERATED_PARTS.isdisjoint(folders) or _GENERATED_NAME.fullmatch(name):
        return FileKind.GENERATED
    if not _TEST_PARTS.isdisjoint(folders) or _TEST_NAME.fullmatch(name):
        return FileKind.TEST
    if suffix in vocabulary.DOC_SUFFIXES or _DOC_NAME.fullmatch(name):
        return FileKind.DOCS
    if suffix in vocabulary.CODE_SUFFIXES:
        return FileKind.CODE
    return FileKind.OTHER if _DOC_PARTS.isdisjoint(folders) else FileKind.DOCS


DEFINING = "(?:def|class|function|func|fn|fun|interface|trait|struct|enum|module|sub|impl|protocol)"
_ROUTINE = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|pub"
    r"(?:\([a-z]+\))?|unsafe|override|virtual|inline|extern)\s+)*"
    rf"{DEFINING}\*?\s+"
    r"(?:\([^)]{0,80}\)\s*)?(?P<name>[\w$]+(?:(?:\.|::)[\w$]+)*)"
)
_TYPE = re.compile(r"\b(class|interface|trait|struct|enum|protocol)\s")
# A method as in C, Java or TypeScript, without a keyword.
_METHOD = re.compile(
    r"\s*(?:[\w<>\[\],.?*&:]+\s+){0,5}(?P<name>[A-Za-z_$~][\w$]*)\s*"
    r"\([^;{}]{0,200}\)[^;={}]{0,80}\{\s*"
)
_NO_METHOD = re.compile(
    r"\s*(?:\}\s*)?(if|for|while|switch|catch|return|else|new|await|throw|do|try|using|lock|with)\b"
)
_VALUE = re.compile(
    r"\s*(?:(?:export|const|let|var|val|static|final|readonly|public|private|pub|type)\s+)*"
    r"[\"']?(?P<name>[A-Za-z_$][\w$.-]*)[\"']?\s*(?::[^=]{0,80})?(?:=(?!=)|:(?!:)\s*\S)"
)
_IMPORT = re.compile(
    r"\s*(import\b|from\s+\S+\s+import\b|#include\b|use\s+[\w:]+|require\(|export\s+\*|package\s)"
)
# Also a parameter as docstrings describe it: `timeout (float): Seconds.`, `:param timeout: …`
_COMMENT = re.compile(r"\s*(#|//|/\*|\*|--|;|\"\"\"|'''|<!--|:\w+ |\w+ \([^()=]*\): [A-Z])")
# Small words that are common in prose and aren't names in code.
_PROSE = re.compile(r"(?<!\S)(the|an|your|be|will|should|which|its|are|was|also)(?!\S)")
# Several words in quotes: a message. A single word may be the name of a key or a variable.
_STRING = re.compile(r"\"[^\"]*\s[^\"]*\"|'[^']*\s[^']*'")
_HANDED_ON = re.compile(r"\b(\w+) ?[=:] ?\1\b")
_FLOW = re.compile(
    r"\s*(if|elif|else if|while|for|raise|throw|return|assert|case|match|switch|try|except|catch"
    r"|await|yield|with|until|unless|when)\b"
)


def routine_name(line: str) -> str | None:
    """Return the name of the function or type that starts on a line, or None."""
    found = _ROUTINE.match(line)
    if found is None and "(" in line and not _NO_METHOD.match(line):
        found = _METHOD.fullmatch(line)
    return found["name"] if found else None


def is_type(line: str) -> bool:
    """Whether a definition is one of a type, not of a function."""
    return _TYPE.search(line) is not None


def value_name(line: str) -> str | None:
    """Return the name of the constant, field or key that a line sets, or None."""
    found = _VALUE.match(line)
    return found["name"] if found else None


def own_words(line: str) -> str:
    """Return a line without its messages, and without what it passes on: `timeout=timeout`."""
    return _HANDED_ON.sub("", _STRING.sub('""', line.replace('"""', "")))


def is_import(line: str) -> bool:
    """Whether a line is an import."""
    return _IMPORT.match(line) is not None


def is_comment(line: str) -> bool:
    """Whether a line is a comment or prose within one, in most languages."""
    if _COMMENT.match(line):
        return True
    bare = len(line.split()) >= 5 and not any(sign in line for sign in "=(){}[];<>")
    return bare or _PROSE.search(own_words(line)) is not None


def is_flow(line: str) -> bool:
    """Whether a line does something: a branch, a loop, a call."""
    is_call = "(" in line and line.rstrip("; \t").endswith(")")
    return is_call or _FLOW.match(line) is not None
