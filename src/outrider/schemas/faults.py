"""Says where a value departs from its schema, by path and in bounded time.

The validator's own errors say what is wrong. It makes all of them at once, each with a copy of the
value it is about, and multiplies them below alternatives. So of a large value only the first is
told, and alternatives are looked into here, one level at a time.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, cast

from .bounds import ADDRESS, compiled_schema
from .document import Document, fragment
from .values import JSON, Fault, Keys, as_json_list, at, path_text, shortened, survey

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

MAX_FAULTS = 20
MAX_COUNTED = 1_000
MAX_ERRORS = 30_000
CPU_SECONDS = 0.5


@dataclass
class _NoChoiceError(Exception):
    """A value that fits none of the alternatives, or too many."""

    pointer: Keys
    count: int
    fitting: int
    value: JSON


class FaultFinder:
    """Finds what is wrong with one value that doesn't fit a schema."""

    def __init__(self, document: Document, applications: int) -> None:
        import jsonschema_rs

        self._document = document
        draft = jsonschema_rs.Draft7 if document.draft == 7 else jsonschema_rs.Draft202012
        self._registry = jsonschema_rs.Registry([(ADDRESS, document.root)], draft=draft)
        self._validators: dict[tuple[Keys, bool], Validator] = {}
        self._room = MAX_ERRORS // (applications + survey(document.root).values // 20)
        if any("propertyNames" in schema for schema in document.objects()):
            self._room = min(self._room, 500)  # an error for each name, with a copy of them all
        self._deadline = time.thread_time() + CPU_SECONDS

    def find(self, value: JSON) -> list[Fault]:
        """Return the faults of `value`, at least one, and a last one that counts the rest."""
        is_all = survey(value).values <= self._room
        found: dict[Fault, None] = {}
        try:
            errors = self._errors((), value) if is_all else self._first_error(value)
            explained = chain.from_iterable(self._explained(error, ()) for error in errors)
            for keys, message in islice(explained, MAX_COUNTED):
                found[Fault(path_text(keys), shortened(message))] = None
        except Exception:  # out of time, or not to be explained: the verdict stands all the same
            is_all = False
        faults = list(found)[:MAX_FAULTS] or [Fault("$", "the value does not fit the schema")]
        if (more := len(found) - MAX_FAULTS) > 0:
            least = "" if is_all and len(found) < MAX_COUNTED else "at least "
            faults.append(Fault("$", f"and {least}{more:,} more faults"))
        elif not is_all:
            faults.append(Fault("$", "and maybe more: not all of the value was searched"))
        return faults

    def _first_error(self, value: JSON) -> Iterator["ValidationError"]:
        from jsonschema_rs import ValidationError

        try:
            self._validator((), opaque=True).validate(value)
        except ValidationError as error:
            yield error

    def _errors(self, pointer: Keys, value: JSON) -> list["ValidationError"]:
        return list(self._validator(pointer, opaque=True).iter_errors(value))

    def _validator(self, pointer: Keys, *, opaque: bool) -> "Validator":
        """Return a validator for a part of the schema; `opaque` ones don't look into choices."""
        if time.thread_time() > self._deadline:
            raise TimeoutError
        if (pointer, opaque) not in self._validators:
            part = {"$ref": ADDRESS + fragment(pointer)}
            choices = dict.fromkeys(("anyOf", "oneOf"), self._choices()) if opaque else None
            made = compiled_schema(self._document, part, registry=self._registry, keywords=choices)
            self._validators[pointer, opaque] = made
        return self._validators[pointer, opaque]

    def _choices(self) -> type:
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
        given, wanted = cast("JSON", error.instance), at(self._document.root, path)
        match error.kind.name:
            case "anyOf" | "oneOf":
                yield from self._choice(error.__cause__, keys)
            case "enum":
                yield keys, f"{as_json_list(given)} is not one of {as_json_list(*told)}"
            case "additionalProperties":
                known = at(self._document.root, path[:-1]).get("properties", ())
                allowed = as_json_list(*known) or "none"
                refusal = f"this property is not allowed; allowed: {allowed}"
                yield from (((*keys, name), refusal) for name in told)
            case "falseSchema":
                is_property = path[-1:] == ["additionalProperties"]
                what = "a property" if is_property else as_json_list(given)
                yield keys, f"{what} is not allowed here"
            case "contains":
                number = wanted if isinstance(wanted, int) else 1
                bound = "at most" if path[-1] == "maxContains" else "at least"
                yield keys, f"the items that fit `contains` must be {bound} {number}"
            case "propertyNames":
                yield keys, f"the property name {error.message}"
            case "pattern" if told != wanted:
                yield keys, f"{as_json_list(given)} takes too long to match the pattern {wanted}"
            case _:
                yield keys, error.message

    def _choice(self, choice: BaseException | None, keys: Keys) -> Iterator[tuple[Keys, str]]:
        """Yield what is wrong inside the one alternative that was meant, where that shows."""
        if not isinstance(choice, _NoChoiceError):
            raise TimeoutError
        if choice.fitting:
            yield keys, f"fits {choice.fitting} of the {choice.count} alternatives, not just one"
            return
        if survey(choice.value).values > self._room:
            yield keys, f"fits none of the {choice.count} alternatives"
            return
        pointers = [(*choice.pointer, index) for index in range(choice.count)]
        branches = [self._errors(pointer, choice.value) for pointer in pointers]
        meant = [errors for errors in branches if max(map(_strangeness, errors)) < 2]
        if len(meant) > 1:
            meant = [errors for errors in meant if max(map(_strangeness, errors)) < 1]
        if not meant:
            reasons: dict[str, None] = {}
            for errors in branches:
                below, message = next(self._explained(max(errors, key=_strangeness), ()))
                where = f"{path_text(below)}: " if below else ""
                reasons[where + shortened(message, 100)] = None
            yield keys, f"fits none of the {choice.count} alternatives: {'; '.join(reasons)}"
            return
        nearest = min(meant, key=len)
        if len(meant) > 1:
            number = branches.index(nearest) + 1
            yield keys, f"fits none of the alternatives; nearest is number {number}, but:"
        for error in nearest:
            yield from self._explained(error, keys)


def _strangeness(error: "ValidationError") -> int:
    """Return 2 where a value is of another type than the schema's, 1 where maybe its tag is."""
    kind, depth = error.kind.name, len(error.instance_path)
    if depth == 0 and kind in ("type", "const", "enum", "falseSchema"):
        return 2
    return 1 if depth == 1 and kind in ("const", "enum") else 0
