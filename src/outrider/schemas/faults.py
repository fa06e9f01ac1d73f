"""Says where a value departs from its schema, by path and in bounded time.

The validator's own errors say what is wrong. It makes all of them at once, each with a copy of the
value it is about, and multiplies them below alternatives. So of a large value it gets no more than
it can handle, and alternatives are looked into here, one level at a time.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from outrider.schemas.bounds import compiled
from outrider.schemas.document import Document, fragment
from outrider.schemas.values import (
    JSON,
    Fault,
    Keys,
    at,
    cut,
    is_array,
    is_object,
    listed,
    path_text,
)

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

    Errors: TypeAlias = list[ValidationError]

MAX_FAULTS = 20
MAX_COUNTED = 1_000
MAX_ERRORS = 50_000
MAX_APPLICATIONS = 5_000
"""Where more schemas meet, the errors at one place of a value are already too many."""
CPU_SECONDS = 0.5


@dataclass
class _NoChoiceError(Exception):
    """A value that fits none of the alternatives, or too many."""

    pointer: Keys
    count: int
    fitting: int
    value: JSON


class _OutOfTimeError(Exception):
    pass


class FaultFinder:
    """Finds what is wrong with one value that doesn't fit a schema."""

    def __init__(self, document: Document, applications: int) -> None:
        self._document = document
        lists = (part for schema in document.objects() for part in schema.values())
        longest = max((len(part) for part in lists if is_array(part)), default=0)
        room = MAX_ERRORS // (applications + longest // 10)
        self._room = room if applications <= MAX_APPLICATIONS else 0
        self._validators: dict[tuple[Keys, bool], Validator] = {}
        self._deadline = time.thread_time() + CPU_SECONDS

    def find(self, value: JSON) -> list[Fault]:
        """Return the faults of `value`, at least one, and a last one that counts the rest."""
        found: dict[Fault, None] = {}
        part, cut_at = _first_values(value, self._room)
        is_all = cut_at is None
        try:
            for keys, message in islice(self._search(part, cut_at), MAX_COUNTED):
                found[Fault(path_text(keys), cut(message))] = None
            if not found:
                found[self._first(value)] = None
        except (_OutOfTimeError, RecursionError):
            is_all = False
        faults = list(found)[:MAX_FAULTS] or [Fault("$", "the value does not fit the schema")]
        more = len(found) - len(faults)
        if more > 0:
            least = "" if is_all and len(found) < MAX_COUNTED else "at least "
            faults.append(Fault("$", f"and {least}{more:,} more faults"))
        elif not is_all:
            faults.append(Fault("$", "and maybe more: not all of the value was searched"))
        return faults

    def _search(self, part: JSON, cut_at: Keys | None) -> Iterator[tuple[Keys, str]]:
        for error in self._errors((), part) if self._room else ():
            # What is wrong above the cut may be wrong only because of it.
            path = tuple(error.instance_path)
            if cut_at is None or path != cut_at[: len(path)]:
                yield from self._explained(error, ())

    def _first(self, value: JSON) -> Fault:
        from jsonschema_rs import ValidationError

        try:
            self._validator((), opaque=True).validate(value)
        except ValidationError as error:
            words = "fits none of the alternatives"
            if error.__cause__ is None:
                words = next(self._explained(error, ()))[1]
            return Fault(path_text(error.instance_path), cut(words))
        return Fault("$", "the value does not fit the schema")

    def _errors(self, pointer: Keys, value: JSON) -> "Errors":
        return list(self._validator(pointer, opaque=True).iter_errors(value))

    def _validator(self, pointer: Keys, *, opaque: bool) -> "Validator":
        """Return a validator for a part of the schema; `opaque` ones don't look into choices."""
        if time.thread_time() > self._deadline:
            raise _OutOfTimeError
        key = (pointer, opaque)
        if key not in self._validators:
            choice = self._choice_class() if opaque else None
            keywords = {"anyOf": choice, "oneOf": choice} if choice else None
            self._validators[key] = compiled(self._document, fragment(pointer), keywords)
        return self._validators[key]

    def _choice_class(self) -> type:
        validator = self._validator

        class Choice:
            """Stands in for the validator's own `anyOf` and `oneOf`, and says no more than no."""

            def __init__(self, _: object, value: list[Any], path: list[str | int]) -> None:
                self._path, self._count = tuple(path), len(value)

            def validate(self, value: JSON) -> None:
                branches = [validator((*self._path, i), opaque=False) for i in range(self._count)]
                fitting = sum(branch.is_valid(value) for branch in branches)
                if not fitting or (fitting > 1 and self._path[-1] == "oneOf"):
                    raise _NoChoiceError(self._path, self._count, fitting, value)

        return Choice

    def _explained(self, error: "ValidationError", above: Keys) -> Iterator[tuple[Keys, str]]:
        """Yield what an error says, by path, in more words where the validator has too few."""
        keys = (*above, *error.instance_path)
        path, told = error.schema_path, error.kind.value
        given: JSON = error.instance
        wanted = at(self._document.root, path)
        match error.kind.name:
            case "anyOf" | "oneOf":
                yield from self._choice(error.__cause__, keys)
            case "enum":
                yield keys, f"{listed([given])} is not one of {listed(told)}"
            case "additionalProperties" | "unevaluatedProperties":
                allowed = at(self._document.root, path[:-1]).get("properties", ())
                for name in told:
                    words = f"this property is not allowed; allowed: {listed(allowed) or 'none'}"
                    yield (*keys, name), words
            case "falseSchema":
                what = "a property" if path[-1:] == ["additionalProperties"] else listed([given])
                yield keys, f"{what} is not allowed here"
            case "contains":
                number = wanted if isinstance(wanted, int) else 1
                bound = "at most" if path[-1] == "maxContains" else "at least"
                yield keys, f"the items that fit `contains` must be {bound} {number}"
            case "propertyNames":
                yield keys, f"the property name {error.message}"
            case "required" if is_object(wanted):
                causes = [name for name, needs in wanted.items() if name in given and told in needs]
                yield keys, f"{error.message} where {listed(causes)} is given"
            case "pattern" if told != wanted:
                yield keys, f"{listed([given])} takes too long to match with the pattern {wanted}"
            case _:
                yield keys, error.message

    def _choice(self, choice: BaseException | None, keys: Keys) -> Iterator[tuple[Keys, str]]:
        """Yield what is wrong inside the one alternative that was meant, where that shows."""
        if not isinstance(choice, _NoChoiceError):
            raise _OutOfTimeError
        if choice.fitting:
            yield keys, f"fits {choice.fitting} of the {choice.count} alternatives, not just one"
            return
        pointers = [(*choice.pointer, index) for index in range(choice.count)]
        branches = [self._errors(pointer, choice.value) for pointer in pointers]
        meant = [errors for errors in branches if not any(map(_is_of_other_type, errors))]
        if len(meant) > 1:
            meant = [errors for errors in meant if not any(map(_has_other_tag, errors))]
        if not meant:
            reasons = "; ".join(dict.fromkeys(map(self._reason, branches)))
            yield keys, f"fits none of the {choice.count} alternatives: {reasons}"
            return
        nearest = min(meant, key=len)
        if len(meant) > 1:
            number = branches.index(nearest) + 1
            yield keys, f"fits none of the alternatives; nearest is number {number}, but:"
        for error in nearest:
            yield from self._explained(error, keys)

    def _reason(self, errors: "Errors") -> str:
        telling = (error for error in errors if _is_of_other_type(error) or _has_other_tag(error))
        keys, message = next(self._explained(next(telling, errors[0]), ()))
        return f"{path_text(keys)}: {cut(message, 100)}" if keys else cut(message, 100)


def _is_of_other_type(error: "ValidationError") -> bool:
    kinds = ("type", "const", "enum", "falseSchema")
    return not error.instance_path and error.kind.name in kinds


def _has_other_tag(error: "ValidationError") -> bool:
    return len(error.instance_path) == 1 and error.kind.name in ("const", "enum")


def _first_values(value: JSON, room: int) -> tuple[JSON, Keys | None]:
    """Return so many values of a value, and the path to where it was cut, if it was."""
    cut_at: list[Keys] = []

    def part(value: JSON, keys: Keys) -> JSON:
        nonlocal room
        room -= 1
        if is_array(value):
            entries: Iterable[tuple[str | int, JSON]] = enumerate(value)
        elif is_object(value):
            entries = value.items()
        else:
            return value
        kept: dict[str | int, JSON] = {}
        for key, item in entries:
            if room <= 0:
                cut_at.append(keys)
                break
            kept[key] = part(item, (*keys, key))
        return list(kept.values()) if is_array(value) else kept

    return part(value, ()), next(iter(cut_at), None)
