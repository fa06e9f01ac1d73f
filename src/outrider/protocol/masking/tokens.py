"""Tokens of the well-known services, found by their prefixes wherever they stand."""

import re
from functools import cache

from .spans import Findings, worth_searching

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

# (text it starts with, kind, pattern); a pattern that begins with a rare letter is found faster
_STARTS: tuple[tuple[str, str, str], ...] = (
    ("SK", "twilio-key", r"K(?<=SK)[0-9a-f]{32}(?![0-9a-f])"),
    ("dapi", "databricks-token", r"pi(?<=dapi)[0-9a-f]{32}(?:-\d)?(?![0-9a-f])"),
)

# (kind, what stands before the anchor, the anchor and the rest)
_AROUND_A: tuple[tuple[str, str, str], ...] = (
    ("aws-key-id", "", r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("google-key", "", r"AIza[A-Za-z0-9_-]{30,}"),
    ("atlassian-token", "", r"AT(?:ATT3|CTT3|BB)[A-Za-z0-9_=-]{20,}"),
    ("alibaba-key", "LT", r"AI[A-Za-z0-9]{12,24}(?![A-Za-z0-9])"),
    ("facebook-token", "(?<![/+])E", r"AA[A-Za-z0-9]{80,}"),
    ("telegram-token", r"\d{8,11}:", r"AA[A-Za-z0-9_-]{30,}"),
)
_AROUND_DASH: tuple[tuple[str, str, str], ...] = (
    ("mailchimp-key", r"[0-9a-f]{32}", r"-us\d{1,2}(?!\w)"),
)
_AROUND_DOT: tuple[tuple[str, str, str], ...] = (
    ("terraform-token", r"[A-Za-z0-9]{14}", r"\.atlasv1\.[A-Za-z0-9_=-]{40,}"),
    (
        "discord-token",
        r"[MNO][A-Za-z0-9_-]{23,27}",
        r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    ),
)
_AROUND_TILDE: tuple[tuple[str, str, str], ...] = (
    ("azure-secret", r"[A-Za-z0-9_.~-]{3}\d", r"Q~[A-Za-z0-9_.~-]{30,40}"),
)


def find_tokens(found: Findings) -> None:
    """Note every token of a known service."""
    view = found.view
    for anchor, table in (("_", _UNDERSCORE), ("-", _DASH), (".", _DOT)):
        if worth_searching(view, anchor):
            _find_prefixed(found, anchor, table)
    for start, kind, pattern in _STARTS:
        if worth_searching(view, start):
            _find_starting(found, start, kind, pattern)
    for anchor, shapes in (
        ("A", _AROUND_A),
        ("-us", _AROUND_DASH),
        (".", _AROUND_DOT),
        ("Q~", _AROUND_TILDE),
    ):
        if worth_searching(view, anchor):
            _find_around(found, shapes)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _separators(anchor: str) -> tuple[re.Pattern[str], list[int]]:
    """Return what finds a separator worth a look, and how long a prefix before it may be."""
    table = {"_": _UNDERSCORE, "-": _DASH, ".": _DOT}[anchor]
    # Cheap tests first: the letter before the separator, then what follows, then the ending.
    escaped = re.escape(anchor)
    last = "".join(sorted({re.escape(prefix[-2]) for prefix in table}))
    ends = "|".join(sorted({re.escape(prefix[-3:]) for prefix in table}))
    pattern = rf"{escaped}(?<=[{last}]{escaped})(?=[A-Za-z0-9+/_-]{{14}})(?<={ends})"
    return re.compile(pattern), sorted({len(prefix) for prefix in table}, reverse=True)


def _find_prefixed(found: Findings, anchor: str, table: dict[str, tuple[str, str]]) -> None:
    view = found.view
    separator, widths = _separators(anchor)
    hit = separator.search(view)
    while hit is not None:
        end = hit.end()
        before = view[max(0, end - 24) : end]
        for width in widths:
            if before[-width:] in table and _begins_a_word(before[:-width]):
                end = _mask_prefixed(found, hit.end(), before[-width:], table)
                break
        hit = separator.search(view, end)


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


def _find_starting(found: Findings, prefix: str, kind: str, pattern: str) -> None:
    for match in _compiled(pattern).finditer(found.view):
        start = found.view.rindex(prefix, 0, match.start() + 2)
        if _begins_a_word(found.view[max(0, start - 6) : start]):
            found.mask(start, match.end(), kind)


def _find_around(found: Findings, shapes: tuple[tuple[str, str, str], ...]) -> None:
    """Mask tokens known by something within them; what stands before it is looked up after."""
    for match in _any_of(shapes).finditer(found.view):
        anchor = match.start()
        window = found.view[max(0, anchor - 40) : anchor]
        for kind, before, rest in shapes:
            token = _compiled(rest).match(found.view, anchor)
            lead = _compiled(rf"(?:{before})\Z").search(window) if token else None
            if token and lead and _begins_a_word(window[: lead.start()]):
                found.mask(anchor - len(lead.group()), token.end(), kind)
                if kind == "aws-key-id":
                    _find_aws_secret(found, anchor, token.end())


@cache
def _any_of(shapes: tuple[tuple[str, str, str], ...]) -> re.Pattern[str]:
    """Return one pattern for all shapes, with their common beginning first: it is found fast."""
    first = shapes[0][2][: 2 if shapes[0][2][0] == "\\" else 1]
    return re.compile(f"{first}(?:{'|'.join(rest[len(first) :] for _, _, rest in shapes)})")


def _find_aws_secret(found: Findings, start: int, end: int) -> None:
    """Mask the secret access key that stands close to its key id."""
    shape = _compiled(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
    for match in shape.finditer(found.view, max(0, start - 100), end + 160):
        value = match.group()
        if any(c.isdigit() for c in value) and value != value.lower() and value != value.upper():
            found.mask(match.start(), match.end(), "aws-secret-key")
