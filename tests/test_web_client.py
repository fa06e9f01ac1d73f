"""The client: whatever a server does, there is a clear code within the limits."""

import asyncio
import contextlib
import gzip
import itertools
import threading
import time
import zlib
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.settings.keys import WebConfig
from outrider.tools.web.client import MAX_REDIRECTS, WebClient, WebRequest
from outrider.tools.web.network_guard import web_address
from web_servers import Handler, Server, serving

CONFIG = WebConfig(timeout_ms=20_000, max_bytes=100_000, allow_private_network=True)


def client(config: WebConfig = CONFIG, **options: Any) -> contextlib.aclosing[WebClient]:
    return contextlib.aclosing(WebClient(config, **options))


async def got(url: str, config: WebConfig = CONFIG, **options: Any) -> Any:
    async with client(config, **options) as one:
        return await one.get(url)


async def code_of(route: Any, config: WebConfig = CONFIG) -> int:
    with serving({"/": route}) as server:
        with pytest.raises(ToolFault) as caught:
            await got(f"{server.url}/", config)
        return caught.value.code


TEXT = b"what was said " * 100
ENCODINGS = {
    "gzip": ("gzip", gzip.compress(TEXT)),
    "x-gzip": ("X-GZIP", gzip.compress(TEXT)),
    "two members": ("gzip", gzip.compress(TEXT[:700]) + gzip.compress(TEXT[700:])),
    "padded": ("gzip", gzip.compress(TEXT) + b"\0" * 64),
    "none": ("identity", TEXT),
}


@pytest.mark.parametrize(("encoding", "body"), ENCODINGS.values(), ids=ENCODINGS)
async def test_a_compressed_body_is_unpacked(encoding, body) -> None:
    with serving({"/": (200, {"Content-Encoding": encoding}, body)}) as server:
        assert (await got(f"{server.url}/")).body == TEXT
        assert server.asked[0].headers["accept-encoding"] == "gzip"


async def test_a_compressed_body_that_comes_byte_by_byte_is_unpacked() -> None:
    name, body = ENCODINGS["gzip"]

    def drip(handler: Handler) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {name}\r\nContent-Length: {len(body)}\r\n\r\n"
        handler.wfile.write(head.encode())
        for at in range(len(body)):
            handler.wfile.write(body[at : at + 1])
            handler.wfile.flush()

    with serving({"/": drip}) as server:
        assert (await got(f"{server.url}/")).body == TEXT


BIG = b"\0" * 5_000_000
BOMBS = {
    "gzip": ("gzip", gzip.compress(BIG)),
    "many members": ("gzip", gzip.compress(b"") * 10_000),
}


@pytest.mark.parametrize(("encoding", "body"), BOMBS.values(), ids=BOMBS)
async def test_a_compression_bomb_is_too_large(encoding, body) -> None:
    assert await code_of((200, {"Content-Encoding": encoding}, body)) == ToolCode.TOO_LARGE


DAMAGED = {
    "nested": ("gzip, gzip", gzip.compress(gzip.compress(TEXT))),
    "unknown": ("br", b"whatever"),
    "no gzip": ("gzip", TEXT),
    "not asked for": ("deflate", zlib.compress(TEXT)),
    "cut": ("gzip", gzip.compress(TEXT)[:-9]),
    "cut at once": ("gzip", gzip.compress(TEXT)[:5]),
    "wrong sum": ("gzip", gzip.compress(TEXT)[:-8] + b"\0" * 8),
}


@pytest.mark.parametrize(("encoding", "body"), DAMAGED.values(), ids=DAMAGED)
async def test_a_damaged_or_nested_encoding_is_a_fault_of_the_server(encoding, body) -> None:
    assert await code_of((200, {"Content-Encoding": encoding}, body)) == ToolCode.UPSTREAM_FAILED


