"""Whether the value of a secret-looking name is a literal secret, or only code or prose."""

import re
from enum import Enum
from functools import lru_cache

from .names import Promise, is_secret_name, word_set
from .spans import compiled

QUOTE = r"(?:\\{0,16}[\"'`])"
"""What opens a literal: a quote, with backslashes before it where it is inside another one."""

_MAX_LITERAL = 2048


def quoted_end(view: str, position: int, opening: str) -> tuple[int, bool]:
    """Return where the literal that `opening` began ends, and whether its quote was found.

    A quote with more backslashes before it than the opening one is part of the value; one with
    fewer ends an outer literal, and so this one too.
    """
    depth, mark = len(opening) - 1, opening[-1]
    limit = min(len(view), position + _MAX_LITERAL)
    line = view.find("\n", position, limit)
    limit = limit if line < 0 else line
    at = view.find(mark, position, limit)
    while at >= 0:
        before = view[max(position, at - 64) : at]
        backslashes = len(before) - len(before.rstrip("\\"))
        if backslashes <= depth:
            return at - backslashes, True
        at = view.find(mark, at + 1, limit)
    return limit, line >= 0


class Style(Enum):
    """How a value is written, and so how likely a bare word is a literal."""

    QUOTED = "quoted"  # password = "…"
    TIGHT = "tight"  # PASSWORD=…, ?token=…, ;Password=…, --token=…: can only be a literal
    BARE = "bare"  # password: …, password = …, --password …: may be code or prose


_PLACEHOLDER = r"""(?xi)
    \[(?:masked|redacted|hidden|removed|secret|filtered) .*
    | \$ (?: [a-z_]\w* | \{.* | \(.* | \$.* | )            # $NAME ${NAME} $(command)
    | %[({]?[a-z_]* [)}]? [sd%]? | %env.* | %v | \#\{.* | @\w+@ | @\{.*
    | \W*\*\*\W* | __\w+__ | \#[0-9a-f]{3,8}             # :****, __root__, a colour
    | .* [\-_ ] (?:not[\-_ ]set|placeholder|here|redacted)
    | < .* | \{ .* | \(.* | \[.* | ! [a-z].*               # <your-key> {key} !vault
    | [*x.\-_?\#•]{3,} | (?:\*{3,}|x{3,}|\.{3,}) [\w\-]{0,4}   # ****, xxxx, ....abcd
    | (?:your|my|the|some|enter|insert|replace|change|todo|example|dummy|fake|placeholder)
      (?:$|[\-_ .].*|me|this|[A-Z].*)
    | (?:vault|env|file|op|ref\+\w+|arn|secret|secretref|keyring|ssm|gcp|aws)(?::|://).*
    | (?:process|import|os|sys|self|this|cls|config|settings|secrets|env|args|options|ctx|req)
      (?:\.|\[|::|->).*
"""

# What isn't part of a literal: masks, and what a template fills in.
_FILLED_IN = r"\[masked:[a-z-]+\]|\$\{[^}]*+\}?|\{\{[^}]*+\}*+"

_WORDS_OF_CODE = word_set(
    "string str text number int integer boolean bool object array any unknown never void bytes "
    "byte char password passwd pwd secret secrets token tokens key keys auth credential "
    "credentials none null nil undefined true false yes no on off required optional hidden "
    "bearer basic digest include omit same-origin default empty unset missing invalid value "
    "values input output self this inherit private public internal readonly "
    "username user email apikey api_key"
)

_SENTENCE = word_set(
    "a an and are at be by can enter field for from has have in is it must no not of on or "
    "password please reset secret should that the this to type use user was with you your"
)

_TYPE_WITH_DIGITS = r"""(?ix)
    (?: u?int | i | u | f | float | double | vec | utf-? | sha-? | md | str | char | n?varchar
      | base | oauth | x | rs | hs | es | ps | ed | aes-? | k8s | s | ec | v | http | ipv | h | p
      | argon | blake | pbkdf | bcrypt | arg | param | row | var | col | val | value | item | test
      | user | line | group | match | step | node | part | foo | bar | ascii | latin | id
    ) [\d_]+ [a-z]{0,10} s?
    | (?-i:[A-Z]{2,5}-\d{1,4}) | scram-sha-\d+
"""

_NAMES = r"[A-Za-z_$][\w$]*+(?>(?:(\.|::|->)[A-Za-z_]\w*+)*)"


def is_literal_secret(promise: Promise, value: str, style: Style) -> bool:
    """Return whether `value`, written in `style` after such a name, is a secret."""
    return _is_literal_secret(promise, value[:_MAX_LITERAL], style)


