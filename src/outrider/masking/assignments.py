"""Values assigned to secret-looking names: in code, JSON at any depth of escaping, headers, flags.

A name is found by its keyword (`token`, `key`, …) with an operator after it; only then are the
whole name and the value looked at. Only the value is masked, so that code stays readable and JSON
can still be parsed.
"""

import re

from outrider.texts.spans import LINE_END, Findings, compiled, worth_searching
from outrider.texts.structure import QUOTE as _QUOTE, arguments, quoted_end

from .headers import mask_authorization, mask_cookies
from .names import KEY_OWNERS, NAME_LETTERS, Promise, promise_of
from .objects import mask_object
from .randomness import looks_random
from .tables import find_columns, find_inserted
from .values import Style, is_literal_secret, is_plain_word

_SETTING = r"(?=[ \t])(?:\ (?:now|(?:changed|set|reset|rotated|updated)\ to)(?=[ \t]))?"

# A name that a space alone may part from its value: in `requirepass hunter2`, after `ENV`.
_BARE_NAME = r"(?:(?<=[a-z_](?:word|pass|oken|cret|_key|auth)\ )|(?<=[a-z_]pw\ ))"
_COMMAND = r"(?:(?<![\w-])|(?<=\\n))(?:env|setx|set -g?x|config set|set)[ ]+\Z"
_COMPOUND = r"\w+(?:pass|pw|_password)|masterauth"

# What comes between a name and its value, or behind a heading.
_OPERATOR = rf"""
    (?P<close>{_QUOTE})? [\])*]{{0,2}}+ [ \t]{{0,8}}+
    (?=[^abdefgjklmnopqxyz0-9_.\-/)}}] | (?<=\t) | (?<=["']\ ) | (?<=["'])/
      | {_BARE_NAME} | (?<=\)\ )from\ stdin)
    (?P<operator>
        := | => | \?= | \+= | ={{1,3}}+ | !={{1,2}}+ | :(?:\*\*)? | > | %3[ad]
      | ,?(?>(?:\s|\\{{1,8}}n){{0,40}}){_QUOTE}?value{_QUOTE}?[ \t]{{0,8}}[:=]
      | (?P<columns>(?:,[^()=;]{{0,400}}?\))?\s{{0,8}}(?:values|from\ stdin))
      | [,(](?=\s{{0,40}}{_QUOTE})
      | \{{[^{{}}]{{0,400}}?\sdefault[ \t]{{0,8}}=
      | [iw](?:s|as|ill\ be){_SETTING} | has\ been{_SETTING} | to(?=[ \t])
      | [csru](?:hanged|et|eset|otated|pdated)\ to(?=[ \t]) | contains(?=[ \t])
      | (?P<beside>(?<=["']\ )(?=[a-z-]{{2,20}}=) | /(?=>))
      | (?P<sql>(?<=password\ )(?={_QUOTE})) | (?(close),(?=[\s\\])|(?!))
      | (?P<directive>{_BARE_NAME}(?=[^\s\\]{{4,256}}+[ \t]*+(?:[\r\n\\"']|\Z)))
      | \| | [,;](?=\S) | (?=[\r\n\\])(?=\r?\n|\\{{1,8}}[nrt]) | (?<=\t)
    )
    [ \t]{{0,8}}+
"""

# A count of tokens is the most common match; it is skipped before any Python runs.
_NOT_A_NUMBER = r"(?!\d{1,9}(?:\.\d{1,9})?[\s,}\]])"


def _assignment(keyword: str, not_a_number: str = _NOT_A_NUMBER, without: str = "(?!)") -> str:
    """Return the pattern of a name with this keyword and an operator after it, in folded text."""
    # Before `without` no operator is needed.
    rest = r"(?P<rest>[a-z0-9_.-]{0,32}+)"
    return rf"(?x){keyword}{rest}(?:{_OPERATOR}{not_a_number}|{without})"


# A word before `key` that says what it opens; looking back takes one width.
_OWNED = f"(?<=(?:{'|'.join(sorted({owner[-3:] for owner in KEY_OWNERS}))}).key)"

# The keywords, and what finds them: together where they share a letter, and by a rarer letter
# than their first.
_ASSIGNMENTS: dict[tuple[str, ...], str] = {
    ("pass", "pwd", "psk", "pw"): _assignment(
        r"p(?:ass(?!(?<=\ pass)\r?\n)|wd|sk|w(?<=[a-z_]pw)(?![a-z]))", not_a_number=""
    ),
    ("secret", "cred"): _assignment(
        r"cre(?:t(?<=secret)|d)", without=r"""(?<=[\s"':]secret)(?=\\*["']?[ \t]*[,}])"""
    ),
    ("token", "key", "cookie"): _assignment(
        r"k(?:en(?<=token)(?!s(?![a-z]))(?!iz)|ie(?<=cookie)"
        rf"|ey(?:(?<=[a-z0-9_-]key)|(?!\ [abdefgjklmnopqvxyz]|[.a-z])(?<=[ .:/]key){_OWNED}))"
    ),
    ("auth",): _assignment(r"uth(?<=auth)(?!or(?!iza))"),
}
_KEYWORDS = tuple(keyword for keywords in _ASSIGNMENTS for keyword in keywords)

