"""Python types as output schemas: a pydantic model, a dataclass, or any type pydantic knows."""

from typing import Any


def schema_of(output_type: Any) -> Any:
    """Return the JSON Schema of a type."""
    from pydantic import TypeAdapter

    return TypeAdapter(output_type).json_schema()


def value_of(output_type: Any, value: Any) -> Any:
    """Return a reported value as the type; raises `ValueError` where the type refuses it."""
    from pydantic import TypeAdapter

    return TypeAdapter(output_type).validate_python(value)