@lru_cache(maxsize=512)
def _is_literal_secret(promise: Promise, value: str, style: Style) -> bool:
    value = compiled(_FILLED_IN).sub("", value)
    if len(value) < 4 or _stands_for_something_else(value, style):
        return False
    if style is Style.QUOTED and any(letter.isspace() for letter in value):
        return _is_passphrase(value) or (promise is Promise.PASSWORD and _is_row_of_words(value))
    if promise is Promise.TOKEN:
        return _looks_like_a_token(value, style)
    if style is Style.BARE:
        return _looks_like_a_bare_password(value, promise)
    return True


def stands_for_a_secret(value: str) -> bool:
    """Return whether `value` is a placeholder, a variable or a name instead of the secret."""
    value = value[:_MAX_LITERAL]
    return is_placeholder(value) or _is_reference(value)


def is_placeholder(value: str) -> bool:
    """Return whether `value` says that a secret belongs here: `<token>`, `${TOKEN}`, `***`."""
    value = compiled(_FILLED_IN).sub("", value[:_MAX_LITERAL])
    return not value or compiled(_PLACEHOLDER).fullmatch(value) is not None


def _stands_for_something_else(value: str, style: Style) -> bool:
    return (
        value.lower() in _WORDS_OF_CODE
        or stands_for_a_secret(value)
        or _is_path_or_address(value)
        or (style is not Style.QUOTED and _is_code(value))
    )


def _is_reference(value: str) -> bool:
    """Return whether it is the name of a secret: `DB_PASSWORD`, `user.password`."""
    if re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z]+)+", value) and is_secret_name(value):
        return True
    if any(letter.isdigit() for letter in value.rstrip("0123456789")):
        return False
    stem = value.rstrip("0123456789")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z_.\-/: ]*", stem):
        return False
    return is_secret_name(stem) or ("_" in stem and stem.isupper() and stem == value)


def _is_path_or_address(value: str) -> bool:
    if re.match(r"[A-Za-z][A-Za-z0-9+.\-]{1,20}://", value):
        return True
    if re.match(r"(?:~|\.{1,2})/|[A-Za-z]:\\", value):
        return True
    if not re.fullmatch(r"/?(?:[\w.@\-]+/)*[\w.@\-]+", value) or "/" not in value:
        return False
    # A key in base64 may have slashes too; a path has short words or an ending.
    return bool(re.search(r"\.\w{1,5}$", value)) or max(map(len, value.split("/"))) < 16


def _is_code(value: str) -> bool:
    """Return whether it is an expression: `get_password()`, `row[2]`, `user.password`, `a->b`."""
    names = compiled(_NAMES).match(value)
    if names is None:
        return False
    rest = value[names.end() :]
    return rest[:1] in {"(", "["} or (not rest.strip(";") and names.group(1) is not None)


def _is_passphrase(value: str) -> bool:
    """Return whether a word mixes letters and digits; a plain sentence is a label or a hint."""
    return any(len(word) >= 6 and _mixes(word) for word in value.split()[:12])


def _is_row_of_words(value: str) -> bool:
    """Return whether words follow each other that aren't a sentence: `correct horse battery`."""
    words = value.split(" ")
    plain = all(word.isalpha() and word.islower() for word in words)
    return plain and 3 <= len(words) <= 8 and not _SENTENCE.intersection(words)


def is_plain_word(value: str) -> bool:
    """Return whether `value` is an ordinary word, and not one that code uses."""
    return value.isalpha() and value.islower() and value not in _WORDS_OF_CODE


def _mixes(value: str) -> bool:
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _looks_like_a_token(value: str, style: Style) -> bool:
    """Return whether it may be a token; letters alone must be many and in both cases."""
    if value.isdigit():
        return style is not Style.BARE and len(value) >= 8
    if compiled(_TYPE_WITH_DIGITS).fullmatch(value):
        return False
    if _mixes(value):
        if style is not Style.BARE:
            return len(value) >= 6
        return len(value) >= 8 and not re.fullmatch(r"[a-z_]+\d{1,2}|[A-Z][a-z]+\w*\d?", value)
    if style is Style.TIGHT:
        return len(value) >= 8 and not value.isupper()
    both_cases = value != value.lower() and value != value.upper()
    return style is Style.QUOTED and len(value) >= 20 and both_cases and value.isalnum()


def _looks_like_a_bare_password(value: str, promise: Promise) -> bool:
    if value.isdigit():
        return promise is Promise.PASSWORD and len(value) >= 6
    if compiled(_TYPE_WITH_DIGITS).fullmatch(value):
        return False
    if _mixes(value):
        return len(value) >= 6 and not re.fullmatch(r"[a-z]+(?:_[a-z0-9]+){2,}", value)
    return len(value) >= 8 and bool(re.search(r"[A-Za-z][!@#$%^*~?]+[A-Za-z]", value))
