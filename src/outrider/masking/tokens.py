"""Tokens of well-known services, found by their prefixes anywhere in a text."""

import re
from functools import cache, partial

from .spans import Findings, compiled, find_rare

_WORD = r"[A-Za-z0-9]"
_DASHED = r"[A-Za-z0-9_-]"
_DOTTED = r"[A-Za-z0-9_.-]"
_MIXED = r"(?=[a-z0-9_-]{0,80}[A-Z])(?=[A-Za-z_-]{0,80}\d)(?=[A-Z0-9_-]{0,80}[a-z])"

# The kind of token, its prefixes, and what follows a prefix. A token is found by the separator
# that its prefix ends in.
_PREFIXED = (
    ("github-token", "ghp_ gho_ ghu_ ghr_", _WORD + "{16,}"),
    ("github-token", "ghs_", _DOTTED + "{16,}"),
    ("github-token", "github_pat_", r"[A-Za-z0-9_]{16,}"),
    ("npm-token", "npm_", _WORD + "{20,}"),
    ("huggingface-token", "hf_ api_org_", _WORD + "{20,}"),
    ("groq-key", "gsk_", _WORD + "{20,}"),
    ("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_", _WORD + "{16,}"),
    ("stripe-key", "whsec_", r"[A-Za-z0-9+/]{16,}={0,2}"),
    ("docker-token", "dckr_pat_ dckr_oat_", _DASHED + "{20,}"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", _WORD + "{32,}"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_", _WORD + "{24,}"),
    ("linear-key", "lin_api_ lin_oauth_", _WORD + "{24,}"),
    ("notion-token", "ntn_", _WORD + "{30,}"),
    ("notion-token", "secret_", r"(?=[A-Za-z]*\d)[A-Za-z0-9]{40,}"),
    ("figma-token", "figd_", _DASHED + "{24,}"),
    ("grafana-token", "glc_", r"[A-Za-z0-9+/=]{24,}"),
    ("grafana-token", "glsa_", r"[A-Za-z0-9_]{24,}"),
    ("replicate-token", "r8_", _WORD + "{24,}"),
    ("runpod-key", "rpa_", _WORD + "{24,}"),
    ("sentry-token", "sntrys_", r"[A-Za-z0-9_+/=-]{24,}"),
    ("sentry-token", "sntryu_", _WORD + "{24,}"),
    ("supabase-token", "sbp_", _WORD + "{24,}"),
    ("supabase-token", "sb_secret_", _DASHED + "{20,}"),
    ("planetscale-token", "pscale_tkn_ pscale_pw_", _DASHED + "{24,}"),
    ("rubygems-key", "rubygems_", _WORD + "{32,}"),
    ("buildkite-token", "bkua_", _WORD + "{24,}"),
    ("netlify-token", "nfp_", _WORD + "{24,}"),
    ("posthog-key", "phx_", _WORD + "{24,}"),
    ("langsmith-key", "lsv2_pt_ lsv2_sk_", r"[A-Za-z0-9_]{24,}"),
    ("onepassword-token", "ops_", r"eyJ[A-Za-z0-9_=-]{24,}"),
    ("fly-token", "fm2_", r"[A-Za-z0-9+/=_-]{24,}"),
    ("fly-token", "fo1_", _DASHED + "{24,}"),
    ("adafruit-key", "aio_", _WORD + "{24,}"),
    ("prefect-key", "pnu_", _WORD + "{24,}"),
    ("e2b-key", "e2b_", _WORD + "{24,}"),
    ("clojars-token", "CLOJARS_", _WORD + "{24,}"),
    ("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", _DASHED + "{16,}"),
    ("anthropic-key", "sk-ant-", _DASHED + "{16,}"),
    ("openrouter-key", "sk-or-", _DASHED + "{16,}"),
    ("langfuse-key", "sk-lf-", _DASHED + "{16,}"),
    ("openai-key", "sk-", rf"(?:{_WORD}{{18,}}|{_MIXED}{_DASHED}{{20,}}){_DASHED}*"),
    ("gitlab-token", "glpat- gldt- glrt- glcbt- glptt- glft- glimt-", _DOTTED + "{16,}"),
    ("gitlab-token", "glagent- gloas- glsoat-", _DOTTED + "{16,}"),
    ("pypi-token", "pypi-", rf"(?:AgE{_DASHED}{{16,}}|{_MIXED}{_DASHED}{{40,}})"),
    ("slack-token", "xoxa- xoxb- xoxc- xoxe- xoxo- xoxp- xoxr- xoxs-", _DASHED + "{10,}"),
    ("slack-token", "xoxd-", r"[A-Za-z0-9_%-]{10,}"),
    ("slack-token", "xapp-", r"\d-" + _DASHED + "{10,}"),
    ("google-secret", "GOCSPX-", _DASHED + "{16,}"),
    ("xai-key", "xai-", _WORD + "{24,}"),
    ("perplexity-key", "pplx-", _WORD + "{24,}"),
    ("tavily-key", "tvly-", rf"(?:dev-|prod-)?{_WORD}{{20,}}"),
    ("nvidia-key", "nvapi-", _DASHED + "{24,}"),
    ("mailgun-key", "key-", r"[0-9a-f]{32}(?![0-9a-f])"),
    ("age-key", "AGE-SECRET-KEY-", r"1[A-Za-z0-9]{24,}"),
    ("postman-key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{16,}"),
    ("newrelic-key", "NRAK-", r"[A-Z0-9]{20,}"),
    ("contentful-token", "CFPAT-", _DASHED + "{24,}"),
    ("heroku-key", "HRKU-", _DASHED + "{24,}"),
    ("tailscale-key", "tskey-", _DASHED + "{20,}"),
    ("square-token", "sq0atp- sq0csp-", _DASHED + "{20,}"),
    ("pulumi-token", "pul-", r"[0-9a-f]{32,}"),
    ("frameio-token", "fio-u-", _DASHED + "{32,}"),
    ("databricks-token", "dapi-", r"[0-9a-f]{32,}"),
    ("cloudflare-key", "v1.0-", r"[0-9a-f]{24}-[0-9a-f]{64,}"),
    ("sendgrid-key", "SG.", _DASHED + "{16,}[.]" + _DASHED + "{16,}"),
    ("google-token", "ya29.", _DOTTED + "{16,}"),
    ("vault-token", "hvs. hvb. hvr.", _DASHED + "{16,}"),
    ("doppler-token", "dp.pt. dp.ct.", _WORD + "{32,}"),
    ("doppler-token", "dp.st.", _DOTTED + "{32,}"),
    ("slack-token", "xoxe.", r"xox[bp]-" + _DASHED + "{10,}"),
    ("dropbox-token", "sl.", _DASHED + "{60,}"),
    ("dynatrace-token", "dt0c01.", r"[A-Z0-9]{24}[.][A-Z0-9]{32,}"),
)

