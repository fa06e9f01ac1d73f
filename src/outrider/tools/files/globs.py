"""Glob patterns for paths, as .gitignore and ripgrep read them, matched in bounded time."""

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from outrider.protocol.envelope import ToolCode, ToolFault

MAX_ALTERNATIVES = 256
MAX_PATTERN_CHARACTERS = 1_000
_INNER_BRACES = re.compile(r"\{([^{}]*)\}")
# Such a name means the same to fnmatch and to ripgrep.
_PLAIN = re.compile(r"[\w.*?+@%=~ -]+", re.ASCII)

NameTest = Callable[[str], object]
PathTest = tuple[NameTest | None, ...]
"""A test for each name of a path; None stands for any number of names (`**`)."""


class Glob:
    """A pattern: without a slash it is matched against names, with one against whole paths.

    `*` and `?` stay within a name, `**` spans folders, `{a,b}` gives a choice; a leading
    `!` negates it.
    """

    def __init__(self, text: str) -> None:
        if not text.strip("!/ ") or "\0" in text or len(text) > MAX_PATTERN_CHARACTERS:
            message = f"the glob {text[:80]!r} is empty, holds a NUL character, or is too long"
            raise ToolFault(ToolCode.BAD_PARAMETER, message)
        self.negated = text.startswith("!")
        patterns = [
            pattern.removeprefix("**/") if pattern.count("/") == 1 else pattern
            for pattern in _expanded(text.removeprefix("!"))
        ]
        self._last = tuple(pattern.rpartition("/")[2] for pattern in patterns)
        names = [pattern for pattern in patterns if "/" not in pattern]
        self._name = re.compile("|".join(map(fnmatch.translate, names))).match if names else None
        self._paths = [_path_test(pattern) for pattern in patterns if "/" in pattern]
        self._any_name = "*" in self._last or "**" in self._last
        self._everything = self._any_name and not self._paths and not self.negated

    def matches(self, path: str) -> bool:
        """Whether a path, relative to the searched folder, matches."""
        if self._everything:
            return True
        found = self._name is not None and self._name(path[path.rfind("/") + 1 :]) is not None
        if not found and self._paths:
            names = path.split("/")
            found = any(_passes(names, test) for test in self._paths)
        return self.negated != found

    def names(self) -> tuple[str, ...]:
        """Return patterns for names, one of which every match has; empty where there are none."""
        if self.negated or self._any_name or not all(map(_PLAIN.fullmatch, self._last)):
            return ()
        return self._last

    @property
    def settled_by_names(self) -> bool:
        """Whether every path whose name fits `names` matches, or every path does."""
        return self._everything or (not self._paths and bool(self.names()))


def _path_test(pattern: str) -> PathTest:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if parts and parts[-1] == "**":
        parts.append("*")  # all that is in a folder, but not the folder
    return tuple(None if part == "**" else _name_test(part) for part in parts)


@lru_cache(maxsize=256)
def _name_test(part: str) -> NameTest:
    return re.compile(fnmatch.translate(part)).match


def _passes(names: Sequence[str], tests: PathTest) -> bool:
    """Whether the names of a path pass the tests; it backtracks to the last `**` only."""
    name = test = 0
    span, span_end = -1, 0
    while name < len(names):
        one = tests[test] if test < len(tests) else _never
        if one is None:
            span, span_end = test, name
            test += 1
        elif one(names[name]):
            name, test = name + 1, test + 1
        elif span >= 0:
            span_end += 1
            name, test = span_end, span + 1
        else:
            return False
    return all(one is None for one in tests[test:])


def _never(name: str) -> bool:
    return False


def _expanded(text: str) -> Iterator[str]:
    """Yield the patterns that one with `{a,b}` stands for; raises where they are too many."""
    waiting, made = [text], 0
    while waiting:
        pattern = waiting.pop()
        braces = _INNER_BRACES.search(pattern)
        if braces is None:
            yield pattern
            continue
        choices = braces[1].split(",")
        made += len(choices)
        if made > MAX_ALTERNATIVES:
            message = f"the glob {text[:80]!r} gives more than {MAX_ALTERNATIVES} choices"
            raise ToolFault(ToolCode.BAD_PARAMETER, message)
        start, end = braces.span()
        waiting += [pattern[:start] + choice + pattern[end:] for choice in reversed(choices)]