_OWNED_KEY = r"(?i)(?:(?<![a-z0-9\\])|(?<=\\[nrt]))[a-z0-9]{2,24}[ .:/]key[\w-]*\Z"
_BEFORE_LAST_CELL = r"(?:[,;\t|]|\\t|\| )\\*[\"']?\Z"
_APART = frozenset(("", ",", ";", "|", "/", ">"))

Form = tuple[Style, str]  # how a word is written, and the pattern of such a word
BARE = r"[^\s\"'`<>,;&|(){}\[\]=\\]{1,512}+(?:={1,2}|[(\[])?"
WORD = r"[^\s\"'`;|&\\]{4,256}+"
_WHOLE = r"[^\s\"'`\\]{1,512}+"
_YAML = r"[\w.-]+: (?:[&!]\S+ )*[a-z]{8,}"
_PROPERTIES = r"(?:(?:&[\w.-]{1,64}|!![a-z]{1,16})[ \t]+(?!=)){1,2}"  # an anchor and a tag, in YAML
_OBJECTS = ("secret", "random_password")  # of Kubernetes, and in the state of Terraform
_PAIRS = ("auth", "authentication", "credential", "credentials")  # of a user and a password
_ENVIRONMENT = r"[^\s\"'`<>;\\]{1,512}+"
# A value found to be secret goes on where code would have ended: `p4ss(word`.
_BARE_REST = r"[^\s\"'`<>,;&)}\]\\]*+"

# What opens a literal; after triple quotes it begins with the first line that isn't empty.
_OPENING = rf"[bruf@$]{{0,2}}({_QUOTE})(?:(?:\1){{2}}(?>(?:\s|\\{{1,8}}[nrt]){{0,80}}))?"
# `password: str = "…"`, and in YAML `password: |` with the value in the line below.
_ANNOTATION = rf"(?:&(?:'\w+ )?)?[A-Za-z_][\w.\[\]| ]{{0,48}}?[ \t]{{0,4}}=[ \t]{{0,4}}(?={_QUOTE})"
_ALONE = rf"[ \t]*+(?:{LINE_END}|[\"'`]|\Z)"
_BELOW = (
    rf"(?:(?P<block>[|>][+-]?)[ \t]{{0,8}})?{LINE_END}[ \t]{{1,40}}"
    rf"(?(block)(?={_WHOLE}{_ALONE})|(?=[^\s:=(){{}}\[\];\\\"'`]{{6,512}}+={{0,2}}{_ALONE}))"
)

_VALUE_ATTRIBUTE = rf"[\s\"']value=(?={_QUOTE})"
_MAX_TAG = 600


def find_assignments(found: Findings) -> None:
    """Note the values of all secret-looking names."""
    for keywords, pattern in _ASSIGNMENTS.items():
        if worth_searching(found.folded, *keywords):
            found.masked_to = 0
            for match in compiled(pattern).finditer(found.folded):
                if match.start() >= found.masked_to:
                    _judge(found, match)


def _judge(found: Findings, match: re.Match[str]) -> None:
    rest = match.group("rest")
    if rest and any(keyword in rest for keyword in _KEYWORDS):
        return  # `secret_key`: the match of the last keyword counts
    start, name = _name_at(found.view, match.start(), match.end("rest"))
    if found.view.endswith("[masked:", 0, start):
        return  # the name of a kind, in a mask
    folded = name.lower()
    operator = match.group("operator")
    if folded.endswith(_OBJECTS) and _is_of_object(found, start, match):
        mask_object(found, start)
        return
    if operator is None:
        return
    if match.group("columns") is not None:
        find_inserted(found, start, match.end())
        return
    if operator in _APART and _is_apart(found, start, name, match):
        return
    if operator[:1] in {",", "{"} and not match.group("close"):
        return
    if folded.endswith("authorization"):
        mask_authorization(found, start, match.end(), in_list=operator == ",")
    elif folded.endswith("cookie"):
        mask_cookies(found, start, match.end())
    elif (promise := promise_of(name)) and (folded, operator) != ("pass", "to"):
        _judge_value(found, promise, start, match)


def _is_of_object(found: Findings, start: int, match: re.Match[str]) -> bool:
    """Return whether an object says of itself that it is secret: `kind: Secret`, `secret: true`."""
    if match.group("operator") in {":", "="}:
        return found.folded.startswith("true", match.end())
    before = found.folded[max(0, start - 40) : start]
    return bool(compiled(rf"(?:kind|type){_QUOTE}?[ \t]*[:=][ \t]*{_QUOTE}?\Z").search(before))


