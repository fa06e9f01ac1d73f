"""A report either fits the caller's schema exactly or every fault is named; nothing hangs."""

import json
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest

from outrider.schemas.arguments import read_arguments
from outrider.schemas.output_schema import (
    CompiledSchema,
    Fault,
    SchemaError,
    load_schema,
)

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
FINDINGS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"line": {"type": "integer"}, "file": {"type": "string"}},
                "required": ["line"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["findings"],
}


def faults_of(schema: object, value: Any) -> list[str]:
    loaded = load_schema(schema)
    return [str(fault) for fault in report(loaded, value).faults]


def report(loaded: CompiledSchema, value: Any):
    return loaded.judge({"result": value} if loaded.is_wrapped else value)


def nested(levels: int, core: Any = 1) -> Any:
    for _ in range(levels):
        core = [core]
    return core


# --- the verdict ---------------------------------------------------------------------------------


def test_every_fault_is_named_not_only_the_first():
    value = {"findings": [{"file": 1}, {"line": 1.5, "colour": "red"}]}
    assert sorted(faults_of(FINDINGS, value)) == [
        '$.findings[0].file: 1 is not of type "string"',
        '$.findings[0]: "line" is a required property',
        '$.findings[1].colour: this property is not allowed; allowed: "line", "file"',
        '$.findings[1].line: 1.5 is not of type "integer"',
    ]
    assert Fault("$.a", "no").to_dict() == {"path": "$.a", "message": "no"}


def test_a_valid_report_comes_back_as_it_was():
    value = {"findings": [{"line": 10**30}], "extra": [None, True, 0.1]}
    verdict = load_schema(FINDINGS).judge(value)
    assert verdict.is_valid and verdict.faults == ()
    assert verdict.value is value


def test_nothing_is_filled_in_or_coerced():
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "default": 3}, "s": {"type": "string"}},
        "required": ["n"],
    }
    assert faults_of(schema, {}) == ['$: "n" is a required property']
    assert faults_of(schema, {"n": "3"}) == ['$.n: "3" is not of type "integer"']
    assert load_schema(schema).judge({"n": 1}).value == {"n": 1}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": ["string", "null"]}, 1, '$: 1 is not of types "null", "string"'),
        ({"enum": ["a", "b"]}, "c", '$: "c" is not one of "a", "b"'),
        (
            {"enum": [*range(20)]},
            99,
            "$: 99 is not one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 8",
        ),
        ({"const": 5}, 6, "$: 5 was expected"),
        ({"minimum": 3}, 2, "$: 2 is less than the minimum of 3"),
        ({"multipleOf": 3}, 10**30, f"$: {10**30} is not a multiple of 3"),
        ({"maxLength": 2}, "abc", '$: "abc" is longer than 2 characters'),
        ({"pattern": r"^\d+$"}, "x", r'$: "x" does not match "^\d+$"'),
        ({"minItems": 2}, [1], "$: [1] has less than 2 items"),
        ({"uniqueItems": True}, [1, 1.0], "$: [1,1.0] has non-unique elements"),
        ({"not": {"type": "string"}}, "x", '$: {"type":"string"} is not allowed for "x"'),
        ({"contains": {"const": 1}}, [2], "$: the items that fit `contains` must be at least 1"),
        (
            {"contains": {"const": 1}, "minContains": 2, "maxContains": 3},
            [1, 2],
            "$: the items that fit `contains` must be at least 2",
        ),
        (
            {"contains": {"const": 1}, "maxContains": 1},
            [1, 1],
            "$: the items that fit `contains` must be at most 1",
        ),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, '$: the property name "ab" is longer'),
        ({"patternProperties": {"^n": {"type": "integer"}}}, {"n1": "x"}, '$.n1: "x" is not of ty'),
        ({"patternProperties": {"^n": False}}, {"n1": "x"}, '$.n1: "x" is not allowed here'),
        ({"additionalProperties": {"type": "null"}}, {"a b": 1}, '$["a b"]: 1 is not of type "nul'),
        ({"additionalProperties": False}, {"a": 1}, "$: a property is not allowed here"),
        (
            {"dependentRequired": {"a": ["b"], "c": ["b"]}},
            {"a": 1},
            '$: "b" is a required property',
        ),
        ({"prefixItems": [True, {"type": "null"}]}, [1, 1], '$[1]: 1 is not of type "null"'),
        ({"if": {"minimum": 5}, "then": {"const": 9}}, 7, "$: 9 was expected"),
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3, "$: fits 2 of the 2 alternatives"),
        (
            {"unevaluatedProperties": False},
            {"a": 1},
            "$: Unevaluated properties are not allowed ('a' was",
        ),
        ({"unevaluatedItems": False}, [7], "$: Unevaluated items are not allowed ('7' was"),
        (
            {"dependentSchemas": {"a": {"required": ["b"]}}},
            {"a": 1},
            '$: "b" is a required property',
        ),
        (False, 1, "$: 1 is not allowed here"),
        (
            {"$schema": DRAFT_7, "items": [True], "additionalItems": {"type": "null"}},
            [1, 2],
            '$[1]: 2 is not of type "null"',
        ),
        (
            {"$schema": DRAFT_7, "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {"a": 1},
            '$: "b" is a required property',
        ),
    ],
)
def test_each_keyword_says_what_it_objects_to(schema: Any, value: Any, expected: str):
    first, *others = faults_of(schema, value)
    assert first.startswith(expected)
    assert not others