# Tokens that are recognised by something inside them: what they are found by, the kind, what
# comes before that, and what comes after it.
_AROUND = (
    ("A", "aws-key-id", "", r"(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("A", "google-key", "", r"Iza[A-Za-z0-9_-]{30,}"),
    ("A", "atlassian-token", "", r"T(?:ATT3|CTT3|BB)[A-Za-z0-9_=-]{20,}"),
    ("A", "alibaba-key", "LT", r"(?<=LTA)I[A-Za-z0-9]{12,24}(?![A-Za-z0-9])"),
    ("A", "facebook-token", "(?<![/+])E", r"(?<=EA)A[A-Za-z0-9]{80,}"),
    ("A", "telegram-token", r"\d{8,11}:", r"(?<=:A)A[A-Za-z0-9_-]{30,}"),
    ("-", "mailchimp-key", r"[0-9a-f]{32}", r"us\d{1,2}(?!\w)"),
    (".", "terraform-token", r"[A-Za-z0-9]{14}", r"atlasv1\.[A-Za-z0-9_=-]{40,}"),
    (".", "discord-token", r"[MNO]" + _DASHED + "{23,27}", _DASHED + r"{6}\." + _DASHED + "{27,}"),
    ("~", "azure-secret", r"[A-Za-z0-9_.~-]{3}\dQ", r"(?<=\dQ~)[A-Za-z0-9_.~-]{30,40}"),
    ("K", "twilio-key", "S", r"(?<=SK)[0-9a-f]{32}(?![0-9a-f])"),
    ("pi", "databricks-token", "da", r"(?<=dapi)[0-9a-f]{32}(?:-\d)?(?![0-9a-f])"),
)

_ANCHORS = ("_", "-", ".", "A", "~", "K", "pi")
_RARE = ("~", "K")

# For each prefix the kind of the token, and what follows.
_BODIES = {
    prefix: (kind, body) for kind, prefixes, body in _PREFIXED for prefix in prefixes.split()
}


def find_tokens(found: Findings) -> None:
    """Note every token of a known service."""
    for anchor in _ANCHORS:
        if anchor in found.view:
            _find_at(found, anchor)


@cache
def _anchored(anchor: str) -> tuple[re.Pattern[str], list[int], list[tuple[str, str, str]]]:
    """Return what finds an anchor, the lengths of the prefixes that end there, and the rest."""
    prefixes = [prefix for prefix in _BODIES if prefix.endswith(anchor)]
    around = [row[1:] for row in _AROUND if row[0] == anchor]
    escaped = re.escape(anchor)
    looks = [f"(?={_bounded(rest)})" for _, _, rest in around]
    if prefixes:
        # Cheap tests first: the letters before the anchor, then what follows, then the ending.
        letters = [
            "".join(sorted({re.escape(prefix[at]) for prefix in prefixes})) for at in (-3, -2)
        ]
        ends = "|".join(sorted({re.escape(prefix[-3:]) for prefix in prefixes}))
        before = "".join(f"[{some}]" for some in letters)
        looks.insert(0, rf"(?<={before}{escaped})(?=[A-Za-z0-9+/_-]{{14}})(?<={ends})")
    if anchor == ".":
        # Every token here has that many such letters behind its dot; few other dots have.
        escaped += r"(?=[A-Za-z0-9_.=-]{14})"
    pattern = f"{escaped}(?:{'|'.join(looks)})"
    return re.compile(pattern), sorted({len(prefix) for prefix in prefixes}, reverse=True), around


@cache
def _bounded(pattern: str) -> str:
    """Return `pattern` without unbounded repeats, which a first look need not follow."""
    return re.sub(r"\{(\d+),\}", r"{\1}", pattern)


def _find_at(found: Findings, anchor: str) -> None:
    pattern, widths, around = _anchored(anchor)
    rare = partial(find_rare, pattern, found.view, anchor)
    next_hit = rare if anchor in _RARE else partial(pattern.search, found.view)
    hit = next_hit(0)
    while hit is not None:
        end = hit.end()
        before = found.view[max(0, end - 24) : end]
        for width in widths:
            if before[-width:] in _BODIES and _begins_a_word(before[:-width]):
                end = _mask_prefixed(found, end, before[-width:])
                break
        if around:
            end = max(end, _mask_around(found, hit, around))
        hit = next_hit(end)


def _mask_prefixed(found: Findings, position: int, prefix: str) -> int:
    """Mask the token whose prefix ends at `position`; return where to go on."""
    kind, body = _BODIES[prefix]
    match = compiled(body).match(found.view, position)
    if match is None:
        return position
    found.mask(position - len(prefix), match.end(), kind)
    return match.end()


def _begins_a_word(before: str) -> bool:
    """Return whether a token may begin after `before`: not inside a word such as `task-…`."""
    last = before[-1:]
    if not (last.isalnum() or last == "_"):
        return True
    # \nghp_… : the n belongs to an escape, in a string literal or in JSON.
    return before[-2:-1] == "\\" or before[-3:-2] == "%" or before[-6:-4] == "\\u"


def _mask_around(found: Findings, hit: re.Match[str], around: list[tuple[str, str, str]]) -> int:
    """Mask the token that has its anchor here; return where to go on."""
    before = found.view[max(0, hit.start() - 40) : hit.start()]
    for kind, lead, rest in around:
        if not compiled(_bounded(rest)).match(found.view, hit.end()):
            continue
        first = compiled(rf"(?:{lead})\Z").search(before)
        if first is None or not _begins_a_word(before[: first.start()]):
            continue
        token = compiled(rest).match(found.view, hit.end())
        if token is not None:
            start = hit.start() - len(first.group())
            found.mask(start, token.end(), kind)
            if kind == "aws-key-id":
                _find_aws_secret(found, start, token.end())
            return token.end()
    return hit.end()


def _find_aws_secret(found: Findings, start: int, end: int) -> None:
    """Mask the secret access key that stands close to its key id."""
    shape = compiled(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
    for match in shape.finditer(found.view, max(0, start - 100), end + 160):
        value = match.group()
        if any(c.isdigit() for c in value) and value != value.lower() and value != value.upper():
            found.mask(match.start(), match.end(), "aws-secret-key")
