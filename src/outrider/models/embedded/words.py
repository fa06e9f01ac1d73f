"""What a task asks for: the terms to search, the files it names, and its intent.

Every pattern is built from escaped words, so that ripgrep and Python read it in the same way, and
it takes linear time in both.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import pairwise

from outrider.models.embedded import vocabulary

_MAX_TASK = 20_000
_MAX_TOKEN = 100

_QUOTED = re.compile(
    r"`([^`\n]{2,120})`|\"([^\"\n]{2,120})\"|“([^”\n]{2,120})”|(?<!\w)'([^'\n]{2,120})'(?!\w)"
)
_TOKEN = re.compile(r"[A-Za-z0-9_À-ɏ][A-Za-z0-9_À-ɏ./:\-]*|[^\W\d_A-Za-zÀ-ɏ]{2,8}")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-zß-ɏ]+|[A-Z]+|\d+")
_SUFFIX = re.compile(r"\.([A-Za-z0-9]{1,8})$")
_URL = re.compile(r"\bhttps?://\S{3,}", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[,;()\[\]?!\n]|\.(?=\s)")
_SEPARATOR = "[ _.-]?"
_FORMS = "(e|s|es|ed|er|ing)?"


class Kind(Enum):
    """How a term was found, with its weight and how many such terms are searched for.

    A long task has many words, and each one that is searched costs a call.
    """

    QUOTED = (3.0, 4)
    IDENTIFIER = (3.0, 6)
    FOLLOWED = (1.2, 0)  # found in what was read, not in the task
    COMPOUND = (0.5, 5)
    WORD = (1.0, 7)
    ACTION = (0.45, 2)
    DEED = (0.35, 2)
    WEAK = (0.25, 2)

    def __init__(self, weight: float, limit: int) -> None:
        self.weight = weight
        self.limit = limit


class Intent(Enum):
    """What the question wants to know about the thing."""

    DEFINITION = auto()
    TYPE = auto()
    BEHAVIOUR = auto()
    ANY = auto()


@dataclass(frozen=True, slots=True)
class Term:
    """Something to search for."""

    text: str
    pattern: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Question:
    """A task as the embedded model understands it."""

    terms: tuple[Term, ...]
    paths: tuple[str, ...]
    intent: Intent
    wants_tests: bool
    wants_docs: bool
    wants_overview: bool
    wants_change: bool
    wants_web: bool

    @property
    def about_everything(self) -> bool:
        """Whether it is about the repository as a whole, and not about a thing in it."""
        telling = [t for t in self.terms if t.kind not in (Kind.WEAK, Kind.ACTION, Kind.DEED)]
        return self.wants_overview and not telling and not self.paths

    def names(self, path: str) -> bool:
        """Whether the task names the file at `path`."""
        return any(path.endswith(name.removeprefix("./")) for name in self.paths)


def understand(task: str) -> Question:
    """Return what `task` asks for; never fails."""
    text = task[:_MAX_TASK]
    quoted = [found.group().strip("`'\"“” ") for found in _QUOTED.finditer(text)]
    # Quoted sentences are searched as a whole, so their words aren't searched again.
    bare = _QUOTED.sub(lambda m: " , " if " " in m.group() else m.group(), _URL.sub(" ", text))
    clauses = [_tokens(clause) for clause in _CLAUSE_END.split(bare)]
    tokens = [token for clause in clauses for token in clause]
    words = [token.lower() for token in tokens]
    paths = tuple(dict.fromkeys(token for token in (*quoted, *tokens) if _is_path(token)))
    change = next((word for word in words if word != "please"), "")
    skip = {*paths, change} if change in vocabulary.CHANGE else {*paths}
    return Question(
        terms=_terms(quoted, clauses, skip),
        paths=paths[:5],
        intent=_intent(words),
        wants_tests=not vocabulary.TEST_WORDS.isdisjoint(words),
        wants_docs=not vocabulary.DOC_WORDS.isdisjoint(words),
        wants_overview=not vocabulary.OVERVIEW.isdisjoint(words),
        wants_change=change in vocabulary.CHANGE,
        wants_web=_URL.search(text) is not None,
    )


def _tokens(clause: str) -> list[str]:
    stripped = (token.rstrip(".:/-") for token in _TOKEN.findall(clause))
    return [token for token in stripped if 0 < len(token) <= _MAX_TOKEN]


def _terms(quoted: list[str], clauses: list[list[str]], skip: set[str]) -> tuple[Term, ...]:
    sentences = [text for text in quoted if text not in skip and " " in text]
    found = [
        Term(text, _portable(r"\s+".join(map(re.escape, text.split()))), Kind.QUOTED)
        for text in sentences
    ]
    plain: list[str | None] = []
    for token in (token for clause in clauses for token in (*clause, None)):
        if token is None or token in skip or token.lower() in skip:
            plain.append(None)
        elif _is_identifier(token):
            found.append(_identifier_term(token))
            plain.append(None)
        else:
            if re.fullmatch(r"[^\W\d_]+(-[^\W\d_]+)+", token):
                found.append(replace(_identifier_term(token), kind=Kind.COMPOUND))
            plain.extend(re.split(r"[./:\-]+", token))
    found += _compounds(plain)
    found += [_word_term(word) for word in plain if word and _is_telling(word)]
    found += [_deed_term(word) for word in plain if word and _deeds(word.lower())]
    return _most_telling(found)


def _most_telling(found: list[Term]) -> tuple[Term, ...]:
    """Return the terms worth a search: of each kind the most frequent, then the earliest."""
    counts = Counter(term.pattern for term in found)
    distinct = list({term.pattern.lower(): term for term in reversed(found)}.values())[::-1]
    terms = sorted(distinct, key=lambda term: -counts[term.pattern])
    chosen = [
        term
        for kind in Kind
        for term in [term for term in terms if term.kind is kind][: kind.limit]
    ]
    strong = [term for term in chosen if term.kind is not Kind.WEAK]
    substantial = [term for term in strong if term.kind not in (Kind.ACTION, Kind.DEED)]
    return tuple(strong if len(substantial) >= 2 else chosen)


def _compounds(plain: list[str | None]) -> list[Term]:
    """Return neighbouring words that may be one name in code: `grace period`, `gracePeriod`."""
    found: list[Term] = []
    for first, second in pairwise(plain):
        if not first or not second or not (_is_searchable(first) and _is_searchable(second)):
            continue
        kinds = (_word_kind(first), _word_kind(second))
        if kinds == (Kind.WEAK, Kind.WEAK):
            continue
        # In a name the action comes before the thing: `limits checked`, `check_limits`.
        done = kinds[1] is Kind.ACTION or second.lower().endswith("ed")
        pattern = _joined(second, first) if done else _joined(first, second)
        found.append(Term(f"{first} {second}", pattern, Kind.COMPOUND))
    return found


def _joined(first: str, second: str) -> str:
    return f"{_flexible(first)}[a-z]{{0,3}}{_SEPARATOR}{_flexible(second)}"


def _identifier_term(token: str) -> Term:
    name = token.split("::")[-1].rsplit(".", 1)[-1] if "::" in token or "." in token else token
    pattern = _SEPARATOR.join(map(re.escape, split_name(name))) or re.escape(name)
    return Term(token, _portable(pattern), Kind.IDENTIFIER)


def split_name(name: str) -> tuple[str, ...]:
    """Return the words that a name is made of: `sessionStore` and `session_store` have two."""
    return tuple(part.lower() for part in _CAMEL.findall(name))


def _word_term(word: str) -> Term:
    lowered, root = word.lower(), _flexible(word)
    # A short word inside a longer one is chance; a longer word is most likely the same word.
    pattern = rf"(\b|_){root}{_FORMS}(\b|_)" if len(stem(lowered)) <= 3 else root
    if short := _SHORT.get(stem(lowered)):
        pattern = rf"{pattern}|(\b|_){short}s?(\b|_)|(?-i:[a-z]{short.capitalize()}s?([A-Z_]|\b))"
    return Term(lowered, pattern, _word_kind(word))


def _word_kind(word: str) -> Kind:
    if word.lower() in vocabulary.WEAK:
        return Kind.WEAK
    doing = stem(word.lower()).startswith(vocabulary.BEHAVIOUR + vocabulary.DEFINITION)
    return Kind.ACTION if doing or _deeds(word.lower()) else Kind.WORD


def _deeds(word: str) -> tuple[str, ...]:
    """Return the words that code uses for the action `word`, where it has several."""
    found = (deeds for deeds in vocabulary.DEEDS if stem(word).startswith(deeds))
    return next(found, ())


def _deed_term(word: str) -> Term:
    deeds = _deeds(word.lower())
    pattern = "|".join(rf"(\b|_){deed}" if len(deed) <= 3 else deed for deed in deeds)
    return Term(f"{word.lower()} and the like", pattern, Kind.DEED)


def _flexible(word: str) -> str:
    """Return a pattern for the word in its other forms: `retries` also finds `retry`."""
    lowered = word.lower()
    for ending in ("ies", "ied", "y"):
        root = lowered.removesuffix(ending)
        if root != lowered and len(root) >= 4:
            return f"{_spelt(root)}[iy]"
    return _spelt(stem(lowered))


def _spelt(root: str) -> str:
    """Return a pattern for the root in British and American spelling."""
    escaped = _portable(re.escape(root))
    return re.sub(
        r"i[sz]$", "i[sz]", re.sub(r"(?<=[a-z]{3})our|(?<=\b(?:col|hon|fav))or", "ou?r", escaped)
    )


def stem(word: str) -> str:
    """Return the part of a word that its forms share: `enforced` gives `enforc`."""
    for ending, shortest in _ENDINGS:
        root = word.removesuffix(ending)
        if root == word or len(root) < shortest or not re.search("[aeiouy]", root):
            continue
        if root.endswith(("s", "u", "i") if ending == "s" else "e"):
            continue
        doubled = len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lszeo"
        return root[:-1] if doubled else root
    return word


_ENDINGS = (
    ("ations", 4), ("ation", 4), ("ings", 4), ("ing", 3), ("ions", 5), ("ion", 5), ("ers", 5),
    ("er", 5), ("ments", 6), ("ment", 6), ("ed", 3), ("es", 4), ("s", 3), ("ly", 5), ("e", 5),
)  # fmt: skip


_SHORT = {stem(word): short for word, short in vocabulary.SHORT.items()}


def _portable(pattern: str) -> str:
    """Undo escapes that Python adds and Rust's syntax rejects."""
    return re.sub(r"\\([ #&~\-/:'\"%!,;<>=@`])", r"\1", pattern)


