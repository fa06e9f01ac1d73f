"""Both wires read the same from every stream, however it is written, sent or broken."""

import gzip
import json

import pytest

from wires import (
    DONE,
    FINE,
    HEAD,
    USAGE,
    Case,
    Raw,
    assert_alike,
    bad,
    called,
    chunk,
    counted,
    event,
    http,
    ok,
    said,
    sse,
)

HELLO = (chunk({"role": "assistant", "content": ""}), said("Hel"), said("lo."), chunk({}, "stop"))
LINES = b"".join(map(event, (*HELLO, counted())))
STREAM = LINES + DONE
MALFORMED, CUT = "unreadable", "cut off"


def stream(body: bytes, **how: object) -> Raw:
    return Raw(body, **how)


def between(*odd: bytes) -> Raw:
    """Return a good stream with something odd after its first text."""
    start, middle, *rest = (event(one) for one in HELLO)
    return stream(b"".join((start, middle, *odd, *rest, event(counted()), DONE)))


def hello(body: bytes, **how: object) -> Case:
    return ok(stream(body, **how), says="Hello.")


FRAMES: dict[str, Case] = {
    "as it should be": hello(STREAM),
    "known length": hello(STREAM, framing="length"),
    "until it is closed": hello(STREAM, framing="close"),
    "crlf": hello(STREAM.replace(b"\n", b"\r\n")),
    "cr only": hello(STREAM.replace(b"\n", b"\r")),
    "mixed line ends": hello(STREAM.replace(b"\n\n", b"\r\n\n", 2).replace(b"}\n\n", b"}\r\r", 1)),
    "crlf between two pieces": hello(
        (crlf := STREAM.replace(b"\n", b"\r\n")), at=(crlf.index(b"\r\n") + 1,)
    ),
    "a byte order mark": Case((stream(b"\xef\xbb\xbf" + STREAM),)),
    "no space after the colon": hello(STREAM.replace(b"data: ", b"data:")),
    "two spaces after the colon": hello(STREAM.replace(b"data: {", b"data:  {")),
    "a tab after the colon": hello(STREAM.replace(b"data: {", b"data:\t{")),
    "spaces after the data": hello(STREAM.replace(b"}\n\n", b"} \t\n\n")),
    "comments": hello(b": hi\n\n" + STREAM.replace(b"\n\n", b"\n\n: keep-alive\n\n")),
    "comments inside events": hello(STREAM.replace(b"data:", b": ping\ndata:")),
    "other fields": hello(STREAM.replace(b"data:", b"id: 7\nretry: 10\nfoo: bar\nbaz\ndata:")),
    "an id alone": Case((between(b"id: 7\n\n"),)),
    "named events": hello(STREAM.replace(b"data:", b"event: message\ndata:")),
    "events named thread": Case((stream(STREAM.replace(b"data:", b"event: thread.run\ndata:")),)),
    "an event without data": Case((between(b"event: ping\n\n"),)),
    "an event of a ping": Case((between(b'event: ping\ndata: {"type": "ping"}\n\n'),)),
    "many blank lines": hello(STREAM.replace(b"\n\n", b"\n\n\n\n\n")),
    "blank lines first": hello(b"\n\r\n\n" + STREAM),
    "data in two lines": hello(STREAM.replace(b',"choices"', b',\ndata: "choices"')),
    "data in three thousand lines": hello(
        (
            long := STREAM.replace(
                b',"choices"', b"," + (b"\ndata: " + b" " * 40) * 3_000 + b'"choices"', 1
            )
        ),
        at=tuple(range(60_000, len(long), 60_000)),
    ),
    "no blank lines between": bad(stream(STREAM.replace(b"\n\n", b"\n")), fails=""),
    "data without a colon": Case((between(b"data\n\n"),)),
    "empty data": Case((between(b"data:\n\n"),)),
    "data of spaces": Case((between(b"data:   \n\n"),)),
    "a space before the field": Case((between(b' data: {"error": 1}\n\n'),)),
    "a field in capitals": Case((between(b'DATA: {"error": 1}\n\n'),)),
    "a line that is no field": hello(b"hello there\n\n" + STREAM),
    "a nul in a line": Case((between(b"data: \x00\n\n"),)),
    "no last blank line": hello(STREAM[:-2]),
    "no last line end": hello(STREAM[:-1]),
    "no end after the finish": Case((stream(b"".join(map(event, HELLO))[:-2]),)),
    "no done": hello(LINES),
    "no done and no usage": hello(b"".join(map(event, HELLO))),
    "done twice": hello(STREAM + DONE),
    "done without a space": hello(LINES + b"data:[DONE]\n\n"),
    "done with more": hello(LINES + b"data: [DONE] thanks\n\n"),
    "done in quotes": Case((stream(LINES + b'data: "[DONE]"\n\n'),)),
    "done in small letters": Case((stream(LINES + b"data: [done]\n\n"),)),
    "done as an event": Case((stream(LINES + b"event: done\ndata: [DONE]\n\n"),)),
    "done first": bad(stream(DONE + STREAM), fails=""),
    "done before the finish": bad(stream(event(HELLO[1]) + DONE + STREAM), fails=CUT),
    "text after done": hello(STREAM + event(said("More."))),
    "garbage after done": hello(STREAM + b"\xff\xfe{{{\n\n"),
    "an error after done": hello(STREAM + event({"error": {"message": "No."}})),
    "another reason after done": hello(STREAM + event(chunk({}, "length"))),
    "nothing": bad(stream(b""), fails=""),
    "only done": bad(stream(DONE), fails=""),
    "only comments": bad(stream(b": hi\n\n: ho\n\n"), fails=""),
    "only a role": bad(sse(HELLO[0]), fails=CUT),
    "only usage": bad(sse(counted()), fails=CUT),
    "utf-16": bad(stream(STREAM.decode().encode("utf-16")), fails=""),
    "other digits and letters": ok(
        sse(said("żółw 🐢 \u2028\u0085\x7f", "stop")), says="żółw 🐢 \u2028\u0085\x7f"
    ),
    "a lone surrogate": Case(
        (sse(b'{"choices":[{"delta":{"content":"a\\ud800b"}}]}', said("", "stop")),)
    ),
    "a surrogate pair in two chunks": Case(
        (
            sse(
                b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
                b'{"choices":[{"delta":{"content":"\\ude00"},"finish_reason":"stop"}]}',
            ),
        )
    ),
    "letters that are no utf-8": bad(between(b'data: {"x": "\xff"}\n\n'), fails=MALFORMED),
    "no utf-8 in a comment": Case((between(b": \xff\n\n"),)),
    "an overlong nul": bad(between(b'data: {"x": "\xc0\x80"}\n\n'), fails=MALFORMED),
    "malformed json": bad(between(b"data: {\n\n"), fails=MALFORMED),
    "json with a trailing comma": bad(between(b'data: {"a": 1,}\n\n'), fails=MALFORMED),
    "two objects in one event": bad(between(b"data: {}{}\n\n"), fails=MALFORMED),
    "two objects in two lines of one event": bad(
        between(b"data: {}\ndata: {}\n\n"), fails=MALFORMED
    ),
    "nan": Case((between(b'data: {"created": NaN}\n\n'),)),
    "a number of many digits": Case((between(b'data: {"created": ' + b"9" * 5_000 + b"}\n\n"),)),
    "keys given twice": Case((between(b'data: {"choices": [], "choices": null}\n\n'),)),
    "nested too deep": bad(between(b"data: " + b"[" * 100_000 + b"\n\n"), fails=""),
    "a control character in a string": bad(between(b'data: {"a": "\t"}\n\n'), fails=MALFORMED),
    "an escape that is none": bad(between(b'data: {"a": "\\x"}\n\n'), fails=MALFORMED),
    **{
        f"{data.decode()} for a chunk": Case((between(event(data)),))
        for data in (b"null", b"7", b'"text"', b"[]", b"{}", b"true", b'[{"choices": []}]')
    },
    "a chunk twice": ok(sse(*HELLO[:2], *HELLO[1:]), says="HelHello."),
    "the last chunk twice": ok(sse(*HELLO, HELLO[-1]), says="Hello."),
    "a chunk that is missing": ok(sse(HELLO[0], *HELLO[2:]), says="lo."),
    "no first chunk": ok(sse(*HELLO[1:]), says="Hello."),
    "chunks in another order": ok(sse(HELLO[3], HELLO[0], HELLO[2], HELLO[1]), says="lo.Hel"),
    "a huge line": ok(sse(said("x" * 2_000_000, "stop")), says="x" * 2_000_000),
    "a huge comment": hello(b": " + b"x" * 2_000_000 + b"\n\n" + STREAM),
    "a thousand chunks": ok(sse(*[said("x")] * 1_000, said("", "stop")), says="x" * 1_000),
    "byte by byte": hello(STREAM, at=tuple(range(1, len(STREAM)))),
    "byte by byte, without chunks": hello(
        STREAM, framing="length", at=tuple(range(1, len(STREAM)))
    ),
    "unicode byte by byte": ok(
        (turtle := sse(said("żółw 🐢"), said("", "stop"))).__class__(
            turtle.body, at=tuple(range(1, len(turtle.body)))
        ),
        says="żółw 🐢",
    ),
}
TYPES: dict[str, Case] = {
    **{
        f"content type {kind}": hello(STREAM, kind=kind)
        for kind in ("text/event-stream; charset=utf-8", "TEXT/EVENT-STREAM", "text/plain", None)
    },
    **{
        f"content type {kind} for a stream": Case((stream(STREAM, kind=kind),))
        for kind in ("application/json", "text/html", "application/octet-stream", "nonsense", "")
    },
    "an html page": bad(http(200, b"<html>Sign in</html>", "text/html"), fails=""),
    "a page instead of a stream": bad(stream(b"<html>\n\n</html>\n\n"), fails=""),
    "a text instead of a stream": bad(http(200, b"Hello.", "text/plain"), fails=""),
    "compressed though nobody asked": Case(
        (stream(gzip.compress(STREAM, mtime=0), headers=(("Content-Encoding", "gzip"),)),)
    ),
    "an encoding nobody knows": Case((stream(STREAM, headers=(("Content-Encoding", "rot13"),)),)),
}


