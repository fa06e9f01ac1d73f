"""Both wires make the same of every HTTP status, error body, Retry-After and redirect."""

from email.utils import formatdate
from time import time

import pytest

from wires import KEY, Case, Raw, assert_alike, bad, http, ok, replaying, said, sse

OPENAI = {"error": {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}}
STATUSES = (
    201, 202, 203, 204, 205, 206, 300, 304, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410,
    411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 499,
    500, 501, 502, 503, 504, 505, 507, 508, 509, 510, 511, 520, 521, 522, 523, 524, 525, 526, 527,
    529, 530, 598, 599,
)  # fmt: skip


def error(message: object = "No.", **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


BODIES: dict[str, tuple[object, str | None]] = {
    "openai": (OPENAI, "application/json"),
    "openai with a code": (error(type="invalid_request_error", code="bad"), "application/json"),
    "ollama": (error("model 'x' not found", type="api_error"), "application/json"),
    "ollama's own": ({"error": "model 'x' not found, try pulling it first"}, "application/json"),
    "vllm before 0.10": (
        {"object": "error", "message": "No.", "type": "BadRequestError", "code": 400},
        "application/json",
    ),
    "vllm": (error(type="BadRequestError", param=None, code=400), "application/json"),
    "llama.cpp": (error(code=500, type="server_error"), "application/json"),
    "llama.cpp that loads": (
        error("Loading model", code=503, type="unavailable_error"),
        "application/json",
    ),
    "lm studio": ({"error": "Model has not started loading"}, "application/json"),
    "fastapi": ({"detail": "Not Found"}, "application/json"),
    "fastapi's list": (
        {"detail": [{"loc": ["body", "tools"], "msg": "extra"}]},
        "application/json",
    ),
    "a message without an error": ({"message": "No."}, "application/json"),
    "an error that is null": ({"error": None}, "application/json"),
    "an error that is a number": ({"error": 7}, "application/json"),
    "an error that is a list": ({"error": ["No."]}, "application/json"),
    "an error that is empty": ({"error": {}}, "application/json"),
    "a message that is null": (error(None), "application/json"),
    "a message that is a list": (error(["No."]), "application/json"),
    "a message that is an object": (error({"text": "No."}), "application/json"),
    "a message of two lines": (error("No.\nReally \x1b[1mnot."), "application/json"),
    "a message without end": (error("no " * 5_000), "application/json"),
    "a code that is a list": (error(code=["x"], type={"a": 1}), "application/json"),
    "a list": ([error()], "application/json"),
    "a string": (b'"No."', "application/json"),
    "null": (b"null", "application/json"),
    "cut json": (b'{"error": {"mess', "application/json"),
    "nested too deep": (b"[" * 100_000, "application/json"),
    "plain text": (b"upstream connect error", "text/plain"),
    "html": (b"<html><body><h1>502 Bad Gateway</h1></body></html>", "text/html"),
    "nothing": (b"", None),
    "not utf-8": (b'{"error": {"message": "Nein, \xfc"}}', "application/json"),
    "utf-16": ('{"error": {"message": "No."}}'.encode("utf-16"), "application/json"),
    "json without a content type": (OPENAI, None),
    "a stream": (sse(said("Hi.", "stop")).body, "text/event-stream"),
}
CONTEXT = "This model's maximum context length is 8192 tokens. Please reduce the length of it."
MEANINGS: dict[str, tuple[int, dict[str, object], str]] = {
    "a window that overflows": (
        400,
        error("Too long.", code="context_length_exceeded"),
        "no longer fits",
    ),
    "a window that overflows, in words": (400, error(CONTEXT, code=400), "no longer fits"),
    "a window that overflows, at llama.cpp": (
        400,
        error("exceeds the available context size", code=400, type="exceed_context_size_error"),
        "no longer fits",
    ),
    "a window that overflows, with 413": (
        413,
        error("Reduce the length of the messages.", code="context_length_exceeded"),
        "no longer fits",
    ),
    "no quota": (429, error(code="insufficient_quota", type="insufficient_quota"), "no credit"),
    "no quota, as the type": (429, error(code=None, type="insufficient_quota"), "no credit"),
    "a hard limit": (429, error(code="billing_hard_limit_reached"), "no credit"),
    "a spend limit": (403, error(code="project_spend_limit_exceeded"), "no credit"),
    "a rate limit": (429, error(code="rate_limit_exceeded", type="tokens"), "limiting"),
    "a code of a wrong key": (400, error(code="invalid_api_key"), "refused the key"),
    "a model that is unknown, with 400": (400, error(code="model_not_found"), "doesn't know"),
    "a model that is unknown": (404, error(code="model_not_found"), "doesn't know"),
    "overloaded": (529, error(type="overloaded_error"), "overloaded"),
    "overloaded, with 500": (500, error(type="overloaded_error"), "overloaded"),
    "overloaded, with 400": (400, error(code="overloaded"), "overloaded"),
    "overloaded, in words": (500, error("We are overloaded."), "failed"),
    "a filter": (400, error(code="content_filter", innererror={"code": "x"}), "rejected"),
    "a filter, as azure has it": (
        400,
        error(
            code="content_filter",
            innererror={
                "code": "ResponsibleAIPolicyViolation",
                "content_filter_result": {"hate": {"filtered": True, "severity": "high"}},
            },
        ),
        "",
    ),
    "flagged input": (403, {**error(), "metadata": {"flagged_input": "x"}}, ""),
    "flagged input, inside": (403, error(metadata={"reasons": ["x"]}), ""),
    "a busy model": (503, error(code="model_loading"), "loading"),
}
WAITS: dict[str, dict[str, str]] = {
    "seconds": {"Retry-After": "20"},
    "no seconds": {"Retry-After": "0"},
    "negative": {"Retry-After": "-5"},
    "fractions": {"Retry-After": "1.5"},
    "a plus": {"Retry-After": "+7"},
    "spaces": {"Retry-After": "  9  "},
    "an underscore": {"Retry-After": "1_0"},
    "other digits": {"Retry-After": "\u00b2"},
    "too many seconds": {"Retry-After": "9" * 400},
    "infinite": {"Retry-After": "inf"},
    "no number": {"Retry-After": "nan"},
    "exponent": {"Retry-After": "1e1"},
    "words": {"Retry-After": "soon"},
    "nothing": {"Retry-After": ""},
    "twice": {"Retry-After": "3", "retry-after": "30"},
    "milliseconds": {"retry-after-ms": "2500"},
    "fractions of milliseconds": {"retry-after-ms": "2500.7"},
    "milliseconds first": {"retry-after-ms": "1500", "Retry-After": "20"},
    "milliseconds that are none": {"retry-after-ms": "soon", "Retry-After": "20"},
    "negative milliseconds": {"retry-after-ms": "-1", "Retry-After": "20"},
    "milliseconds without end": {"retry-after-ms": "inf", "Retry-After": "20"},
    "milliseconds that are no number": {"retry-after-ms": "nan", "Retry-After": "20"},
    "should retry": {"x-should-retry": "true"},
    "should not retry": {"x-should-retry": "false"},
    "a limit's reset": {"x-ratelimit-reset-requests": "17s"},
}
DATES = {
    "a date": formatdate(time() + 600, usegmt=True),
    "a date that is over": formatdate(time() - 600, usegmt=True),
    "a date with a zone": formatdate(time() + 600, localtime=True),
    "a date without a zone": formatdate(time() + 600).removesuffix(" -0000"),
    "a date without a day": formatdate(time() + 600, usegmt=True).partition(", ")[2],
    "a date that can't be": "Wed, 99 Nov 2099 25:61:00 GMT",
    "a date beyond all": "Fri, 31 Dec 99999 23:59:59 GMT",
}


def waiting(headers: dict[str, str], status: int = 429, **more: int) -> Case:
    return Case((Raw(b"{}", status, "application/json", tuple(headers.items()), "length"),), **more)


CASES: dict[str, Case] = {
    **{f"status {status}": Case((http(status, OPENAI),)) for status in STATUSES},
    **{f"status {status} twice": Case((http(status, OPENAI),) * 2) for status in (429, 500, 503)},
    **{
        f"status {status} with {name}": Case((http(status, body, kind),))
        for name, (body, kind) in BODIES.items()
        for status in (400, 404, 500)
    },
    **{
        name: bad(http(status, body), fails=words)
        for name, (status, body, words) in MEANINGS.items()
    },
    **{f"wait: {name}": waiting(headers) for name, headers in WAITS.items()},
    **{f"wait: {name} with 400": waiting(WAITS[name], 400) for name in ("seconds", "should retry")},
    **{f"wait: {name} with 500": waiting(WAITS[name], 500) for name in ("seconds", "should retry")},
    **{f"wait: {name} with 503": waiting(WAITS[name], 503) for name in ("seconds", "should retry")},
    **{
        f"wait: {name}": waiting({"Retry-After": date}, coarse_ms=60_000)
        for name, date in DATES.items()
    },
    "wait: longer than the run": waiting({"Retry-After": "100000"}),
    "an error body that is cut": bad(
        Raw(b'{"error"', 500, "application/json", framing="length", promised=50),
        fails="",
    ),
    "an error body that is chunked": bad(
        Raw(b'{"error": "No."}', 400, "application/json"), fails="rejected"
    ),
    "an error body in pieces": bad(
        Raw(b'{"error": "No."}', 400, "application/json", at=(3, 9)), fails="rejected"
    ),
    "an organisation and a project": ok(
        env={"OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-1"}
    ),
    "an organisation that is empty": ok(env={"OPENAI_ORG_ID": "", "OPENAI_PROJECT_ID": ""}),
    "a key in letters of elsewhere": bad(fails="", env={"OPENAI_API_KEY": "schl\u00fcssel"}),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_status_means_the_same_on_both_wires(name: str) -> None:
    await assert_alike(name, CASES[name])


WHERE = {
    "same host": "http://HERE/v1/elsewhere",
    "same host, same path": "http://HERE/v1/chat/completions",
    "a path": "/v1/elsewhere",
    "a relative path": "elsewhere",
    "another host": "http://OTHER/v1/chat/completions",
    "another scheme": "https://HERE/v1/chat/completions",
    "a file": "file:///etc/passwd",
    "nowhere": "",
}
REDIRECTS = {
    f"redirect {status} to {name}": Case((http(status, b"", location=where),))
    for status in (301, 302, 303, 307, 308)
    for name, where in WHERE.items()
}


@pytest.mark.parametrize("name", REDIRECTS)
async def test_a_redirect_means_the_same_on_both_wires(name: str) -> None:
    await assert_alike(name, REDIRECTS[name])


@pytest.mark.parametrize("name", REDIRECTS)
async def test_the_key_never_follows_a_redirect(name: str) -> None:
    async with replaying() as replay:
        for told in await replay.both(REDIRECTS[name]):
            keys = [headers["authorization"] for _, _, headers, _ in told.requests]
            assert keys[0] == f"Bearer {KEY}" and len(keys) == 1
            assert told.finish[0] == "failed"
