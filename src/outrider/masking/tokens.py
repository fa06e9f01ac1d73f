"""Tokens of well-known services: a prefix that only they have, and what looks random behind it."""

import re
from functools import cache

from outrider.texts.spans import Findings, compiled, find_rare

from .names import word_set
from .randomness import looks_random

_DASHED = r"[A-Za-z0-9_-]"
_RUN = rf"{_DASHED}++(?>(?:[.+/=%]++{_DASHED}++)*)=*+"
_MIXED = r"(?=[A-Za-z]*+\d)(?=\d*+[A-Za-z])[A-Za-z0-9]{16}"
_MAX_JUDGED = 128

# Each prefix ends in a separator, by which it is found.
_PREFIXES = word_set(
    "ghp_ gho_ ghu_ ghr_ ghs_ github_pat_ npm_ hf_ api_org_ gsk_ sk_live_ sk_test_ rk_live_ "
    "rk_test_ whsec_ dckr_pat_ dckr_oat_ dop_v1_ doo_v1_ dor_v1_ shpat_ shpca_ shppa_ shpss_ "
    "lin_api_ lin_oauth_ ntn_ secret_ figd_ glc_ glsa_ r8_ rpa_ sntrys_ sntryu_ sbp_ sb_secret_ "
    "pscale_tkn_ pscale_pw_ rubygems_ bkua_ nfp_ phx_ lsv2_pt_ lsv2_sk_ ops_ fm2_ fo1_ aio_ pnu_ "
    "e2b_ CLOJARS_ sk- sk-ant- sk-proj- sk-svcacct- sk-admin- sk-or-v1- "
    "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- "
    "pypi- xoxa- xoxb- xoxc- xoxe- xoxo- xoxp- xoxr- xoxs- xoxd- xapp- xoxe. GOCSPX- xai- pplx- "
    "tvly- nvapi- AGE-SECRET-KEY- PMAK- NRAK- CFPAT- HRKU- tskey- sq0atp- sq0csp- pul- fio-u- "
    "dapi- v1.0- SG. ya29. hvs. hvb. hvr. dp.pt. dp.ct. dp.st. sl. dt0c01."
)

# These also end ordinary words and names (`task-`, `client_secret_`): inside one, what follows must
# look as no id does.
_WORD_ENDS = word_set("sk- hf_ secret_ sl. ops_ aio_ pul- v1.0- r8_")
_UNLIKE_IDS = (
    r"(?=[a-z0-9]*+[A-Z])(?=[A-Z0-9]*+[a-z])"
    r"(?:(?=[A-Za-z]*+\d)[A-Za-z0-9]{20}|[A-Za-z0-9]{30})"
)

# Tokens that are recognised by something inside them: what they are found by, what comes before
# that, and what comes after it: its first part, or with a look at its end all of it.
_AROUND = (
    ("A", "", r"(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),  # AWS
    ("A", "", r"C[0-9a-f]{32}(?![0-9a-f])"),  # Twilio
    ("A", "", r"Iza[A-Za-z0-9_-]{30}"),  # Google
    ("A", "", r"T[AC]TT3[A-Za-z0-9_=-]{20}"),  # Atlassian
    ("A", r"(?<![A-Za-z0-9/+])", r"TBB[A-Za-z0-9_=-]{20}"),
    ("A", "LT", r"(?<=LTA)I[A-Za-z0-9]{12,24}(?![A-Za-z0-9])"),  # Alibaba
    ("A", "(?<![A-Za-z0-9/+])E", r"(?<=EA)A[A-Za-z0-9]{80}"),  # Facebook
    ("A", r"\d{8,11}:", r"(?<=:A)A[A-Za-z0-9_-]{30}"),  # Telegram
    ("-", "key", r"(?<=key-)[0-9a-f]{32}(?![0-9a-f])"),  # Mailgun
    ("-", r"[0-9a-f]{32}", r"us\d{1,2}(?![A-Za-z0-9])"),  # Mailchimp
    (".", r"[A-Za-z0-9]{14}", r"atlasv1\.[A-Za-z0-9_=-]{40}"),  # Terraform
    (".", rf"[MNO]{_DASHED}{{23,27}}", rf"{_DASHED}{{6}}\.{_DASHED}{{27}}"),  # Discord
    ("~", r"[A-Za-z0-9_.~-]{3}\dQ", r"(?<=\dQ~)[A-Za-z0-9_.~-]{30,40}"),  # Azure
    ("K", "S", r"(?<=SK)[0-9a-f]{32}(?![0-9a-f])"),  # Twilio
    ("pi", "da", r"(?<=dapi)[0-9a-f]{32}(?:-\d)?(?![0-9a-f])"),  # Databricks
)

# What an id begins with, and the secret that stands close to it.
_BESIDE = {
    ("AKIA", "ASIA", "ABIA", "ACCA"): r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])",
    ("AC",): r"(?<![A-Za-z0-9])[0-9a-f]{32}(?![A-Za-z0-9])",
}
_ANCHORS = ("_", "-", ".", "A", "~", "K", "pi")


