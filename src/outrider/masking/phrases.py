"""Secrets without an operator: in commands, SQL, `.netrc`, signed addresses, Kubernetes."""

import re
from collections.abc import Callable

from outrider.texts.spans import Findings, compiled, find_rare, worth_searching
from outrider.texts.structure import QUOTE as _QUOTE

from .assignments import WORD, judge, judge_argument
from .names import Promise, promise_of
from .objects import mask_object
from .values import Style, is_literal_secret, is_placeholder

# A command up to the option with which its program takes a password: for some there may be a
# space after it, with `mysql -p name` the name is that of a database.
_LOGIN = r"""(?x)
    (?: (?:sshpass | (?:docker|podman)\ login)(?=\ )(?>(?:(?!\ -p).)*)\ -p\ ?
      | (?:mysql(?:dump|admin|import|show|check|slap)? | mariadb)(?=\ )(?>(?:(?!\ -p).)*)\ -p
      | redis-cli(?=\ )(?>(?:(?!\ -a).)*)\ -a\ ? )\Z
"""
_LOGIN_REACH = 220

# The last argument of `htpasswd -b file user password`; with `n` there is no file.
_OPTIONS = r"[ \t]{1,8}+(?>(?:-\S{1,40}[ \t]{1,8}){0,8})"
_ARGUMENT = r"[^\s\"'`;|&\\-][^\s\"'`;|&\\]{0,255}+"
_HTPASSWD = (
    rf"(?=[a-z]{{0,6}}b)(?:(?=[a-z]{{0,6}}n)[a-z]{{1,8}}+|[a-z]{{1,8}}+{_OPTIONS}{_ARGUMENT})"
    rf"{_OPTIONS}{_ARGUMENT}{_OPTIONS}(?P<password>(?!-){WORD})"
)

_GAP = r"(?>(?:\s|\\{1,8}[nrt]){1,40})"
_PGPASS = (
    r"[^:\s\"'`\\]{1,64}+:[^:\s\"'`\\]{1,64}+:(?!\*|[a-z]{1,7}(?:[\s\"'\\]|\Z))"
    r"(?P<password>[^\s\"'`\\]{4,256}+)(?=[ \t]*(?:[\r\n\"'`\\]|\Z))"
)

_SENSITIVE = r"ve(?<=sensitive)(?<![a-z0-9_-]sensitive)\\*[\"']?[ \t]*[:=][ \t]*true(?P<object>)"

# The words that a text must have, and the pattern for the folded text. A pattern that begins with
# a letter is found fast, the faster the rarer that letter: so each begins inside a word and looks
# back at the rest of it, and those that share a letter share the search.
_PHRASES: dict[tuple[str, ...], str] = {
    ("-",): rf"""-(?=[-apu])(?x:
            (?<=[ \t]-)(?P<login>[ap])
          | (?P<option>
                (?:-(?P<name>[a-z][a-z0-9-]{{2,40}}+)[ \t=]|u(?![a-z0-9_-])[ \t=]?)
                [ \t]{{0,4}}(?P<value>)(?:{_QUOTE})?(?![-<\[{{$])
            )
        )""",
    ("login", "securestring", "getconn"): rf"""g(?=in[\s(\\]|etconn|[ \"'\\](?<=string.))(?x:
            in(?<=login)(?={_GAP}[\w.@+%-][^\s\\]{{0,127}}+(?:{_GAP}account{_GAP}[^\s\\]{{1,128}}+)?
                {_GAP}password{_GAP}(?P<password>(?>(?:[^\s\\"']|\\(?![\\nrt"'])){{4,256}})))
          | (?:in(?<=login)|etconnection)\((?P<call>)
          | (?<=securestring)(?=\\*[\"'])(?P<object>)
          | (?<=securestring)(?:\ -string)?\ (?={_QUOTE})(?P<quoted>)
        )""",
    ("bearer ", "basic ", " by "): rf"""b(?=earer |asic |y [\\\"'`])(?x:
            (?:earer|asic)\ [ ]{{0,4}}(?P<credentials>[a-z0-9._~+/=-]{{8,}}+)
          | y\ (?<=\ by\ )(?={_QUOTE})(?P<quoted>)
        )""",
    ("htpasswd",): rf"wd -(?<=htpasswd -){_HTPASSWD}",
    # The place of a password in `.pgpass`, and in Oracle's addresses.
    ("43",): rf"43\d?:(?<=:[56]\d{{3}}:){_PGPASS}",
    (":*:",): rf"\*:(?<=:\*:){_PGPASS}",
    ("jdbc:",): r"jdbc:oracle:thin:[^\s/@]{1,64}+/(?P<password>[^\s@\"'`]{4,256}+)@",
    # Signatures of addresses, and the ids of sessions in addresses and cookies.
    ("sig=", "signature=", "id="): r"""=(?<=[dge]=)(?x:
            (?:(?<=[?&;-]sig=)|(?<=[?&;-]signature=))(?P<signature>[a-z0-9%+/=_~-]{16,}+)
          | (?<=id=)(?:(?<![a-z0-9_-]sid=)(?<=sid=)|(?<=sessid=)|(?<=sessionid=)|(?<=session_id=))
            (?P<session>[a-z0-9%+/=_.~-]{16,}+)
        )""",
    ("sensitive",): _SENSITIVE,
}


def find_phrases(found: Findings) -> None:
    """Note the secrets that are recognised by the words around them."""
    for words, pattern in _PHRASES.items():
        if worth_searching(found.folded, *words):
            for match in find_rare(compiled(pattern), found.folded, pattern.lstrip("\\")[0]):
                _JUDGES[match.lastgroup or ""](found, match)


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
    start, end = match.span("password")
    if is_literal_secret(Promise.PASSWORD, found.text[start:end], Style.TIGHT):
        found.mask(start, end, "secret")


def _judge_call(found: Findings, match: re.Match[str]) -> None:
    """Mask the password in `login(user, password)` and `getConnection(url, user, password)`."""
    if match.group().startswith("gin"):
        judge_argument(found, Promise.TOKEN, match.start(), match.end(), 1)
    else:
        judge_argument(found, Promise.PASSWORD, match.start(), match.end(), 2)


def _judge_session(found: Findings, match: re.Match[str]) -> None:
    """Mask the id of a session in an address or a cookie; elsewhere a UUID names a run."""
    value = found.text[match.start("session") : match.end("session")]
    is_sent = compiled(r"[?&;][\w.-]*\Z").search(found.view, match.start() - 40, match.start())
    is_uuid = compiled(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch(value)
    if (is_sent or not is_uuid) and is_literal_secret(Promise.TOKEN, value, Style.QUOTED):
        found.mask(*match.span("session"), "session")


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


_JUDGES: dict[str, Callable[[Findings, re.Match[str]], None]] = {
    "option": _judge_option,
    "login": _judge_login,
    "password": _judge_password,
    # It gives access by itself.
    "signature": lambda found, match: found.mask(*match.span("signature"), "signature"),
    "quoted": _judge_quoted,
    "credentials": _judge_credentials,
    "call": _judge_call,
    "session": _judge_session,
    "object": lambda found, match: mask_object(found, match.start()),
}
