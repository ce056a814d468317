"""From records to plain data: one way for every document and every ``--json``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import attrgetter
from pathlib import PurePath
from typing import Any, ClassVar

import msgspec
from msgspec import Struct


class JsonRecord(Struct, frozen=True, kw_only=True):
    """A record whose JSON is derived from its attributes.

    ``JSON`` names the keys, in order, separated by blanks. ``key`` is the attribute of that name, ``key=a.b``
    attribute ``b`` of ``a`` (null where ``a`` is ``None``). A question mark at the end turns what is empty
    into null. Without ``JSON`` every field is a key, except ``exit_code``.
    """

    JSON: ClassVar[str] = ""

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return pick(self, self.JSON or " ".join(n for n in self.__struct_fields__ if n != "exit_code"))


def pick(record: object, keys: str) -> dict[str, object]:
    """Return some of a record's attributes as plain data; ``keys`` as in ``JsonRecord.JSON``."""
    return dict(_item(record, word) for word in keys.split())


def _item(record: object, word: str) -> tuple[str, object]:
    key, _, path = word.rstrip("?").partition("=")
    value: object = record
    for name in (path or key).split("."):
        value = None if value is None else attrgetter(name)(value)
    return key, jsonable(value) if value or not word.endswith("?") else None


def jsonable(value: object) -> Any:  # noqa: ANN401 - plain data of any shape
    """Return plain data; records that derive their JSON do so wherever they stand in it.

    A number that is not finite becomes null, as JSON has none.
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(key): jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(each) for each in value]
    if isinstance(value, Struct):
        return {name: jsonable(getattr(value, name)) for name in value.__struct_fields__}
    return None if isinstance(value, float) and not math.isfinite(value) else plain(value)


def plain(value: object) -> Any:  # noqa: ANN401 - plain data of any shape
    """Return dictionaries, lists, strings and numbers; enumerations by value, paths as strings.

    Raises:
        NotImplementedError: something in it is not data.
    """
    return msgspec.to_builtins(value, enc_hook=_path)


def _path(value: object) -> str:
    if isinstance(value, PurePath):
        return str(value)
    msg = f"no plain data: {type(value).__name__}"
    raise NotImplementedError(msg)
