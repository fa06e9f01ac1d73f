"""What a question asks for: the words to look for, each with its forms and its weight."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from outrider.tools.files.ranked.code import DEFINING, VOCABULARY

MAX_QUESTION_CHARACTERS = 20_000
MAX_TERMS = 24
MAX_WORD_CHARACTERS = 80
_EXACT, _WORD, _COMMON, _JOINED, _PAIR, _WEAK = 2.0, 1.0, 0.5, 0.15, 0.7, 0.3
_ALIKE, _BEGINNING = 0.2, 0.25
# A part of a longer name often only tells it from similar ones; a word alone says more.
PART_OF_NAME = 0.5
_MIN_PREFIX = 4
_ENTRIES = ("main", "scripts", "bin")  # `func main`, `[project.scripts]`, `"bin":` of npm

_TOKEN = re.compile(r"[A-Za-z0-9_$À-ɏ][A-Za-z0-9_$À-ɏ./:-]*|[^\W\d_A-Za-zÀ-ɏ]+")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")
_NAME = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}|\w_\w|::|\w\.[A-Za-z_]")
# Scripts that put no space between words: a pair of characters stands for a word.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]+")
_ENDINGS = (
    ("ations", 4), ("ation", 4), ("ates", 4), ("ated", 4), ("ating", 4), ("ators", 4), ("ator", 4),
    ("ate", 4), ("ings", 4), ("ing", 3), ("ions", 5), ("ion", 5), ("ers", 4), ("er", 4),
    ("ments", 6), ("ment", 6), ("ed", 3), ("es", 4), ("s", 3), ("ly", 5),
)  # fmt: skip


_stop, _weak, _types, _tests, _docs, _groups, _chinese = VOCABULARY
STOP, WEAK = frozenset(_stop.split()), frozenset(_weak.split())
_TYPES = frozenset(_types.split())
_KINDS = {"test": frozenset(_tests.split()), "docs": frozenset(_docs.split())}
GROUPS = tuple(frozenset(group.split()) for group in _groups.split(";"))
GLOSSARY: dict[str, str] = dict(re.findall(r"(\S+)\s+(\S+)", _chinese))
# Compiled where it is needed: few questions are in Chinese.
_KNOWN = f"({'|'.join([*sorted(GLOSSARY, key=len, reverse=True), *filter(_UNSPACED.match, STOP)])})"


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return what the forms and spellings of a word share: `retries` and `retry` give `retri`."""
    root = _without_ending(word)
    root = re.sub(r"(?<=...)e$", "", root)
    root = re.sub(r"(?<=..)our$", "or", re.sub(r"(?<=...)is$", "iz", root))
    return re.sub(r"(?<=...)y$", "i", root)


def _without_ending(word: str) -> str:
    for ending, shortest in _ENDINGS:
        root = word.removesuffix(ending)
        if root == word or len(root) < shortest or not re.search("[aeiouy]", root):
            continue
        if root.endswith(("s", "u", "i") if ending == "s" else "e"):
            continue
        doubled = len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lszeo"
        return root[:-1] if doubled else root
    return word


_ALIKE_WORDS = tuple(frozenset(map(stem, group)) for group in GROUPS)


def split_name(name: str) -> list[str]:
    """Return the words of a name: `sessionStore` and `session_store` have the same two."""
    return [part.lower() for part in _PART.findall(name)]


Shares = tuple[tuple[int, float], ...]  # terms by their numbers, and how much counts to each


