"""Guarantees that a report fits the caller's JSON Schema: nothing is filled in, guessed or relaxed.

Draft 2020-12, or 7 when `$schema` says so. `format` is an annotation: it tells the model what is
wanted and is not asserted. Nor are `contentMediaType` and `contentEncoding`, but in draft 7.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from outrider.schemas.bounds import bounded_applications
from outrider.schemas.document import (
    TYPES,
    Document,
    SchemaError,
    place,
    read_document,
)
from outrider.schemas.faults import ADDRESS, FaultFinder, Judge
from outrider.schemas.offer import RESULT, is_object_root, offered, plain
from outrider.schemas.values import (
    JSON,
    MAX_REPORT_DEPTH,
    MAX_REPORT_VALUES,
    Fault,
    cut,
    names,
    parse_arguments,
    show,
    survey,
)

if TYPE_CHECKING:
    from jsonschema_rs import FancyRegexOptions, ValidationError, Validator

__all__ = [
    "Fault",
    "OutputSchema",
    "SchemaError",
    "Verdict",
    "load_schema",
    "parse_arguments",
]

MAX_WORK = 100_000_000
"""How often schemas may be applied to values in one verdict: some seconds at the very worst."""

MAX_WIDE_WORK = 2_000_000
"""The same for integers beyond 64 bits under `uniqueItems`: they are compared each with each."""

_BACKTRACK_LIMIT = 10_000
_PATTERN_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a model reported, and all that is wrong with it."""

    value: JSON
    faults: tuple[Fault, ...]

    @property
    def is_valid(self) -> bool:
        return not self.faults


@dataclass(frozen=True, slots=True)
class _Examined:
    document: Document
    applications: int
    wants_unique: bool
    judge: Judge


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """A schema that a report can be held to. `wrapped`: the model reports `{"result": …}`."""

    schema: JSON
    wrapped: bool
    _examined: _Examined = field(repr=False, compare=False)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the tool that the model reports with: an object's schema, always."""
        return offered(self._examined.document)

    def judge(self, arguments: JSON) -> Verdict:
        """Return the report in `arguments`, unwrapped, and its faults by the caller's schema."""
        if not self.wrapped:
            return Verdict(arguments, tuple(self.faults(arguments)))
        if not isinstance(arguments, dict) or RESULT not in arguments:
            instead = cut(show(arguments), 200)
            hint = f'the arguments have no "{RESULT}": give {{"{RESULT}": …}}, not {instead}'
            return Verdict(None, (Fault("$", hint),))
        given = cast("dict[str, Any]", arguments)
        value = given[RESULT]
        if others := [key for key in given if key != RESULT]:
            hint = (
                f'nothing but "{RESULT}" is allowed in the arguments; also given: {names(others)}'
            )
            return Verdict(value, (Fault("$", cut(hint)),))
        return Verdict(value, tuple(self.faults(value)))

    def faults(self, value: JSON) -> list[Fault]:
        """Return what is wrong with an unwrapped value: 20 faults, and a count of the rest."""
        if excess := self._excess(value):
            return [Fault("$", f"the report can't be used: {excess}")]
        if self._examined.judge.is_valid(value):
            return []
        document = self._examined.document
        return FaultFinder(document, _part_compiler(document)).find(value)

    def _excess(self, value: JSON) -> str | None:
        """Return why the value can't be judged at all, if it can't."""
        seen = survey(value, MAX_REPORT_DEPTH, MAX_REPORT_VALUES)
        if seen.flaw:
            return seen.flaw
        if seen.values * self._examined.applications > MAX_WORK:
            return f"{seen.values:,} values are too many for a schema this intricate; report fewer"
        if self._examined.wants_unique and seen.wide_integers * seen.wide_words > MAX_WIDE_WORK:
            return "it has too many integers beyond 64 bits for a schema with `uniqueItems`"
        return None


def load_schema(schema: object) -> OutputSchema:
    """Return a caller's schema, ready to judge reports; raises `SchemaError`.

    Types in upper case are taken as if they were in lower case; nothing else is changed.
    """
    document = read_document(schema)
    applications = bounded_applications(document)
    wants_unique = any(part.get("uniqueItems") is True for _, part in document.objects())
    examined = _Examined(document, applications, wants_unique, _compiled(document))
    return OutputSchema(document.root, not is_object_root(document), examined)


def _compiled(document: Document) -> Judge:
    import jsonschema_rs

    try:
        return _validator(document)(
            document.root, offline=True, validate_formats=False, pattern_options=_pattern_options()
        )
    except jsonschema_rs.ValidationError as error:
        raise SchemaError(_why_invalid(error)) from None
    except ValueError as error:
        raise SchemaError(f"the schema can't be used: {cut(str(error))}") from None


def _part_compiler(document: Document) -> Callable[[dict[str, Any]], Judge]:
    import jsonschema_rs

    number = jsonschema_rs.Draft7 if document.draft == "7" else jsonschema_rs.Draft202012
    registry = jsonschema_rs.Registry([(ADDRESS, plain(document))], draft=number)
    validator = _validator(document)
    return lambda part: validator(
        part,
        registry=registry,
        offline=True,
        validate_formats=False,
        pattern_options=_pattern_options(),
    )


def _validator(document: Document) -> type["Validator"]:
    import jsonschema_rs

    if document.draft == "7":
        return jsonschema_rs.Draft7Validator
    return jsonschema_rs.Draft202012Validator


def _pattern_options() -> "FancyRegexOptions":
    """Patterns run in linear time, but for look-around and back-references: these are cut off.

    A pattern that was cut off fails the whole verdict, under `not` too.
    """
    from jsonschema_rs import FancyRegexOptions

    return FancyRegexOptions(
        backtrack_limit=_BACKTRACK_LIMIT, size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES
    )


def _why_invalid(error: "ValidationError") -> str:
    where = place(tuple(map(str, error.instance_path)))
    given = error.instance
    if error.instance_path and error.instance_path[-1] == "type" and isinstance(given, str):
        return f"{where}: {show(given)} is not a type; use {', '.join(sorted(TYPES))}"
    if error.kind.name == "format" and isinstance(given, str):
        return (
            f"{where}: the pattern {cut(given, 120)!r} can't be compiled: it is malformed, larger "
            "than 2 MiB, or uses what ECMA 262 doesn't have; simplify it"
        )
    return cut(f"{where}: the schema is not valid: {error.message}")
