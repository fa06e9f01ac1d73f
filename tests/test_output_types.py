"""Python types as output: what `delegate` returns is a value of the type, or nothing at all."""

import enum
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict

from outrider import DelegationError, ErrorCode, delegate
from outrider.protocol.outcomes import Outcome
from outrider.runtimes.native.fork_client import hosted_fork_server
from outrider.testing import ScriptedModel, answer, tool_call


class Finding(BaseModel):
    file: str
    line: int = Field(ge=1)


class Findings(BaseModel):
    findings: list[Finding]
    note: str = ""


class Node(BaseModel):
    name: str
    children: list["Node"] = []


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Exact(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date
    pair: tuple[int, str]
    colour: Colour
    found: float = Field(alias="wasFound")


@dataclass
class Place:
    file: str
    line: int


class Entry(TypedDict, total=False):
    name: str


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def check(cls, n: int) -> int:
        if n % 2:
            raise ValueError("odd")
        return n


TYPES: dict[str, tuple[Any, Any, Any]] = {
    "a model": (
        Findings,
        {"findings": [{"file": "a.py", "line": 3}]},
        Findings(findings=[Finding(file="a.py", line=3)]),
    ),
    "a recursive model": (
        Node,
        {"name": "a", "children": [{"name": "b"}]},
        Node(name="a", children=[Node(name="b")]),
    ),
    "a strict model": (
        Exact,
        {"day": "2024-02-29", "pair": [1, "x"], "colour": "red", "wasFound": 1},
        Exact(day=date(2024, 2, 29), pair=(1, "x"), colour=Colour.RED, wasFound=1.0),
    ),
    "a dataclass": (Place, {"file": "a.py", "line": 3}, Place("a.py", 3)),
    "a typed dict": (Entry, {"name": "x"}, {"name": "x"}),
    "a list": (list[int], {"result": [1, 2**70]}, [1, 2**70]),
    "a dict": (dict[str, list[Place]], {"x": [{"file": "a", "line": 1}]}, {"x": [Place("a", 1)]}),
    "an integer": (int, {"result": 3}, 3),
    "a text": (str, {"result": ""}, ""),
    "a flag": (bool, {"result": False}, False),
    "a literal": (Literal["yes", "no"], {"result": "no"}, "no"),
    "an optional": (int | None, {"result": None}, None),
    "a union": (Place | int, {"result": {"file": "a", "line": 1}}, Place("a", 1)),
    "an annotated type": (Annotated[int, Field(gt=2)], {"result": 3}, 3),
    "nothing": (type(None), {"result": None}, None),
}


@pytest.fixture
async def reporting(world: Path) -> "Iterator[Callable[[Any], ScriptedModel]]":
    """A model whose only words are the reports it is given."""
    os.environ["OUTRIDER_SUBAGENTS__REPORT_BACK_ATTEMPTS"] = "2"
    assert await hosted_fork_server("lean").ready()
    reports: list[Any] = []
    with ScriptedModel(lambda request: tool_call("report_back", reports[request.turn])) as server:
        os.environ.update(server.environment)
        os.environ["OUTRIDER_MODEL"] = server.model

        def report(*given: Any) -> ScriptedModel:
            reports.extend(given)
            return server

        yield report


@pytest.mark.parametrize("name", TYPES)
async def test_the_output_is_a_value_of_the_type(reporting: Any, name: str) -> None:
    output_type, report, value = TYPES[name]
    reporting(report)
    done = await delegate("explorer", "Go.", output_type=output_type)
    assert done.output == value
    assert type(done.output) is type(value)
    assert done.run_id and done.usage.turns == 1


async def test_without_a_type_the_output_is_text(world: Path) -> None:
    with ScriptedModel([answer("In a.py.")]) as server:
        os.environ.update(server.environment)
        done = await delegate("explorer", "Go.", model=server.model)
    assert done.output == "In a.py."


async def test_a_report_that_never_fits_the_type_raises(reporting: Any) -> None:
    server = reporting(
        {"findings": [{"file": "a.py", "line": 0}]}, {"findings": [{"file": "a.py", "line": "x"}]}
    )
    with pytest.raises(DelegationError) as caught:
        await delegate("explorer", "Go.", output_type=Findings)
    assert caught.value.code is ErrorCode.SUBAGENT_OUTPUT_INVALID
    run = caught.value.result.result
    assert run is not None and run.outcome is Outcome.SCHEMA_FAILED
    [fault] = run.schema_faults or ()
    assert fault == {"path": "$.findings[0].line", "message": '"x" is not of type "integer"'}
    assert len(server.requests) == 2


async def test_what_a_schema_cannot_say_the_type_still_refuses(reporting: Any) -> None:
    reporting({"n": 3})
    with pytest.raises(DelegationError, match="odd") as caught:
        await delegate("explorer", "Go.", output_type=Even)
    assert caught.value.code is ErrorCode.SUBAGENT_OUTPUT_INVALID
    run = caught.value.result.result
    assert run is not None and run.structured_output == {"n": 3}


@pytest.mark.parametrize("output_type", [Callable[[], int], 5, "Missing"])
async def test_a_type_without_a_schema_is_refused_before_any_child(
    reporting: Any, output_type: Any
) -> None:
    server = reporting()
    with pytest.raises(DelegationError, match="output_type") as caught:
        await delegate("explorer", "Go.", output_type=output_type)
    assert caught.value.code is ErrorCode.INVALID_INPUT
    assert not caught.value.result.details.results
    assert not server.requests
