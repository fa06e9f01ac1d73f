"""`report_back`: how a child hands over an answer of the shape its caller asked for.

Made for one task from that task's schema, and registered nowhere: two tasks never share one.
Nothing is filled in, guessed or relaxed; a report is valid as it stands, or it isn't one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_ai.tools import ToolDefinition

from outrider.child.report_wire import wire_parameters
from outrider.protocol.catalogue import REPORT_BACK
from outrider.protocol.envelope import (
    Envelope,
    ToolCode,
    build_error_response,
    build_success_response,
)
from outrider.schemas.output_schema import Fault, OutputSchema, load_schema, parse_arguments

DESCRIPTION = (
    "Hand over the final result and end the task. Call it once, when you are done; "
    "its arguments are the result, and must fit its schema."
)
REMINDER = (
    f"You answered in plain text, which can't be delivered. Call the `{REPORT_BACK}` tool now "
    "with your result as its arguments. It is the only tool you have left."
)
CUT_REPORT = Fault("$", "the report was cut at the model's token limit: report less at once")
NO_REPORT = Fault("$", f"there is no report: {REPORT_BACK} was never called")


@dataclass(frozen=True, slots=True)
class Report:
    """What one call came to: a value that fits the schema, or the faults of one that doesn't.

    `raw` is what was sent: a value, unwrapped where it was wrapped, or text that isn't JSON.
    """

    value: Any = None
    faults: tuple[Fault, ...] = ()
    raw: Any = None

    @property
    def valid(self) -> bool:
        """Whether this is the task's result."""
        return not self.faults


@dataclass(frozen=True, slots=True)
class ReportBackTool:
    """The tool as one task has it."""

    schema: OutputSchema

    @classmethod
    def for_schema(cls, schema: object) -> "ReportBackTool":
        """Return the tool for a caller's JSON Schema; raises `SchemaError` for an unusable one."""
        return cls(load_schema(schema))

    @property
    def definition(self) -> ToolDefinition:
        """What the model sees."""
        return ToolDefinition(
            name=REPORT_BACK,
            description=DESCRIPTION,
            parameters_json_schema=wire_parameters(self.schema.parameters),
            # Left open, a provider's layer would choose: it forbids all properties not listed,
            # and turns on a strict mode that then refuses schemas it can't take.
            strict=False,
        )

    def judge(self, arguments: str | Mapping[str, Any] | None, *, cut: bool) -> Report:
        """Return the verdict on one call; `cut` says the model ran into its token limit."""
        if cut and not arguments:
            return Report(faults=(CUT_REPORT,), raw="")
        # A call without arguments comes as nothing at all: that is how providers write `{}`.
        parsed, broken = parse_arguments(arguments or {})
        if broken is not None:
            faults, raw = (broken,), arguments
        else:
            verdict = self.schema.judge(parsed)
            if verdict.is_valid:
                return Report(value=verdict.value, raw=verdict.value)
            faults, raw = verdict.faults, self._unwrapped(parsed)
        return Report(faults=(CUT_REPORT, *faults) if cut else faults, raw=raw)

    def _unwrapped(self, arguments: Any) -> Any:
        """Return what faults' paths begin at: the value itself, where it came in a wrapper."""
        match arguments:
            case {"result": value, **others} if self.schema.wrapped and not others:
                return value
            case _:
                return arguments


def accepted() -> Envelope:
    """Return the answer to the report that counts."""
    return build_success_response(message="The result was reported; the task ends here.")


def ignored() -> Envelope:
    """Return the answer to a report that came after the one that counts."""
    return build_error_response(
        ToolCode.CONFLICT, "Ignored: a valid report was made already, and the first one counts."
    )


def rejected(report: Report, attempts_left: int) -> Envelope:
    """Return the answer to an invalid report: every fault by its path, and what to do."""
    faults = "\n".join(f"{fault.path}: {fault.message}" for fault in report.faults)
    again = f"Call `{REPORT_BACK}` again with all of it put right; tries left: {attempts_left}."
    if attempts_left < 1:
        again = "There are no tries left: the task ends here."
    return build_error_response(
        ToolCode.BAD_PARAMETER,
        f"The report doesn't fit the schema.\n{faults}\n{again}",
        {"faults": [fault.to_dict() for fault in report.faults]},
    )
