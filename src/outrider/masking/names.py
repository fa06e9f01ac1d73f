"""Which names promise a secret: `client_secret` and `DB_PASSWORD` do, `token_count` doesn't.

The last word of a name says what it holds. A password or a secret that is named before it
(`DB_PASSWORD_HOST`, `secret_id`) is only a hint.
"""

import re
from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache

from outrider.texts.spans import compiled

NAME_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"


class Promise(IntEnum):
    """How surely a name holds a secret; the surer, the less its value has to look like one."""

    NONE = 0
    HINT = 1
    TOKEN = 2
    SECRET = 3
    PASSWORD = 4


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PASSWORDS = ("password", "passwd", "passphrase", "passcode", "pwd", "pw")
_CREDENTIALS = ("credential", "credentials", "creds", "auth", "authorization", "masterauth")

# `SSHPASS` and `requirepass` hold a password; these words don't.
_OTHER_PASSES = word_set(
    "bypass compass encompass surpass trespass overpass underpass lowpass highpass bandpass "
    "allpass subpass multipass singlepass onepass twopass firstpass lastpass keepass renderpass "
    "minipass askpass"
)

KEY_OWNERS = word_set(
    "api secret private access encryption decryption signing master account shared auth service "
    "role admin client app application deploy webhook jwt hmac ssh rsa gpg pgp root server pass "
    "subscription license azure gemini mistral cloudflare heroku mailgun twilio datadog storage "
    "openai anthropic stripe aws google groq github gitlab sendgrid sentry"
)

# STRIPE_LIVE_KEY=… is how an environment spells a secret; but for these it is no secret.
_OTHER_KEYS = word_set(
    "public primary foreign sort partition cache map object bucket row unique index routing "
    "lookup group hash config state query item data metadata tag"
)

_OTHER_TOKENS = word_set(
    "next page continuation cancellation sync cursor stop start end special eos bos pad unk sep "
    "mask cls"
)

# Of a lexer, a design or a count; but such a name can also hold a secret that looks random.
_PLAIN_TOKENS = word_set("max color current output")

_FILLERS = word_set(
    "value raw text str string plain default new old current prod production dev test staging "
    "live base b bytes hex encoded data plaintext confirm confirmation secondary replica admin"
)

_ENVIRONMENT_WORDS = word_set(
    "key keys apikey token tokens secret secrets password passwd pass pwd credential credentials "
    "creds private auth cookie bearer jwt"
)

_TRIVIAL_VALUE = r"""(?ix)
    disabled | required | optional
    | [\d.,:_\-\s]+                                        # numbers, dates, addresses
    | (?:~|\.{1,2})?/[\w.,@+\-/ ]*(?::/[\w.,@+\-/ :]*)?    # paths
    | [a-z]:\\.*
    | [a-z][a-z0-9+.\-]*://[^@\s]*                         # an address without credentials
"""
_URL_WITH_LOGIN = r"://[^\s:/@]{0,128}:([^\s/@]{1,256})@"
_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"


def is_secret_name(name: str) -> bool:
    """Return whether a variable, key, header or option of this name holds a secret."""
    return promise_of(name) > Promise.HINT


def promise_of(name: str) -> Promise:
    # Only the end is looked at and kept in the cache: a key in JSON can have any length.
    return _promise_of(name[-96:], name.isupper())


@lru_cache(maxsize=4096)
def _promise_of(name: str, spelled_as_environment: bool) -> Promise:
    words = [word.lower() for word in compiled(_WORDS).findall(name)]
    while len(words) > 1 and words[-1] in _FILLERS:
        words.pop()
    last, before = words[-1] if words else "", words[-2] if len(words) > 1 else ""
    if last.endswith(_PASSWORDS):
        return Promise.PASSWORD
    if last.endswith("secret") or last == "psk":
        return Promise.SECRET
    if last.endswith("key"):
        owner = last[:-3] or before
        if owner.endswith(tuple(KEY_OWNERS)):
            return Promise.SECRET
        named = spelled_as_environment and before and before not in _OTHER_KEYS
        return Promise.TOKEN if named else Promise.NONE
    if last.endswith("token"):
        if before in _PLAIN_TOKENS:
            return Promise.HINT
        return Promise.NONE if before in _OTHER_TOKENS else Promise.TOKEN
    if last.endswith("pass") and last not in _OTHER_PASSES:
        return Promise.SECRET if last != "pass" and spelled_as_environment else Promise.TOKEN
    if last in _CREDENTIALS and before != "o":  # OAuth is no secret
        return Promise.TOKEN
    if last == "headers" and "otlp" in words:  # OTEL_EXPORTER_OTLP_HEADERS has a vendor's key
        return Promise.TOKEN
    hints = any(word == "secret" or word.endswith(_PASSWORDS) for word in words)
    return Promise.HINT if hints else Promise.NONE


def without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` without the variables that hold a secret, or an address with a password."""
    secrets = set(secret_environment_values(env))
    return {
        name: value
        for name, value in env.items()
        if promise_of(name) is Promise.NONE  # a hint is enough: a command doesn't miss it
        and value not in secrets
        and not compiled(_URL_WITH_LOGIN).search(value)
    }


def secret_environment_values(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values in `env` that must never be shown, longest first."""
    known = {env.get(name, "") for name in ("USER", "LOGNAME", "HOME", "HOSTNAME", "SHELL")}
    found = {value.strip() for name, value in env.items() if _keeps_secret(name, value.strip())}
    for value in env.values():
        passwords: list[str] = compiled(_URL_WITH_LOGIN).findall(value)
        found |= {each for each in passwords if len(each) >= 8 and each[0] not in "$<{*"}
    return tuple(sorted(found - known, key=lambda value: (-len(value), value)))


def _keeps_secret(name: str, value: str) -> bool:
    if len(value) < 8 or re.fullmatch(_TRIVIAL_VALUE, value) or name in {"PWD", "OLDPWD"}:
        return False
    words = {word.lower() for word in compiled(_WORDS).findall(name)}
    promise = promise_of(name)
    if promise >= Promise.SECRET:
        return True
    # AUTH_METHOD=client-certificate is a setting, not a secret.
    is_setting = len(value) < 24 and re.fullmatch(r"[A-Za-z._\- ]+", value)
    return bool(words & _ENVIRONMENT_WORDS or promise) and not is_setting
