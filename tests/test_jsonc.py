"""One member of a JSONC text is changed, and nothing else: for any text that a person may write."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from outrider.surfaces.jsonc import read_jsonc, with_member, without_member

PATH = ("mcp", "outrider")
ENTRY = {"command": ["/opt/é/outrider", "mcp"], "enabled": True}
NAMES = st.sampled_from(["a", "mcp", "outrider", "mc\\u0070", "é", "//", "/*", "}", ",", '\\"', ""])
SPACES = st.sampled_from([
    "", "", "", " ", "\n", "\r\n", "\t", "\n  ", "\r\n    ", " /* a */ ", "/**/", "/* } , // */\n",
    " // mine\n", "\n  // a, b: {\n  ", "// x  \r\n\t", "\n\n", "/* \n */", "// \u2028é\n",
])  # fmt: skip
SCALARS = st.sampled_from(["1", "-2.5e3", "true", "null", '"x"', '"//"', '"}"', '"\\\\"', '"é,"'])


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    """Draw an object with comments and perhaps a trailing comma; its names differ."""
    space = lambda: draw(SPACES)  # noqa: E731
    names = draw(st.lists(NAMES, max_size=4, unique_by=lambda name: json.loads(f'"{name}"')))
    members = [f'{space()}"{name}"{space()}:{space()}{draw(values)}{space()}' for name in names]
    comma = draw(st.sampled_from(["", f",{space()}"])) if members else space()
    return "{" + ",".join(members) + comma + "}"


@st.composite
def arrays(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    items = [f"{draw(SPACES)}{one}{draw(SPACES)}" for one in draw(st.lists(values, max_size=3))]
    comma = draw(st.sampled_from(["", ","])) if items else draw(SPACES)
    return f"[{','.join(items)}{comma}]"


VALUES = st.recursive(SCALARS, lambda inner: objects(inner) | arrays(inner), max_leaves=8)
TEXTS = st.tuples(st.sampled_from(["", "\ufeff"]), SPACES, objects(VALUES), SPACES).map("".join)


def at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


@given(TEXTS)
def test_what_is_put_in_is_taken_out_again_to_the_byte(text: str) -> None:
    before = read_jsonc(text)
    if not isinstance(before.get("mcp", {}), dict):
        with pytest.raises(ValueError, match=r"mcp isn't a JSON object"):
            with_member(text, PATH, ENTRY)
        return
    changed = with_member(text, PATH, ENTRY)
    after = read_jsonc(changed)
    assert after.get("mcp") == {**before.get("mcp", {}), "outrider": ENTRY}
    assert {**after, "mcp": None} == {**before, "mcp": None}
    assert with_member(changed, PATH, ENTRY) == changed
    moved = with_member(changed, PATH, {"command": "elsewhere"})
    assert at(read_jsonc(moved), *PATH) == {"command": "elsewhere"}
    if at(before, *PATH) is None and "outrider" not in before.get("mcp", {}):
        assert without_member(changed, PATH) == without_member(moved, PATH) == text


@given(TEXTS)
def test_only_a_member_that_is_there_is_taken_out(text: str) -> None:
    before, changed = read_jsonc(text), without_member(text, PATH)
    servers = at(before, "mcp")
    if not isinstance(servers, dict) or "outrider" not in servers:
        assert changed == text
        return
    after = read_jsonc(changed or "{}")
    del servers["outrider"]
    assert {**after, "mcp": after.get("mcp", {})} == before


def test_a_text_that_was_made_is_taken_away_whole() -> None:
    made = with_member("", PATH, ENTRY)
    assert read_jsonc(made) == {"mcp": {"outrider": ENTRY}}
    assert without_member(made, PATH) == "" == without_member("", PATH)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"a": 1}', '{"a": 1, "x": 2}'),
        ('{\n\t"a": 1 // mine\n}\n', '{\n\t"a": 1, // mine\n\t"x": 2\n}\n'),
        ('{\r\n  "a": 1,\r\n}', '{\r\n  "a": 1,\r\n  "x": 2,\r\n}'),
        ('{\n    // all\n    "a": [1]\n}', '{\n    // all\n    "a": [1],\n    "x": 2\n}'),
        ("{}", '{ "x": 2}'),
        ("{\n}", '{\n  "x": 2\n}'),
        ('{"x": 1, "a": {"x": 3}}', '{"x": 2, "a": {"x": 3}}'),
    ],
)
def test_a_member_is_written_as_its_neighbours_are(text: str, wanted: str) -> None:
    assert with_member(text, ["x"], 2) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"a": 1, // mine\n"x": 2}', '{"a": 1 // mine\n}'),
        ('{"x": 2, "a": 1}', '{ "a": 1}'),
        ('{"a": 1, "x": 2, /* b */ "b": 3}', '{"a": 1, /* b */ "b": 3}'),
        ('// mine\n{"x": 2}', "// mine\n{}"),
    ],
)
def test_a_member_is_taken_out_from_between_its_neighbours(text: str, wanted: str) -> None:
    assert without_member(text, ["x"]) == wanted


@pytest.mark.parametrize(
    "text",
    [" ", "[", "{", "{,}", "[1,,]", '{"a" 1}', "{'a': 1}", '{"a": 1 /* }', "{} {}", '"\\', "1 2"],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        read_jsonc(text)
    with pytest.raises(ValueError, match="JSON"):
        with_member(text, PATH, ENTRY)


def test_deep_nesting_is_refused_and_an_array_has_no_members() -> None:
    with pytest.raises(ValueError, match="JSON"):
        read_jsonc("[" * 100_000 + "]" * 100_000)
    with pytest.raises(ValueError, match="it isn't a JSON object"):
        with_member("[]", PATH, ENTRY)
