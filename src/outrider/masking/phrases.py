"""Secrets without an operator: in commands, SQL, `.netrc`, signed addresses, Kubernetes."""

import re
from collections.abc import Callable

from .assignments import BARE, judge_bare, judge_quoted
from .names import Promise, promise_of
from .spans import Findings, compiled, worth_searching
from .values import QUOTE as _QUOTE, Style, is_literal_secret, is_placeholder

# The value of a short option with which some programs take a password, and those programs.
_LOGIN = r"""(?P<gap>[ \t=]{0,2})[\"']?(?P<value>[^\s\"'`;|&\\]{4,256}+)"""
_PROGRAM = r"""(?x)
    (?:
        sshpass | mysql(?:dump|admin|import|show|check|slap)? | mariadb
      | (?:docker|podman)\ login | redis-cli
    )(?=[ \t])
"""
_PROGRAM_REACH = 220


def _word(text: str) -> str:
    """Return what looks back at a word, at its beginning or after an escaped line end."""
    return rf"(?<={text})(?:(?<![a-z0-9_]{text})|(?<=\\n{text}))"


_WORD = r"[^\s\"'`;|&\\]{4,256}+"
_VARIABLE = r"(?P<variable>[a-z_][a-z0-9_]{2,60})[ ]{1,5}"

# The words that a text must have, and the pattern for the folded text. A pattern that begins with
# a letter is found fast, the faster the rarer that letter: so each begins inside a word and looks
# back at the rest of it, and those that share a letter share the search.
_PHRASES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("-",),
        rf"""-(?=[-apu])(?x:
            (?<=[ \t]-)(?P<login>[ap])
          | (?P<option>
                (?:-(?P<name>[a-z][a-z0-9-]{{2,40}}+)[ \t=]|u(?![a-z0-9_-])[ \t=]?)
                [ \t]{{0,4}}(?P<value>)(?:{_QUOTE})?(?![-<\[{{$])
            )
        )""",
    ),
    (
        ("login", "sig", "securestring"),
        rf"""g(?=in\s|=|nature=| [-\\\"'`])(?x:
            in(?<=login)(?=\s{{1,8}}\S{{1,128}}+\s{{1,40}}password\s{{1,8}}(?P<netrc>\S{{4,256}}+))
          | (?<=[?&;-]sig)(?:nature)?=(?P<signature>[a-z0-9%+/=_~-]{{16,}}+)
          | (?<=securestring)(?:\ -string)?\ (?P<secure_string>{_QUOTE})
        )""",
    ),
    (
        ("bearer ", "basic ", " by "),
        rf"""b(?=earer |asic |y [\\\"'`])(?x:
            (?:earer|asic)\ [ ]{{0,4}}(?P<credentials>[a-z0-9._~+/=-]{{8,}}+)
          | y\ (?<=\ by\ )(?P<identified_by>{_QUOTE})
        )""",
    ),
    (
        (":5432:",),
        r"5432:(?<=:5432:)[^:\s\"'`\\]{1,64}+:[^:\s\"'`\\]{1,64}+:"
        rf"(?P<pgpass>{_WORD})(?=[ \t]*(?:[\r\n\"'`\\]|\Z))",
    ),
    (
        ("net use ",),
        r"use (?<=net use )[ \t]*(?:[a-z*]:?[ \t]+)?\\{2}[^\s\"'`]{1,256}+"
        rf"(?>(?:[ \t]+/\S{{1,64}}+){{0,3}})[ \t]+(?![/*])(?P<share>{_WORD})",
    ),
    # `ENV NAME value` in a Dockerfile, and how fish and Windows set a variable.
    (("env ",), f"v {_word('env ')}{_VARIABLE}"),
    (
        ("setx ", "set -"),
        f"x (?:{_word('setx ')}|{_word('set -x ')}|{_word('set -gx ')}){_VARIABLE}",
    ),
)

