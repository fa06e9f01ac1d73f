"""Arguments that a tool's own schema forbids, for tests that none of them does any harm."""

from typing import Any

import jsonschema_rs
from hypothesis import strategies as st

_ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    -(2**31),
    2**31,
    2**63,
    10**30,
    1.5,
    -0.5,
    "",
    "text",
    "../../etc/passwd",
    "x" * 100_000,
    [],
    [1],
    ["a", None],
    {},
    {"a": 1},
    [{}],
    [{"unknown": True}],
]


def bad_arguments(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Arguments with one fault: a field missing, wrong, out of range, or not in the schema."""
    whole = [_unknown_field(schema), _not_an_object()]
    missing = [_missing(schema, name) for name in schema.get("required", [])]
    wrong = [_wrong_field(schema, name) for name in schema["properties"]]
    return st.one_of(*whole, *missing, *wrong)


def valid_arguments(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema allows."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return valid_arguments(schema["anyOf"][0])
    kind = schema.get("type", "string")
    return _VALID[kind[0] if isinstance(kind, list) else kind](schema)


def _object(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    required = schema.get("required", [])
    fields = {name: valid_arguments(part) for name, part in schema.get("properties", {}).items()}
    return st.fixed_dictionaries(
        {name: part for name, part in fields.items() if name in required},
        optional={name: part for name, part in fields.items() if name not in required},
    )


def _integer(schema: dict[str, Any]) -> st.SearchStrategy[int]:
    low = schema.get("minimum", 0)
    return st.integers(low, min(schema.get("maximum", low + 100), low + 100))


_VALID: dict[str, Any] = {
    "object": _object,
    "integer": _integer,
    "number": lambda schema: st.floats(0, 100),
    "boolean": lambda schema: st.booleans(),
    "null": lambda schema: st.none(),
    "array": lambda schema: st.lists(
        valid_arguments(schema.get("items", {})), min_size=schema.get("minItems", 0), max_size=3
    ),
    "string": lambda schema: st.text("abc", min_size=schema.get("minLength", 0), max_size=8),
}


def _unknown_field(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    name = st.text(min_size=1, max_size=20).filter(lambda name: name not in schema["properties"])
    extra = st.dictionaries(name, st.sampled_from(_ODD_VALUES), min_size=1, max_size=2)
    return st.builds(lambda base, more: {**base, **more}, valid_arguments(schema), extra)


def _not_an_object() -> st.SearchStrategy[Any]:
    texts = ["[]", "null", "3", '"text"', "{", "{'a': 1}", '{"a": NaN}', "[" * 100_000, "\x00"]
    return st.sampled_from(texts)


def _missing(schema: dict[str, Any], name: str) -> st.SearchStrategy[Any]:
    return valid_arguments(schema).map(
        lambda base: {key: value for key, value in base.items() if key != name}
    )


def _wrong_field(schema: dict[str, Any], name: str) -> st.SearchStrategy[Any]:
    # The executor takes null for "not given" where a field may be left out.
    allowed_null = name not in schema.get("required", [])
    part = {**schema["properties"][name], "$defs": schema.get("$defs", {})}
    wrong = [
        value
        for value in _ODD_VALUES
        if not (value is None and allowed_null) and not jsonschema_rs.is_valid(part, value)
    ]
    return st.builds(
        lambda base, value: {**base, name: value}, valid_arguments(schema), st.sampled_from(wrong)
    )
