"""The guard: what a web tool may not reach it doesn't, however the address is written."""

import asyncio
import contextlib
import ssl
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import trustme

from outrider.masking import Masker
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.settings.keys import WebConfig
from outrider.tools.web.client import WebClient
from outrider.tools.web.network_guard import (
    GuardedBackend,
    is_listed,
    web_address,
    why_refused,
)
from outrider.tools.web.session import WebSession
from web_servers import PUBLIC, Names, Network, serving

CONFIG = WebConfig(timeout_ms=10_000)


def client(config: WebConfig = CONFIG, **options: Any) -> contextlib.aclosing[WebClient]:
    parts = {name: options.pop(name) for name in ("resolve", "network") if name in options}
    return contextlib.aclosing(
        WebClient(config, guarded=partial(GuardedBackend, **parts), **options)
    )


async def fault_of(url: str, config: WebConfig = CONFIG, **options: Any) -> ToolFault:
    async with client(config, **options) as one:
        with pytest.raises(ToolFault) as caught:
            await one.get(url)
    return caught.value


ALL_ADDRESSES = {
    "0.0.0.0": "unspecified",
    "0.1.2.3": "private or reserved",
    "10.0.0.1": "private",
    "100.64.0.1": "private",
    "100.100.100.200": "private",
    "127.0.0.1": "this machine",
    "127.255.255.254": "this machine",
    "168.63.129.16": "metadata",
    "169.254.169.254": "link-local",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.1": "metadata",
    "192.0.0.192": "metadata",
    "192.0.2.1": "private",
    "192.88.99.1": "6to4",
    "192.168.1.1": "private",
    "198.18.0.1": "private",
    "198.19.255.255": "private",
    "198.51.100.1": "private",
    "203.0.113.1": "private",
    "224.0.0.1": "multicast",
    "239.255.255.250": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "::": "obsolete",
    "::1": "this machine",
    "::7f00:1": "obsolete",
    "::ffff:127.0.0.1": "this machine",
    "::ffff:10.0.0.1": "private",
    "::ffff:a9fe:a9fe": "link-local",
    "::ffff:0:7f00:1": "reserved",
    "64:ff9b::7f00:1": "this machine",
    "64:ff9b::a9fe:a9fe": "link-local",
    "64:ff9b:1::808:808": "NAT64",
    "100::1": "reserved",
    "2001::1": "Teredo",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": "Teredo",
    "2001:2::1": "protocols",
    "2001:20::1": "protocols",
    "2001:db8::1": "reserved",
    "2002:7f00:1::": "6to4",
    "2002:c0a8:101::1": "6to4",
    "3fff::1": "documentation",
    "5f00::1": "reserved",
    "fc00::1": "private",
    "fd00:ec2::254": "private",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
    "2606:4700::5efe:7f00:1": "ISATAP",
    "2606:4700::200:5efe:808:808": "ISATAP",
    "not an address": "not an IP address",
}


@pytest.mark.parametrize(("address", "reason"), ALL_ADDRESSES.items())
def test_an_address_that_is_not_on_the_public_internet_is_refused(address, reason) -> None:
    assert reason in (why_refused(address) or "")


@pytest.mark.parametrize(
    "address",
    [
        PUBLIC,
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "172.32.0.1",
        "192.167.255.255",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450:4001::200e",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
    ],
)
def test_an_address_on_the_public_internet_is_not_refused(address) -> None:
    assert why_refused(address) is None


LOOPBACK = [
    "http://127.0.0.1/",
    "http://127.0.0.1:80/",
    "http://127.0.0.1./",
    "http://127.0.0.1../",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0x7F.1/",
    "http://0177.0.0.1/",
    "http://0177.0.0.01/",
    "http://0/",
    "http://0.0.0.0:8080/",
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]:8080/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::FFFF:7F00:1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[2002:7f00:1::]/",
    "http://localhost/",
    "http://LOCALHOST/",
    "http://LocalHost./",
    "HTTP://LOCALHOST/",
    "https://localhost/",
    "http://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460/",
    "http://\uff11\uff12\uff17\uff0e\uff10\uff0e\uff10\uff0e\uff11/",
    "http://127\u30020\u30020\u30021/",
    "http://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3/",
    "http://local\u200bhost/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1?@example.com/",
    " http://127.0.0.1/ ",
    "http://192.168.0.1/",
    "http://10.1/",
    "http://3232235521/",
    "http://169.254.169.254/latest/meta-data/",
    "http://0xA9FEA9FE/",
    "http://2852039166/",
    "http://100.100.100.200/",
]


