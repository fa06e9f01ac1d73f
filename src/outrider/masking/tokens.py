"""Tokens of well-known services: a prefix that only they have, and what looks random behind it."""

import re
from functools import cache, partial

from .randomness import looks_random
from .spans import Findings, compiled, find_rare

_DASHED = r"[A-Za-z0-9_-]"
_RUN = rf"{_DASHED}++(?>(?:[.+/=%]++{_DASHED}++)*)=*+"
_MIXED = r"(?=[A-Za-z]*+\d)(?=\d*+[A-Za-z])[A-Za-z0-9]{16}"
_MAX_JUDGED = 128

# The kinds of token, and their prefixes; each ends in a separator, by which it is found.
_SERVICES = {
    "github-token": "ghp_ gho_ ghu_ ghr_ ghs_ github_pat_",
    "npm-token": "npm_",
    "huggingface-token": "hf_ api_org_",
    "groq-key": "gsk_",
    "stripe-key": "sk_live_ sk_test_ rk_live_ rk_test_ whsec_",
    "docker-token": "dckr_pat_ dckr_oat_",
    "digitalocean-token": "dop_v1_ doo_v1_ dor_v1_",
    "shopify-token": "shpat_ shpca_ shppa_ shpss_",
    "linear-key": "lin_api_ lin_oauth_",
    "notion-token": "ntn_ secret_",
    "figma-token": "figd_",
    "grafana-token": "glc_ glsa_",
    "replicate-token": "r8_",
    "runpod-key": "rpa_",
    "sentry-token": "sntrys_ sntryu_",
    "supabase-token": "sbp_ sb_secret_",
    "planetscale-token": "pscale_tkn_ pscale_pw_",
    "rubygems-key": "rubygems_",
    "buildkite-token": "bkua_",
    "netlify-token": "nfp_",
    "posthog-key": "phx_",
    "langsmith-key": "lsv2_pt_ lsv2_sk_",
    "onepassword-token": "ops_",
    "fly-token": "fm2_ fo1_",
    "adafruit-key": "aio_",
    "prefect-key": "pnu_",
    "e2b-key": "e2b_",
    "clojars-token": "CLOJARS_",
    "openai-key": "sk-proj- sk-svcacct- sk-admin- sk-None- sk-",
    "anthropic-key": "sk-ant-",
    "openrouter-key": "sk-or-",
    "langfuse-key": "sk-lf-",
    "gitlab-token": "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat-",
    "pypi-token": "pypi-",
    "slack-token": "xoxa- xoxb- xoxc- xoxe- xoxo- xoxp- xoxr- xoxs- xoxd- xapp- xoxe.",
    "google-secret": "GOCSPX-",
    "xai-key": "xai-",
    "perplexity-key": "pplx-",
    "tavily-key": "tvly-",
    "nvidia-key": "nvapi-",
    "age-key": "AGE-SECRET-KEY-",
    "postman-key": "PMAK-",
    "newrelic-key": "NRAK-",
    "contentful-token": "CFPAT-",
    "heroku-key": "HRKU-",
    "tailscale-key": "tskey-",
    "square-token": "sq0atp- sq0csp-",
    "pulumi-token": "pul-",
    "frameio-token": "fio-u-",
    "databricks-token": "dapi-",
    "cloudflare-key": "v1.0-",
    "sendgrid-key": "SG.",
    "google-token": "ya29.",
    "vault-token": "hvs. hvb. hvr.",
    "doppler-token": "dp.pt. dp.ct. dp.st.",
    "dropbox-token": "sl.",
    "dynatrace-token": "dt0c01.",
}

