"""JSON is derived from records: nested ones too, with every key naming an attribute that exists."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
from msgspec import Struct, field

import scripts
from scripts.serialize import JsonRecord, jsonable, parse_json, pick

PACKAGE = Path(scripts.__file__).parent


class Colour(StrEnum):
    RED = "red"


class Inner(JsonRecord, frozen=True, kw_only=True):
    number: int
    exit_code: int = 3

    JSON = "n=number half"

    @property
    def half(self) -> float:
        return self.number / 2


class Outer(JsonRecord, frozen=True, kw_only=True):
    where: Path
    colour: Colour
    inner: tuple[Inner, ...] = ()
    maybe: Inner | None = None
    by_name: Mapping[str, Inner] = field(default_factory=dict)
    exit_code: int = 0


def test_without_a_list_of_keys_every_field_is_one_except_the_exit_code() -> None:
    shown = Outer(
        where=Path("a"), colour=Colour.RED, inner=(Inner(number=4),), by_name={"x": Inner(number=1)}
    )
    assert shown.to_json() == {
        "where": "a",
        "colour": "red",
        "inner": [{"n": 4, "half": 2.0}],
        "maybe": None,
        "by_name": {"x": {"n": 1, "half": 0.5}},
    }
    assert type(shown.to_json()["colour"]) is str


def test_a_path_of_attributes_ends_where_one_is_none() -> None:
    shown = Outer(where=Path("a"), colour=Colour.RED)
    assert pick(shown, "deep=maybe.number inner? where") == {"deep": None, "inner": None, "where": "a"}


def test_numbers_that_json_does_not_have_become_null() -> None:
    assert jsonable({"a": [math.nan, -math.inf, 1.5]}) == {"a": [None, None, 1.5]}


def test_what_is_not_data_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        jsonable(object())


def records() -> Iterator[type[JsonRecord]]:
    for path in PACKAGE.rglob("*.py"):
        if "(JsonRecord," in path.read_text(encoding="utf-8"):
            import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
    yield from (cls for cls in JsonRecord.__subclasses__() if cls.__module__.startswith("scripts."))


def types_of(cls: Any, name: str) -> list[Any]:
    """The types that an attribute may have, without ``None``."""
    owner = vars(cls).get(name)
    if isinstance(owner, property):
        hint = get_type_hints(owner.fget)["return"]
    else:
        hint = get_type_hints(cls, localns=vars(import_module("scripts.evidence.tracelog")))[name]
    return [each for each in (get_args(hint) or (hint,)) if each is not NoneType]


def test_every_key_of_every_record_names_an_attribute() -> None:
    seen = 0
    for cls in records():
        for word in cls.JSON.split():
            key, _, path = word.rstrip("?").partition("=")
            here: list[Any] = [cls]
            for name in (path or key).split("."):
                assert all(hasattr(each, name) for each in here), (cls, word)
                here = types_of(here[0], name) if "." in path else here
            seen += 1
    assert seen > 80


def test_a_plain_struct_is_its_fields() -> None:
    class Plain(Struct):
        a: tuple[Inner, ...]

    assert jsonable(Plain(a=(Inner(number=2),))) == {"a": [{"n": 2, "half": 1.0}]}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"a": 1, "a": 2}', "the same key twice"),
        (b'{"a": NaN}', "not a JSON number"),
        (b'["x\\u0000y"]', "NUL"),
        (b'{"a": {"b\\ud800": 1}}', "half a character"),
        (b'["\\ud83d\\ude00", "\\ude00"]', "half a character"),
        (b"[" * 100_000, "too deep"),
        (b"[" + b"9" * 400 + b"]", "too large a number"),
        (b"[" + b"9" * 5000 + b"]", "too large a number"),
        (b"[9223372036854775808]", "too large a number"),
        (b"\xff\xfe", "decode"),
        (b"", "Expecting value"),
    ],
)
def test_json_that_would_do_harm_later_is_refused_at_once(raw: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_json(raw)


def test_other_json_is_read_as_it_is() -> None:
    text = '\ufeff{"a": ["\U0001f600", "\\ud83d\\ude00", 9223372036854775807, 1.5, null, true]}'
    assert parse_json(text.encode()) == {
        "a": ["\U0001f600", "\U0001f600", 9223372036854775807, 1.5, None, True]
    }
