"""Tokens of the well-known services, found by their prefixes wherever they stand."""

import re
from functools import cache

from .spans import Findings, find_rare

_WORD = r"[A-Za-z0-9]"
_DASHED = r"[A-Za-z0-9_-]"

# prefix up to the separator it is found by: (kind, what follows the separator)
_UNDERSCORE: dict[str, tuple[str, str]] = {
    "ghp_": ("github-token", _WORD + "{16,}"),
    "gho_": ("github-token", _WORD + "{16,}"),
    "ghu_": ("github-token", _WORD + "{16,}"),
    "ghs_": ("github-token", r"[A-Za-z0-9_.-]{16,}"),
    "ghr_": ("github-token", _WORD + "{16,}"),
    "github_pat_": ("github-token", r"[A-Za-z0-9_]{16,}"),
    "npm_": ("npm-token", _WORD + "{20,}"),
    "hf_": ("huggingface-token", _WORD + "{20,}"),
    "api_org_": ("huggingface-token", _WORD + "{20,}"),
    "gsk_": ("groq-key", _WORD + "{20,}"),
    "sk_live_": ("stripe-key", _WORD + "{16,}"),
    "sk_test_": ("stripe-key", _WORD + "{16,}"),
    "rk_live_": ("stripe-key", _WORD + "{16,}"),
    "rk_test_": ("stripe-key", _WORD + "{16,}"),
    "whsec_": ("stripe-key", r"[A-Za-z0-9+/]{16,}={0,2}"),
    "dckr_pat_": ("docker-token", _DASHED + "{20,}"),
    "dckr_oat_": ("docker-token", _DASHED + "{20,}"),
    "dop_v1_": ("digitalocean-token", _WORD + "{32,}"),
    "doo_v1_": ("digitalocean-token", _WORD + "{32,}"),
    "dor_v1_": ("digitalocean-token", _WORD + "{32,}"),
    "shpat_": ("shopify-token", _WORD + "{24,}"),
    "shpca_": ("shopify-token", _WORD + "{24,}"),
    "shppa_": ("shopify-token", _WORD + "{24,}"),
    "shpss_": ("shopify-token", _WORD + "{24,}"),
    "lin_api_": ("linear-key", _WORD + "{24,}"),
    "lin_oauth_": ("linear-key", _WORD + "{24,}"),
    "ntn_": ("notion-token", _WORD + "{30,}"),
    "secret_": ("notion-token", r"(?=[A-Za-z]*\d)[A-Za-z0-9]{40,}"),
    "figd_": ("figma-token", _DASHED + "{24,}"),
    "glc_": ("grafana-token", r"[A-Za-z0-9+/=]{24,}"),
    "glsa_": ("grafana-token", r"[A-Za-z0-9_]{24,}"),
    "r8_": ("replicate-token", _WORD + "{24,}"),
    "rpa_": ("runpod-key", _WORD + "{24,}"),
    "sntrys_": ("sentry-token", r"[A-Za-z0-9_+/=-]{24,}"),
    "sntryu_": ("sentry-token", _WORD + "{24,}"),
    "sbp_": ("supabase-token", _WORD + "{24,}"),
    "sb_secret_": ("supabase-token", _DASHED + "{20,}"),
    "pscale_tkn_": ("planetscale-token", _DASHED + "{24,}"),
    "pscale_pw_": ("planetscale-token", _DASHED + "{24,}"),
    "rubygems_": ("rubygems-key", _WORD + "{32,}"),
    "bkua_": ("buildkite-token", _WORD + "{24,}"),
    "nfp_": ("netlify-token", _WORD + "{24,}"),
    "phx_": ("posthog-key", _WORD + "{24,}"),
    "lsv2_pt_": ("langsmith-key", r"[A-Za-z0-9_]{24,}"),
    "lsv2_sk_": ("langsmith-key", r"[A-Za-z0-9_]{24,}"),
    "ops_": ("onepassword-token", r"eyJ[A-Za-z0-9_=-]{24,}"),
    "fm2_": ("fly-token", r"[A-Za-z0-9+/=_-]{24,}"),
    "fo1_": ("fly-token", _DASHED + "{24,}"),
    "aio_": ("adafruit-key", _WORD + "{24,}"),
    "pnu_": ("prefect-key", _WORD + "{24,}"),
    "e2b_": ("e2b-key", _WORD + "{24,}"),
    "CLOJARS_": ("clojars-token", _WORD + "{24,}"),
}

