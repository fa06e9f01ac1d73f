"""Values assigned to secret-looking names: in code, JSON at any depth of escaping, headers, flags.

A name is found by its keyword (`token`, `key`, …) with an operator behind it; only then are the
whole name and the value looked at. What is masked is the value alone, so that code still reads
and JSON still parses.
"""

import re
from functools import cache

from .headers import mask_authorization, mask_cookies
from .literals import QUOTE as _QUOTE
from .literals import quoted_end
from .names import NAME_LETTERS, Promise, promise_of
from .spans import Findings, worth_searching
from .values import Style, is_literal_secret, is_placeholder, is_plain_word

# What stands between a name and its value.
_OPERATOR = rf"""
    (?P<close>{_QUOTE})? [\])]{{0,2}}+ [ \t]{{0,8}}+
    (?P<operator>
        := | => | \?= | \+= | ={{1,3}}+ | !={{1,2}}+ | : | >
      | ,?(?:\s|\\{{1,8}}n){{0,40}}+{_QUOTE}?value{_QUOTE}?[ \t]{{0,8}}[:=]
      | ,(?=[ \t]{{0,8}}{_QUOTE})
      | (?:is|was)(?=[ \t])
    )
    [ \t]{{0,8}}+
"""

_KEYWORDS = ("pass", "pwd", "secret", "token", "key", "cred", "auth", "cookie")

# What finds them: together where they share a letter, and by a rarer letter than their first.
_KEYWORD_PATTERNS: dict[str, str] = {
    "p": r"p(?:ass|wd)",
    "cre": r"cre(?:t(?<=secret)|d)",
    "k": r"k(?:en(?<=token)(?!s(?![a-z]))(?!iz)|ey(?<=[a-z0-9_-]key)|ie(?<=cookie))",
    "uth": r"uth(?<=auth)(?!or(?!iza))",
}

# A count of tokens is the commonest of all; it is passed over before any Python runs.
_NOT_A_NUMBER = r"(?!\d{1,9}(?:\.\d{1,9})?[\s,}\]])"

_OPTION = rf"""(?x)
    -(?:-(?P<name>[a-z][a-z0-9-]{{2,40}}+)[ \t=]|u(?![a-z0-9_-])[ \t=]?)
    [ \t]{{0,4}}(?P<quote>{_QUOTE})?(?![-<\[{{$])
"""

_BARE = r"[^\s\"'`<>,;&|(){}\[\]=\\]{1,512}+(?:={1,2}|[(\[])?"
_YAML = r"[\w.-]+: [a-z]{8,}"
_ENVIRONMENT = r"[^\s\"'`<>;\\]{1,512}+"
# A value found to be secret goes on where code would have ended: `p4ss(word`.
_BARE_REST = r"[^\s\"'`<>,;&)}\]\\]*+"