def _is_apart(found: Findings, start: int, name: str, match: re.Match[str]) -> bool:
    """Handle what promises a secret further on, or with a space alone; return whether it did."""
    operator, end, promise = match.group("operator"), match.end(), promise_of(name)
    if match.group("directive") is not None:
        _judge_directive(found, promise, start, match)
    elif promise is Promise.NONE:
        return operator not in {",", ">"}
    elif match.group("sql") is not None:
        # `PASSWORD '…'` in SQL; statements are shouted.
        _judge_value(found, promise if name.isupper() else Promise.TOKEN, start, match)
    elif match.group("beside") is not None or (operator == ">" and match.group("close")):
        _judge_attribute(found, promise, start, end)
    else:
        return _heads_column(found, start, match) or operator not in {",", ">"}
    return True


def _judge_directive(found: Findings, promise: Promise, start: int, match: re.Match[str]) -> None:
    """Judge `ENV API_TOKEN …`, and `requirepass …` in a line of its own."""
    name, line = match.string[start : match.end("rest")], match.string[max(0, start - 40) : start]
    is_alone = compiled(r"(?:^|\n|\\n)[ \t]*\Z").search(line)
    if promise and compiled(_COMPOUND).fullmatch(name):
        promise = max(promise, Promise.SECRET)
    elif is_alone:
        promise = Promise.NONE
    if not is_alone and not compiled(_COMMAND).search(line):
        promise = Promise.NONE
    if promise:
        judge(found, promise, start, match.end(), (Style.TIGHT, _WHOLE))


def _judge_attribute(found: Findings, promise: Promise, start: int, end: int) -> None:
    """Judge `value="…"` in the tag in which another attribute has a secret's name."""
    view = found.view
    first = view.rfind("<", max(0, start - _MAX_TAG), start)
    if first < 0 or not compiled(r"=\\*[\"'`]\Z").search(view, start - 20, start):
        return
    last = view.find(">", end, end + _MAX_TAG)
    last = last if last >= 0 else min(len(view), end + _MAX_TAG)
    value = compiled(_VALUE_ATTRIBUTE).search(found.folded, first, last)
    if value is not None:
        judge(found, promise, first, value.end())
    found.leave(first, last)


def _heads_column(found: Findings, start: int, match: re.Match[str]) -> bool:
    """Return whether the name is a heading in a table; its columns are masked then."""
    view, operator = found.view, match.group("operator")
    if operator == "":
        place = compiled(_BEFORE_LAST_CELL).search(view, max(0, start - 12), start)
    else:
        place = compiled(r"[;|]|,(?!\s|\\{1,8}[nrt])").match(view, match.start("operator"))
    if place is None:
        return False
    # Masks further down in the table say nothing about what stands between them.
    masked_to = found.masked_to
    heads = find_columns(found, start, match.end("rest"))
    found.masked_to = masked_to
    return heads


def _name_at(view: str, position: int, end: int) -> tuple[int, str]:
    """Return the name that has its keyword at `position`, and where it begins."""
    # Of `key` alone the word before it says what it opens.
    before = view[max(0, position - 64) : position]
    start = position - (len(before) - len(before.rstrip(NAME_LETTERS)))
    if start and view[start - 1] == "\\" and view[start] in "nrt":
        start += 1  # \nDB_PASSWORD: the letter belongs to the escape
    name = view[start:end].rpartition(".")[2]
    if name[:3].lower() == "key":
        owner = compiled(_OWNED_KEY).search(view, max(0, end - 60), end)
        if owner is not None:
            return min(start, owner.start()), owner.group()
    return start, name


def _judge_value(found: Findings, promise: Promise, start: int, match: re.Match[str]) -> None:
    view, position, operator = found.view, match.end(), match.group("operator")
    style = _style(view, start, match)
    properties = compiled(_PROPERTIES).match(view, position) if operator == ":" else None
    position = properties.end() if properties else position
    name = view[start : match.end("rest")].lower()
    if name.endswith(_PAIRS) and (operator == "(" or view.startswith("(", position)):
        judge_argument(found, Promise.PASSWORD, start, position + (operator != "("), 1)
    if operator == ">" and view[start - 1 : start] != "<":
        found.leave(start, position + 512)
    elif operator == ">":  # <password>…</password>
        _judge_bare(found, promise, start, position, (Style.TIGHT, r"[^<>\s]{1,512}+(?=<)"))
    elif operator in (",", "(") and (quote := compiled(_OPENING).match(view, position)):
        _judge_listed(found, start, quote.end(), quote.group(1))
    elif operator == ":" and (annotation := compiled(_ANNOTATION).match(view, position)):
        judge(found, promise, start, annotation.end(), style)
    elif operator == ":" and (below := compiled(_BELOW).match(view, position)):
        judge(found, promise, start, below.end(), (Style.BARE, _ENVIRONMENT))
    else:
        # Give the password to `login`; the password contains letters.
        promise = Promise.TOKEN if operator in {"to", "contains"} else promise
        judge(found, promise, start, position, style)


