"""A record does everything that a frozen dataclass of the standard library does, and says the same."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from functools import cached_property
from typing import Any

import pytest

from scripts.records import dataclass


def declared(make: Callable[..., Any]) -> Any:
    """Declare the same class with either decorator."""

    @make(frozen=True, kw_only=True)
    class Sample:
        name: str
        count: int = 3
        tags: list[str] = dataclasses.field(default_factory=list)
        hidden: str = dataclasses.field(default="h", repr=False, compare=False)

        @property
        def doubled(self) -> int:
            return 2 * self.count

        @cached_property
        def slow(self) -> object:
            return object()

    return Sample


OURS, THEIRS = declared(dataclass), declared(dataclasses.dataclass)
BOTH = pytest.mark.parametrize("kind", [OURS, THEIRS], ids=["record", "dataclass"])


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Importable, and so picklable."""

    number: int
    words: tuple[str, ...] = ()


@BOTH
def test_it_holds_values_and_defaults(kind: Any) -> None:
    one = kind(name="a")
    assert (one.name, one.count, one.tags, one.hidden, one.doubled) == ("a", 3, [], "h", 6)
    assert one.tags is not kind(name="a").tags
    assert one.slow is one.slow


@BOTH
def test_it_is_equal_by_what_is_compared(kind: Any) -> None:
    assert kind(name="a") == kind(name="a", hidden="other")
    assert kind(name="a") != kind(name="b")
    assert kind(name="a") != ("a", 3, [])


@BOTH
def test_it_hashes_its_values(kind: Any) -> None:
    assert hash(kind(name="a", tags=())) == hash(kind(name="a", tags=(), hidden="other"))
    with pytest.raises(TypeError, match="unhashable"):
        hash(kind(name="a"))


@BOTH
def test_nothing_can_be_changed(kind: Any) -> None:
    one = kind(name="a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'count'"):
        one.count = 4
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'count'"):
        del one.count


@BOTH
@pytest.mark.parametrize("given", [{}, {"name": "a", "nmae": "b"}], ids=["missing", "unknown"])
def test_wrong_names_are_refused(kind: Any, given: dict[str, str]) -> None:
    with pytest.raises(TypeError, match=r"name|nmae"):
        kind(**given)


@BOTH
def test_values_without_names_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match="positional"):
        kind("a")


@BOTH
def test_the_standard_functions_take_it(kind: Any) -> None:
    one = dataclasses.replace(kind(name="a", tags=["t"]), count=9)
    assert dataclasses.asdict(one) == {"name": "a", "count": 9, "tags": ["t"], "hidden": "h"}
    assert [f.name for f in dataclasses.fields(kind)] == ["name", "count", "tags", "hidden"]
    assert copy.deepcopy(one) == one


def test_it_looks_the_same() -> None:
    assert repr(OURS(name="a")) == repr(THEIRS(name="a"))


def test_it_can_be_sent_to_another_process() -> None:
    one = Kept(number=1, words=("a",))
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - our own bytes


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"kw_only": True}], ids=str)
def test_other_classes_are_standard_dataclasses(options: dict[str, bool]) -> None:
    class Sample:
        name: str = "a"

    made = dataclass(**options)(Sample)
    assert "__init__" in vars(made)
    assert vars(made)["__init__"].__qualname__ != vars(OURS)["__init__"].__qualname__
    assert made() == made()


def test_what_a_record_would_not_heed_is_refused() -> None:
    class Checked:
        name: str

        def __post_init__(self) -> None: ...

    class Derived:
        name: str = dataclasses.field(init=False)

    for kind in (Checked, Derived):
        with pytest.raises(TypeError, match="use the standard dataclass"):
            dataclass(frozen=True, kw_only=True)(kind)