@dataclass(slots=True)
class Question:
    """The terms of a question, and how a word in a file counts towards each of them."""

    sentence: str = ""
    terms: list[str] = field(default_factory=list[str])
    weights: list[float] = field(default_factory=list[float])
    names: list[str] = field(default_factory=list[str])  # what may be a path or the end of one
    kinds: set[str] = field(default_factory=set[str])  # the files asked for: `test`, `docs`
    wants_type: bool = False
    spelled: set[str] = field(default_factory=set[str])
    """The names that the question spells out: a definition of one is what it asks for."""
    asked: dict[str, list[int]] = field(default_factory=lambda: defaultdict[str, list[int]](list))
    """By the words that would be missed: the terms that look for them."""
    _forms: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """By what a word may look like in a file: its term, and how much it counts."""
    _known: dict[str, Shares] = field(default_factory=dict[str, Shares])

    def add(self, text: str, weight: float, *forms: tuple[str, float], word: str = "") -> None:
        """Add a term with its forms, but for those that another has; it may stand for a `word`."""
        new = [(form, factor) for form, factor in forms if form not in self._forms]
        if new and len(self.terms) < MAX_TERMS:
            for form, factor in new:
                self._forms.setdefault(form, (len(self.terms), factor))
            if word:
                self.asked[word].append(len(self.terms))
            self.terms.append(text)
            self.weights.append(weight)

    def spells(self, name: str) -> int:
        """Return 2 for a name that the question spells out, 1 for one in other cases, or else 0."""
        if name in self.spelled:
            return 2
        return int(split_name(name) in map(split_name, self.spelled)) if name else 0

    def counted(self, token: str) -> Shares:
        """Return the terms that a word or name counts towards, and how much."""
        if token not in self._known:
            self._known[token] = tuple(self._counted(token))
        return self._known[token]

    def alone(self, token: str) -> Iterator[tuple[int, float]]:
        """Return the same, as if each word of a name stood alone."""
        share = PART_OF_NAME if len(split_name(token)) > 1 else 1.0
        return ((term, min(1.0, factor / share)) for term, factor in self.counted(token))

    def _counted(self, token: str) -> Iterator[tuple[int, float]]:
        if exact := self._forms.get(f"={token}"):
            yield exact
        found: dict[int, float] = {}
        parts = [token] if token in self._forms else split_name(token)
        share = PART_OF_NAME if len(parts) > 1 else 1.0
        for part in [*map(stem, parts), *(stem(a + b) for a, b in pairwise(parts))]:
            term, factor = self._forms.get(part) or self._beginning(part)
            found[term] = max(found.get(term, 0.0), factor * share)
        yield from ((term, factor) for term, factor in found.items() if factor)

    def _beginning(self, part: str) -> tuple[int, float]:
        """Return the term that a longer word begins with: `timeout` in `timeoutms`."""
        for form, (term, factor) in self._forms.items():
            if len(form) >= _MIN_PREFIX and part.startswith(form):
                return term, factor * _BEGINNING
        return 0, 0.0

    def is_asked_in(self, line: str) -> bool:
        """Whether a line asks the question itself, in an example say: that answers nothing."""
        return self.sentence.count(" ") > 2 and self.sentence in line.casefold()

    def pattern(self) -> str:
        """Return a pattern for ripgrep: whole names that may have a term in them."""
        # Without Unicode classes, which are slow, and with literals that it can look for first.
        forms = sorted({_literal(form.removeprefix("=")) for form in self._forms})
        plain = [re.escape(form) for form in forms if form.isascii()]
        # Short ones only where a word begins: after a sign, or in capitals within a name.
        short = [rf"(?i:(?:\b|_){form})|{form.capitalize()}" for form in plain if len(form) < 4]
        long = [f"(?i:{form})" for form in plain if len(form) >= 4]
        whole = "[A-Za-z0-9_$]*"
        before = rf"(?:{'|'.join(DEFINING)})[ \t]+(?:\([^()\n]{{0,80}}\)[ \t]*)?"
        names = f"(?-u:(?:{before})?{whole}(?:{'|'.join([*long, *short])}){whole})"
        others = [f"(?i:{re.escape(form)})" for form in forms if not form.isascii()]
        return "|".join([*([names] if plain else []), *others])

    def path_pattern(self) -> str:
        """Return a pattern for paths that may have a term in them, or that the question names."""
        forms = [_literal(form.removeprefix("=")) for form in self._forms]
        return "|".join(map(re.escape, [*forms, *(n.removeprefix("./") for n in self.names)]))


def _literal(form: str) -> str:
    """Return the part of a stem that all its spellings have: `normali` of `normaliz`."""
    return form[:-1] if len(form) > 3 and form.endswith(("iz", "or", "i")) else form