_ACCOUNT = (
    r"(?:thin:|sqlplus[ \t]{1,4}(?>(?:-\S{1,40}[ \t]{1,4}){0,4}))"
    r"[^\s/@]{1,64}+/(?P<account>[^\s@\"'`]{4,256}+)\Z"
)
_KUBERNETES_REACH = 8192
_KUBERNETES = "kind: secret"
_FIRST, *_OTHERS = _PHRASES
_WORDS = (*(word for words, _ in _OTHERS for word in words), _KUBERNETES, "thin:", "sqlplus")


def find_phrases(found: Findings) -> None:
    """Note the secrets that are recognised by the words around them."""
    _find_phrase(found, *_FIRST)
    if not worth_searching(found.folded, *_WORDS):
        return
    for words, pattern in _OTHERS:
        _find_phrase(found, words, pattern)
    _find_accounts(found)
    if _KUBERNETES in found.folded:
        _find_kubernetes_secrets(found)


def _find_phrase(found: Findings, words: tuple[str, ...], pattern: str) -> None:
    if worth_searching(found.folded, *words):
        for match in compiled(pattern).finditer(found.folded):
            _JUDGES[match.lastgroup or ""](found, match)


def _judge_option(found: Findings, option: re.Match[str]) -> None:
    """Mask `--password hunter2`, where a space is the operator, and `-u user:password`."""
    name = option.group("name") or "u"
    promise = promise_of(name)
    if name in {"u", "user", "proxy-user"}:
        _judge_user(found, option)
    elif promise is not Promise.NONE:
        _judge_argument(found, promise, option.start(), option.start("value"), Style.BARE)


def _judge_user(found: Findings, option: re.Match[str]) -> None:
    """Mask the password in `curl -u user:password` and `--user user:password`."""
    match = compiled(r"([^\s:\"'`\\]{1,64}+):([^\s\"'`\\]{1,256}+)").match(found.view, option.end())
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


def _judge_signature(found: Findings, match: re.Match[str]) -> None:
    """Mask the signature of a signed address: it gives access by itself."""
    found.mask(*match.span("signature"), "signature")


def _judge_credentials(found: Findings, match: re.Match[str]) -> None:
    """Mask what follows a bare `Bearer` or `Basic`, where it looks like credentials."""
    start, end = match.span("credentials")
    value = found.view[start:end]
    if match.group().startswith("basic"):
        secret = _is_basic(value)
    else:
        secret = is_literal_secret(Promise.TOKEN, value, Style.QUOTED)
    if secret:
        found.mask(start, end, "authorization")
    else:
        found.leave(start, end)


