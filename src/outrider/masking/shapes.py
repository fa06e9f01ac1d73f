"""Secrets with a shape of their own: private keys, JWTs, credentials in addresses."""

from outrider.texts.spans import Findings, compiled, find_rare, worth_searching

from .names import Promise
from .values import Style, is_literal_secret, is_word_of_code

_MAX_UNDECIDED = 2048  # a construct without an end after so many characters is judged as it is
_MAX_KEY = 16_384

# A line end in a PEM block: real, escaped at any depth, or as HTML.
_LINE_END = r"(?:\r?\n|(?:\\++r)?\\++n|\\++u000[aAdD]|&\#1[03];|<br ?/?>)"

_CODE_AFTER = r"(?>(?:[ \t\"'`,;+)]|\\++[\"'])*)"
_CODE_BEFORE = r"(?>(?:[ \t>|\#*\"'`,(]|\\++[\"'])*)(?:\d{1,6}[:|?>\t-][ \t:|?>]*+)?"  # 12: …
_BASE64 = r"(?:[A-Za-z0-9+/=]|\\++/)"

_PEM = rf"""(?x)
    -----BEGIN\ [A-Z0-9\ ]{{0,40}}?PRIVATE\ KEY(?:\ BLOCK)?-----
    (?>(?:
        {_CODE_AFTER}{_LINE_END}{_CODE_BEFORE}
        (?:
            (?>{_BASE64}{{16,}})
          | [A-Za-z0-9+/=]++(?={_LINE_END}|["'`\\]|\Z)
          | [A-Za-z][A-Za-z-]{{2,24}}:\ [^\n\\"]{{0,120}}(?={_LINE_END})  # Proc-Type: …
          | (?={_LINE_END})
        )
      | [ \t]*+(?>{_BASE64}{{16,}})
      | (?s:.){{1,60}}?(?<![A-Za-z0-9+/])(?>{_BASE64}{{40,}})  # `" + "\\n" + "`, `.append("`
    )*)
    (?:(?s:.){{0,100}}?-----END\ [A-Z0-9\ ]{{0,50}}-----)?
"""

_PEM_END = r"-----END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----"

_JWT = r"""(?x)
    J(?<=eyJ)[A-Za-z0-9_-]*+
    (?: \.(?P<payload>[A-Za-z0-9_-]++) (?P<signature>(?>(?:\.[A-Za-z0-9_-]*+){1,3}))? )?
"""

_URL = r"""(?x)
    //(?:(?<=1//)(?P<google>0[A-Za-z0-9_-]{30,}+)|(?<=://)(?:
        (?P<user>[^\s:/?\#@"'`<>\\(){}\[\]|,;]{0,128}+)
        :(?!\d{1,5}(?:[/?\#"'\s]|$))
        (?:
            (?P<password>[^\s/?\#"'`<>\\@]{1,256}+(?>(?:@[^\s/?\#"'`<>\\@]{0,128}+(?=@))*))
          | (?P<slashed>[^\s"'`<>\\@]{1,256}+)
        )
        @(?!sha\d)
      | (?P<name>[A-Za-z0-9_.~%-]{16,256}+)@
      | (?:
            hooks\.slack\.com/(?:services|workflows|triggers)/
          | discord(?:app)?\.com/api/webhooks/
          | [a-z0-9.-]{1,60}\.webhook\.office\.com/webhookb2/
        )(?P<path>[A-Za-z0-9_/@-]{16,})
    ))
"""

# Hashes of passwords: `$6$salt$hash`, `pbkdf2_sha256$260000$salt$hash`, `scrypt:…$salt$hash`.
_HASH = r"""(?x)\$(?:
    (?:\d[a-z]?|y|gy|P|H|S|apr1|sha1|md5|argon2(?:id?|d)|scrypt|bcrypt[\w-]*|pbkdf2[\w-]*)\$
    [A-Za-z0-9./+=,$*-]{20,}+
  | \d{4,7}[$:][A-Za-z0-9./+=$:]{30,}+
  | [A-Za-z0-9]{8,22}\$[0-9a-f]{40,128}+
)"""