# Tokens that are recognised by something inside them: what they are found by, the kind, what
# comes before that, and what comes after it: its first part, or with a look at its end all of it.
_AROUND = (
    ("A", "aws-key-id", "", r"(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("A", "google-key", "", r"Iza[A-Za-z0-9_-]{30}"),
    ("A", "atlassian-token", "", r"T(?:ATT3|CTT3|BB)[A-Za-z0-9_=-]{20}"),
    ("A", "alibaba-key", "LT", r"(?<=LTA)I[A-Za-z0-9]{12,24}(?![A-Za-z0-9])"),
    ("A", "facebook-token", "(?<![/+])E", r"(?<=EA)A[A-Za-z0-9]{80}"),
    ("A", "telegram-token", r"\d{8,11}:", r"(?<=:A)A[A-Za-z0-9_-]{30}"),
    ("-", "mailgun-key", "key", r"[0-9a-f]{32}(?![0-9a-f])"),
    ("-", "mailchimp-key", r"[0-9a-f]{32}", r"us\d{1,2}(?!\w)"),
    (".", "terraform-token", r"[A-Za-z0-9]{14}", r"atlasv1\.[A-Za-z0-9_=-]{40}"),
    (".", "discord-token", r"[MNO]" + _DASHED + "{23,27}", _DASHED + r"{6}\." + _DASHED + "{27}"),
    ("~", "azure-secret", r"[A-Za-z0-9_.~-]{3}\dQ", r"(?<=\dQ~)[A-Za-z0-9_.~-]{30,40}"),
    ("K", "twilio-key", "S", r"(?<=SK)[0-9a-f]{32}(?![0-9a-f])"),
    ("pi", "databricks-token", "da", r"(?<=dapi)[0-9a-f]{32}(?:-\d)?(?![0-9a-f])"),
)

_ANCHORS = ("_", "-", ".", "A", "~", "K", "pi")
_RARE = ("~", "K")
_KINDS = {prefix: kind for kind, prefixes in _SERVICES.items() for prefix in prefixes.split()}

Token = tuple[int, int, str]
"""Where a token begins and ends, and its kind."""


def find_tokens(found: Findings) -> None:
    """Note every token of a known service."""
    for anchor in _ANCHORS:
        if anchor in found.view:
            _find_at(found, anchor)


@cache
def _anchored(anchor: str) -> tuple[re.Pattern[str], list[int], list[tuple[str, str, str]]]:
    """Return what finds an anchor, the lengths of the prefixes that end there, and the rest."""
    prefixes = [prefix for prefix in _KINDS if prefix.endswith(anchor)]
    around = [row[1:] for row in _AROUND if row[0] == anchor]
    escaped = re.escape(anchor)
    looks = [f"(?={rest})" for _, _, rest in around]
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


def _find_at(found: Findings, anchor: str) -> None:
    pattern, widths, around = _anchored(anchor)
    rare = partial(find_rare, pattern, found.view, anchor)
    next_hit = rare if anchor in _RARE else partial(pattern.search, found.view)
    hit = next_hit(0)
    while hit is not None:
        end = hit.end()
        token = _prefixed(found.view, end, widths) or _around(found.view, hit, around)
        if token is not None:
            start, end, kind = token
            found.mask(start, end, kind)
            if kind == "aws-key-id":
                _find_aws_secret(found, start, end)
        hit = next_hit(end)


def _run_end(view: str, position: int) -> int:
    run = compiled(_RUN).match(view, position)
    return run.end() if run else position


def _prefixed(view: str, position: int, widths: list[int]) -> Token | None:
    """Return the token whose prefix ends at `position`."""
    before = view[max(0, position - 24) : position]
    for width in widths:
        prefix = before[-width:]
        if prefix in _KINDS and _begins_a_word(before[:-width]):
            body = compiled(_RUN).match(view, position, position + _MAX_JUDGED)
            if body and (looks_random(body.group()) or compiled(_MIXED).match(view, position)):
                start = position - len(prefix)
                whole = max((known for known in _KINDS if view.startswith(known, start)), key=len)
                return start, _run_end(view, position), _KINDS[whole]
            return None
    return None


def _around(view: str, hit: re.Match[str], around: list[tuple[str, str, str]]) -> Token | None:
    """Return the token that has its anchor here."""
    before = view[max(0, hit.start() - 40) : hit.start()]
    for kind, lead, rest in around:
        first = compiled(rf"(?:{lead})\Z").search(before)
        if first is not None and _begins_a_word(before[: first.start()]):
            body = compiled(rest).match(view, hit.end())
            if body is not None:
                has_end = rest.endswith(")")
                end = body.end() if has_end else _run_end(view, body.end())
                return hit.start() - len(first.group()), end, kind
    return None


def _begins_a_word(before: str) -> bool:
    """Return whether a token may begin after `before`: not inside a word such as `task-…`."""
    last = before[-1:]
    if not (last.isalnum() or last == "_"):
        return True
    # \nghp_… : the n belongs to an escape, in a string literal or in JSON.
    return before[-2:-1] == "\\" or before[-3:-2] == "%" or before[-6:-4] == "\\u"


def _find_aws_secret(found: Findings, start: int, end: int) -> None:
    """Mask the secret access key that stands close to its key id."""
    shape = compiled(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
    for match in shape.finditer(found.view, max(0, start - 100), end + 160):
        value = match.group()
        if looks_random(value) and value not in (value.lower(), value.upper()):  # no hash
            found.mask(*match.span(), "aws-secret-key")
