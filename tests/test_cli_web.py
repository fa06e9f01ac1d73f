"""`outrider web`: the web tools for people, through the same guard."""

from contextlib import closing

import pytest

from cli_door import Door
from web_servers import serving

ARTICLE = (
    "<html><head><title>Tea</title></head><body><article><h1>Tea</h1>"
    "<p>Green tea is made from leaves that have not been withered, and is drunk hot.</p>"
    "</article></body></html>"
)
KEY = "sk-proj-Ab3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"


@pytest.fixture
def door(tmp_path):
    with closing(Door(tmp_path)) as door:
        yield door


@pytest.fixture
def site(door):
    pages = {
        "/page": (200, "text/html", ARTICLE.encode()),
        "/tea": (200, "text/plain", b"Green tea is made from leaves."),
        "/long": (200, "text/plain", "".join(f"line {n}\n" for n in range(12_000)).encode()),
        "/broken": (500, "text/html", b"no"),
    }
    with serving(pages) as server:
        door.write_config({"web": {"allowedHosts": [server.host]}})
        yield server


def test_page_is_printed_to_its_last_line_and_nothing_else(door, site):
    ended = door.run("web", "fetch", f"{site.url}/page", f"{site.url}/long")
    assert ended.code == 0 and ended.err == ""
    assert "Green tea is made from leaves" in ended.out and "<p>" not in ended.out
    assert all(f"line {number}\n" in ended.out for number in (0, 5_000, 11_999))


def test_one_bad_address_leaves_the_others(door, site):
    ended = door.run("web", "fetch", f"{site.url}/tea", f"{site.url}/none", "ftp://example.org")
    assert ended.code == 0 and "Green tea" in ended.out
    assert "/none: " in ended.err and "ftp://example.org: " in ended.err
    assert "/none" not in ended.out


def test_failure_is_told_on_stderr_and_by_the_exit_code(door, site):
    ended = door.run("web", "fetch", f"{site.url}/broken", f"{site.url}/none")
    assert ended.code == 1 and ended.out == "" and ended.err.startswith("outrider: ")


def test_envelope_is_printed_for_programs(door, site):
    ended = door.run("web", "fetch", f"{site.url}/tea", "--json")
    assert ended.code == 0 and ended.json["code"] == 0
    assert ended.json["meta"]["tool"] == "fetch_content"
    ended = door.run("web", "fetch", f"{site.url}/none", "--json")
    assert ended.code == 1 and ended.json["code"] == 1003


def test_guard_stays_for_people(door, site):
    door.write_config({})
    ended = door.run("web", "fetch", f"{site.url}/tea")
    assert ended.code == 1 and "web.allowedHosts" in ended.err and site.paths() == []


def test_person_may_send_what_a_child_may_not(door, site):
    ended = door.run("web", "fetch", f"{site.url}/tea?key={KEY}")
    assert ended.code == 0 and site.paths() == [f"/tea?key={KEY}"]
    log = (door.home / ".local/state/outrider/activity.jsonl").read_text()
    assert '"fetch"' in log and "/tea" in log and KEY not in log


def test_page_cannot_control_the_terminal(door):
    pages = {"/": (200, "text/plain", b"red \x1b[31mtext\x07\n")}
    with serving(pages) as server:
        host = server.host
        door.write_config({"web": {"allowedHosts": [host]}})
        ended = door.run("web", "fetch", f"http://{host}/")
    assert ended.code == 0 and "\x1b" not in ended.out and "\x07" not in ended.out


def test_bad_calls_are_refused(door):
    for arguments in (["fetch"], ["surf", "x"]):
        ended = door.run("web", *arguments)
        assert ended.code == 2 and "outrider web --help" in ended.err
    door.write_config({"web": {"enabled": False}})
    ended = door.run("web", "fetch", "https://example.org")
    assert ended.code == 2 and "web.enabled" in ended.err


def test_results_of_a_search_are_printed_with_their_addresses(door):
    found = [{"url": "https://tea.example/green", "title": "Green tea", "content": "Hot leaves."}]
    with serving({"/search": {"results": found}}) as server:
        web = {"provider": "searxng", "allowedHosts": [server.host]}
        door.write_config({"web": {**web, "endpoints": {"searxng": server.url}}})
        ended = door.run("web", "search", "tea")
    assert ended.code == 0 and ended.err == ""
    assert all(words in ended.out for words in ("Green tea", found[0]["url"], "Hot leaves."))
    # A person has no tools of an agent's.
    assert "get_search_content" not in ended.out and "outrider web fetch" in ended.out


def test_search_that_cannot_be_made_fails_with_its_reason(door):
    # An endpoint that is this machine's, and not allowed: nothing leaves it.
    web = {"provider": "searxng", "endpoints": {"searxng": "http://127.0.0.1:9"}}
    door.write_config({"web": web})
    ended = door.run("web", "search", "tea")
    assert ended.code == 1 and ended.out == "" and ended.err.startswith("outrider: Error ")


def test_doctor_tells_which_providers_have_keys_and_whether_the_converter_works(door):
    env = {"OUTRIDER_MODEL": "embedded", "BRAVE_SEARCH_API_KEY": KEY}
    ended = door.run("doctor", "--json", env=env)
    found = {check["name"]: (check["status"], check["message"]) for check in ended.json["checks"]}
    assert found["brave"][1].startswith("BRAVE_SEARCH_API_KEY is set")
    assert found["exa"] == ("off", "not used: EXA_API_KEY is not set")
    assert found["duckduckgo"][1].startswith("needs no key")
    assert found["markitdown"][0] == "ok" and "it converted" in found["markitdown"][1]
    assert KEY not in ended.out
