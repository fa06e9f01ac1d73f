"""Secrets without an operator: in commands, SQL, `.netrc`, signed addresses, Kubernetes."""

import re
from collections.abc import Callable

from .assignments import BARE, WORD, judge
from .names import Promise, promise_of
from .spans import Findings, compiled, worth_searching
from .values import QUOTE as _QUOTE, Style, is_literal_secret, is_placeholder

# A command up to the option with which its program takes a password: for some there may be a
# space after it, with `mysql -p name` the name is that of a database.
_LOGIN = r"""(?x)
    (?: (?:sshpass | (?:docker|podman)\ login)(?=\ )(?>(?:(?!\ -p).)*)\ -p\ ?
      | (?:mysql(?:dump|admin|import|show|check|slap)? | mariadb)(?=\ )(?>(?:(?!\ -p).)*)\ -p
      | redis-cli(?=\ )(?>(?:(?!\ -a).)*)\ -a\ ? )\Z
"""
_LOGIN_REACH = 220


def _word(text: str) -> str:
    """Return what looks back at a word, at its beginning or after an escaped line end."""
    return rf"(?<={text})(?:(?<![a-z0-9_]{text})|(?<=\\n{text}))"


_VARIABLE = r"(?P<variable>[a-z_][a-z0-9_]{2,60})[ ]{1,5}"
_ACCOUNT = (
    r"(?:thin:|sqlplus[ \t]{1,4}(?>(?:-\S{1,40}[ \t]{1,4}){0,4}))"
    r"[^\s/@]{1,64}+/(?P<password>[^\s@\"'`]{4,256}+)\Z"
)
_ACCOUNT_REACH = 340

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
            in(?<=login)(?=\s{{1,8}}\S{{1,128}}+\s{{1,40}}password\s{{1,8}}(?P<password>\S{{4,256}}+))
          | (?<=[?&;-]sig)(?:nature)?=(?P<signature>[a-z0-9%+/=_~-]{{16,}}+)
          | (?<=securestring)(?:\ -string)?\ (?={_QUOTE})(?P<quoted>)
        )""",
    ),
    (
        ("bearer ", "basic ", " by "),
        rf"""b(?=earer |asic |y [\\\"'`])(?x:
            (?:earer|asic)\ [ ]{{0,4}}(?P<credentials>[a-z0-9._~+/=-]{{8,}}+)
          | y\ (?<=\ by\ )(?={_QUOTE})(?P<quoted>)
        )""",
    ),
    # The places of a password in `.pgpass`, in Windows' `net use`, and in Oracle's addresses.
    (
        (":5432:",),
        r"5432:(?<=:5432:)[^:\s\"'`\\]{1,64}+:[^:\s\"'`\\]{1,64}+:"
        r"(?P<password>[^\s\"'`\\]{4,256}+)(?=[ \t]*(?:[\r\n\"'`\\]|\Z))",
    ),
    (
        ("net use ",),
        r"use (?<=net use )[ \t]*(?:[a-z*]:?[ \t]+)?\\{2}[^\s\"'`]{1,256}+"
        rf"(?>(?:[ \t]+/\S{{1,64}}+){{0,3}})[ \t]+(?![/*])(?P<password>{WORD})",
    ),
    (("thin:", "sqlplus"), r"@(?<!\s@)(?P<account>)"),
    # `ENV NAME value` in a Dockerfile, and how fish and Windows set a variable.
    (("env ",), f"v {_word('env ')}{_VARIABLE}"),
    (
        ("setx ", "set -"),
        f"x (?:{_word('setx ')}|{_word('set -x ')}|{_word('set -gx ')}){_VARIABLE}",
    ),
)
_KUBERNETES = "kind: secret"


def find_phrases(found: Findings) -> None:
    """Note the secrets that are recognised by the words around them."""
    for words, pattern in _PHRASES:
        if worth_searching(found.folded, *words):
            for match in compiled(pattern).finditer(found.folded):
                _JUDGES[match.lastgroup or ""](found, match)
    if _KUBERNETES in found.folded:
        _find_kubernetes_secrets(found)


def _judge_option(found: Findings, option: re.Match[str]) -> None:
    """Mask `--password hunter2`, where a space is the operator, and `-u user:password`."""
    name = option.group("name") or "u"
    if name not in {"u", "user", "proxy-user"}:
        if promise := promise_of(name):
            judge(found, promise, option.start(), option.start("value"))
        return
    match = compiled(r"([^\s:\"'`\\]{1,64}+):([^\s\"'`\\]{1,256}+)").match(found.view, option.end())
    line = found.folded[max(0, option.start() - 100) : option.start()].rpartition("\n")[2]
    if match is None or line[-1:] not in {"", " ", "\t", "\\"}:
        return
    value = found.text[match.start(2) : match.end(2)]
    if "curl" in line:
        secret = not is_placeholder(value) and not value.startswith("//")
    else:  # docker run -u 1000:1000
        secret = is_literal_secret(Promise.TOKEN, value, Style.BARE)
    if secret:
        found.mask(*match.span(2), "secret")


def _judge_signature(found: Findings, match: re.Match[str]) -> None:
    """Mask the signature of a signed address: it gives access by itself."""
    found.mask(*match.span("signature"), "signature")


def _judge_credentials(found: Findings, match: re.Match[str]) -> None:
    """Mask what follows a bare `Bearer` or `Basic`, where it looks like credentials."""
    start, end = match.span("credentials")
    is_basic = match.group().startswith("basic")
    style = Style.BARE if is_basic else Style.QUOTED
    is_long_enough = end - start >= 12 or not is_basic  # for `user:password` in base 64
    if is_long_enough and is_literal_secret(Promise.TOKEN, found.view[start:end], style):
        found.mask(start, end, "authorization")
    else:
        found.leave(start, end)


def _judge_quoted(found: Findings, match: re.Match[str]) -> None:
    """Mask the password in `IDENTIFIED WITH plugin BY '…'` and in PowerShell's secure strings."""
    position = match.start("quoted")
    before = found.view[max(0, position - 60) : position]
    if compiled(r"(?i)(?:identified (?:with [\w.]{1,40} )?by|string) \Z").search(before):
        # "identified by 'code'" in a comment is prose; statements are shouted.
        promise = Promise.TOKEN if before.endswith("by ") else Promise.PASSWORD
        judge(found, promise, match.start(), position)


def _judge_password(found: Findings, match: re.Match[str]) -> None:
    """Mask the password at its place in a line."""
    start, end = match.span("password")
    if is_literal_secret(Promise.PASSWORD, found.text[start:end], Style.TIGHT):
        found.mask(start, end, "secret")


def _judge_account(found: Findings, match: re.Match[str]) -> None:
    """Mask the password in `user/password@database`, as Oracle's programs and drivers take it."""
    first = max(0, match.start() - _ACCOUNT_REACH)
    account = compiled(_ACCOUNT).search(found.folded, first, match.start())
    if account is not None:
        _judge_password(found, account)


def _judge_login(found: Findings, option: re.Match[str]) -> None:
    """Mask the password in `sshpass -p …`, `mysql -p…`, `docker login -p …`, `redis-cli -a …`."""
    at, end = option.span()
    first = max(0, at - _LOGIN_REACH)
    first = max(first, *(found.folded.rfind(mark, first, at) for mark in "\n;|&"))
    value = compiled(rf"([ \t=]{{0,2}})[\"']?({WORD})").match(found.view, end)
    if value is None or is_placeholder(found.text[value.start(2) : value.end()]):
        return
    command = found.view[first:end] + value.group(1)[:1]
    if compiled(_LOGIN).search(command.replace("\t", " ").replace("=", " ")):
        found.mask(*value.span(2), "secret")


def _judge_variable(found: Findings, match: re.Match[str]) -> None:
    """Mask the value in `ENV DB_PASSWORD …` and the like."""
    name = found.view[match.start("variable") : match.end("variable")]
    if name.isupper() and (promise := promise_of(name)):
        judge(found, promise, match.start(), match.end(), (Style.TIGHT, BARE))


def _find_kubernetes_secrets(found: Findings) -> None:
    """Mask all values in the data of a Kubernetes Secret; their names don't matter."""
    first = 0
    for document in found.folded.split("\n---"):
        last = first + len(document)
        if compiled(rf"(?m)^{_KUBERNETES}[ \t]*$").search(document):
            blocks = compiled(r"(?m)^(?:string)?data:[ \t]*(?:\n[ \t]+\S.*)+")
            for block in blocks.finditer(found.folded, first, last):
                values = compiled(r"\n[ \t]+[\w.-]+:[ \t]+(\S{4,}+)").finditer
                for value in values(found.folded, *block.span()):
                    if not is_placeholder(found.text[value.start(1) : value.end(1)]):
                        found.mask(*value.span(1), "secret")
        first = last + len("\n---")


_JUDGES: dict[str, Callable[[Findings, re.Match[str]], None]] = {
    "option": _judge_option,
    "login": _judge_login,
    "password": _judge_password,
    "signature": _judge_signature,
    "quoted": _judge_quoted,
    "credentials": _judge_credentials,
    "variable": _judge_variable,
    "account": _judge_account,
}
