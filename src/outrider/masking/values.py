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

from .names import Promise, is_secret_name, word_set
from .randomness import looks_random
from .spans import MASK, compiled

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


# What says by its signs that something else belongs here.
_MARKED = r"""(?xi)
    \[(?:masked|redacted|hidden|removed|secret|filtered) .*
    | \$ (?: [a-z_]\w* | \{.* | \(.* | \$.* | )            # $NAME ${NAME} $(command)
    | %[({]?[a-z_]* [)}]? [sd%]? | %env.* | %v | \#\{.* | @\w+@ | @\{.*
    | \W*\*\*\W* | __\w+__ | \#[0-9a-f]{3,8}             # :****, __root__, a colour
    | < .* | \{ .* | \(.* | \[.* | ! [a-z].*               # <your-key> {key} !vault
    | [*x.\-_?\#•]{3,} | (?:\*{3,}|x{3,}|\.{3,}) [\w\-]{0,4}   # ****, xxxx, ....abcd
    | (?:vault|env|file|op|ref\+\w+|arn|secret|secretref|keyring|ssm|gcp|aws)(?::|://).*
    | (?:process|import|os|sys|self|this|cls|config|settings|secrets|env|args|options|ctx|req)
      (?:\.|\[|::|->).*
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
    "string str text number int integer boolean bool object array any unknown never void bytes "
    "byte char password passwd pwd pass secret secrets token tokens key keys auth credential "
    "credentials none null nil undefined true false yes no on off required optional hidden "
    "bearer basic digest include omit same-origin default empty unset missing invalid value "
    "values input output self this inherit private public internal readonly "
    "username user email apikey api_key "
    "uint float double varchar nvarchar ascii latin utf sha md base oauth aes argon blake pbkdf "
    "bcrypt scram-sha arg param row col item test line group match step node part foo bar vec ed x "
    "ec http ipv val id"
)

_SENTENCE = word_set(
    "a an and are at be by can enter field for from has have in is it must no not of on or "
    "password please reset secret should that the this to type use user was with you your"
)

_DESIGNATION = r"[a-z]+(?:_[a-z0-9]+){2,}|[A-Z]{2,5}-\d{1,4}"
_NAMES = r"[A-Za-z_$][\w$]*+(?>(?:(\.|::|->)[A-Za-z_]\w*+)*)"


def is_literal_secret(promise: Promise, value: str, style: Style) -> bool:
    """Return whether `value`, written in `style` after such a name, is a secret."""
    return _is_literal_secret(promise, value[:_MAX_LITERAL], style)


@lru_cache(maxsize=512)
def _is_literal_secret(promise: Promise, value: str, style: Style) -> bool:
    value = compiled(_FILLED_IN).sub("", value)
    if len(value) < 4 or (compiled(_MARKED).fullmatch(value) and not _is_misread(value)):
        return False
    if style is Style.QUOTED and any(letter.isspace() for letter in value):
        return _is_passphrase(value) or (promise is Promise.PASSWORD and _is_row_of_words(value))
    if re.match(r"[A-Za-z][A-Za-z0-9+.\-]{1,20}://|[A-Za-z_$][\w$.]*+[(\[]\Z", value):
        return False  # an address, a call
    if looks_random(value):
        return True
    if _stands_for_something_else(value, style):
        return False
    if _is_row_of_words(value.lower(), "-") or _mixes(value, promise, style):
        return True
    if promise is Promise.TOKEN or style is Style.BARE:
        return style is Style.TIGHT and len(value) >= 8 and not value.isupper()
    return True


def _is_misread(value: str) -> bool:
    """Return whether a password only begins like a variable or a tag: `$NBW8bYlXUc4wv`."""
    return value[0] in "$!" and looks_random(value[1:])


def stands_for_a_secret(value: str) -> bool:
    """Return whether `value` is a placeholder, a variable or a name instead of the secret."""
    value = value[:_MAX_LITERAL]
    return is_placeholder(value) or (not looks_random(value) and _is_reference(value))


def is_placeholder(value: str) -> bool:
    """Return whether `value` says that a secret belongs here: `<token>`, `${TOKEN}`, `***`."""
    value = compiled(_FILLED_IN).sub("", value[:_MAX_LITERAL])
    if not value or compiled(_MARKED).fullmatch(value):
        return True
    return compiled(_WORDED).fullmatch(value) is not None and not looks_random(value)


def is_word_of_code(value: str) -> bool:
    """Return whether code has such words in a secret's place: `string`, `int64`, `password`."""
    value = value.lower()
    return value in _WORDS_OF_CODE or value.rstrip("0123456789_-") in _WORDS_OF_CODE


def _stands_for_something_else(value: str, style: Style) -> bool:
    return (
        is_word_of_code(value)
        or compiled(_WORDED).fullmatch(value) is not None
        or _is_reference(value)
        or _is_path(value)
        or (style is not Style.QUOTED and _is_code(value))
    )


def _is_reference(value: str) -> bool:
    """Return whether it is the name of a secret: `DB_PASSWORD`, `user.password`."""
    if re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z]+)+", value) and is_secret_name(value):
        return True
    stem = value.rstrip("0123456789")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z_.\-/: ]*", stem):
        return False
    return is_secret_name(stem) or ("_" in stem and stem.isupper() and stem == value)


def _is_path(value: str) -> bool:
    if re.match(r"(?:~|\.{1,2})/|[A-Za-z]:\\", value):
        return True
    return "/" in value and re.fullmatch(r"/?(?:[\w.@\-]+/)*[\w.@\-]+", value) is not None


def _is_code(value: str) -> bool:
    """Return whether it is an expression: `get_password()`, `row[2]`, `user.password`, `a->b`."""
    names = compiled(_NAMES).match(value)
    if names is None:
        return False
    rest = value[names.end() :]
    return rest[:1] in {"(", "["} or (not rest.strip(";") and names.group(1) is not None)


def _is_passphrase(value: str) -> bool:
    """Return whether a word mixes letters and digits; a plain sentence is a label or a hint."""
    return any(len(word) >= 6 and _has_both(word) for word in value.split()[:12])


def _is_row_of_words(value: str, between: str = " ") -> bool:
    """Return whether words follow each other that aren't a sentence: `correct horse battery`."""
    words = value.rstrip("0123456789").rstrip(between).split(between)
    plain = all(len(word) > 2 and word.isalpha() and word.islower() for word in words)
    return plain and 3 <= len(words) <= 12 and not (_SENTENCE | _WORDS_OF_CODE).intersection(words)


def is_plain_word(value: str) -> bool:
    """Return whether `value` is an ordinary word, and not one that code uses."""
    return value.isalpha() and value.islower() and value not in _WORDS_OF_CODE


def _has_both(value: str) -> bool:
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _mixes(value: str, promise: Promise, style: Style) -> bool:
    """Return whether digits or signs stand in it as they don't in a name."""
    if value.isdigit():
        enough = 6 if promise is Promise.PASSWORD else 8
        return len(value) >= enough and (style is not Style.BARE or promise is Promise.PASSWORD)
    if style is not Style.BARE:
        return len(value) >= 6 and _has_both(value)
    if promise is Promise.TOKEN:
        return False
    if _has_both(value):
        return len(value) >= 6 and not re.fullmatch(_DESIGNATION, value)
    return len(value) >= 8 and bool(re.search(r"[A-Za-z][!@#$%^*~?]+[A-Za-z]", value))
