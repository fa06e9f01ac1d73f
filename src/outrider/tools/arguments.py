"""Arguments as a model sent them: parsed, and held to the schema that was published."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from outrider.protocol.envelope import ToolCode

MAX_FAULTS = 20
MAX_FAULT_CHARACTERS = 300


class ArgumentFault(Exception):
    """Arguments that can't be used, with the code and the text that say why."""

    def __init__(self, code: ToolCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def parse_arguments(arguments: str | Mapping[str, Any]) -> Any:
    """Return the value of JSON arguments; no text at all means no arguments."""
    if not isinstance(arguments, str):
        return dict(arguments)
    if not arguments.strip():
        return {}
    try:
        return json.loads(arguments, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as fault:
        reason = "they are nested too deep" if isinstance(fault, RecursionError) else str(fault)
        shown = _clipped(repr(arguments), 120)
        raise ArgumentFault(
            ToolCode.ARGUMENTS_NOT_JSON,
            f"The arguments are not JSON: {reason}. Given: {shown}. Send one JSON object.",
        ) from None


class ArgumentChecker:
    """Holds arguments to one tool's schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        import orjson
        from jsonschema_rs import validator_for

        self._schema = schema
        self._write = orjson.dumps
        self._validator = validator_for(schema, retriever=_refuse_reference)

    def check(self, arguments: Any) -> dict[str, Any]:
        """Return arguments as the tool takes them; raise ArgumentFault that names every fault."""
        if isinstance(arguments, Mapping):
            arguments = self._without_needless_nulls(cast("Mapping[str, Any]", arguments))
        try:
            # What can't be written can't be carried either: half characters, endless numbers.
            self._write(arguments)
            faults = [_fault_line(error) for error in self._validator.iter_errors(arguments)]
        except (ValueError, TypeError, RecursionError) as fault:
            faults = [f"the arguments are not plain JSON: {_clipped(str(fault))}"]
        if faults:
            raise ArgumentFault(ToolCode.BAD_PARAMETER, _summary(faults))
        return {name: self._number(name, value) for name, value in arguments.items()}

    def _without_needless_nulls(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Drop nulls that stand for "not given", as many models send them."""
        required = self._schema.get("required", [])
        properties = self._schema.get("properties", {})
        return {
            name: value
            for name, value in arguments.items()
            if value is not None or name in required or name not in properties
        }

    def _number(self, name: str, value: Any) -> Any:
        # To JSON Schema 3.0 is an integer; to Python it isn't.
        wants_integer = self._schema.get("properties", {}).get(name, {}).get("type") == "integer"
        return int(value) if wants_integer and isinstance(value, float) else value


def _fault_line(error: Any) -> str:
    path = "".join(
        f"[{step}]" if isinstance(step, int) else f".{_clipped(step, 80)}"
        for step in cast("list[str | int]", error.instance_path)
    ).lstrip(".")
    message = _clipped(cast("str", error.message))
    return f"{path}: {message}" if path else message


def _summary(faults: list[str]) -> str:
    shown = faults[:MAX_FAULTS]
    if len(faults) > len(shown):
        shown.append(f"and {len(faults) - len(shown)} more faults")
    return "; ".join(shown)


def _clipped(text: str, most: int = MAX_FAULT_CHARACTERS) -> str:
    # The end of a message says what was expected, its middle is what was given.
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside the schema, and nothing is fetched")
