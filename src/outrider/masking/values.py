"""Whether the value of a secret-looking name is a secret.

The rule: a placeholder or a reference (a name, a path, an expression) never is. Where a value can
only be a literal (in quotes, `NAME=value`, the cell of a table) anything else is one behind the
name of a password or secret. Behind a name that promises less (`token`), and where the value may
be code or prose (bare after `:`, ` = ` or a space), it must look random, join words as only a
passphrase does, or mix letters with digits.
"""

import re
from enum import Enum
from functools import lru_cache

from outrider.texts.spans import MASK, compiled

from .names import Promise, is_secret_name, word_set
from .randomness import looks_random

_MAX_LITERAL = 2048


class Style(Enum):
    """How a value is written, and so how likely a bare word is a literal."""

    QUOTED = "quoted"  # password = "…"
    TIGHT = "tight"  # PASSWORD=…, ?token=…, ;Password=…, --token=…: can only be a literal
    BARE = "bare"  # password: …, password = …, --password …: may be code or prose


# What says by its signs that something else belongs here.
_MARKED = r"""(?xi)
    \$ (?: [a-z_]\w* | [{($].* | ) | [@\#]\{.* | @\w+@         # $NAME ${NAME} $(command)
    | %[({]?[a-z_]* [)}]? [sd%]? | %env.*
    | \W*\*\*\W* | __\w+__ | \#[0-9a-f]{3,8}             # :****, __root__, a colour
    | (?!\{(?:s?sha|smd5|md5|crypt)) [<{(\[].* | ! [a-z].*  # <key> {key} [redacted] !vault
    | [*x.\-_?\#•]{3,} | (?:\*{3,}|x{3,}|\.{3,}) [\w\-]{0,4}  # ****, xxxx, ....abcd
    | (?:vault|env|file|op|ref\+\w+|arn|secret|secretref|keyring|ssm|gcp|aws):.*
"""

# What says so in words.
_WORDED = r"""(?xi)
    .* [\-_ ] (?:not[\-_ ]set|placeholder|here|redacted)
    | (?:your|my|the|some|enter|insert|replace|change|todo|example|dummy|fake|placeholder)
      (?:$|[\-_ .].*|me|this|(?-i:[A-Z].*))
"""

# What isn't part of a literal: masks, and what a template fills in.
_FILLED_IN = MASK + r"|\$\{[^}]*+\}?|\{\{[^}]*+\}*+"

_WORDS_OF_CODE = word_set(
    "string str text number int integer boolean bool object array any unknown bytes none null nil "
    "undefined true false password passwd pass secret token tokens key auth credentials username "
    "user required optional hidden default empty missing invalid value input include omit "
    "same-origin bearer basic digest scram-sha sha ed foo bar"
)

_SENTENCE = word_set(
    "a an and are at be by can enter for from has have in is it must no not of on or please reset "
    "should that the this to type use was with you your"
)

_DESIGNATION = r"[a-z]+(?:_[a-z0-9]+){2,}|[A-Z]{2,5}-\d{1,4}"
_PATH = r"(?:~|\.{1,2})/.*|[A-Za-z]:\\.*|(?=.*/)/?(?:[\w.@\-]+/)*[\w.@\-]+"
# `get_password()`, `row[2]`, `user.password`, `a->b;`
_CODE = r"[A-Za-z_$][\w$]*+(?>(?:(\.|::|->)[A-Za-z_]\w*+)*)(?:[(\[].*|(?(1);*|(?!)))"
_ADDRESS_OR_CALL = r"[A-Za-z][A-Za-z0-9+.\-]{1,20}://|[A-Za-z_$][\w$.]*+[(\[]\Z"


def is_literal_secret(promise: Promise, value: str, style: Style) -> bool:
    """Return whether `value`, written in `style` after such a name, is a secret."""
    return _is_literal_secret(promise, value[:_MAX_LITERAL], style)