def _is_basic(value: str) -> bool:
    """Return whether `value` is `user:password` in base64."""
    from binascii import Error, a2b_base64

    try:
        decoded = a2b_base64(value[: len(value) // 4 * 4][:512])
    except Error:
        return False
    return b":" in decoded and decoded.isascii()


def _judge_identified_by(found: Findings, match: re.Match[str]) -> None:
    """Mask the password in SQL's `IDENTIFIED BY '…'` and `IDENTIFIED WITH plugin BY '…'`."""
    before = found.folded[max(0, match.start() - 60) : match.start()]
    if compiled(r"identified (?:with [\w.]{1,40} )?\Z").search(before):
        _judge_quoted_password(found, match)


def _judge_quoted_password(found: Findings, match: re.Match[str]) -> None:
    """Mask the password in quotes, of SQL and of PowerShell's secure strings."""
    start, end = match.span(match.lastgroup or 0)
    # "identified by 'code'" in a comment is prose; statements are shouted.
    word = found.view[max(0, start - 40) : start].split()[-1]
    shouted = word.isupper() or match.lastgroup == "secure_string"
    promise = Promise.PASSWORD if shouted else Promise.TOKEN
    judge_quoted(found, promise, match.start(), end, found.view[start:end])


def _judge_password(found: Findings, match: re.Match[str]) -> None:
    """Mask the password at its place in `.netrc`, `.pgpass`, `net use` and an Oracle account."""
    start, end = match.span(match.lastgroup or 0)
    if is_literal_secret(Promise.PASSWORD, found.text[start:end], Style.TIGHT):
        found.mask(start, end, "secret")


def _judge_login(found: Findings, option: re.Match[str]) -> None:
    """Mask the password in `sshpass -p …`, `mysql -p…`, `docker login -p …`, `redis-cli -a …`."""
    value = compiled(_LOGIN).match(found.view, option.end())
    at = option.start()
    first = max(0, at - _PROGRAM_REACH)
    first = max(first, *(found.folded.rfind(mark, first, at) for mark in "\n;|&"))
    if value is None:
        return
    letter, glued = found.view[at + 1], not value.group("gap")
    for program in compiled(_PROGRAM).finditer(found.folded, first, at):
        between = found.view[program.end() : at].replace("\t", " ")
        if _takes_password(program.group(), letter, glued=glued) and f" -{letter}" not in between:
            start, end = value.span("value")
            if not is_placeholder(found.text[start:end]):
                found.mask(start, end, "secret")
            return


def _takes_password(program: str, letter: str, *, glued: bool) -> bool:
    # `-P 3306` is a port, and `mysql -p name` asks for the password of a database.
    if program.startswith(("mysql", "mariadb")):
        return letter == "p" and glued
    return letter == ("a" if program == "redis-cli" else "p")


def _judge_variable(found: Findings, match: re.Match[str]) -> None:
    """Mask the value in `ENV DB_PASSWORD …` and the like."""
    name = found.view[match.start("variable") : match.end("variable")]
    promise = promise_of(name) if name.isupper() else Promise.NONE
    if promise is not Promise.NONE:
        _judge_argument(found, promise, match.start(), match.end(), Style.TIGHT)


def _judge_argument(
    found: Findings, promise: Promise, start: int, position: int, style: Style
) -> None:
    quote = compiled(_QUOTE).match(found.view, position)
    if quote is not None:
        judge_quoted(found, promise, start, quote.end(), quote.group())
    else:
        judge_bare(found, promise, start, position, (style, BARE))


def _find_accounts(found: Findings) -> None:
    """Mask the password in `user/password@database`, as Oracle's programs and drivers take it."""
    at = found.view.find("@", 1)
    while at >= 0:
        if not found.view[at - 1].isspace():
            before = found.folded[max(0, at - 340) : at]
            if "thin:" in before or "sqlplus" in before:
                account = compiled(_ACCOUNT).search(found.folded, max(0, at - 340), at)
                if account is not None:
                    _judge_password(found, account)
        at = found.view.find("@", at + 1)


def _find_kubernetes_secrets(found: Findings) -> None:
    """Mask all values in the data of a Kubernetes Secret; their names don't matter."""
    after = 0
    for match in compiled(r"(?m)kind: secret(?<=^kind: secret)[ \t]*$").finditer(found.folded):
        first = max(after, match.start() - _KUBERNETES_REACH)
        first = max(first, found.view.rfind("\n---", first, match.start()))
        last = min(len(found.view), match.end() + _KUBERNETES_REACH)
        divided = found.view.find("\n---", match.end(), last)
        last = last if divided < 0 else divided
        for block in compiled(r"(?m)^(?:string)?data:[ \t]*(?:\n[ \t]+\S.*)+").finditer(
            found.folded, first, last
        ):
            for value in compiled(r"\n[ \t]+[\w.-]+:[ \t]+(\S{4,}+)").finditer(
                found.folded, *block.span()
            ):
                if not is_placeholder(found.text[value.start(1) : value.end(1)]):
                    found.mask(*value.span(1), "secret")
        after = last


_JUDGES: dict[str, Callable[[Findings, re.Match[str]], None]] = {
    "option": _judge_option,
    "login": _judge_login,
    "netrc": _judge_password,
    "signature": _judge_signature,
    "secure_string": _judge_quoted_password,
    "credentials": _judge_credentials,
    "identified_by": _judge_identified_by,
    "pgpass": _judge_password,
    "share": _judge_password,
    "variable": _judge_variable,
}