_MIXED = r"(?=[a-z0-9_-]{0,80}[A-Z])(?=[A-Za-z_-]{0,80}\d)(?=[A-Z0-9_-]{0,80}[a-z])"

_DASH: dict[str, tuple[str, str]] = {
    "sk-proj-": ("openai-key", _DASHED + "{16,}"),
    "sk-svcacct-": ("openai-key", _DASHED + "{16,}"),
    "sk-admin-": ("openai-key", _DASHED + "{16,}"),
    "sk-None-": ("openai-key", _DASHED + "{16,}"),
    "sk-ant-": ("anthropic-key", _DASHED + "{16,}"),
    "sk-or-": ("openrouter-key", _DASHED + "{16,}"),
    "sk-lf-": ("langfuse-key", _DASHED + "{16,}"),
    "sk-": ("openai-key", rf"(?:{_WORD}{{18,}}|{_MIXED}{_DASHED}{{20,}}){_DASHED}*"),
    "glpat-": ("gitlab-token", r"[A-Za-z0-9_.-]{16,}"),
    "gldt-": ("gitlab-token", r"[A-Za-z0-9_.-]{16,}"),
    "glrt-": ("gitlab-token", r"[A-Za-z0-9_.-]{16,}"),
    "glcbt-": ("gitlab-token", r"[A-Za-z0-9_.-]{16,}"),
    "glptt-": ("gitlab-token", r"[A-Za-z0-9_.-]{16,}"),
    "glft-": ("gitlab-token", r"[A-Za-z0-9_.-]{16,}"),
    "glimt-": ("gitlab-token", r"[A-Za-z0-9_.-]{16,}"),
    "glagent-": ("gitlab-token", r"[A-Za-z0-9_.-]{16,}"),
    "gloas-": ("gitlab-token", r"[A-Za-z0-9_.-]{16,}"),
    "glsoat-": ("gitlab-token", r"[A-Za-z0-9_.-]{16,}"),
    "pypi-": ("pypi-token", rf"(?:AgE{_DASHED}{{16,}}|{_MIXED}{_DASHED}{{40,}})"),
    "xoxa-": ("slack-token", _DASHED + "{10,}"),
    "xoxb-": ("slack-token", _DASHED + "{10,}"),
    "xoxc-": ("slack-token", _DASHED + "{10,}"),
    "xoxd-": ("slack-token", r"[A-Za-z0-9_%-]{10,}"),
    "xoxe-": ("slack-token", _DASHED + "{10,}"),
    "xoxo-": ("slack-token", _DASHED + "{10,}"),
    "xoxp-": ("slack-token", _DASHED + "{10,}"),
    "xoxr-": ("slack-token", _DASHED + "{10,}"),
    "xoxs-": ("slack-token", _DASHED + "{10,}"),
    "xapp-": ("slack-token", r"\d-" + _DASHED + "{10,}"),
    "GOCSPX-": ("google-secret", _DASHED + "{16,}"),
    "xai-": ("xai-key", _WORD + "{24,}"),
    "pplx-": ("perplexity-key", _WORD + "{24,}"),
    "tvly-": ("tavily-key", rf"(?:dev-|prod-)?{_WORD}{{20,}}"),
    "nvapi-": ("nvidia-key", _DASHED + "{24,}"),
    "key-": ("mailgun-key", r"[0-9a-f]{32}(?![0-9a-f])"),
    "AGE-SECRET-KEY-": ("age-key", r"1[A-Za-z0-9]{24,}"),
    "PMAK-": ("postman-key", r"[0-9a-f]{24}-[0-9a-f]{16,}"),
    "NRAK-": ("newrelic-key", r"[A-Z0-9]{20,}"),
    "CFPAT-": ("contentful-token", _DASHED + "{24,}"),
    "HRKU-": ("heroku-key", _DASHED + "{24,}"),
    "tskey-": ("tailscale-key", _DASHED + "{20,}"),
    "sq0atp-": ("square-token", _DASHED + "{20,}"),
    "sq0csp-": ("square-token", _DASHED + "{20,}"),
    "pul-": ("pulumi-token", r"[0-9a-f]{32,}"),
    "fio-u-": ("frameio-token", _DASHED + "{32,}"),
    "dapi-": ("databricks-token", r"[0-9a-f]{32,}"),
    "v1.0-": ("cloudflare-key", r"[0-9a-f]{24}-[0-9a-f]{64,}"),
}