@lru_cache(maxsize=512)
def _is_literal_secret(promise: Promise, value: str, style: Style) -> bool:
    value = compiled(_FILLED_IN).sub("", value)
    # Some passwords only begin like a variable or a tag: `$NBW8bYlXUc4wv`.
    is_misread = value[:1] in ("$", "!") and looks_random(value[1:])
    if len(value) < 4 or (compiled(_MARKED).fullmatch(value) and not is_misread):
        return False
    if style is Style.QUOTED and any(letter.isspace() for letter in value):
        # A word that mixes letters and digits; a plain sentence is a label or a hint.
        mixed = any(len(word) >= 6 and _has_both(word) for word in value.split()[:12])
        return mixed or (promise is Promise.PASSWORD and _is_row_of_words(value))
    if compiled(_ADDRESS_OR_CALL).match(value):
        return False
    if looks_random(value) or promise is Promise.HINT:
        return looks_random(value)
    elsewhere = _PATH if style is Style.QUOTED else f"{_PATH}|{_CODE}"
    if stands_for_a_secret(value) or is_word_of_code(value) or re.fullmatch(elsewhere, value):
        return False
    if _is_row_of_words(value.lower(), "-") or _mixes(value, promise, style):
        return True
    if promise is Promise.TOKEN or style is Style.BARE:
        return style is Style.TIGHT and len(value) >= 8 and not value.isupper()
    return True


def is_placeholder(value: str) -> bool:
    """Return whether `value` says that a secret belongs here: `<token>`, `${TOKEN}`, `***`."""
    value = compiled(_FILLED_IN).sub("", value[:_MAX_LITERAL])
    if not value or compiled(_MARKED).fullmatch(value):
        return True
    return compiled(_WORDED).fullmatch(value) is not None and not looks_random(value)


def stands_for_a_secret(value: str) -> bool:
    """Return whether `value` is a placeholder or a name: `<token>`, `DB_PASSWORD`, `a.password`."""
    if is_placeholder(value) or looks_random(value[:_MAX_LITERAL]):
        return is_placeholder(value)
    if re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z]+)+", value) and is_secret_name(value):
        return True
    stem = value.rstrip("0123456789")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z_.\-/: ]*", stem):
        return False
    return is_secret_name(stem) or ("_" in stem and stem.isupper() and stem == value)


def is_word_of_code(value: str) -> bool:
    """Return whether code has such words in a secret's place: `string`, `int64`, `password`."""
    return value.lower().rstrip("0123456789_-") in _WORDS_OF_CODE


def is_plain_word(value: str) -> bool:
    """Return whether `value` is an ordinary word, and not one that code uses."""
    return value.isalpha() and value.islower() and value not in _WORDS_OF_CODE


def _is_row_of_words(value: str, between: str = " ") -> bool:
    """Return whether words follow each other that aren't a sentence: `correct horse battery`."""
    words = value.rstrip("0123456789").rstrip(between).split(between)
    plain = all(len(word) > 2 and word.isalpha() and word.islower() for word in words)
    return plain and 3 <= len(words) <= 12 and not (_SENTENCE | _WORDS_OF_CODE).intersection(words)


def _has_both(value: str) -> bool:
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _mixes(value: str, promise: Promise, style: Style) -> bool:
    """Return whether digits or signs stand in it as they don't in a name."""
    if value.isdigit():
        enough = 6 if promise is Promise.PASSWORD else 8
        return len(value) >= enough and (style is not Style.BARE or promise is Promise.PASSWORD)
    if style is not Style.BARE or promise is Promise.TOKEN:
        return style is not Style.BARE and len(value) >= 6 and _has_both(value)
    if _has_both(value):
        return len(value) >= 6 and not re.fullmatch(_DESIGNATION, value)
    return len(value) >= 8 and bool(re.search(r"[A-Za-z][!@#$%^*~?]+[A-Za-z]", value))