def error(message: object = "Too busy.", **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


ERRORS: dict[str, bytes] = {
    "openai": event(error(type="server_error", param=None, code=None)),
    "a rate limit": event(error(type="tokens", code="rate_limit_exceeded")),
    "no quota": event(error(code="insufficient_quota")),
    "overloaded": event(error(type="overloaded_error")),
    "overloaded, as the code": event(error(code="server_is_overloaded")),
    "a window that overflows": event(error(code="context_length_exceeded")),
    "a window that overflows, in words": event(error("the maximum context length is 8")),
    "a status as its code": event(error(code=502)),
    "a status as its code, in quotes": event(error(code="429")),
    "a code that is no status": event(error(code=7)),
    "a code that is true": event(error(code=True)),
    "a code that is a list": event(error(code=["x"], type=["y"])),
    "a key that is wrong": event(error(code="invalid_api_key")),
    "vllm": event(error(type="InternalServerError", param=None, code=500)),
    "vllm before 0.10": event({"object": "error", "message": "Too busy.", "code": 500}),
    "llama.cpp": event(error(code=500, type="server_error")),
    "llama.cpp, as a field of its own": b"error: " + json.dumps(error(code=500)).encode() + b"\n\n",
    "ollama": event({"error": "an error was encountered while running the model"}),
    "a text": event({"error": "Too busy."}),
    "a number": event({"error": 7}),
    "a list": event({"error": ["Too busy."]}),
    "true": event({"error": True}),
    "an empty object": event({"error": {}}),
    "an empty text": event({"error": ""}),
    "null": event({"error": None}),
    "false": event({"error": False}),
    "no message": event({"error": {"code": "server_error"}}),
    "a message that is a list": event(error(["x"])),
    "a message of two lines": event(error("a\nb")),
    "beside choices": event({**said("x"), **error()}),
    "beside a finish": event({**said("x", "stop"), **error()}),
    "an event by name": b"event: error\n" + event(error()),
    "an event by name alone": b'event: error\ndata: {"message": "Too busy."}\n\n',
    "an event by name with a text": b"event: error\ndata: Too busy.\n\n",
    "an event by name without data": b"event: error\n\n",
    "an event by name that says done": b"event: error\ndata: [DONE]\n\n",
    "in the choice, as openrouter has it": event(
        {
            **HEAD,
            **error(code=502),
            "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}],
        }
    ),
    "in the choice alone": event(
        {**HEAD, "choices": [{"index": 0, "delta": {}, "error": {"message": "Too busy."}}]}
    ),
}
NO_ERRORS = ("an empty object", "an empty text", "null", "false")
"""What says that there is no error."""


def failing(name: str, raw: Raw) -> Case:
    return Case((raw,)) if name in NO_ERRORS else bad(raw, fails="")


EARLY = {f"error event first: {name}": failing(name, stream(raw)) for name, raw in ERRORS.items()}
MIDDLE = {
    f"error event, then a finish: {name}": failing(name, between(raw))
    for name, raw in ERRORS.items()
}
LATE = {
    f"error event after the finish: {name}": failing(name, stream(LINES + raw + DONE))
    for name, raw in ERRORS.items()
}
MESSAGE = {"role": "assistant", "content": "Hello."}
CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}