_DOT: dict[str, tuple[str, str]] = {
    "SG.": ("sendgrid-key", _DASHED + "{16,}[.]" + _DASHED + "{16,}"),
    "ya29.": ("google-token", r"[A-Za-z0-9_.-]{16,}"),
    "hvs.": ("vault-token", _DASHED + "{16,}"),
    "hvb.": ("vault-token", _DASHED + "{16,}"),
    "hvr.": ("vault-token", _DASHED + "{16,}"),
    "dp.pt.": ("doppler-token", _WORD + "{32,}"),
    "dp.st.": ("doppler-token", r"[A-Za-z0-9_.-]{32,}"),
    "dp.ct.": ("doppler-token", _WORD + "{32,}"),
    "xoxe.": ("slack-token", r"xox[bp]-" + _DASHED + "{10,}"),
    "sl.": ("dropbox-token", _DASHED + "{60,}"),
    "dt0c01.": ("dynatrace-token", r"[A-Z0-9]{24}[.][A-Z0-9]{32,}"),
}

Around = tuple[tuple[str, str, str], ...]
"""Tokens known by something within them: the kind, what stands before that, and what after."""

_AROUND_A: Around = (
    ("aws-key-id", "", r"(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("google-key", "", r"Iza[A-Za-z0-9_-]{30,}"),
    ("atlassian-token", "", r"T(?:ATT3|CTT3|BB)[A-Za-z0-9_=-]{20,}"),
    ("alibaba-key", "LT", r"(?<=LTA)I[A-Za-z0-9]{12,24}(?![A-Za-z0-9])"),
    ("facebook-token", "(?<![/+])E", r"(?<=EA)A[A-Za-z0-9]{80,}"),
    ("telegram-token", r"\d{8,11}:", r"(?<=:A)A[A-Za-z0-9_-]{30,}"),
)
_AROUND_DASH: Around = (("mailchimp-key", r"[0-9a-f]{32}", r"us\d{1,2}(?!\w)"),)
_AROUND_DOT: Around = (
    ("terraform-token", r"[A-Za-z0-9]{14}", r"atlasv1\.[A-Za-z0-9_=-]{40,}"),
    (
        "discord-token",
        r"[MNO][A-Za-z0-9_-]{23,27}",
        r"[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    ),
)
_AROUND_TILDE: Around = (
    ("azure-secret", r"[A-Za-z0-9_.~-]{3}\dQ", r"(?<=\dQ~)[A-Za-z0-9_.~-]{30,40}"),
)

_AROUND_K: Around = (("twilio-key", "S", r"(?<=SK)[0-9a-f]{32}(?![0-9a-f])"),)
_AROUND_PI: Around = (("databricks-token", "da", r"(?<=dapi)[0-9a-f]{32}(?:-\d)?(?![0-9a-f])"),)

# anchor: the tokens with a prefix that ends in it, and those around it
_ANCHORS: dict[str, tuple[dict[str, tuple[str, str]], Around]] = {
    "_": (_UNDERSCORE, ()),
    "-": (_DASH, _AROUND_DASH),
    ".": (_DOT, _AROUND_DOT),
    "A": ({}, _AROUND_A),
    "~": ({}, _AROUND_TILDE),
    "K": ({}, _AROUND_K),
    "pi": ({}, _AROUND_PI),
}
_RARE = ("~", "K")


def find_tokens(found: Findings) -> None:
    """Note every token of a known service."""
    for anchor in _ANCHORS:
        if anchor in found.view:
            _find_at(found, anchor)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _anchored(anchor: str) -> tuple[re.Pattern[str], list[int]]:
    """Return what finds an anchor worth a look, and how long a prefix that ends there may be."""
    prefixed, around = _ANCHORS[anchor]
    escaped = re.escape(anchor)
    looks = [f"(?={_bounded(rest)})" for _, _, rest in around]
    if prefixed:
        # Cheap tests first: the letters before the anchor, then what follows, then the ending.
        letters = [
            "".join(sorted({re.escape(prefix[at]) for prefix in prefixed})) for at in (-3, -2)
        ]
        ends = "|".join(sorted({re.escape(prefix[-3:]) for prefix in prefixed}))
        before = "".join(f"[{some}]" for some in letters)
        looks.insert(0, rf"(?<={before}{escaped})(?=[A-Za-z0-9+/_-]{{14}})(?<={ends})")
    if anchor == ".":
        # Every token here has as many such letters behind its dot; few other dots have.
        escaped += r"(?=[A-Za-z0-9_.=-]{14})"
    pattern = f"{escaped}(?:{'|'.join(looks)})"
    return re.compile(pattern), sorted({len(prefix) for prefix in prefixed}, reverse=True)


@cache
def _bounded(pattern: str) -> str:
    """Return `pattern` without what goes on for ever, which a first look need not follow."""
    return re.sub(r"\{(\d+),\}", r"{\1}", pattern)


def _find_at(found: Findings, anchor: str) -> None:
    prefixed, around = _ANCHORS[anchor]
    pattern, widths = _anchored(anchor)
    hit = _next_hit(pattern, found.view, anchor, 0)
    while hit is not None:
        end = hit.end()
        before = found.view[max(0, end - 24) : end]
        for width in widths:
            if before[-width:] in prefixed and _begins_a_word(before[:-width]):
                end = _mask_prefixed(found, end, before[-width:], prefixed)
                break
        if around:
            end = max(end, _mask_around(found, hit, around))
        hit = _next_hit(pattern, found.view, anchor, end)


def _next_hit(pattern: re.Pattern[str], view: str, anchor: str, start: int) -> re.Match[str] | None:
    if anchor in _RARE:
        return find_rare(pattern, view, anchor, start)
    return pattern.search(view, start)


def _mask_prefixed(
    found: Findings, position: int, prefix: str, table: dict[str, tuple[str, str]]
) -> int:
    """Mask the token whose prefix ends at `position`; return where to go on."""
    kind, body = table[prefix]
    match = _compiled(body).match(found.view, position)
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


def _mask_around(found: Findings, anchor: re.Match[str], around: Around) -> int:
    """Mask the token that has its anchor here; return where to go on."""
    before = found.view[max(0, anchor.start() - 40) : anchor.start()]
    for kind, lead, rest in around:
        if not _compiled(_bounded(rest)).match(found.view, anchor.end()):
            continue
        first = _compiled(rf"(?:{lead})\Z").search(before)
        if first is None or not _begins_a_word(before[: first.start()]):
            continue
        token = _compiled(rest).match(found.view, anchor.end())
        if token is not None:
            start = anchor.start() - len(first.group())
            found.mask(start, token.end(), kind)
            if kind == "aws-key-id":
                _find_aws_secret(found, start, token.end())
            return token.end()
    return anchor.end()


def _find_aws_secret(found: Findings, start: int, end: int) -> None:
    """Mask the secret access key that stands close to its key id."""
    shape = _compiled(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
    for match in shape.finditer(found.view, max(0, start - 100), end + 160):
        value = match.group()
        if any(c.isdigit() for c in value) and value != value.lower() and value != value.upper():
            found.mask(match.start(), match.end(), "aws-secret-key")