@pytest.mark.parametrize("url", LOOPBACK)
async def test_no_spelling_of_a_private_host_opens_a_connection(url) -> None:
    network = Network()
    fault = await fault_of(url, network=network)
    assert fault.code == ToolCode.DENIED, fault
    assert not network.connected


MALFORMED = [
    "http://127.0.0.1\\@example.com/",
    "http://example.com\\.evil.example/",
    "http:\\\\127.0.0.1/",
    "http://[::1",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1:0/",
    "http://127.0.0.1:99999/",
    "http://127.0.0.1:80:80/",
    "http://127.0.0.1:\uff18\uff10/",
    "http://127.0.0.1:-1/",
    "http:///etc/passwd",
    "http:127.0.0.1",
    "//127.0.0.1/",
    "127.0.0.1",
    "localhost:8080",
    "http://./",
    "http://exa mple.com/",
    "http://example.com/\r\nHost: 127.0.0.1",
    "http://example.com/\x00",
    "http://example.com/\ud800",
    "file:///etc/passwd",
    "ftp://127.0.0.1/",
    "gopher://127.0.0.1:6379/_INFO",
    "data:text/html,hello",
    "javascript:alert(1)",
    "jar:http://127.0.0.1!/",
    "view-source:http://127.0.0.1/",
    "unix:///run/docker.sock",
    "http://\u2488example\u2024com\u2100/",
    "http://" + "a" * 9_000,
    "",
]


@pytest.mark.parametrize("url", MALFORMED, ids=range(len(MALFORMED)))
async def test_what_is_no_plain_web_address_is_a_bad_parameter(url) -> None:
    network = Network()
    fault = await fault_of(url, network=network)
    assert fault.code == ToolCode.BAD_PARAMETER
    assert not network.connected


@pytest.mark.parametrize(
    "url", ["http://user:hunter2@example.com/", "http://example.com@127.0.0.1/", "https://:pw@a/"]
)
async def test_credentials_in_an_address_are_refused_and_not_repeated(url) -> None:
    fault = await fault_of(url)
    assert fault.code == ToolCode.DENIED
    assert "hunter2" not in str(fault)


async def test_one_private_answer_among_public_ones_refuses_the_host() -> None:
    network = Network()
    names = Names(mixed_example=[PUBLIC, "2606:4700::1", "10.0.0.7"])
    fault = await fault_of("http://mixed.example/", resolve=names, network=network)
    assert fault.code == ToolCode.DENIED and "10.0.0.7" in str(fault)
    assert not network.connected