def test_a_fault_inside_an_optional_object_is_named_where_it_is():
    point = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    schema = {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}], "$defs": {"P": point}}
    assert faults_of(schema, {"x": "1"}) == ['$.x: "1" is not of type "integer"']


def test_a_fault_inside_a_tagged_alternative_is_named_where_it_is():
    def shape(tag: str, kind: str) -> dict[str, Any]:
        return {"properties": {"kind": {"const": tag}, "size": {"type": kind}}}

    schema = {"oneOf": [shape("a", "integer"), shape("b", "string")]}
    assert faults_of(schema, {"kind": "b", "size": 1}) == ['$.size: 1 is not of type "string"']
    (fault,) = faults_of(schema, {"kind": "c"})
    assert fault == (
        '$: fits none of the 2 alternatives: $.kind: "a" was expected; $.kind: "b" was expected'
    )


def test_format_is_an_annotation_not_an_assertion():
    assert faults_of({"type": "string", "format": "email"}, "nobody") == []
    assert faults_of({"$schema": DRAFT_7, "format": "email"}, "nobody") == []


def test_the_content_of_a_text_is_asserted_in_draft_7_alone():
    schema = {"contentMediaType": "application/json"}
    assert faults_of(schema, "{") == []
    assert faults_of({"$schema": DRAFT_7, **schema}, "{") == [
        '$: "{" is not compliant with "application/json" media type'
    ]


# --- wrapping ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": ["object"]},
        {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}},
        {
            "allOf": [{"minProperties": 1}, {"$ref": "#/$defs/A"}],
            "$defs": {"A": {"type": "object"}},
        },
        {"$schema": DRAFT_7, "$ref": "#/definitions/A", "definitions": {"A": {"type": "object"}}},
    ],
)
def test_a_root_that_leads_to_an_object_is_offered_as_it_is(schema: dict[str, Any]):
    loaded = load_schema(schema)
    assert not loaded.is_wrapped
    assert loaded.parameters["type"] in ("object", ["object"])
    lowered = json.loads(json.dumps(schema).replace("OBJECT", "object").replace("STRING", "string"))
    assert loaded.parameters == {"type": "object"} | lowered
    assert loaded.judge({"a": "x"}).is_valid


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1], ["x"]),
        ({"type": "string"}, "x", 1),
        ({"type": ["object", "null"]}, None, 1),
        ({"properties": {"a": {"type": "null"}}}, 5, {"a": 1}),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, {}, 1),
        ({"enum": [1, 2]}, 1, 3),
        ({"$schema": DRAFT_7, "$ref": "#/definitions/A", "definitions": {"A": {}}}, 1, None),
        ({"$schema": DRAFT_7, "$ref": "#/$defs/A", "$defs": {"A": {}}, "type": "object"}, 1, None),
        (True, 1, None),
        ({}, {"a": 1}, None),
    ],
)
def test_any_other_root_is_offered_as_a_result_and_unwrapped(schema: Any, good: Any, bad: Any):
    loaded = load_schema(schema)
    assert loaded.is_wrapped
    assert loaded.parameters["type"] == "object"
    assert loaded.parameters["required"] == ["result"]
    verdict = loaded.judge({"result": good})
    assert verdict.is_valid and verdict.value == good
    if bad is not None:
        assert not loaded.judge({"result": bad}).is_valid


