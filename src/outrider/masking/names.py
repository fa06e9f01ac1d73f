"""Which names promise a secret: `client_secret` and `DB_PASSWORD` do, `token_count` doesn't."""

import re
from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache

from .spans import compiled

NAME_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"


class Promise(IntEnum):
    """How surely a name holds a secret; the surer, the less its value has to look like one."""

    NONE = 0
    TOKEN = 1
    SECRET = 2
    PASSWORD = 3


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(words.split())


_PASSWORDS = ("password", "passwd", "passphrase", "passcode", "pwd")

_SECRETS = word_set(
    "secret apikey secretkey privatekey accesskey authkey accountkey sharedaccesskey signingkey "
    "encryptionkey masterkey clientsecret passkey psk presharedkey"
)

KEY_OWNERS = word_set(
    "api secret private access encryption decryption signing master account storage shared auth "
    "service role admin client app application deploy webhook jwt hmac ssh rsa gpg pgp root server "
    "subscription preshared openai anthropic stripe aws azure google gemini groq mistral github "
    "gitlab cloudflare heroku sendgrid mailgun twilio datadog sentry license"
)

_OTHER_KEYS = word_set(
    "public primary foreign sort partition cache map dict hot idempotency object bucket row unique "
    "index routing registry lookup group json translation hash config settings state storage query "
    "item data entry field sorting natural composite message event metadata tag"
)

_OTHER_TOKENS = word_set(
    "next page continuation cancellation cancel stop eos bos pad unk sep mask cls special end "
    "start last first per max min prompt completion input output cached total sync cursor "
    "pagination color design syntax current prev previous peek lookahead expected unexpected "
    "invalid image audio text"
)

# Last words that turn the name of a secret into the name of something about it.
_HARMLESS_ENDS = word_set(
    "id ids name names type types url uri urls path paths file filename files dir folder count "
    "counts limit limits length len size budget ttl expiry expires expire expiration at in age "
    "policy policies field fields label placeholder hint regex pattern prompt form input required "
    "enabled disabled valid invalid method methods endpoint version algorithm alg usage max min "
    "host port env var ref arn index class error errors message msg title description status "
    "state mode provider manager store service factory handler validator generator strength reset "
    "change changed updated created used exists rotation period window rate price cost map list "
    "set sock socket agent scheme realm flow kind source role scope scopes stdin command "
    "encryption hours days minutes seconds ms date active time function callback schema model "
    "module config settings options help"
)

_FILLERS = word_set(
    "value raw text str string plain plaintext default new old current prod production dev test "
    "staging live secondary base b hex encoded confirm confirmation data"
)

_ENVIRONMENT_WORDS = word_set(
    "key keys apikey token tokens secret secrets password passwd passphrase pass pwd credential "
    "credentials creds private auth cookie bearer jwt"
)

_TRIVIAL_VALUE = r"""(?ix)
    disabled | required | optional
    | [\d.,:_\-\s]+                                        # numbers, dates, addresses
    | (?:~|\.{1,2})?/[\w.,@+\-/ ]*(?::/[\w.,@+\-/ :]*)?    # paths
    | [a-z]:\\.*
    | [a-z][a-z0-9+.\-]*://[^@\s]*                         # an address without credentials
"""


_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"


def is_secret_name(name: str) -> bool:
    """Return whether a variable, key, header or option of this name holds a secret."""
    return promise_of(name) is not Promise.NONE


def promise_of(name: str) -> Promise:
    """Return how surely `name` holds a secret."""
    # Only the end is looked at and kept in the cache: a key in JSON can have any length.
    return _promise_of(name[-96:], name.isupper())


@lru_cache(maxsize=4096)
def _promise_of(name: str, spelled_as_environment: bool) -> Promise:
    words = [word.lower() for word in compiled(_WORDS).findall(name)]
    while len(words) > 1 and words[-1] in _FILLERS:
        words.pop()
    if not words or words[-1] in _HARMLESS_ENDS:
        return Promise.NONE
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "key":
        return _key_promise(before, spelled_as_environment)
    if last.endswith("token"):
        return Promise.NONE if before in _OTHER_TOKENS else Promise.TOKEN
    if any(word.endswith(_PASSWORDS) for word in words):
        return Promise.PASSWORD
    if last in _SECRETS:
        return Promise.SECRET
    if last in {"credential", "credentials", "creds", "pass", "auth", "authorization"}:
        return Promise.NONE if before == "o" else Promise.TOKEN  # OAuth
    if last in {"cookie", "hash", "hashed"} and "secret" not in words:
        return Promise.NONE
    return Promise.SECRET if "secret" in words else Promise.NONE


def _key_promise(before: str, spelled_as_environment: bool) -> Promise:
    if before in KEY_OWNERS:
        return Promise.SECRET
    # STRIPE_LIVE_KEY=… is how an environment spells a secret; cache_key is how code spells a key.
    named = spelled_as_environment and before and before not in _OTHER_KEYS
    return Promise.TOKEN if named else Promise.NONE


def without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` without the variables that hold a secret, or an address with a password."""
    secrets = set(secret_environment_values(env))
    return {
        name: value
        for name, value in env.items()
        if not is_secret_name(name)
        and value not in secrets
        and not re.search(r"://[^\s:/@]{0,128}:[^\s/@]{1,256}@", value)
    }


def secret_environment_values(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values in `env` that must never be shown, longest first."""
    known = {env.get(name, "") for name in ("USER", "LOGNAME", "HOME", "HOSTNAME", "SHELL")}
    found = {value.strip() for name, value in env.items() if _keeps_secret(name, value.strip())}
    found |= {password for value in env.values() for password in _url_passwords(value)}
    return tuple(sorted(found - known, key=lambda value: (-len(value), value)))


def _keeps_secret(name: str, value: str) -> bool:
    if len(value) < 8 or re.fullmatch(_TRIVIAL_VALUE, value):
        return False
    words = {word.lower() for word in compiled(_WORDS).findall(name)}
    if name in {"PWD", "OLDPWD"} or not (words & _ENVIRONMENT_WORDS or is_secret_name(name)):
        return False
    if promise_of(name) >= Promise.SECRET:
        return True
    # AUTH_METHOD=client-certificate is a setting, not a secret.
    return len(value) >= 24 or not re.fullmatch(r"[A-Za-z._\- ]+", value)


def _url_passwords(value: str) -> list[str]:
    """Return the passwords in an address such as DATABASE_URL."""
    if "://" not in value or "@" not in value:
        return []
    found = re.findall(r"://[^\s:/@]{0,128}:([^\s/@]{8,256})@", value)
    return [password for password in found if not re.fullmatch(r"[$<{*].*", password)]