async def test_a_rebound_name_is_reached_at_the_address_that_was_checked_and_then_refused() -> None:
    close = (200, {"Connection": "close"}, "hello")
    with serving({"/": close}) as server:
        names = Names(rebind_example=[[PUBLIC], ["127.0.0.1"]])
        network = Network({80: server.port})
        async with client(resolve=names, network=network) as one:
            assert (await one.get("http://rebind.example/")).body == b"hello"
            with pytest.raises(ToolFault) as caught:
                await one.get("http://rebind.example/")
        assert caught.value.code == ToolCode.DENIED
        assert network.connected == [(PUBLIC, 80)]
        assert names.asked == ["rebind.example"] * 2
        assert server.asked[0].headers["host"] == "rebind.example"


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1/",
        "http://private.example/",
        "http://2130706433/",
        "http://[::1]/",
        "//169.254.169.254/latest/",
        "http://metadata.example/",
        "http://user:pw@public.example/",
    ],
)
async def test_a_chain_of_redirects_can_not_end_at_a_private_host(target) -> None:
    names = Names(
        public_example=[PUBLIC],
        other_example=[PUBLIC],
        private_example=["192.168.0.1"],
        metadata_example=["169.254.169.254"],
    )
    names.names |= {host: ["127.0.0.1"] for host in ("127.0.0.1", "2130706433")}
    names.names |= {"::1": ["::1"], "169.254.169.254": ["169.254.169.254"]}
    routes = {
        "/": (302, {"Location": "http://other.example/second"}, ""),
        "/second": (307, {"Location": "/third"}, ""),
        "/third": (301, {"Location": target}, ""),
    }
    with serving(routes) as server:
        network = Network({80: server.port})
        fault = await fault_of("http://public.example/", resolve=names, network=network)
        assert fault.code == ToolCode.DENIED
        assert server.paths() == ["/", "/second", "/third"]
        assert {host for host, _ in network.connected} == {PUBLIC}


@pytest.mark.parametrize(
    "target",
    ["file:///etc/passwd", "ftp://public.example/", "javascript:1", "http://a:99999/", "http://["],
)
async def test_a_redirect_to_another_scheme_is_a_fault_of_the_server(target) -> None:
    with serving({"/": (302, {"Location": target}, "")}) as server:
        config = replace(CONFIG, allowed_hosts=(server.host,))
        fault = await fault_of(f"{server.url}/", config)
        assert fault.code == ToolCode.UPSTREAM_FAILED
        assert "redirects" in str(fault)


async def test_an_allowed_host_and_port_opens_that_and_nothing_else() -> None:
    with serving({"/": "in"}) as server, serving({"/": "out"}) as other:
        config = replace(CONFIG, allowed_hosts=(server.host,))
        async with client(config) as one:
            assert (await one.get(f"{server.url}/")).body == b"in"
            refused = (
                f"{other.url}/",
                f"http://localhost:{server.port}/",
                f"http://127.1:{server.port}/",
                f"http://2130706433:{server.port}/",
                f"http://[::ffff:127.0.0.1]:{server.port}/",
                f"http://127.0.0.2:{server.port}/",
            )
            for url in refused:
                with pytest.raises(ToolFault) as caught:
                    await one.get(url)
                assert caught.value.code == ToolCode.DENIED
        assert not other.asked


@pytest.mark.parametrize(
    ("entry", "host", "port", "listed"),
    [
        ("docs.local", "docs.local", 80, True),
        ("Docs.Local.", "docs.local", 8080, True),
        ("docs.local:8080", "docs.local", 8080, True),
        ("docs.local:8080", "docs.local", 80, False),
        ("docs.local", "x.docs.local", 80, False),
        ("docs.local", "docs.local.evil.example", 80, False),
        ("*.local", "docs.local", 80, False),
        ("[::1]:8080", "::1", 8080, True),
        ("[::1]", "::1", 8080, True),
        ("::1", "::1", 80, True),
        ("::1:8080", "::1", 8080, False),
    ],
)
def test_the_list_of_allowed_hosts_is_taken_literally(entry, host, port, listed) -> None:
    assert is_listed(host, port, (entry,)) is listed


async def test_a_host_listed_by_name_is_reached_at_its_private_address() -> None:
    with serving({"/": "in"}) as server:
        config = replace(CONFIG, allowed_hosts=(f"docs.local:{server.port}",))
        names = Names(docs_local=["127.0.0.1"], other_local=["127.0.0.1"])
        async with client(config, resolve=names) as one:
            assert (await one.get(f"http://DOCS.local:{server.port}/")).body == b"in"
        url = f"http://other.local:{server.port}/"
        assert (await fault_of(url, config, resolve=names)).code == ToolCode.DENIED


async def test_private_addresses_are_open_where_the_user_says_so() -> None:
    with serving({"/": "in"}) as server:
        async with client(replace(CONFIG, allow_private_network=True)) as one:
            assert (await one.get(f"{server.url}/")).body == b"in"
            assert (await one.get(f"http://2130706433:{server.port}/")).body == b"in"