_PLACEHOLDER = r"[$%]\w+|[$%]?[{(\[].*|[*.]+|x{3,}|.*\$\{.*"

_DATABASES = ("postgres", "postgresql", "mysql", "mariadb", "mongodb", "mongodb+srv", "redis",
              "rediss", "amqp", "amqps", "mssql", "clickhouse", "cockroachdb")  # fmt: skip


def find_shapes(found: Findings) -> None:
    """Note private keys, JWTs, hashes of passwords and credentials in addresses."""
    if worth_searching(found.view, "-----"):
        _find_private_keys(found)
    if "$" in found.view:
        for match in find_rare(compiled(_HASH), found.view, "$"):
            found.mask(*match.span(), "hash")
    if worth_searching(found.view, "eyJ"):
        _find_jwts(found)
    if worth_searching(found.view, "//"):
        _find_url_credentials(found)


def _find_private_keys(found: Findings) -> None:
    view, after = found.view, 0
    for edge in find_rare(compiled(r"-----(?:BEGIN|END) "), view, "-"):
        start = edge.start()
        if start >= after and (key := compiled(_PEM).match(view, start)):
            after = end = key.end()
            body = view.find("-----", start + 5) + 5, end
        elif start >= after and (mark := compiled(_PEM_END).match(view, start)):
            # What is left of a private key whose beginning was cut off.
            end = mark.end()
            body = _body_start(view, max(after, start - _MAX_KEY), start), start
            start, after = body[0], end - 5  # its dashes may be the next one's too
        else:
            continue
        if compiled(_BASE64 + "{16,}").search(view, *body):
            found.mask(start, end, "private-key")
        else:
            found.leave(edge.start(), end)


def _body_start(view: str, first: int, end: int) -> int:
    """Return where the lines of base64 begin that lead up to `end`, not before `first`."""
    breaks = [line_end.span() for line_end in compiled(_LINE_END).finditer(view, first, end)]
    if not breaks or not compiled(_CODE_BEFORE).fullmatch(view, breaks[-1][1], end):
        return end
    start, shortest = end, 1
    while breaks:
        stop = breaks.pop()[0]
        begin = breaks[-1][1] if breaks else first
        line = rf"{_CODE_BEFORE}(?>{_BASE64}{{{shortest},}}){_CODE_AFTER}"
        if not compiled(line).fullmatch(view, begin, stop):
            break
        start, shortest = begin, 16  # only the last line of a key may be short
    return start


def _find_jwts(found: Findings) -> None:
    for match in find_rare(compiled(_JWT), found.view, "J"):
        start, end = match.start() - 2, match.end()
        payload = match.group("payload") or ""
        has_parts = match.group("signature") is not None or payload.startswith("eyJ")
        # In a data URL, such as a source map, it isn't a token.
        if found.view[max(0, start - 7) : start] == "base64,":
            continue
        if (has_parts and len(payload) >= 8) or end - start >= _MAX_UNDECIDED:
            found.mask(start, end, "jwt")
        else:
            found.leave(start, end)


def _find_url_credentials(found: Findings) -> None:
    view = found.view
    for match in find_rare(compiled(_URL), view, "/"):
        if match.group("path") is not None:
            found.mask(*match.span("path"), "webhook")
        elif match.group("google") is not None:
            found.mask(match.start() - 1, match.end(), "google-token")
        elif match.group("name") is not None:
            if is_literal_secret(Promise.TOKEN, match.group("name"), Style.QUOTED):
                found.mask(*match.span("name"), "url-password")
        elif match.group("password") is not None:
            password = found.text[match.start("password") : match.end("password")]
            stands_in = password.isalpha() and is_word_of_code(password)
            if not stands_in and not compiled(_PLACEHOLDER).fullmatch(password):
                found.mask(*match.span("password"), "url-password")
        elif view[max(0, match.start() - 13) : match.start() - 1].endswith(_DATABASES):
            # Only there does a slash in a password occur in practice; elsewhere it is a path.
            found.mask(*match.span("slashed"), "url-password")
    last = view.rfind("://", max(0, len(view) - 640))
    if last >= 0 and compiled(r"://[^\s\"'`<>\\]*+\Z").match(view, last):
        found.leave(last, len(view))