@pytest.mark.parametrize("arguments", [{}, {"value": [1]}, [1], None, "x"])
def test_a_missing_result_is_a_fault_that_says_so(arguments: Any):
    verdict = load_schema({"type": "array"}).judge(arguments)
    assert 'must be {"result": …} and nothing else' in verdict.faults[0].message
    assert verdict.value == arguments


def test_what_stands_beside_the_result_is_refused_not_dropped():
    verdict = load_schema({"type": "array"}).judge({"result": [], "note": "done"})
    assert '"note"' in verdict.faults[0].message


TREE = {"type": ["array", "integer"], "items": {"$ref": "#"}}


@pytest.mark.parametrize(
    "schema",
    [
        TREE,
        {**TREE, "$defs": {"result": {"type": "null"}}},
        {**TREE, "$id": "https://example.org/tree"},
        {**TREE, "$anchor": "tree", "items": {"$ref": "#tree"}},
        {**TREE, "$dynamicAnchor": "tree", "items": {"$dynamicRef": "#tree"}},
        {**TREE, "$schema": DRAFT_7},
        {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]},
        {
            "$ref": "#/$defs/a~1b%25",
            "$defs": {"a/b%": {"type": ["array", "integer"], "items": {"$ref": "#/$defs/a~1b%25"}}},
        },
        {
            "$schema": DRAFT_7,
            "$ref": "#/definitions/N",
            "definitions": {
                "N": {"type": ["array", "integer"], "items": {"$ref": "#/definitions/N"}}
            },
        },
        {
            "$id": "https://example.org/root",
            "$ref": "node",
            "$defs": {
                "N": {"$id": "node", "type": ["array", "integer"], "items": {"$ref": "/node"}}
            },
        },
        {
            "type": ["array", "integer"],
            "items": {"$ref": "#/parts/node"},
            "parts": {"node": {"type": ["ARRAY", "INTEGER"], "items": {"$ref": "#/parts/node"}}},
        },
    ],
)
def test_references_still_resolve_in_what_the_model_sees(schema: dict[str, Any]):
    loaded = load_schema(schema)
    seen = jsonschema_rs.validator_for(loaded.parameters, offline=True)
    for value, is_good in ((nested(4), True), (nested(4, "x"), False), ("x", False)):
        assert loaded.judge({"result": value}).is_valid is is_good
        assert seen.is_valid({"result": value}) is is_good
    assert faults_of(schema, [1, [[True]]])[-1].startswith("$[1][0][0]: ")


# --- normalising ---------------------------------------------------------------------------------


def test_upper_case_types_are_lowered_where_type_is_a_keyword_and_only_there():
    schema = {
        "type": "OBJECT",
        "properties": {
            "type": {"type": "STRING", "enum": ["STRING", "OBJECT"], "default": {"type": "NULL"}},
            "any": {"anyOf": [{"type": ["Integer", "NULL"]}]},
            "fixed": {"const": {"type": "ARRAY"}, "examples": [{"type": "ARRAY"}]},
        },
        "$defs": {"A": {"type": "BOOLEAN"}},
    }
    before = json.dumps(schema)
    loaded = load_schema(schema).parameters
    assert json.dumps(schema) == before
    assert loaded["type"] == "object"
    assert loaded["properties"]["type"] == {
        "type": "string",
        "enum": ["STRING", "OBJECT"],
        "default": {"type": "NULL"},
    }
    assert loaded["properties"]["any"] == {"anyOf": [{"type": ["integer", "null"]}]}
    assert loaded["properties"]["fixed"] == schema["properties"]["fixed"]
    assert loaded["$defs"]["A"] == {"type": "boolean"}


def test_draft_7_is_used_when_the_schema_says_so():
    tuple_of_one = {"items": [{"type": "null"}]}
    assert not report(load_schema({"$schema": DRAFT_7, **tuple_of_one}), [1]).is_valid
    with pytest.raises(SchemaError, match=r"\$\.items"):
        load_schema(tuple_of_one)