async def test_the_next_address_of_a_host_is_tried_where_one_refuses() -> None:
    with serving({"/": "in"}) as server:
        config = replace(CONFIG, allow_private_network=True)
        names = Names(two_example=["127.0.0.9", "127.0.0.1"])
        async with client(config, resolve=names) as one:
            assert (await one.get(f"http://two.example:{server.port}/")).body == b"in"


@pytest.mark.parametrize("found", [[], None])
async def test_a_host_that_does_not_resolve_is_not_found(found) -> None:
    names = Names(**({"gone_example": found} if found is not None else {}))
    assert (await fault_of("http://gone.example/", resolve=names)).code == ToolCode.NOT_FOUND


def contexts(*names: str) -> tuple[ssl.SSLContext, ssl.SSLContext, list[str]]:
    """A server's context with a certificate, a client's that trusts it, and the names asked for."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(server)
    asked: list[str] = []
    server.sni_callback = lambda _socket, name, _context: asked.append(name)  # type: ignore
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    return server, trusting, asked


async def test_https_goes_to_the_checked_address_with_the_name_in_sni_and_host() -> None:
    tls, trusting, sni = contexts("secure.example")
    with serving({"/": "sealed"}, tls) as server:
        names = Names(secure_example=[PUBLIC])
        network = Network({443: server.port})
        async with client(resolve=names, network=network, trusted=trusting) as one:
            assert (await one.get("https://secure.example/")).body == b"sealed"
        assert network.connected == [(PUBLIC, 443)]
        assert sni == ["secure.example"]
        assert server.asked[0].headers["host"] == "secure.example"


@pytest.mark.parametrize("trusts", [True, False], ids=["another name", "unknown issuer"])
async def test_a_certificate_that_does_not_fit_is_refused(trusts) -> None:
    tls, trusting, _ = contexts("other.example" if trusts else "secure.example")
    with serving({"/": "sealed"}, tls) as server:
        names = Names(secure_example=[PUBLIC])
        network = Network({443: server.port})
        options: Any = {"resolve": names, "network": network}
        trusted = trusting if trusts else ssl.create_default_context()
        fault = await fault_of("https://secure.example/", trusted=trusted, **options)
        assert fault.code == ToolCode.UPSTREAM_FAILED
        assert "certificate can't be trusted" in str(fault)
        assert not server.asked


async def test_a_plain_answer_to_https_is_a_fault_of_the_server() -> None:
    with serving({"/": "plain"}) as server:
        names = Names(secure_example=[PUBLIC])
        options: Any = {"resolve": names, "network": Network({443: server.port})}
        fault = await fault_of("https://secure.example/", **options)
        assert fault.code == ToolCode.UPSTREAM_FAILED


def proxy(handler: Any) -> Any:
    """Answer as a forwarding proxy does, from itself."""
    return f"through the proxy: {handler.path}"


async def test_a_proxy_is_used_for_public_hosts_and_sees_no_private_target() -> None:
    names = Names(public_example=[PUBLIC], private_example=["10.0.0.1"])
    names.names |= {"127.0.0.1": ["127.0.0.1"], "2130706433": ["127.0.0.1"]}
    with serving({"*": proxy}) as server:
        proxies = {"http": f"http://user:hunter2@127.0.0.1:{server.port}", "no": "direct.example"}
        async with client(resolve=names, proxies=proxies) as one:
            body = (await one.get("http://public.example/page")).body
            assert body == b"through the proxy: http://public.example/page"
            unknown = (await one.get("http://only-the-proxy-knows.example/")).body
            assert unknown.startswith(b"through")
            assert server.asked[0].headers["proxy-authorization"].startswith("Basic ")
            before = len(server.asked)
            for host in ("private.example", "127.0.0.1", "2130706433", f"127.0.0.1:{server.port}"):
                with pytest.raises(ToolFault) as caught:
                    await one.get(f"http://{host}/")
                assert caught.value.code == ToolCode.DENIED
            assert len(server.asked) == before


async def test_a_tunnel_through_a_proxy_is_asked_for_by_name_and_its_refusal_is_told() -> None:
    names = Names(public_example=[PUBLIC])
    names.names |= {"127.0.0.1": ["127.0.0.1"]}
    with serving({"*": (407, {}, "")}) as server:
        url = f"http://user:hunter2@127.0.0.1:{server.port}"
        fault = await fault_of("https://public.example/", resolve=names, proxies={"https": url})
        assert fault.code == ToolCode.UPSTREAM_FAILED and "407" in str(fault)
        assert "hunter2" not in str(fault)
        assert server.asked[0].method == "CONNECT"
        assert server.paths() == ["public.example:443"]


@contextlib.asynccontextmanager
async def tunnelling(port: int):
    """A proxy whose tunnels all lead to one port of loopback; yields its port and what it saw."""
    asked: list[bytes] = []
    running: list[Any] = []

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running.append(asyncio.current_task())
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        onward, back = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pipe(reader, back), pipe(onward, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked
        await asyncio.gather(*running)


async def test_https_through_a_proxy_is_sealed_from_end_to_end() -> None:
    tls, trusting, sni = contexts("secure.example")
    names = Names(secure_example=[PUBLIC])
    names.names |= {"127.0.0.1": ["127.0.0.1"]}
    with serving({"/": "sealed"}, tls) as server:
        async with tunnelling(server.port) as (port, asked):
            proxies = {"all": f"127.0.0.1:{port}"}
            async with client(resolve=names, trusted=trusting, proxies=proxies) as one:
                assert (await one.get("https://secure.example/")).body == b"sealed"
    assert asked[0].startswith(b"CONNECT secure.example:443 ")
    assert sni == ["secure.example"]


async def test_hosts_that_the_environment_excepts_are_reached_without_the_proxy() -> None:
    names = Names(direct_example=[PUBLIC])
    with serving({"*": proxy}) as server, serving({"/": "direct"}) as direct:
        proxies = {"http": server.url, "no": "direct.example"}
        network = Network({80: direct.port})
        async with client(resolve=names, network=network, proxies=proxies) as one:
            assert (await one.get("http://direct.example/")).body == b"direct"
        assert not server.asked


@pytest.mark.parametrize("used", [False, True])
async def test_a_proxy_of_the_environment_is_used_only_where_the_user_says_so(
    used, monkeypatch
) -> None:
    with serving({"*": proxy}) as server, serving({"/": "direct"}) as direct:
        monkeypatch.setenv("http_proxy", server.url)
        monkeypatch.setenv("no_proxy", "")
        config = replace(CONFIG, allowed_hosts=(direct.host,), use_proxy=used)
        session = WebSession(config, keys={}, mask=Masker())
        body = (await session.client.get(f"{direct.url}/")).body
        await session.aclose()
    assert body.startswith(b"through the proxy" if used else b"direct")


@pytest.mark.parametrize(
    "url",
    ["socks5://127.0.0.1:1080", "http://", "ftp://proxy.example", "http://[", "http://a:port"],
)
async def test_a_proxy_that_can_not_be_used_is_said_to_be_so(url) -> None:
    names = Names(public_example=[PUBLIC])
    fault = await fault_of("http://public.example/", resolve=names, proxies={"http": url})
    assert fault.code == ToolCode.NOT_AVAILABLE


def test_an_address_is_written_as_it_is_sent() -> None:
    address = web_address("HTTPS://B\u00fccher.example:443/a b?q=\u00fc&x=%20#part")
    assert address.url == "https://xn--bcher-kva.example/a%20b?q=%C3%BC&x=%20"
    assert web_address("http://[::1]:8080").url == "http://[::1]:8080/"


async def test_a_resolver_that_never_answers_ends_with_the_deadline() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    fault = await fault_of("http://slow.example/", replace(CONFIG, timeout_ms=50), resolve=never)
    assert fault.code == ToolCode.TIMEOUT