def _is_telling(word: str) -> bool:
    """Whether a word says what to look for, and not only in which kind of file."""
    kinds_of_file = vocabulary.TEST_WORDS | vocabulary.DOC_WORDS
    return _is_searchable(word) and word.lower() not in kinds_of_file


def _is_searchable(word: str) -> bool:
    lowered = word.lower()
    return len(lowered) >= (3 if lowered.isdigit() else 2) and lowered not in vocabulary.STOP


def _is_identifier(token: str) -> bool:
    inner = token.strip("_")
    camel = re.search(r"[a-zß-ɏ0-9][A-Z]|[A-Z]{2}[a-z]{2}", inner) is not None
    dotted = re.fullmatch(r"[A-Za-z_]\w+(\.[A-Za-z_]\w+)+", token) is not None
    return bool(inner) and ("_" in token or camel or "::" in token or dotted)


def _is_path(token: str) -> bool:
    if " " in token or "://" in token or len(token) < 3:
        return False
    suffix = _SUFFIX.search(token)
    known = suffix is not None and suffix.group(1).lower() in (
        vocabulary.CODE_SUFFIXES | vocabulary.DOC_SUFFIXES | vocabulary.CONFIG_SUFFIXES
    )
    return known or token.count("/") >= 2


def _intent(words: list[str]) -> Intent:
    stems = [stem(word) for word in words]
    if len(words) > 1 and words[0] in ("which", "what") and words[1] in vocabulary.TYPE_WORDS:
        return Intent.TYPE
    if any(root.startswith(vocabulary.DEFINITION) for root in stems):
        return Intent.DEFINITION
    # "Where is it masked?", "How does it end?": with any verb, it asks what happens.
    happening = any(
        (len(word) > 4 and word.endswith("ed")) or word in ("do", "does") for word in words
    )
    if words[:1] in (["where"], ["how"]) and happening:
        return Intent.BEHAVIOUR
    doing = any(root.startswith(vocabulary.BEHAVIOUR) for root in stems)
    return Intent.BEHAVIOUR if doing else Intent.ANY