def understood(text: str) -> Question:
    """Return what a question asks for; one without any word that tells something has no terms."""
    question = Question(text.strip("?. \n").casefold())
    tokens = [t.rstrip(".:/-") for t in _TOKEN.findall(text[:MAX_QUESTION_CHARACTERS])]
    tokens = [t for t in tokens if len(t) <= MAX_WORD_CHARACTERS or _UNSPACED.match(t)]
    question.names = [t for t in tokens if re.search(r"[./]", t) and len(t) > 2][:20]
    words: list[str] = []
    if "entrypoint" in "".join(tokens).lower():
        question.names += ["__main__.py"]
        names, question.spelled = list[str](), set[str](_ENTRIES)
    else:
        names, is_short = _spelled_out(tokens)
        question.spelled = set(names) if is_short else set()
    for name in (*names, *question.spelled):
        question.add(name, _EXACT, (f"={name}", 1.0), word=name if name in names else "")
    for token in tokens:
        parts = re.split(r"[./:-]+", token)
        words += [word for part in parts for word in split_name(part) or [part.lower()]]
    also: dict[str, list[str]] = defaultdict(list)
    english = [word for one in words for word in _translated(one, also)]
    question.kinds = {kind for kind, asked in _KINDS.items() if asked.intersection(english)}
    question.wants_type = not _TYPES.isdisjoint(english)
    _add_words(question, english, also)
    for run in filter(_UNSPACED.match, words):
        _add_pairs(question, run)
    return question


def _spelled_out(tokens: list[str]) -> tuple[list[str], bool]:
    """Return what looks like a name, or else the only telling word; and whether it says it all."""
    # A long question that names something is about more than where that is defined.
    told = [token for token in tokens if token.lower() not in STOP | WEAK | _TYPES]
    shaped = [(token, re.split(r"::|[./]", token)[-1]) for token in tokens if _NAME.search(token)]
    # What is short behind a dot is the ending of a file's name.
    if names := [name for token, name in shaped if "." not in token or len(name) > 4]:
        return names, len(told) <= len(names) + 2
    is_name = len(told) == 1 and re.fullmatch(r"[A-Za-z_$][\w$]+", told[0])
    return (told, True) if is_name else ([], False)


def _translated(word: str, also: dict[str, list[str]]) -> list[str]:
    """Return a word, or the English ones for it; what else these may be called goes to `also`."""
    if not _UNSPACED.match(word):
        return [word]
    # The longest first: a reverse proxy is no agent.
    known = (GLOSSARY[part] for part in re.split(_KNOWN, word) if part in GLOSSARY)
    english = [one.split(",") for words in known for one in words.split("+")]
    for first, *others in english:
        also[first] += others
    return [first for first, *_ in english]


def _add_words(question: Question, words: list[str], also: Mapping[str, list[str]]) -> None:
    """Add the words that tell something, the most frequent first, and neighbours as one name."""
    of_kinds = frozenset[str]().union(*_KINDS.values())
    told = (word for word in words if word not in STOP or word in also)
    telling = [word for word in told if len(word) > 1 and word not in of_kinds]
    strong = [word for word in telling if word not in WEAK]
    for word, _ in Counter(strong).most_common(MAX_TERMS):
        forms = [stem(word), *map(stem, also.get(word, ()))]
        # A word that code has other words for tells less.
        alike = next((group for group in _ALIKE_WORDS if forms[0] in group), ())
        shares = [*((form, 1.0) for form in forms), *((form, _ALIKE) for form in alike)]
        question.add(word, _COMMON if alike else _WORD, *shares, word=word)
    for first, second in pairwise(words):
        if first in strong and second in strong:
            question.add(f"{first} {second}", _JOINED, (stem(first + second), 1.0))
    for word in telling if len(question.terms) < 2 else ():
        question.add(word, _WEAK, (stem(word), 1.0), word=word)


def _add_pairs(question: Question, run: str) -> None:
    """Add the pairs of characters; those of a word that isn't translated stand for it."""
    parts = {pair: part for part in re.split(_KNOWN, run) for pair in pairwise(part)}
    for pair in pairwise(run):
        part = parts.get(pair, "")
        if part in GLOSSARY or STOP.isdisjoint(pair):
            text = "".join(pair)
            question.add(text, _PAIR, (text, 1.0), word="" if part in GLOSSARY else part)