# --- refused before a child starts ---------------------------------------------------------------


def wide(levels: int, keyword: str, below: str | None = None) -> dict[str, Any]:
    """A schema of few words in which each level refers twice to the next."""

    def twice(level: int) -> list[Any]:
        reference = {"$ref": f"#/$defs/l{level}"}
        return [{below: reference} if below else reference] * 2

    defs: dict[str, Any] = {f"l{i}": {keyword: twice(i + 1)} for i in range(levels)}
    defs[f"l{levels}"] = {"type": "string"}
    return {"$ref": "#/$defs/l0", "$defs": defs}


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (None, "an object, true or false"),
        ([], "an object, true or false"),
        ("{}", "an object, true or false"),
        ({"type": "strng"}, r'\$\.type: "strng" is not a type; use array'),
        ({"properties": {"a": {"minimum": "x"}}}, r"\$\.properties\.a\.minimum"),
        ({"properties": {"a": {"pattern": "(("}}}, r"\$\.properties\.a\.pattern: .*\(\("),
        ({"patternProperties": {"[": True}}, r"\$\.patternProperties.*\["),
        ({"pattern": "(a{1000}){1000}"}, "can't be compiled"),
        ({"$ref": "http://example.org/x"}, "leads outside the schema"),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "leads outside the schema"),
        ({"items": {"$ref": "file:///etc/passwd"}}, r"\$\.items\.\$ref: 'file:///etc/passwd'"),
        ({"$defs": {"unused": {"$ref": "other.json"}}}, "leads outside the schema"),
        ({"$ref": "//["}, "is not a URI|leads outside"),
        ({"$ref": "#/$defs/none"}, "nothing in the schema is at '#/\\$defs/none'"),
        ({"$ref": "#none"}, "nothing in the schema is at '#none'"),
        ({"$dynamicRef": "http://example.org/x"}, "leads outside the schema"),
        ({"enum": [{"type": "X"}], "items": {"$ref": "#/enum/0"}}, "nothing in the schema"),
        ({"$id": "http://example.org/a", "$ref": "b"}, "leads outside the schema"),
        ({"$defs": {"A": {"$id": "x"}, "B": {"$id": "x"}}}, "'x' is named twice"),
        ({"$defs": {"A": {"$anchor": "x"}, "B": {"$dynamicAnchor": "x"}}}, "'#x' is named twice"),
        ({"$schema": "https://json-schema.org/draft/2019-09/schema"}, "2020-12"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "not a supported draft"),
        ({"$schema": 7}, "not a supported draft"),
        ({"title": "\ud800"}, "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
        ({"const": float("nan")}, "not finite"),
        ({"maximum": float("inf")}, "not finite"),
        ({"const": {1, 2}}, "a Python set"),
        ({"const": b"x"}, "a Python bytes"),
        ({1: 2}, "key that is not a string"),
        ({"const": CYCLE}, "nested more than 64"),
        ({"const": nested(100)}, "nested more than 64"),
        ({"const": nested(100_000)}, "nested more than 64"),
        ({"const": 10**5000}, "4,300 digits"),
        ({"enum": list(range(10_001))}, "more than 10,000 values"),
        ({"description": "x" * 300_000}, "262,144"),
        ({"properties": {str(i): {"pattern": f"a{i}"} for i in range(200)}}, "200 different pat"),
        ({"$ref": "#"}, "leads back to itself"),
        ({"allOf": [{"$ref": "#"}]}, "leads back to itself"),
        ({"anyOf": [{"$ref": "#"}, {"type": "string"}]}, "leads back to itself"),
        ({"not": {"$ref": "#"}}, "leads back to itself"),
        ({"$dynamicAnchor": "x", "$dynamicRef": "#x"}, "leads back to itself"),
        (
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            },
            "leads back to itself",
        ),
        (wide(30, "allOf"), "references multiply"),
        (wide(30, "anyOf"), "references multiply"),
        (wide(30, "oneOf", below="items"), "references multiply"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_the_reason(schema: Any, said: str):
    with pytest.raises(SchemaError, match=said) as caught:
        load_schema(schema)
    assert len(str(caught.value)) < 700


def test_ordinary_sharing_of_definitions_is_not_taken_for_an_explosion():
    defs: dict[str, Any] = {
        f"l{i}": {"properties": {key: {"$ref": f"#/$defs/l{i + 1}"} for key in "abcde"}}
        for i in range(30)
    }
    defs["l30"] = {"type": "string"}
    schema = {"type": "object", "$ref": "#/$defs/l0", "$defs": defs}
    assert load_schema(schema).judge({"a": {"b": {}}}).is_valid


def test_long_chains_of_references_neither_crash_nor_hang():
    defs: dict[str, Any] = {f"l{i}": {"$ref": f"#/$defs/l{i + 1}"} for i in range(2_000)}
    defs["l2000"] = {"type": "string"}
    assert faults_of({"$ref": "#/$defs/l0", "$defs": defs}, 1)
    assert not faults_of({"$ref": "#/$defs/l0", "$defs": defs}, "x")


# --- values that are out to harm -----------------------------------------------------------------


def test_no_schema_or_value_can_crash_or_hang_the_process():
    # In a process of its own: what fails here is the interpreter, not an assertion.
    code = """
from outrider.schemas.arguments import read_arguments
from outrider.schemas.output_schema import load_schema, SchemaError
deep = 1
for _ in range(100_000):
    deep = [deep]
tree = {"$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}
for schema in (True, tree, {"type": "string"}, {"items": {"$ref": "#"}}):
    (fault,) = load_schema(schema).faults(deep)
    assert "128 levels" in fault.message, fault
fault = read_arguments("[" * 100_000).fault
assert "128 levels" in fault.message, fault
try:
    load_schema({"$ref": "#"})
except SchemaError:
    print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


@pytest.mark.parametrize(
    "value", [[float("nan")], [{"a": float("inf")}], ["\ud800"], {"\ud800": 1}]
)
def test_what_is_not_json_is_a_fault_whatever_the_schema(value: Any):
    (fault,) = load_schema(True).faults(value)
    assert "can't be used" in fault.message


BLOW_UPS = [r"^(a+)+$", r"^(?=a)(a|aa)+\1$", r"^(a|a?)+(?<=z)$"]


@pytest.mark.parametrize("pattern", BLOW_UPS)
@pytest.mark.parametrize("text", ["a" * 60 + "b", "a" * 5_000_000 + "b"], ids=["short", "5 MB"])
def test_a_pattern_that_blows_up_elsewhere_is_judged(pattern: str, text: str):
    (fault,) = load_schema({"pattern": pattern}).faults(text)
    assert pattern in fault.message


@pytest.mark.parametrize("around", ["not", "if", "oneOf"])
def test_a_pattern_that_was_cut_off_is_never_taken_for_no_match(around: str):
    part = {"pattern": BLOW_UPS[1]}
    schema = {
        "not": {"not": part},
        "if": {"if": part, "then": False},
        "oneOf": {"oneOf": [part, True]},
    }[around]
    assert load_schema(schema).faults("a" * 60 + "b")


LONG = 1_200_000
"""So many short items make up 5 MB of JSON or more."""


@pytest.mark.parametrize(
    ("schema", "value", "faults"),
    [
        ({"items": {"type": "integer"}}, [1234] * LONG, 0),
        ({"items": {"type": "integer"}}, [1234] * LONG + ["x"], 2),
        ({"items": {"type": "integer"}}, ["x"] * LONG, 2),
        ({"maxLength": 5}, "x" * 5_000_000, 1),
        (FINDINGS, {"findings": [{"line": "1", "file": "x" * 60}] * 60_000}, 2),
    ],
)
def test_five_megabytes_are_judged_and_few_faults_told(schema: Any, value: Any, faults: int):
    found = load_schema(schema).faults(value)
    assert len(found) == faults
    assert all(len(str(fault)) < 700 for fault in found)


def test_faults_past_the_twentieth_are_counted():
    schema = {"items": {"type": "integer"}}
    assert len(faults_of(schema, ["x"] * 20)) == 20
    found = faults_of(schema, ["x"] * 57)
    assert len(found) == 21
    assert found[-1] == "$: and 37 more faults"


def test_the_same_fault_is_named_once_however_often_the_schema_says_it():
    schema = {"allOf": [{"$ref": "#/$defs/A"}] * 2, "$defs": {"A": {"type": "string"}}}
    assert faults_of(schema, 1) == ['$: 1 is not of type "string"']


def test_a_fault_never_echoes_a_large_value():
    big = "x" * 5_000_000
    schema = {"properties": {"a": {"const": big[:1000]}}, "additionalProperties": False}
    for value in ({"a": big}, {big: 1}, {"a": [big]}, {"a": {big: big}}, {"a": 10**4000}):
        for fault in load_schema(schema).faults(value):
            assert len(fault.message) <= 300
            assert len(fault.path) <= 300


def test_recursive_alternatives_do_not_multiply_the_search_for_faults():
    def binary(operator: str) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/E"}, "operator": {"const": operator}},
            "required": ["operator", "left"],
        }

    choices = [*(binary(operator) for operator in "+-*/%"), {"type": "integer"}]
    schema = {"$ref": "#/$defs/E", "$defs": {"E": {"anyOf": choices}}}
    value: Any = "x"
    for _ in range(30):
        value = {"operator": "*", "left": value}
    (fault,) = load_schema(schema).faults(value)
    assert fault.path == "$" + ".left" * 30
    assert '"x" is not of type "object"; "x" is not of type "integer"' in fault.message


def test_integers_beyond_64_bits_are_judged_exactly():
    limit = 10**30
    assert faults_of({"maximum": limit}, limit) == []
    assert faults_of({"maximum": limit}, limit + 1)
    assert faults_of({"const": 2**53}, 2**53 + 1)
    assert faults_of({"type": "integer"}, 1e300) == []
    assert faults_of({"type": "integer"}, 0.5)


def test_wide_integers_under_unique_items_cannot_stall_the_judge():
    many = [10**4000 + i for i in range(2_000)]
    (fault,) = load_schema({"uniqueItems": True}).faults(many)
    assert "beyond 64 bits" in fault.message
    assert load_schema({"uniqueItems": True}).faults([10**30, 10**30 + 1]) == []


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ('{"a": 1,}', "trailing comma at line 1, column"),
        ('{"a": [1, 2,\n ]}', "trailing comma at line"),
        ('```json\n{"a": 1}\n```', "code fence"),
        ('{"a": [1, 2', "end too early, at line 1, column 12"),
        ('{"a":', "end too early"),
        ('{"a": "cut off he', "end inside the string that begins at line 1, column 7"),
        ('{"a": 1} Done!', "at line 1, column 10, before 'Done!'"),
        ("{'a': 1}", "at line 1, column 2"),
        ("Here is the report", "not JSON"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": 1e999}', "not finite"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' is given twice"),
        ('{"a": "\\ud800"}', "lone surrogate"),
        ("9" * 5_000, "4300 digits"),
    ],
)
def test_arguments_that_are_not_json_are_named_and_never_mended(raw: str, said: str):
    read = read_arguments(raw)
    assert read.value is None and read.shown == raw
    assert read.fault is not None and read.fault.path == "$"
    assert said in read.fault.message
    assert len(read.fault.message) <= 300


def test_a_fault_in_five_megabytes_of_arguments_stays_short():
    fault = read_arguments('{"a": "' + "x" * 5_000_000 + '" b').fault
    assert fault is not None and len(fault.message) < 300


def test_arguments_are_read_exactly():
    raw = '{"n": 123456789012345678901234567890, "f": 0.1, "s": "\\ud83d\\ude00", "z": null}'
    read = read_arguments(raw)
    assert read.fault is None
    assert read.value == {"n": 123456789012345678901234567890, "f": 0.1, "s": "😀", "z": None}
    assert read_arguments({"a": [1]}).value == {"a": [1]}


@pytest.mark.parametrize("raw", [None, "", "  \n", "{}", {}])
def test_empty_arguments_are_an_empty_object(raw: Any):
    read = read_arguments(raw)
    assert read.fault is None and read.value == {} and read.shown == {}


def test_arguments_that_come_as_objects_are_held_to_json_too():
    for bad in ({"a": {1, 2}}, {"a": float("nan")}, {"a": nested(1_000)}, {1: 2}):
        read = read_arguments(bad)  # type: ignore[arg-type]
        assert read.value is None and read.fault is not None
