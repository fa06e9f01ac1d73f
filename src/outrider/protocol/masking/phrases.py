"""Secrets that no operator announces: in commands, SQL, `.netrc`, signed addresses, Kubernetes."""

import re
from collections.abc import Callable
from functools import cache

from .assignments import BARE, judge_bare, judge_quoted
from .literals import QUOTE as _QUOTE
from .names import Promise, promise_of
from .spans import Findings, worth_searching
from .values import Style, is_literal_secret, is_placeholder

_OPTION = rf"""(?x)
    -(?:-(?P<name>[a-z][a-z0-9-]{{2,40}}+)[ \t=]|u(?![a-z0-9_-])[ \t=]?)
    [ \t]{{0,4}}(?P<quote>{_QUOTE})?(?![-<\[{{$])
"""

# Programs that take a password behind a short option, and that option.
_LOGIN = r"""(?x)
    (?P<program>sshpass|mysql(?:dump|admin)?|mariadb|(?:docker|podman)\ login|redis-cli)
    (?=[ \t])[^\n;|&]{0,200}?[ \t]-(?P<option>[ap])(?P<gap>[ \t=]{0,2})
    (?P<quote>[\"'])?(?P<value>[^\s\"'`;|&\\]{4,256}+)
"""

# `ENV NAME value` in a Dockerfile, and how fish and Windows set a variable.
_SET = r"(?:(?<![a-z0-9_])|(?<=\\n))(?:env|setx|set -g?x) ([a-z_][a-z0-9_]{2,60}) [ ]{0,4}"

_KUBERNETES_REACH = 8192


def find_phrases(found: Findings) -> None:
    """Note the secrets that are known by the words around them."""
    if worth_searching(found.folded, "-"):
        _find_options(found)
    if worth_searching(found.folded, "sig"):
        _find_signatures(found)
    if worth_searching(found.folded, "login"):
        _find_netrc_passwords(found)
    # Words so rare that looking for them first pays in a long text too.
    for words, find in _RARE.items():
        if any(word in found.folded for word in words):
            find(found)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _find_options(found: Findings) -> None:
    """Mask `--password hunter2`, where a space stands for the operator, and `-u user:password`."""
    for match in _compiled(_OPTION).finditer(found.folded):
        name = match.group("name") or "u"
        promise = promise_of(name)
        if name in {"u", "user", "proxy-user"}:
            _judge_user(found, match)
        elif promise is not Promise.NONE and match.group("quote"):
            opening = found.view[match.start("quote") : match.end("quote")]
            judge_quoted(found, promise, match.start(), match.end(), opening)
        elif promise is not Promise.NONE:
            judge_bare(found, promise, match.start(), match.end(), (Style.BARE, BARE))


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


def _find_quoted_passwords(found: Findings) -> None:
    """Mask the password in SQL's `IDENTIFIED BY '…'` and `PASSWORD '…'`, and PowerShell's."""
    words = (
        r"(?:fied (?<=identified )(?:with [\w.]{1,40} )?by|rd(?<=\spassword)"
        rf"|ing(?<=securestring)(?: -string)?) ({_QUOTE})"
    )
    for match in _compiled(words).finditer(found.folded):
        # "identified by 'code'" in a comment is prose; statements are shouted.
        word = found.view[max(0, match.start(1) - 40) : match.start(1)].split()[-1]
        shouted = word.isupper() or word.endswith("SecureString")
        promise = Promise.PASSWORD if shouted else Promise.TOKEN
        opening = found.view[match.start(1) : match.end(1)]
        judge_quoted(found, promise, match.start(), match.end(), opening)


def _find_netrc_passwords(found: Findings) -> None:
    """Mask the password in `machine … login … password …`."""
    netrc = r"gin(?<=login)\s{1,8}\S{1,128}+\s{1,40}password\s{1,8}(\S{4,256}+)"
    for match in _compiled(netrc).finditer(found.folded):
        start, end = match.span(1)
        if is_literal_secret(Promise.PASSWORD, found.text[start:end], Style.TIGHT):
            found.mask(start, end, "secret")


def _find_logins(found: Findings) -> None:
    """Mask the password in `sshpass -p …`, `mysql -p…`, `docker login -p …`, `redis-cli -a …`."""
    for match in _compiled(_LOGIN).finditer(found.folded):
        start, end = match.span("value")
        option = "a" if match.group("program") == "redis-cli" else "p"
        # `-P 3306` is a port, and `mysql -p name` asks for the password of a database.
        given = found.view[match.start("option")] == option and not (
            match.group("gap") and match.group("program").startswith(("mysql", "mariadb"))
        )
        if given and not is_placeholder(found.text[start:end]):
            found.mask(start, end, "secret")


def _find_set_variables(found: Findings) -> None:
    """Mask the value in `ENV DB_PASSWORD …` and the like."""
    for match in _compiled(_SET).finditer(found.folded):
        name = found.view[match.start(1) : match.end(1)]
        promise = promise_of(name) if name.isupper() else Promise.NONE
        if promise is not Promise.NONE:
            judge_bare(found, promise, match.start(), match.end(), (Style.TIGHT, BARE))


def _find_kubernetes_secrets(found: Findings) -> None:
    """Mask all values in the data of a Kubernetes Secret, whatever their names."""
    after = 0
    for match in _compiled(r"(?m)^kind: secret[ \t]*$").finditer(found.folded):
        first = max(after, match.start() - _KUBERNETES_REACH)
        first = max(first, found.view.rfind("\n---", first, match.start()))
        last = min(len(found.view), match.end() + _KUBERNETES_REACH)
        divided = found.view.find("\n---", match.end(), last)
        last = last if divided < 0 else divided
        for block in _compiled(r"(?m)^(?:string)?data:[ \t]*(?:\n[ \t]+\S.*)+").finditer(
            found.folded, first, last
        ):
            for value in _compiled(r"\n[ \t]+[\w.-]+:[ \t]+(\S{4,}+)").finditer(
                found.folded, *block.span()
            ):
                if not is_placeholder(found.text[value.start(1) : value.end(1)]):
                    found.mask(*value.span(1), "secret")
        after = last


_RARE: dict[tuple[str, ...], Callable[[Findings], None]] = {
    ("sshpass", "mysql", "mariadb", "r login", "n login", "redis-cli"): _find_logins,
    ("env ", "setx ", "set -"): _find_set_variables,
    ("identified ", "password '", 'password "', "password \\", "securestring "): (
        _find_quoted_passwords
    ),
    ("kind: secret",): _find_kubernetes_secrets,
}
