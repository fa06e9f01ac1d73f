"""What is said of a value that a JSON Schema keyword objects to."""

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from outrider.schemas.values import JSON, cut, names, show

CERTAIN = frozenset({"required", "dependentRequired", "dependencies"})
"""The keywords whose complaints, where there are any, need no verdict to be true."""

Complaint: TypeAlias = Callable[[Any, Any], list[str]]


def complaint(keyword: str, wanted: JSON, value: JSON) -> list[str]:
    """Return what a keyword would say if it failed; nothing for one that holds schemas."""
    words = _WORDS.get(keyword)
    return words(wanted, value) if words else []


def undecided(wanted: JSON, value: JSON) -> str:
    """Return what is said of a text that a pattern would take too long to match."""
    return f"{show(value)} takes too long to match with the pattern {cut(str(wanted), 120)}"


def _of_type(wanted: JSON, value: JSON) -> list[str]:
    kinds = cast("list[str]", wanted if isinstance(wanted, list) else [wanted])
    return [f"{show(value)} is not {' or '.join(map(_with_article, kinds))}"]


def _with_article(kind: str) -> str:
    if kind == "null":
        return kind
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"


def _one_of(wanted: JSON, value: JSON) -> list[str]:
    options = cast("list[Any]", wanted)
    shown = ", ".join(show(option) for option in options[:12])
    more = f" and {len(options) - 12} more" if len(options) > 12 else ""
    return [f"{show(value)} is not one of {shown}{more}"]


def _required(wanted: JSON, value: JSON) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [f"{cut(name, 80)!r} is missing" for name in wanted if name not in value]


def _dependent(wanted: JSON, value: JSON) -> list[str]:
    if not isinstance(value, dict):
        return []
    needs = cast("dict[str, Any]", wanted).items()
    given = cast("dict[str, Any]", value)
    return [
        f"{cut(key, 80)!r} is given, but without {names(missing)}"
        for key, others in needs
        if key in given and isinstance(others, list)
        if (missing := [name for name in cast("list[str]", others) if name not in given])
    ]


def _pattern(wanted: JSON, value: JSON) -> list[str]:
    return [f"{show(value)} does not match the pattern {cut(str(wanted), 120)}"]


def _size(value: JSON) -> int:
    return len(cast("str", value)) if isinstance(value, str | list | dict) else 0


def _says(template: str) -> Complaint:
    return lambda wanted, value: [
        template.format(
            value=show(value),
            wanted=show(wanted),
            size=_size(value),
        )
    ]


_WORDS: dict[str, Complaint] = {
    "type": _of_type,
    "enum": _one_of,
    "required": _required,
    "dependentRequired": _dependent,
    "dependencies": _dependent,
    "const": _says("{value} is not {wanted}"),
    "multipleOf": _says("{value} is not a multiple of {wanted}"),
    "maximum": _says("{value} is greater than {wanted}"),
    "exclusiveMaximum": _says("{value} is not less than {wanted}"),
    "minimum": _says("{value} is less than {wanted}"),
    "exclusiveMinimum": _says("{value} is not greater than {wanted}"),
    "maxLength": _says("{value} has {size} characters, more than {wanted}"),
    "minLength": _says("{value} has {size} characters, fewer than {wanted}"),
    "pattern": _pattern,
    "contentMediaType": _says("{value} is not of the media type {wanted}"),
    "contentEncoding": _says("{value} is not in the encoding {wanted}"),
    "maxItems": _says("{size} items are more than {wanted}"),
    "minItems": _says("{size} items are fewer than {wanted}"),
    "uniqueItems": _says("two of the {size} items are the same"),
    "maxProperties": _says("{size} properties are more than {wanted}"),
    "minProperties": _says("{size} properties are fewer than {wanted}"),
}
