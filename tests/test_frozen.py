"""`frozen` makes what `dataclass(frozen=True, slots=True)` makes, and compiles nothing for it."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from pydantic import TypeAdapter

from outrider.protocol.data import frozen

T = TypeVar("T")


def made_by(decorate: Any) -> Any:
    @decorate
    class Point:
        """Where something is."""

        kind: ClassVar[str] = "point"
        x: int
        y: int | None = None
        tags: dict[str, Any] = field(default_factory=dict[str, Any])
        note: str = field(default="", repr=False, metadata={"doc": "said of it"})

        @property
        def total(self) -> int:
            return self.x + (self.y or 0)

    return Point


def used() -> Any:
    """Return a class whose `__init__` is compiled, which it is after the first two instances."""
    made = made_by(frozen)
    for _ in range(3):
        made(1)
    return made


OURS, THEIRS = used(), made_by(dataclass(frozen=True, slots=True))
MAKERS = pytest.mark.parametrize("make", [lambda: made_by(frozen), used], ids=["new", "used"])
CALLS = [((1,), {}), ((1, 2), {}), ((), {"x": 1, "tags": {"a": 1}}), ((1, 2, {}, "n"), {})]
BAD_CALLS = [((), {}), ((1, 2, {}, "", 5), {}), ((1,), {"z": 3}), ((1,), {"x": 1}), ((), {"y": 1})]


@frozen
class Plain:
    name: str
    size: int = 0


@frozen
class Box(Generic[T]):
    content: T


@frozen
class Doubled:
    value: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", self.value * 2)


@MAKERS
@pytest.mark.parametrize("given", CALLS)
def test_an_instance_is_like_that_of_a_dataclass(given, make):
    ours, theirs = make()(*given[0], **given[1]), THEIRS(*given[0], **given[1])
    assert repr(ours) == repr(theirs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert dataclasses.astuple(replace(ours, x=5)) == dataclasses.astuple(replace(theirs, x=5))
    assert ours.total == theirs.total
    assert not hasattr(ours, "__dict__")


@MAKERS
@pytest.mark.parametrize("given", BAD_CALLS)
def test_a_bad_call_fails_with_the_same_words(given, make):
    made = make()
    with pytest.raises(TypeError) as ours:
        made(*given[0], **given[1])
    with pytest.raises(TypeError) as theirs:
        THEIRS(*given[0], **given[1])
    assert str(ours.value) == str(theirs.value)


def test_the_class_tells_the_same_of_itself():
    described = [(one.name, one.type, one.default, one.metadata) for one in fields(OURS)]
    assert described == [(one.name, one.type, one.default, one.metadata) for one in fields(THEIRS)]
    assert OURS.__match_args__ == THEIRS.__match_args__
    assert OURS.__slots__ == THEIRS.__slots__
    parameters = inspect.signature(OURS).parameters.values()
    expected = inspect.signature(THEIRS).parameters.values()
    assert [(one.name, one.annotation) for one in parameters] == [
        (one.name, one.annotation) for one in expected
    ]


def test_nothing_can_be_assigned_or_deleted():
    plain = Plain("a")
    for change in (
        lambda: setattr(plain, "name", "b"),
        lambda: setattr(plain, "other", "b"),
        lambda: delattr(plain, "name"),
    ):
        with pytest.raises(FrozenInstanceError, match="cannot"):
            change()
    assert plain == Plain("a")


def test_equals_are_equal_and_hash_alike_and_others_are_not():
    assert Plain("a") == Plain("a", 0) != Plain("a", 1)
    assert len({Plain("a"), Plain("a"), Plain("b")}) == 2
    assert Plain("a") != ("a", 0)
    with pytest.raises(TypeError, match="unhashable"):
        hash(OURS(1))


@MAKERS
def test_a_factory_makes_a_new_value_for_each(make):
    made = make()
    assert made(1).tags == {}
    assert made(1).tags is not made(1).tags


@pytest.mark.parametrize(
    "change", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_is_equal(change):
    assert change(Plain("a", 3)) == Plain("a", 3)


def test_what_a_class_does_after_its_init_is_done():
    assert [Doubled(2).value, Doubled(3).value, Doubled(4).value] == [4, 6, 8]


def test_generic_classes_and_subclasses_can_be_made():
    class Sub(Plain):
        __slots__ = ()

    assert Box[int](3) == Box(3)
    assert Sub("a").name == "a"
    assert Sub("a") != Plain("a")
    assert Plain("b").name == "b"


def test_what_a_class_defines_itself_stays():
    @frozen
    class Nothing:
        def __repr__(self) -> str:
            return "nothing"

    assert repr(Nothing()) == "nothing"


def test_a_frozen_dataclass_can_be_made_of_one():
    @dataclass(frozen=True)
    class Named(Plain):
        title: str = ""

    assert Named("a", 1, "b") == Named("a", 1, "b")
    assert TypeAdapter(Plain).validate_python({"name": "a"}) == Plain("a")


def test_nothing_is_compiled_for_the_first_two_instances():
    made = made_by(frozen)
    assert [made(1).x, made(2).x] == [1, 2]
    assert not inspect.isfunction(vars(made)["__init__"])
    assert made(3).x == 3
    assert inspect.isfunction(vars(made)["__init__"])
