"""Guarantees that a value fits a JSON Schema: nothing is filled in, guessed or relaxed.

Draft 2020-12, or 7 when `$schema` says so. `format` is an annotation: it tells the model what is
wanted and is not asserted. Nor are `contentMediaType` and `contentEncoding`, but in draft 7.
"""

from typing import TYPE_CHECKING, Any

from outrider.protocol.data import frozen

from .bounds import bounded_applications, compiled_schema
from .document import TYPES, Document, SchemaError, read_document
from .faults import FaultFinder
from .offer import RESULT, is_object_root, offered, sent
from .values import JSON, Fault, Survey, as_json_list, is_object, path_text, shortened, survey

if TYPE_CHECKING:
    from jsonschema_rs import Validator

__all__ = ["CompiledSchema", "Fault", "JudgedReport", "SchemaError", "load_schema"]

MAX_WORK = 100_000_000  # schemas applied to values in a judgement: some seconds at worst
MAX_WIDE_WORDS = 1_000
"""How long integers beyond 64 bits may be under `uniqueItems`: they are compared each with each."""


@frozen
class JudgedReport:
    """What a model reported, unwrapped where it came wrapped, and all that is wrong with it."""

    value: JSON
    faults: tuple[Fault, ...] = ()

    @property
    def is_valid(self) -> bool:
        return not self.faults


class CompiledSchema:
    def __init__(self, document: Document) -> None:
        """Compile what was read of a schema; raises `SchemaError`."""
        self._document = document
        self._applications = bounded_applications(document)
        self._wants_unique = any(part.get("uniqueItems") for part in document.objects())
        self._validator = _validator(document)
        self.is_wrapped = not is_object_root(document)  # whether the model reports `{"result": …}`

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the tool that the model reports with: an object's schema, always."""
        return offered(self._document)

    @property
    def wire_parameters(self) -> dict[str, Any]:
        """The same, without what providers refuse at the root."""
        return sent(self._document)

    def judge(self, arguments: JSON, size: Survey | None = None) -> JudgedReport:
        """Return the report in `arguments`, with its faults by the caller's schema."""
        if not self.is_wrapped:
            return JudgedReport(arguments, tuple(self.faults(arguments, size)))
        if not is_object(arguments) or arguments.keys() != {RESULT}:
            hint = f'the arguments must be {{"{RESULT}": …}} and nothing else'
            return JudgedReport(arguments, (Fault("$", f"{hint}, not {as_json_list(arguments)}"),))
        return JudgedReport(arguments[RESULT], tuple(self.faults(arguments[RESULT], size)))

    def faults(self, value: JSON, size: Survey | None = None) -> list[Fault]:
        """Return what is wrong with a value: 20 faults at most, and a count of the rest."""
        # `size` is its survey where it has one, or that of a larger value around it.
        size = size or survey(value)
        excess = size.flaw
        if size.values * self._applications > MAX_WORK:
            excess = f"{size.values:,} values are too many for a schema this complex; report fewer"
        elif self._wants_unique and size.wide_words > MAX_WIDE_WORDS:
            excess = "it has too many integers beyond 64 bits for a schema with `uniqueItems`"
        if excess:
            return [Fault("$", f"the value can't be used: {excess}")]
        if self._validator.is_valid(value):
            return []
        return FaultFinder(self._document, self._applications).find(value)


def load_schema(schema: object) -> CompiledSchema:
    """Return a caller's schema, ready to judge values; raises `SchemaError`."""
    return CompiledSchema(read_document(schema))


def _validator(document: Document) -> "Validator":
    from jsonschema_rs import ValidationError

    try:
        return compiled_schema(document)
    except ValidationError as error:
        why = f"the schema is not valid: {shortened(error.message)}"
        if error.instance_path[-1:] == ["type"]:
            why = f"{as_json_list(error.instance)} is not a type; use {', '.join(TYPES)}"
        elif error.kind.name == "format":
            why = f"the pattern {as_json_list(error.instance)} can't be compiled: it is malformed, "
            why += "larger than 2 MiB, or uses what ECMA 262 doesn't have; simplify it"
        raise SchemaError(f"{path_text(error.instance_path)}: {why}") from None
    except ValueError as error:
        raise SchemaError(f"the schema can't be used: {shortened(str(error))}") from None
