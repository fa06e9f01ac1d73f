"""Credentials in HTTP headers: `Authorization` of any scheme, `Cookie` and `Set-Cookie`."""

import re

from outrider.texts.spans import Findings, compiled
from outrider.texts.structure import quoted_end

from .names import Promise, word_set
from .values import Style, is_literal_secret, stands_for_a_secret

_SCHEMES = word_set(
    "basic bearer token digest negotiate ntlm apikey api-key key oauth hawk googlelogin ssws dpop "
    "jwt bot aws aws4-hmac-sha256 sharedkey mac signature discogs"
)
_PROSE = word_set("auth authentication authorization token tokens credentials header is and or the")

_COOKIE_NAME = r"[\w.!#$%&*+^|~-]{1,128}+"
_COOKIE_VALUE = r"[^\s;,\"'`\\]"
_COOKIE = rf"(?:\\{{0,16}}[\"'`])?{_COOKIE_NAME}=(?={_COOKIE_VALUE}{{4}})"


def mask_authorization(found: Findings, start: int, position: int, *, in_list: bool) -> None:
    """Mask the credentials in the value of an Authorization header that begins at `position`."""
    # In a list of strings the value must have a scheme: the list may be one of header names.
    head = compiled(
        r"[bruf@$]{0,2}(?P<open>\\{0,16}[\"'`])?(?:(?P<scheme>[A-Za-z][\w-]{1,30})[ ]{1,4})?"
        r"(?P<credentials>[^\s\"'`\\,;]{1,4096}+)?"
    ).match(found.view, position)
    if head is None or head.group("credentials") is None:
        found.leave(start, len(found.view) if head is None else head.end())
        return
    written = head.group("scheme") or ""
    scheme = written.lower()
    if scheme not in _SCHEMES and is_literal_secret(Promise.TOKEN, written, Style.BARE):
        found.mask(*head.span("scheme"), "authorization")  # no scheme, but the credentials
        return
    first, last = head.span("credentials")
    rest = found.view[last : last + 2]
    if (in_list and not scheme) or not _is_credential(found, head, scheme, rest):
        found.leave(start, last)
        return
    if "=" in head.group("credentials") and scheme not in {"basic", "bearer", "token", ""}:
        last = _parameters_end(found.view, last, head.group("open") or "")
    elif run := compiled(r"[^\s\"'`\\,;]++").match(found.view, last):
        last = run.end()
    found.mask(first, last, "authorization")


def _is_credential(found: Findings, head: re.Match[str], scheme: str, rest: str) -> bool:
    value = found.text[head.start("credentials") : head.end("credentials")]
    if scheme not in _SCHEMES:
        style = Style.QUOTED if head.group("open") or scheme else Style.BARE
        return is_literal_secret(Promise.TOKEN, value, style)
    opening = head.group("open")
    if opening and opening[-1] == rest[:1] and re.fullmatch(r"\w+=", value):
        return scheme in {"basic", "bearer"}  # "OAuth token=" + token
    if value.lower() in _PROSE or stands_for_a_secret(value):
        return False
    # "Authorization: Bearer tokens are …" is prose; a credential ends its header.
    return not (value.isalpha() and value.islower() and re.match(r" [a-zA-Z(\[]", rest))


def _parameters_end(view: str, position: int, opening: str) -> int:
    """Return where `username="…", response="…"` ends."""
    if opening:
        return quoted_end(view, position, opening)[0]
    match = compiled(r"(?>(?:[^\n\r\\]|\\(?![nr]))*)").match(view, position)
    end = position if match is None else match.end()
    # In `-H 'Authorization: Digest …'` the command's own quote is not part of the header.
    return end - 1 if end > position and view[end - 1] in "'`" else end


def mask_cookies(found: Findings, start: int, position: int) -> None:
    """Mask the values in a Cookie or Set-Cookie header; a cookie's attributes stay."""
    first = compiled(_COOKIE).match(found.view, position)
    if first is None:
        found.leave(start, min(len(found.view), position + 160))
        return
    # Only a secret is followed to its end: a row of harmless cookies must not be read repeatedly.
    only_one = found.folded.startswith("set-", start)
    end = _cookies_end(found, first.end(), "{1,256}+", "{0}" if only_one else "{0,4}")
    cookies = found.text[first.end() : end].split(";")
    values = [cookies[0], *(cookie.partition("=")[2] for cookie in cookies[1:])]
    if any(is_literal_secret(Promise.TOKEN, value, Style.TIGHT) for value in values):
        end = _cookies_end(found, first.end(), "++", "{0}" if only_one else "*")
        found.mask(first.end(), end, "cookie")
    else:
        found.leave(start, end)


def _cookies_end(found: Findings, position: int, width: str, more: str) -> int:
    value = _COOKIE_VALUE + width
    pattern = rf"{value}(?>(?:;[ ]?{_COOKIE_NAME}={value}){more})"
    match = compiled(pattern).match(found.view, position)
    return position if match is None else match.end()
