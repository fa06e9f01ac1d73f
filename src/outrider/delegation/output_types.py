"""Python types as output schemas: a pydantic model, a dataclass, or any type pydantic knows."""

from typing import Any

from outrider.delegation.request import invalid
from outrider.protocol import jsonl


def schema_of(output_type: Any) -> Any:
    """Return the JSON Schema of a type; raises `Refusal` for one that has none."""
    from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(output_type).json_schema()
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        reason = error.message.split("\n", 1)[0]
        raise invalid(f"output_type {output_type!r} has no JSON Schema: {reason}") from error


def value_of(output_type: Any, value: Any) -> Any:
    """Return a reported value as the type; raises `ValueError` where the type refuses it."""
    from pydantic import TypeAdapter

    # Read as JSON, which it was: a tuple, a date or an enum then counts even in strict models.
    return TypeAdapter(output_type).validate_json(jsonl.encode(value))
