"""Glob patterns for paths, as .gitignore and ripgrep read them, matched in bounded time."""

import fnmatch
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from outrider.tools.files.faults import bad

MAX_ALTERNATIVES = 256
MAX_PATTERN_CHARACTERS = 1_000
_INNER_BRACES = re.compile(r"\{([^{}]*)\}")
# In such a name both readers, ours and ripgrep's, see the same pattern.
_PLAIN = re.compile(r"[\w.*?+@%=~ -]+", re.ASCII)

Test = Callable[[str], object]


class Glob:
    """A pattern: without a slash it is held against names, with one against whole paths.

    `*` and `?` stay within a name, `**` spans folders, `{a,b}` gives a choice; a `!` in front
    turns it around.
    """

    def __init__(self, text: str) -> None:
        if not text.strip("!/ ") or "\0" in text or len(text) > MAX_PATTERN_CHARACTERS:
            raise bad(f"the glob {text[:80]!r} is empty, holds a NUL character, or is too long")
        self.negated = text.startswith("!")
        patterns = [
            pattern.removeprefix("**/") if pattern.count("/") == 1 else pattern
            for pattern in expanded(text.removeprefix("!"))
        ]
        self._last = tuple(pattern.rpartition("/")[2] for pattern in patterns)
        names = [pattern for pattern in patterns if "/" not in pattern]
        self._only_names = len(names) == len(patterns)
        self._name = re.compile("|".join(map(fnmatch.translate, names))).match if names else None
        self._paths = [PathPattern.of(pattern) for pattern in patterns if "/" in pattern]

    def matches(self, path: str) -> bool:
        """Whether the pattern lets a path, relative to the folder that is searched, through."""
        return self.negated != self._found(path)

    def _found(self, path: str) -> bool:
        if self._name is not None and self._name(path[path.rfind("/") + 1 :]):
            return True
        if not self._paths:
            return False
        names = path.split("/")
        return any(pattern.matches(names) for pattern in self._paths)

    def names(self) -> tuple[str, ...]:
        """Return patterns for names, one of which every match has; empty where there are none."""
        if self.negated or not all(_PLAIN.fullmatch(name) for name in self._last):
            return ()
        return () if "*" in self._last or "**" in self._last else self._last

    @property
    def settled_by_names(self) -> bool:
        """Whether every path whose name fits `names` matches, or every path does."""
        everything = not self.negated and ("*" in self._last or "**" in self._last)
        return self._only_names and (everything or bool(self.names()))


@dataclass(frozen=True, slots=True)
class PathPattern:
    """Tests for the names of a path: at its start, at its end, and between them if `**` is there.

    In `between`, None stands for any number of names; it is None itself where there is no `**`.
    """

    start: tuple[Test, ...]
    between: tuple[Test | None, ...] | None
    end: tuple[Test, ...]

    @classmethod
    def of(cls, pattern: str) -> "PathPattern":
        """Return the tests that a pattern with a slash stands for."""
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        if parts and parts[-1] == "**":
            parts.append("*")  # all that is in a folder, but not the folder
        tests = tuple(None if part == "**" else _test(part) for part in parts)
        spans = [at for at, test in enumerate(tests) if test is None]
        if not spans:
            return cls(_plain(tests), None, ())
        first, last = spans[0], spans[-1]
        return cls(_plain(tests[:first]), tests[first : last + 1], _plain(tests[last + 1 :]))

    def matches(self, names: list[str]) -> bool:
        """Whether the names of a path pass the tests."""
        start, end = len(self.start), len(names) - len(self.end)
        if end < start or (self.between is None and end != start):
            return False
        return (
            all(test(name) for test, name in zip(self.start, names, strict=False))
            and all(test(name) for test, name in zip(self.end, names[end:], strict=True))
            and (self.between in (None, (None,)) or _spans(self.between, names[start:end]))
        )


def _plain(tests: tuple[Test | None, ...]) -> tuple[Test, ...]:
    return tuple(test for test in tests if test is not None)


@lru_cache(maxsize=256)
def _test(part: str) -> Test:
    return re.compile(fnmatch.translate(part)).match


def expanded(text: str) -> Iterator[str]:
    """Yield the patterns that one with `{a,b}` stands for; faults where they are too many."""
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
            raise bad(f"the glob {text[:80]!r} gives more than {MAX_ALTERNATIVES} choices")
        start, end = braces.span()
        waiting += [pattern[:start] + choice + pattern[end:] for choice in reversed(choices)]


def _spans(tests: tuple[Test | None, ...], names: list[str]) -> bool:
    # The places in `tests` that the names so far may have led to: no backtracking.
    places = _closed({0}, tests)
    for name in names:
        reached: set[int] = set()
        for place in places:
            if place == len(tests):
                continue
            test = tests[place]
            if test is None:
                reached.add(place)
            elif test(name):
                reached.add(place + 1)
        places = _closed(reached, tests)
        if not places:
            return False
    return len(tests) in places


def _closed(places: set[int], tests: tuple[Test | None, ...]) -> set[int]:
    for place in sorted(places):
        while place < len(tests) and tests[place] is None:
            place += 1
            places.add(place)
    return places