async def test_an_encoding_that_is_given_twice_is_nested() -> None:
    body = gzip.compress(gzip.compress(TEXT))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Encoding: gzip\r\n\r\n"
    assert await code_of(lambda handler: handler.raw(head + body)) == ToolCode.UPSTREAM_FAILED


async def test_an_empty_body_that_calls_itself_compressed_is_empty() -> None:
    with serving({"/": (200, {"Content-Encoding": "gzip"}, b"")}) as server:
        assert (await got(f"{server.url}/")).body == b""


def endless(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"x" * 10_000)


def chunked(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"a\r\n0123456789\r\n" * 100)


def empty_members(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(gzip.compress(b"") * 500)


def raw(data: bytes) -> Any:
    return lambda handler: handler.raw(data)


OK = b"HTTP/1.1 200 OK\r\n"
RAW = {
    "endless": (endless, ToolCode.TOO_LARGE),
    "endless chunks": (chunked, ToolCode.TOO_LARGE),
    "endless and empty": (empty_members, ToolCode.TOO_LARGE),
    "announced": (raw(OK + b"Content-Length: 100001\r\n\r\n"), ToolCode.TOO_LARGE),
    "announced without end": (
        raw(OK + b"Content-Length: " + b"9" * 19 + b"\r\n\r\n"),
        ToolCode.TOO_LARGE,
    ),
    "length too long": (raw(OK + b"Content-Length: 10\r\n\r\nhalf"), ToolCode.UPSTREAM_FAILED),
    "length negative": (raw(OK + b"Content-Length: -1\r\n\r\n"), ToolCode.UPSTREAM_FAILED),
    "length no number": (raw(OK + b"Content-Length: ten\r\n\r\n"), ToolCode.UPSTREAM_FAILED),
    "two lengths": (
        raw(OK + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nhalf"),
        ToolCode.UPSTREAM_FAILED,
    ),
    "cut chunk": (
        raw(OK + b"Transfer-Encoding: chunked\r\n\r\nff\r\nhalf"),
        ToolCode.UPSTREAM_FAILED,
    ),
    "bad chunk": (
        raw(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhalf"),
        ToolCode.UPSTREAM_FAILED,
    ),
    "nothing": (raw(b""), ToolCode.UPSTREAM_FAILED),
    "garbage": (raw(b"SSH-2.0-OpenSSH_9.2\r\n"), ToolCode.UPSTREAM_FAILED),
    "half a head": (raw(b"HTTP/1.1 200 OK\r\nContent-"), ToolCode.UPSTREAM_FAILED),
    "header flood": (raw(OK + b"X-Flood: y\r\n" * 20_000), ToolCode.UPSTREAM_FAILED),
    "one huge header": (raw(OK + b"X: " + b"y" * 500_000), ToolCode.UPSTREAM_FAILED),
    "only 100": (raw(b"HTTP/1.1 100 Continue\r\n\r\n"), ToolCode.UPSTREAM_FAILED),
    "switches": (
        raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        ToolCode.UPSTREAM_FAILED,
    ),
    "not modified": ((304, {}, ""), ToolCode.UPSTREAM_FAILED),
    "a part": ((206, {}, "half"), ToolCode.UPSTREAM_FAILED),
    "redirect to nowhere": ((302, {}, ""), ToolCode.UPSTREAM_FAILED),
}


@pytest.mark.parametrize(("route", "code"), RAW.values(), ids=RAW)
async def test_a_server_that_breaks_the_rules_gives_a_clear_code(route, code) -> None:
    assert await code_of(route) == code


async def test_a_request_can_have_a_limit_of_its_own() -> None:
    with serving({"/": b"x" * 150_000}) as server:
        async with client() as one:
            assert len((await one.get(f"{server.url}/", max_bytes=200_000)).body) == 150_000


async def test_a_length_that_is_too_short_ends_the_body_there() -> None:
    with serving({"/": raw(OK + b"Content-Length: 4\r\n\r\nhalf and more")}) as server:
        assert (await got(f"{server.url}/")).body == b"half"


async def test_a_continue_before_the_answer_is_passed_over() -> None:
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    answer = head + OK + b"Content-Length: 4\r\n\r\ndone"
    with serving({"/": raw(answer)}) as server:
        assert (await got(f"{server.url}/")).body == b"done"


def drip(handler: Handler) -> None:
    with contextlib.suppress(OSError):
        handler.wfile.write(OK + b"\r\n")
        while True:
            handler.wfile.write(b"x")
            time.sleep(0.01)


def continues(handler: Handler) -> None:
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            time.sleep(0.001)


@pytest.mark.parametrize("route", [drip, continues], ids=["body", "continue"])
async def test_a_server_that_drips_is_given_up_at_the_deadline(route) -> None:
    assert await code_of(route, replace(CONFIG, timeout_ms=200)) == ToolCode.TIMEOUT


async def test_a_silent_server_is_given_up_at_the_deadline() -> None:
    done = threading.Event()
    try:
        code = await code_of(lambda _: done.wait(20) and None, replace(CONFIG, timeout_ms=100))
        assert code == ToolCode.TIMEOUT
    finally:
        done.set()


async def test_a_closed_port_is_a_fault_of_the_server() -> None:
    with serving({}) as server:
        url = server.url
    with pytest.raises(ToolFault) as caught:
        await got(url)
    assert caught.value.code == ToolCode.UPSTREAM_FAILED


async def test_redirects_end_after_a_while() -> None:
    with serving({"/": (302, {"Location": "/"}, "")}) as server:
        with pytest.raises(ToolFault) as caught:
            await got(f"{server.url}/")
        assert caught.value.code == ToolCode.UPSTREAM_FAILED
        assert len(server.asked) == MAX_REDIRECTS + 1


async def test_a_redirect_is_followed_to_where_the_page_is() -> None:
    routes = {"/": (302, {"Location": "/a/./b?x=\u00fc#part"}, ""), "/a/b": "here"}
    with serving(routes) as server:
        response = await got(f"{server.url}/")
        assert response.body == b"here"
        assert response.address.target == "/a/b?x=%C3%BC"


async def sent(server: Server, path: str, **options: Any) -> Any:
    request = WebRequest(web_address(server.url + path), "POST", body=b"{}", **options)
    async with client() as one:
        return await one.send(request)


KEYED = {"X-API-KEY": "sk-key", "Content-Type": "application/json"}


async def test_what_was_meant_for_one_origin_never_goes_to_another() -> None:
    with serving({"*": "got it"}) as other:
        routes = {
            "/303": (303, {"Location": f"{other.url}/x"}, ""),
            "/307": (307, {"Location": f"{other.url}/x"}, ""),
            "/same": (307, {"Location": "/end"}, ""),
            "/see": (303, {"Location": "/end"}, ""),
            "/end": "end",
        }
        with serving(routes) as server:
            for path, headers in itertools.product(("/303", "/307"), (KEYED, {})):
                with pytest.raises(ToolFault) as caught:
                    await sent(server, path, headers=headers)
                assert caught.value.code == ToolCode.UPSTREAM_FAILED
            assert not other.asked
            await sent(server, "/same", headers=KEYED)
            assert server.asked[-1].method == "POST" and server.asked[-1].body == b"{}"
            await sent(server, "/see", headers=KEYED)
            assert server.asked[-1].method == "GET"
            assert "content-type" not in server.asked[-1].headers


async def test_a_header_that_can_not_be_sent_is_not_repeated_in_the_fault() -> None:
    with serving({"*": "got it"}) as server:
        with pytest.raises(ToolFault) as caught:
            await sent(server, "/", headers={"X-API-KEY": "sk-secret\nX: y"})
        assert "sk-secret" not in str(caught.value)


# How many requests at once


def gathering(wanted: int) -> Any:
    """A route that answers when so many requests are there at once, or never."""
    barrier = threading.Barrier(wanted)

    def route(_: Handler) -> str:
        barrier.wait(20)
        return "together"

    return route


async def test_ten_slow_fetches_are_waited_for_together() -> None:
    config = replace(CONFIG, max_concurrent=10, max_concurrent_per_host=10)
    with serving({"*": gathering(10)}) as server:
        async with client(config) as one:
            urls = [f"{server.url}/{number}" for number in range(10)]
            found = await asyncio.gather(*map(one.get, urls))
        assert [response.body for response in found] == [b"together"] * 10


async def test_one_host_never_has_more_requests_at_once_than_it_may() -> None:
    def slowly(_: Handler) -> str:
        time.sleep(0.01)
        return "one of a few"

    config = replace(CONFIG, max_concurrent=20, max_concurrent_per_host=3)
    with serving({"*": slowly}) as server:
        async with client(config) as one:
            await asyncio.gather(*(one.get(f"{server.url}/{number}") for number in range(20)))
        assert len(server.asked) == 20
        assert server.most_at_once <= 3


async def test_a_host_at_its_limit_does_not_keep_other_hosts_waiting() -> None:
    release = threading.Event()

    def held(_: Handler) -> str:
        release.wait(20)
        return "late"

    config = replace(CONFIG, max_concurrent=3, max_concurrent_per_host=2)
    with serving({"*": held}) as slow, serving({"*": "at once"}) as quick:
        async with client(config) as one:
            waiting = [asyncio.create_task(one.get(f"{slow.url}/{n}")) for n in range(6)]
            while len(slow.asked) < 2:
                await asyncio.sleep(0.005)
            url = f"http://localhost:{quick.port}/"
            assert (await one.get(url)).body == b"at once"
            release.set()
            await asyncio.gather(*waiting)


async def test_waiting_for_a_place_does_not_use_up_the_time_of_a_request() -> None:
    config = replace(CONFIG, max_concurrent_per_host=1, timeout_ms=4_000)

    def slowly(_: Handler) -> str:
        time.sleep(1)
        return "in time"

    with serving({"*": slowly}) as server:
        async with client(config) as one:
            found = await asyncio.gather(*(one.get(f"{server.url}/{n}") for n in range(5)))
        assert [response.body for response in found] == [b"in time"] * 5


# robots.txt

POLITE = replace(CONFIG, respect_robots=True)
RULES = "User-agent: *\nDisallow: /private\n\nUser-agent: outrider\nDisallow: /no\n"


async def test_what_robots_txt_forbids_is_not_fetched_where_the_user_wants_that() -> None:
    with serving({"/robots.txt": RULES, "*": "page"}) as server:
        async with client(POLITE) as one:
            assert (await one.get(f"{server.url}/yes")).body == b"page"
            assert (await one.get(f"{server.url}/private")).body == b"page"
            with pytest.raises(ToolFault) as caught:
                await one.get(f"{server.url}/no/page?q=1")
        assert caught.value.code == ToolCode.DENIED and "robots.txt" in str(caught.value)
        assert server.paths() == ["/robots.txt", "/yes", "/private"]
        assert (await got(f"{server.url}/no")).body == b"page"


async def test_robots_txt_is_asked_for_once_for_all_that_wait_for_it() -> None:
    with serving({"/robots.txt": RULES, "*": "page"}) as server:
        async with client(POLITE) as one:
            await asyncio.gather(*(one.get(f"{server.url}/{n}") for n in range(6)))
        assert server.paths().count("/robots.txt") == 1


async def test_a_redirect_has_to_pass_the_rules_of_where_it_leads() -> None:
    with serving({"/robots.txt": RULES, "*": "page"}) as other:
        routes = {"/": (302, {"Location": f"{other.url}/no"}, "")}
        with serving(routes) as server, pytest.raises(ToolFault) as caught:
            await got(f"{server.url}/", POLITE)
        assert caught.value.code == ToolCode.DENIED
        assert other.paths() == ["/robots.txt"]


@pytest.mark.parametrize(("status", "allowed"), [(404, True), (403, True), (500, False)])
async def test_missing_rules_allow_all_and_failing_ones_nothing(status, allowed) -> None:
    with serving({"/robots.txt": (status, {}, "<html>"), "*": "page"}) as server:
        if allowed:
            assert (await got(f"{server.url}/x", POLITE)).body == b"page"
        else:
            with pytest.raises(ToolFault) as caught:
                await got(f"{server.url}/x", POLITE)
            assert caught.value.code == ToolCode.DENIED


# The cache


class Versions:
    """A page with a validator, which answers 304 to who has it already."""

    def __init__(self, body: str = "version 1", **headers: str) -> None:
        self.body = body
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def __call__(self, handler: Handler) -> Any:
        tag, since = self.headers.get("ETag"), self.headers.get("Last-Modified")
        known = handler.headers.get("If-None-Match"), handler.headers.get("If-Modified-Since")
        if (tag and known[0] == tag) or (since and known[1] == since):
            return 304, self.headers, ""
        return 200, self.headers, self.body


@pytest.mark.parametrize(
    "headers", [{"ETag": '"one"'}, {"Last_Modified": formatdate(1_000_000, usegmt=True)}]
)
async def test_a_page_that_has_not_changed_is_not_sent_again(headers) -> None:
    page = Versions(**headers)
    with serving({"/": page}) as server:
        async with client() as one:
            for _ in range(2):
                response = await one.get(f"{server.url}/")
                assert (response.status, response.body) == (200, b"version 1")
            name = "if-none-match" if "ETag" in headers else "if-modified-since"
            assert name in server.asked[1].headers and name not in server.asked[0].headers
            page.body, page.headers = "version 2", {"ETag": '"two"'}
            assert (await one.get(f"{server.url}/")).body == b"version 2"


NEVER_KEPT = [
    {"ETag": '"one"', "Cache_Control": "no-store"},
    {"ETag": '"one"', "Cache_Control": "max-age=600, private"},
    {"ETag": '"one"', "Vary": "*"},
    {"Cache_Control": "max-age=600"},
    {},
]


@pytest.mark.parametrize("headers", NEVER_KEPT, ids=map(str, NEVER_KEPT))
async def test_what_may_not_or_need_not_be_kept_is_not(headers) -> None:
    with serving({"/": Versions(**headers)}) as server:
        async with client() as one:
            for _ in range(2):
                await one.get(f"{server.url}/")
        assert not {"if-none-match", "if-modified-since"} & server.asked[1].headers.keys()


async def test_only_plain_gets_with_status_200_are_kept() -> None:
    fresh = {"Cache-Control": "max-age=600", "ETag": '"one"'}
    with serving({"/": (200, fresh, "page"), "/gone": (404, fresh, "gone")}) as server:
        address = web_address(f"{server.url}/")
        async with client() as one:
            await one.send(WebRequest(address, headers={"Authorization": "Bearer x"}))
            await one.send(WebRequest(address, headers={"X-Subscription-Token": "x"}))
            await one.send(WebRequest(address, "POST", body=b""))
            await one.send(WebRequest(address, headers={"Accept": "text/plain"}))
            for _ in range(2):
                await one.get(f"{server.url}/gone")
            await one.get(f"{server.url}/")
        assert not any("if-none-match" in asked.headers for asked in server.asked)


async def test_no_more_is_kept_than_the_setting_allows() -> None:
    page = Versions(ETag='"one"')
    with serving({"*": page}) as server:
        async with client(replace(CONFIG, cache_bytes=2 * len(page.body))) as one:
            for name in ("a", "b", "c", "a", "c"):
                assert (await one.get(f"{server.url}/{name}")).body == b"version 1"
        known = ["if-none-match" in asked.headers for asked in server.asked]
        assert known == [False, False, False, True, False]
