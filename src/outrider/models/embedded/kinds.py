"""What sort of file and line something was found in, as far as its name and shape tell."""

import re
from enum import StrEnum

from outrider.models.embedded import vocabulary


class FileKind(StrEnum):
    """The role a file has in a repository."""

    CODE = "code"
    TEST = "test"
    DOCS = "docs"
    CONFIG = "config"
    GENERATED = "generated"
    OTHER = "other"


_GENERATED_PARTS = frozenset(
    ("node_modules", "dist", "build", "vendor", "third_party", "site-packages", "__snapshots__")
)
_GENERATED_NAME = re.compile(
    r"(.*[.-]lock(\.\w+)?|.*\.(min\.(js|css)|map|svg|snap|pb\.go|lock|sum)|.*_pb2\.py"
    r"|package-lock\.json|pnpm-lock\.yaml|go\.sum)",
    re.IGNORECASE,
)
_TEST_PARTS = frozenset(("test", "tests", "__tests__", "spec", "specs", "testdata", "fixtures"))
_TEST_NAME = re.compile(r"(test_.*|.*[._-](test|tests|spec)\.\w+|conftest\.py)", re.IGNORECASE)
_DOC_PARTS = frozenset(("doc", "docs", "documentation"))
_DOC_NAME = re.compile(
    r"(readme|changelog|changes|license|contributing|history)\b.*", re.IGNORECASE
)


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
    if not _DOC_PARTS.isdisjoint(folders):
        return FileKind.DOCS
    return FileKind.CONFIG if suffix in vocabulary.CONFIG_SUFFIXES else FileKind.OTHER


_ROUTINE = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|pub"
    r"(?:\([a-z]+\))?|unsafe|override|virtual|inline|extern)\s+)*"
    r"(?:def|class|function\*?|func|fn|fun|interface|trait|struct|enum|module|sub|impl|protocol)\s+"
    r"(?:\([^)]{0,80}\)\s*)?(?P<name>[\w$]+(?:(?:\.|::)[\w$]+)*)"
)
# A method as C, Java or TypeScript write it, with no word that says so.
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
_COMMENT = re.compile(r"\s*(#|//|/\*|\*|--|;|\"\"\"|'''|<!--)")
_STRING = re.compile(r"\"[^\"]*\"|'[^']*'")
_FLOW = re.compile(
    r"\s*(if|elif|else if|while|for|raise|throw|return|assert|case|match|switch|try|except|catch"
    r"|await|yield|with|until|unless|when)\b"
)


def routine_name(line: str) -> str | None:
    """Return the name of the function or type that a line begins; None if it begins none."""
    found = _ROUTINE.match(line)
    if found is None and "(" in line and not _NO_METHOD.match(line):
        found = _METHOD.fullmatch(line)
    return found["name"] if found else None


def value_name(line: str) -> str | None:
    """Return the name of the constant, field or key that a line sets; None if it sets none."""
    found = _VALUE.match(line)
    return found["name"] if found else None


def without_strings(line: str) -> str:
    """Return a line with what stands in its quotes left out."""
    return _STRING.sub('""', line)


def is_import(line: str) -> bool:
    """Whether a line only brings a name in from elsewhere."""
    return _IMPORT.match(line) is not None


def is_comment(line: str) -> bool:
    """Whether a line is a comment, as most languages write them, or prose within one."""
    prose = len(line.split()) >= 5 and not any(sign in line for sign in "=(){}[];<>")
    return prose or _COMMENT.match(line) is not None


def is_flow(line: str) -> bool:
    """Whether a line does something: a branch, a loop, a call."""
    is_call = "(" in line and line.rstrip("; \t").endswith(")")
    return is_call or _FLOW.match(line) is not None
