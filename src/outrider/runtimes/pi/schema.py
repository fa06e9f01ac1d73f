"""An output schema in words, for pi has no `report_back`; the answer is judged as a report is."""

import re
from dataclasses import replace
from typing import Any

from outrider.protocol.events import TaskFinishEvent
from outrider.protocol.outcomes import Outcome
from outrider.schemas.arguments import read_arguments
from outrider.schemas.output_schema import JudgedReport, load_schema

RULE = """\
- Your last message must be one JSON value that fits this JSON Schema and nothing else: no words \
around it and no code fence. Only that is delivered.
{schema}"""
AGAIN = """\
Your answer can't be delivered:
{faults}
Answer once more, with nothing but one JSON value that fits the schema."""
_FENCED = re.compile(r"```(?:json)?\n(.*)\n```", re.DOTALL)


def judged_answer(schema: Any, text: str) -> JudgedReport:
    """Return the report that an answer is; a code fence around all of it doesn't count."""
    fenced = _FENCED.fullmatch(text.strip())
    read = read_arguments(fenced[1] if fenced else text.strip() or "no answer")
    if read.fault is not None:
        return JudgedReport(text, (read.fault,))
    return JudgedReport(read.value, tuple(load_schema(schema).faults(read.value, read.size)))


def reported(finish: TaskFinishEvent, report: JudgedReport) -> TaskFinishEvent:
    """Return the end of a task whose answer is this report."""
    if report.is_valid:
        finish = replace(finish, outcome=Outcome.COMPLETED, error=None)
        return replace(finish, structured_output=report.value, has_structured_output=True)
    faults = tuple(fault.to_dict() for fault in report.faults)
    error = "Neither of the 2 answers fits the output schema."
    finish = replace(finish, outcome=Outcome.SCHEMA_FAILED, error=error, schema_faults=faults)
    return replace(finish, last_report=report.value, has_last_report=True)