def judge_argument(found: Findings, promise: Promise, start: int, position: int, nth: int) -> None:
    """Mask the literal at its place in the arguments from `position` on where it is a secret."""
    cells, end = arguments(found.view, position, nth)
    found.leave(start, end)
    if nth in cells and is_literal_secret(promise, found.text[slice(*cells[nth])], Style.QUOTED):
        found.mask(*cells[nth], "secret")


def _judge_listed(found: Findings, start: int, position: int, opening: str) -> None:
    """Handle `set("password", "…")` and `set_password("…")`, but not what takes or lists names."""
    end, _ = quoted_end(found.view, position, opening)
    value = found.text[position:end]
    digits = sum(letter.isdigit() for letter in value[:64])
    mixed = digits > 1 and not compiled(r"[A-Za-z_.:# -]+[\w-]{0,4}").fullmatch(value)
    if mixed or is_literal_secret(Promise.TOKEN, value, Style.BARE):
        judge_quoted(found, Promise.TOKEN, start, position, opening)
    else:
        found.leave(start, end)


def _style(view: str, start: int, match: re.Match[str]) -> Form:
    """Return how a bare value is written, and the pattern of such a value."""
    operator = match.group("operator")
    if "value" in operator:
        return Style.TIGHT, BARE
    if operator != "=" or match.end() != match.end("operator") or match.group("close"):
        return Style.BARE, BARE
    name = view[start : match.end("rest")]
    in_row = view[start - 1 : start] in {"?", "&", ";"}
    if in_row or compiled(BARE + ";").match(view, match.end()) or name.startswith("--"):
        return Style.TIGHT, BARE
    return (Style.TIGHT, _ENVIRONMENT) if name.isupper() else (Style.BARE, BARE)


def judge(
    found: Findings, promise: Promise, start: int, position: int, style: Form = (Style.BARE, BARE)
) -> None:
    """Mask the literal or the word at `position` where it is a secret."""
    # `start` is where its context begins.
    quote = compiled(_OPENING).match(found.view, position)
    if quote is not None:
        judge_quoted(found, promise, start, quote.end(), quote.group(1))
    else:
        _judge_bare(found, promise, start, position, style)


def _judge_bare(found: Findings, promise: Promise, start: int, position: int, style: Form) -> None:
    view = found.view
    word = compiled(style[1]).match(view, position)
    whole = compiled(_WHOLE).match(view, position)
    before = whole and _before_on_line(found, start, whole.end())
    owns_line = before is not None and style[1] in (BARE, _ENVIRONMENT)
    word = whole if owns_line else word
    if whole is None or word is None:
        found.leave(start, position)
        return
    value = found.text[position : word.end()]
    value = value.rstrip(".:!?" if style[1] is BARE and not owns_line else ".:,;!?)") or value
    end = position + len(value)
    is_word = before is not None and not before.strip(" -") and compiled(_YAML).match(view, start)
    if is_literal_secret(promise, value, style[0]) or (
        is_word and promise >= Promise.SECRET and is_plain_word(value)
    ):
        rest = compiled(_BARE_REST).match(view, end)
        found.mask(position, end if rest is None else rest.end(), "secret")
    elif looks_random(whole.group()) and is_literal_secret(promise, whole.group(), style[0]):
        found.mask(position, whole.end(), "secret")
    else:
        found.leave(start, whole.end())


def _before_on_line(found: Findings, start: int, end: int) -> str | None:
    """Return what comes before a name if that is no code, and nothing follows its value."""
    if not compiled(rf"[ \t]*+(?:{LINE_END}|\\{{1,8}}r|\Z)").match(found.view, end):
        return None
    before = found.view[max(0, start - 80) : start]
    if start < 80 and found.is_start:
        before = "\n" + before
    line = compiled(r"(?:\n|\\n)([^\n\"'`=(){}\[\],;<&?|\\]*+)\Z").search(before)
    return line and line.group(1)


def judge_quoted(found: Findings, promise: Promise, start: int, position: int, quote: str) -> None:
    """Mask the string that `quote` opens before `position` where it is a secret."""
    end, closed = quoted_end(found.view, position, quote)
    value = found.text[position:end]
    if not is_literal_secret(promise, value, Style.QUOTED):
        found.leave(start, end)
    else:
        run = None if closed else compiled(r"[^\s\"'`]++").match(found.view, end)
        found.mask(position, run.end() if run else end, "secret")