def whole(message: object, finish: object = "stop", **more: object) -> Raw:
    """Return a completion that isn't streamed."""
    choice = {"index": 0, "message": message, "finish_reason": finish}
    body = {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE, **more}
    return http(200, body)


REFUSED = "Unknown parameter: 'stream_options'."
WHOLE: dict[str, Case] = {
    "json: an answer": ok(whole(MESSAGE), says="Hello."),
    "json: an answer called a stream": Case((Raw(whole(MESSAGE).body),)),
    "json: a call": ok(whole({"content": None, "tool_calls": [CALL]}, "tool_calls")),
    "json: cut at the limit": bad(whole(MESSAGE, "length"), fails="token limit"),
    "json: filtered": bad(whole(MESSAGE, "content_filter"), fails="refused"),
    "json: no finish": bad(whole(MESSAGE, None), fails=CUT),
    "json: a refusal": bad(whole({"content": None, "refusal": "I won't."}), fails="refused"),
    "json: an error": bad(http(200, error()), fails=""),
    "json: no choices": bad(whole(MESSAGE, choices=[]), fails=""),
    "json: null": bad(http(200, b"null"), fails=""),
    "json: an object of something else": bad(http(200, b'{"ok": true}'), fails=""),
    "json: broken": bad(http(200, b'{"choices": ['), fails=""),
    "json: nothing": bad(http(200, b""), fails=""),
    "stream options refused": ok(
        http(400, error(REFUSED, param="stream_options", code="unknown_parameter")), FINE
    ),
    "stream options refused, as pydantic says it": ok(
        http(422, {"detail": [{"loc": ["body", "stream_options"], "msg": "not permitted"}]}), FINE
    ),
    "stream options refused, then a failure": bad(
        http(400, error(REFUSED)), http(500, error("Later.")), fails="failed"
    ),
    "stream options refused twice": bad(
        http(400, error(REFUSED)), http(400, error(REFUSED)), fails="rejected"
    ),
    "stream options refused, then a call": ok(
        http(400, error(REFUSED)), sse(called({"index": 0, **CALL}), chunk({}, "tool_calls"))
    ),
}
CASES = {**FRAMES, **TYPES, **EARLY, **MIDDLE, **LATE, **WHOLE}


@pytest.mark.parametrize("name", CASES)
async def test_a_stream_means_the_same_on_both_wires(name: str) -> None:
    await assert_alike(name, CASES[name])
