"""Holds the arguments of a call to the schema that its tool published."""

from typing import Any

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.schemas.arguments import CallArguments
from outrider.schemas.output_schema import load_schema
from outrider.schemas.values import is_object


class ArgumentChecker:
    """Checks the arguments of one tool's calls."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        self._schema = load_schema(parameters)
        self._properties: dict[str, Any] = parameters.get("properties", {})
        self._required: list[str] = parameters.get("required", [])

    def check(self, arguments: CallArguments) -> dict[str, Any]:
        """Return arguments as the tool takes them; raises a ToolFault that names every fault."""
        if arguments.fault is not None:
            message = f"{arguments.fault.message}. Send one JSON object."
            raise ToolFault(ToolCode.ARGUMENTS_NOT_JSON, message)
        given = self._without_needless_nulls(arguments.value)
        faults = [str(fault) for fault in self._schema.faults(given, arguments.size)]
        if arguments.size.wide_words:
            faults.append("$: an integer doesn't fit into 64 bits")
        if faults:
            raise ToolFault(ToolCode.BAD_PARAMETER, "; ".join(faults))
        return {name: self._number(name, value) for name, value in given.items()}

    def _without_needless_nulls(self, given: Any) -> Any:
        """Drop nulls that stand for "not given", as many models send them."""
        if not is_object(given):
            return given
        optional = self._properties.keys() - self._required
        needless = {name for name in optional & given.keys() if given[name] is None}
        return {name: value for name, value in given.items() if name not in needless}

    def _number(self, name: str, value: Any) -> Any:
        # To JSON Schema 3.0 is an integer; to Python it isn't.
        wants_integer = self._properties.get(name, {}).get("type") == "integer"
        return int(value) if wants_integer and isinstance(value, float) else value
