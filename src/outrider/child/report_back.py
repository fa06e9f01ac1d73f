"""`report_back`: how a child hands over an answer of the shape its caller asked for.

Made for one task from that task's schema, and registered nowhere: two tasks never share one.
Nothing is filled in, guessed or relaxed; a report is valid as it stands, or it isn't one.
"""

from typing import Any, ClassVar, Literal

from outrider.protocol.data import frozen
from outrider.protocol.envelope import (
    Envelope,
    ToolCode,
    build_error_response,
    build_success_response,
)
from outrider.protocol.tool_catalogue import REPORT_BACK
from outrider.schemas.arguments import CallArguments, read_arguments
from outrider.schemas.output_schema import CompiledSchema, Fault, JudgedReport, load_schema

DESCRIPTION = (
    "Hand over the final result and end the task. Call it once, when you are done; "
    "its arguments are the result, and must fit its schema."
)
REMINDER = (
    f"You answered in plain text, which can't be delivered. Call the `{REPORT_BACK}` tool now "
    "with your result as its arguments. It is the only tool you have left."
)
AS_JSON = (
    "You have no tools from here on. Answer with one JSON object that fits this schema, alone:"
)
CUT_REPORT = Fault("$", "the report was cut at the model's token limit: report less at once")
NO_REPORT = Fault("$", f"there is no report: {REPORT_BACK} was never called")


@frozen
class ToolSchema:
    """What a model sees of a tool."""

    name: str
    type: Literal["function"]
    description: str
    parameters: dict[str, Any]


@frozen
class ToolResultItem:
    """How a call of a tool ended, and what the model is told."""

    status: Literal["success", "error"]
    output: str


class ReportBackTool:
    """The tool as one task has it: a subclass for the task's schema."""

    _compiled: ClassVar[CompiledSchema]

    @classmethod
    def for_schema(cls, schema: object) -> "type[ReportBackTool]":
        """Return the tool for a caller's JSON Schema; raises `SchemaError` for an unusable one."""
        return type("ReportBackTool", (cls,), {"_compiled": load_schema(schema)})

    @classmethod
    def schema(cls) -> ToolSchema:
        """Return what the model sees, in the form that providers take."""
        return ToolSchema(REPORT_BACK, "function", DESCRIPTION, cls._compiled.wire_parameters)

    @classmethod
    async def call(cls, arguments: str) -> ToolResultItem:
        """Return whether a report fits the schema, and all that is wrong with one that doesn't."""
        report = cls.judge(read_arguments(arguments))
        envelope = accepted() if report.is_valid else rejected(report)
        return ToolResultItem("success" if report.is_valid else "error", envelope["message"])

    @classmethod
    def judge(cls, arguments: CallArguments, *, cut: bool = False) -> JudgedReport:
        """Return the report that a call makes; `cut` says the model ran into its token limit."""
        if arguments.fault is not None:
            report = JudgedReport(arguments.raw, (arguments.fault,))
        else:
            report = cls._compiled.judge(arguments.value, arguments.size)
        if report.is_valid or not cut:
            return report
        return JudgedReport(report.value, (CUT_REPORT, *report.faults))


def accepted() -> Envelope:
    """Return the answer to the report that counts."""
    return build_success_response(message="The result was reported; the task ends here.")


def ignored() -> Envelope:
    """Return the answer to a report that came after the one that counts."""
    message = "Ignored: a valid report was made already, and the first one counts."
    return build_error_response(ToolCode.CONFLICT, message)


def rejected(report: JudgedReport, attempts_left: int | None = None) -> Envelope:
    """Return the answer to an invalid report: every fault by its path, and what to do."""
    again = "Report again in the same way, with all of it put right"
    if attempts_left is not None:
        again = f"{again}; tries left: {attempts_left}"
        if attempts_left < 1:
            again = "There are no tries left: the task ends here"
    lines = ["The report doesn't fit the schema.", *map(str, report.faults), f"{again}."]
    faults = [fault.to_dict() for fault in report.faults]
    return build_error_response(ToolCode.BAD_PARAMETER, "\n".join(lines), {"faults": faults})
