"""Glob patterns for paths, as .gitignore and ripgrep read them, matched in bounded time."""

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

from outrider.protocol.envelope import ToolCode, ToolFault

MAX_CHOICES = 256
MAX_CHARACTERS = 1_000
_INNER_BRACES = re.compile(r"\{([^{}]*)\}")
# Such a name means the same to fnmatch and to ripgrep.
_PLAIN = re.compile(r"[\w.*?+@%=~ -]+", re.ASCII)

NameTest = Callable[[str], object]
PathTest = tuple[NameTest | None, ...]  # for each name of a path; None: any number (`**`)


class Glob:
    """A pattern: without a slash it is matched against names, with one against whole paths.

    `*` and `?` stay within a name, `**` spans folders, `{a,b}` is a choice, a leading `!` negates.
    """

    def __init__(self, text: str) -> None:
        patterns = _expanded(text.removeprefix("!")) if len(text) <= MAX_CHARACTERS else []
        if not text.strip("!/ ") or "\0" in text or not 0 < len(patterns) <= MAX_CHOICES:
            faults = "is empty, too long, holds a NUL character, or gives too many choices"
            raise ToolFault(ToolCode.BAD_PARAMETER, f"the glob {text[:80]!r} {faults}")
        self._negated = text.startswith("!")
        self._last = tuple(pattern.rpartition("/")[2] for pattern in patterns)
        names = [pattern for pattern in patterns if "/" not in pattern]
        self._name = re.compile("|".join(map(fnmatch.translate, names)) or "(?!)").match
        self._paths = [_path_test(pattern) for pattern in patterns if "/" in pattern]

    def matches(self, path: str) -> bool:
        """Whether a path, relative to the searched folder, matches."""
        found = self._name(path[path.rfind("/") + 1 :]) is not None
        if not found and self._paths:
            names = path.split("/")
            found = any(_passes(names, test) for test in self._paths)
        return self._negated != found

    def names(self) -> tuple[str, ...]:
        """Return patterns for names, one of which every match has; empty where there are none."""
        is_any = self._negated or "*" in self._last or "**" in self._last
        return () if is_any or not all(map(_PLAIN.fullmatch, self._last)) else self._last


def _path_test(pattern: str) -> PathTest:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if parts and parts[-1] == "**":
        parts.append("*")  # all that is in a folder, but not the folder
    return tuple(None if one == "**" else re.compile(fnmatch.translate(one)).match for one in parts)


def _passes(names: Sequence[str], tests: PathTest) -> bool:
    """Whether the names of a path pass the tests; it backtracks to the last `**` only."""
    name = test = 0
    span, span_end = -1, 0
    while name < len(names):
        is_left = test < len(tests)
        if is_left and tests[test] is None:
            span, span_end = test, name
            test += 1
        elif is_left and (one := tests[test]) and one(names[name]):
            name, test = name + 1, test + 1
        elif span >= 0:
            span_end += 1
            name, test = span_end, span + 1
        else:
            return False
    return all(one is None for one in tests[test:])


def _expanded(text: str) -> list[str]:
    """Return the patterns that one with `{a,b}` stands for, but hardly more than are allowed."""
    patterns = [text]
    # Inner braces first, so that all patterns have the same number of braces left.
    while _INNER_BRACES.search(patterns[0]) and len(patterns) <= MAX_CHOICES:
        patterns = list(islice(chain.from_iterable(map(_chosen, patterns)), MAX_CHOICES + 1))
    return patterns


def _chosen(pattern: str) -> Iterator[str]:
    head, choices, tail = _INNER_BRACES.split(pattern, maxsplit=1)
    return (f"{head}{choice}{tail}" for choice in choices.split(","))