def find_tokens(found: Findings) -> None:
    view = found.view
    for anchor in filter(view.__contains__, _ANCHORS):
        pattern, prefixes, around = _anchored(anchor)
        after = 0
        for hit in find_rare(pattern, view, anchor[0]):
            if hit.start() < after:
                continue
            token = _prefixed(view, hit.end(), prefixes) or _around(view, hit, around)
            if token is not None:
                start, after = token
                found.mask(start, after, "token")
                for ids, shape in _BESIDE.items():
                    if view.startswith(ids, start):
                        _find_beside(found, start, after, shape)


@cache
def _anchored(anchor: str) -> tuple[re.Pattern[str], list[str], list[tuple[str, str]]]:
    """Return what finds an anchor, the prefixes that end there, and what it is the middle of."""
    prefixes = [prefix for prefix in _PREFIXES if prefix.endswith(anchor)]
    around = [row[1:] for row in _AROUND if row[0] == anchor]
    escaped = re.escape(anchor)
    looks = [f"(?={rest})" for _, rest in around]
    if prefixes:
        # Cheap tests first: the letters before the anchor, then what follows, then the ending.
        letters = ["".join(sorted({re.escape(one[at]) for one in prefixes})) for at in (-3, -2)]
        ends = "|".join(sorted({re.escape(prefix[-3:]) for prefix in prefixes}))
        before = "".join(f"[{some}]" for some in letters)
        looks.insert(0, rf"(?<={before}{escaped})(?=[A-Za-z0-9+/_-]{{14}})(?<={ends})")
    if anchor == "A":
        escaped += "(?=[KSBCITA])"
    if anchor == ".":
        # Every token here has that many such letters behind its dot; few other dots have.
        escaped += r"(?=[A-Za-z0-9_.=-]{14})"
    return re.compile(f"{escaped}(?:{'|'.join(looks)})"), prefixes, around


def _run_end(view: str, position: int) -> int:
    run = compiled(_RUN).match(view, position)
    return run.end() if run else position


def _prefixed(view: str, position: int, prefixes: list[str]) -> tuple[int, int] | None:
    """Return where the token begins and ends whose prefix ends at `position`."""
    before = view[max(0, position - 24) : position]
    for prefix in filter(before.endswith, prefixes):
        begins = prefix not in _WORD_ENDS or _begins_a_word(before.removesuffix(prefix))
        body = compiled(_RUN).match(view, position, position + _MAX_JUDGED)
        mixed = compiled(_MIXED if begins else _UNLIKE_IDS).match(view, position)
        random = body is not None and looks_random(body.group())
        if (mixed or random) if begins else (mixed and random):
            return position - len(prefix), _run_end(view, position)
    return None


def _around(view: str, hit: re.Match[str], around: list[tuple[str, str]]) -> tuple[int, int] | None:
    """Return where the token begins and ends that has its anchor here."""
    before = view[max(0, hit.start() - 40) : hit.start()]
    for lead, rest in around:
        first = compiled(rf"(?:{lead})\Z").search(before)
        if first is not None:
            body = compiled(rest).match(view, hit.end())
            if body is not None:
                end = body.end() if rest.endswith(")") else _run_end(view, body.end())
                return hit.start() - len(first.group()), end
    return None


def _begins_a_word(before: str) -> bool:
    """Return whether a token may begin after `before`: not inside a word such as `task-…`."""
    last = before[-1:]
    if not (last.isalnum() or last == "_"):
        return True
    # \nghp_… : the n belongs to an escape, in a string literal or in JSON.
    return before[-2:-1] == "\\" or before[-3:-2] == "%" or before[-6:-4] == "\\u"


def _find_beside(found: Findings, start: int, end: int, shape: str) -> None:
    """Mask the secret that stands close to its id."""
    for match in compiled(shape).finditer(found.view, max(0, start - 100), end + 160):
        value = match.group()
        if looks_random(value) and (len(value) < 40 or value not in (value.lower(), value.upper())):
            found.mask(*match.span(), "secret")
