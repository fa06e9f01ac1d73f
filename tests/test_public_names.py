"""All that a host needs comes from `outrider`, with the fields and defaults that are promised."""

import ast
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider import (
    REPORT_BACK,
    SUBAGENT_ERROR_CODES,
    ErrorCode,
    ReportBackTool,
    SubAgentProfile,
    SubAgentResult,
    SubAgentState,
    TaskFinishEvent,
    TurnResult,
)
from outrider.tools import ResultFormatter, build_error_response, build_success_response

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def fields(cls: Any, count: int) -> list[tuple[str, object]]:
    """Return the first fields of a dataclass with their defaults; `...` where there is none."""
    missing = dataclasses.MISSING
    named = dataclasses.fields(cls)[:count]
    return [(one.name, ... if one.default is missing else one.default) for one in named]


def test_the_request_has_its_fields_in_order() -> None:
    assert fields(SubAgentState, 4) == [
        ("sub_agent_type", ...),
        ("sub_agent_desc", ...),
        ("sub_agent_prompt", ...),
        ("output_schema", None),
    ]


def test_the_result_has_its_fields_in_order() -> None:
    assert fields(SubAgentResult, 5) == [
        ("task_result", ...),
        ("session_id", ...),
        ("error", False),
        ("task_metadata", None),
        ("structured_output", None),
    ]


def test_the_finish_event_and_the_turn_have_no_result_by_default() -> None:
    names = [name for name, _ in fields(TaskFinishEvent, 3)]
    assert names == ["session_id", "task_result", "structured_output"]
    assert TaskFinishEvent("1", "text").structured_output is None
    assert TurnResult().report_back_result is None and not TurnResult().has_report_back
    assert dict(fields(SubAgentProfile, 9))["output_schema_arg"] is None


def test_all_error_codes_can_be_imported() -> None:
    assert list(SUBAGENT_ERROR_CODES) == [code.value for code in ErrorCode]


async def test_report_back_is_a_tool_class_for_each_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    made = ReportBackTool.for_schema(schema)
    assert issubclass(made, ReportBackTool) and made is not ReportBackTool
    offered = made.schema()
    assert (offered.name, offered.type, offered.parameters) == (REPORT_BACK, "function", schema)
    assert (await made.call(json.dumps({"n": 3}))).status == "success"
    refused = await made.call(json.dumps({"n": "three"}))
    assert refused.status == "error" and "$.n" in refused.output


def test_a_formatter_makes_text_of_any_envelope() -> None:
    formatter = ResultFormatter()
    assert formatter.long("x", {}, build_success_response("Fine.")) == "Fine."
    assert "1003" in formatter.long("x", {}, build_error_response(1003, "There is none."))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_example_imports_from_below_the_public_names(page: Path) -> None:
    for code in PYTHON.findall(page.read_text()):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("outrider"):
                assert node.module in ("outrider", "outrider.tools", "outrider.testing")
                if node.module == "outrider":
                    assert {one.name for one in node.names} <= set(outrider.__all__)