@cache
def _assignment(keyword: str) -> re.Pattern[str]:
    """Return what finds a name with this keyword and an operator behind it, in folded text."""
    number = "" if keyword == "p" else _NOT_A_NUMBER
    return re.compile(
        rf"(?x){_KEYWORD_PATTERNS[keyword]}(?P<rest>[a-z0-9_.-]{{0,32}}+){_OPERATOR}{number}"
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def find_assignments(found: Findings) -> None:
    """Note the values of all secret-looking names."""
    for keyword in _KEYWORD_PATTERNS:
        if worth_searching(found.folded, keyword):
            found.masked_to = 0
            for match in _assignment(keyword).finditer(found.folded):
                if match.start() >= found.masked_to:
                    _judge(found, match)
    if worth_searching(found.folded, "-"):
        _find_options(found)
    if worth_searching(found.folded, "sig"):
        _find_signatures(found)
    if worth_searching(found.folded, "identified "):
        _find_sql_passwords(found)
    if worth_searching(found.folded, "login"):
        _find_netrc_passwords(found)


def _judge(found: Findings, match: re.Match[str]) -> None:
    rest = match.group("rest")
    if rest and any(keyword in rest for keyword in _KEYWORDS):
        return  # `secret_key`: the match of the last keyword speaks
    start = _name_start(found.view, match.start())
    if found.view.endswith("[masked:", 0, start):
        return  # the name of a kind, in a mask
    name = found.view[start : match.end("rest")].rpartition(".")[2]
    folded = name.lower()
    operator = match.group("operator")
    if operator == "," and not match.group("close"):
        return
    if folded.endswith("authorization"):
        mask_authorization(found, start, match.end(), in_list=operator == ",")
    elif folded.endswith("cookie"):
        mask_cookies(found, start, match.end())
    elif (promise := promise_of(name)) is not Promise.NONE:
        _judge_value(found, promise, start, match)


def _name_start(view: str, position: int) -> int:
    """Return where the name begins whose keyword stands at `position`."""
    before = view[max(0, position - 64) : position]
    start = position - (len(before) - len(before.rstrip(NAME_LETTERS)))
    if start and view[start - 1] == "\\" and view[start] in "nrt":
        start += 1  # \nDB_PASSWORD: the letter belongs to the escape
    return start


def _judge_value(found: Findings, promise: Promise, start: int, match: re.Match[str]) -> None:
    view, position, operator = found.view, match.end(), match.group("operator")
    if operator == ">":
        _judge_element(found, promise, start, position)
        return
    quote = _compiled(rf"[bru@$]{{0,2}}({_QUOTE})").match(view, position)
    if quote is not None and operator == ",":
        _judge_listed(found, start, quote.end(), quote.group(1))
    elif quote is not None:
        _judge_quoted(found, promise, start, quote.end(), quote.group(1))
    elif operator != ":" or not _judge_annotated(found, promise, start, position):
        _judge_bare(found, promise, start, position, _style(view, start, match))


def _judge_element(found: Findings, promise: Promise, start: int, position: int) -> None:
    """Handle `<password>…</password>`."""
    value = _compiled(r"[^<>\s]{1,512}+(?=<)").match(found.view, position)
    if found.view[start - 1 : start] != "<" or value is None:
        found.leave(start, min(len(found.view), position + 512))
    elif is_literal_secret(promise, value.group(), Style.TIGHT):
        found.mask(position, value.end(), "secret")


def _judge_listed(found: Findings, start: int, position: int, opening: str) -> None:
    """Handle `set("password", "…")`; `["password", "urllib2"]` is a list of names."""
    end, _ = quoted_end(found.view, position, opening)
    value = found.text[position:end]
    digits = sum(letter.isdigit() for letter in value[:64])
    if digits > 1 and not _compiled(r"[A-Za-z_.:# -]+[\w-]{0,4}").fullmatch(value):
        _judge_quoted(found, Promise.TOKEN, start, position, opening)
    else:
        found.leave(start, end)


def _judge_annotated(found: Findings, promise: Promise, start: int, position: int) -> bool:
    """Handle `password: str = "…"`; return whether it was one."""
    pattern = rf"[A-Za-z_][\w.\[\]| ]{{0,48}}?[ \t]{{0,4}}=[ \t]{{0,4}}({_QUOTE})"
    annotated = _compiled(pattern).match(found.view, position)
    if annotated is None:
        return False
    _judge_quoted(found, promise, start, annotated.end(), annotated.group(1))
    return True


def _style(view: str, start: int, match: re.Match[str]) -> tuple[Style, str]:
    """Return how a bare value is written, and the pattern of such a value."""
    operator = match.group("operator")
    if "value" in operator:
        return Style.TIGHT, _BARE
    if operator != "=" or match.end() != match.end("operator") or match.group("close"):
        return Style.BARE, _BARE
    end = match.end()
    value = _compiled(_BARE).match(view, end)
    after = "" if value is None else view[value.end() : value.end() + 1]
    if view[start - 1 : start] in {"?", "&", ";"} or after == ";":
        return Style.TIGHT, _BARE
    name = view[start : match.end("rest")]
    if name.isupper():
        return Style.TIGHT, _ENVIRONMENT
    return (Style.TIGHT if name.startswith("--") else Style.BARE), _BARE


def _judge_bare(
    found: Findings, promise: Promise, start: int, position: int, style: tuple[Style, str]
) -> None:
    match = _compiled(style[1]).match(found.view, position)
    if match is None:
        found.leave(start, position)
        return
    value = found.text[position : match.end()]
    value = value.rstrip(".:,!?)" if style[1] is _ENVIRONMENT else ".:!?") or value
    end = position + len(value)
    if is_literal_secret(promise, value, style[0]) or (
        promise >= Promise.SECRET and _is_yaml_word(found.view, start, position, end)
    ):
        rest = _compiled(_BARE_REST).match(found.view, end)
        found.mask(position, end if rest is None else rest.end(), "secret")
    else:
        found.leave(start, match.end())


def _is_yaml_word(view: str, start: int, position: int, end: int) -> bool:
    """Return whether a plain word is all that stands behind `name: ` on a line of its own."""
    if not is_plain_word(view[position:end]) or not _compiled(_YAML).match(view, start):
        return False
    before = "\n" + view[:start] if start < 40 else view[start - 40 : start]
    begins = _compiled(r"(?:\n|\\n)[ -]*+\Z").search(before)
    return begins is not None and _compiled(r"\n|\\{1,8}[nr]|\r|\Z").match(view, end) is not None


def _judge_quoted(
    found: Findings, promise: Promise, start: int, position: int, opening: str
) -> None:
    end, closed = quoted_end(found.view, position, opening)
    value = found.text[position:end]
    if not is_literal_secret(promise, value, Style.QUOTED):
        found.leave(start, end)
    else:
        if not closed:
            run = _compiled(r"[^\s\"'`]*+").match(found.view, end)
            end = run.end() if run else end
        found.mask(position, end, "secret")


def _find_options(found: Findings) -> None:
    """Mask `--password hunter2`, where a space stands for the operator, and `-u user:password`."""
    for match in _compiled(_OPTION).finditer(found.folded):
        name = match.group("name") or "u"
        promise = promise_of(name)
        if name in {"u", "user", "proxy-user"}:
            _judge_user(found, match)
        elif promise is not Promise.NONE and match.group("quote"):
            opening = found.view[match.start("quote") : match.end("quote")]
            _judge_quoted(found, promise, match.start(), match.end(), opening)
        elif promise is not Promise.NONE:
            _judge_bare(found, promise, match.start(), match.end(), (Style.BARE, _BARE))


def _judge_user(found: Findings, option: re.Match[str]) -> None:
    """Mask the password in `curl -u user:password` and `--user user:password`."""
    match = _compiled(r"([^\s:\"'`\\]{1,64}+):([^\s\"'`\\]{1,256}+)").match(
        found.view, option.end()
    )
    line = found.folded[max(0, option.start() - 100) : option.start()].rpartition("\n")[2]
    if match is None or line[-1:] not in {"", " ", "\t", "\\"}:
        return
    start, end = match.span(2)
    value = found.text[start:end]
    if "curl" in line:
        secret = not is_placeholder(value) and not value.startswith("//")
    else:  # docker run -u 1000:1000
        secret = is_literal_secret(Promise.TOKEN, value, Style.BARE)
    if secret:
        found.mask(start, end, "secret")


def _find_signatures(found: Findings) -> None:
    """Mask the signature of a signed address: whoever has it has the access."""
    pattern = r"=(?:(?<=[?&;-]sig=)|(?<=signature=))([a-z0-9%+/=_-]{20,}+)"
    for match in _compiled(pattern).finditer(found.folded):
        before = found.folded[max(0, match.start() - 10) : match.start()]
        if _compiled(r"[?&;-]sig(?:nature)?\Z").search(before):
            found.mask(*match.span(1), "signature")


def _find_sql_passwords(found: Findings) -> None:
    """Mask the password in SQL's `IDENTIFIED BY '…'`."""
    sql = r"fied (?<=identified )(?:with [\w.]{1,40} )?by (\\{0,16}[\"'])"
    for match in _compiled(sql).finditer(found.folded):
        # "identified by 'code'" in a comment is prose; statements are shouted.
        shouted = found.view.startswith("BY", match.start(1) - 3)
        promise = Promise.PASSWORD if shouted else Promise.TOKEN
        _judge_quoted(found, promise, match.start(), match.end(), match.group(1))


def _find_netrc_passwords(found: Findings) -> None:
    """Mask the password in `machine … login … password …`."""
    netrc = r"gin(?<=login)\s{1,8}\S{1,128}+\s{1,40}password\s{1,8}(\S{4,256}+)"
    for match in _compiled(netrc).finditer(found.folded):
        start, end = match.span(1)
        if is_literal_secret(Promise.PASSWORD, found.text[start:end], Style.TIGHT):
            found.mask(start, end, "secret")
