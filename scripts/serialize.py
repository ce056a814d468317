"""Records and plain data: one way for every document and every ``--json``, out and in."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePath
from typing import Any, ClassVar, Final, NoReturn

import msgspec
from msgspec import Struct

#: The tables that come with the workspace.
DATA: Final = Path(__file__).resolve().parent / "data"
#: Whole numbers in a file are sizes, counts and times: none needs more bits.
MAX_NUMBER: Final = 2**63
#: Levels of a key in a TOML file from elsewhere: tomllib needs quadratic time for deeply dotted keys.
MOST_DEPTH: Final = 32
_STRINGS: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')


@cache
def data_table(name: str) -> dict[str, Any]:
    """Read one of the TOML files in ``data``, once."""
    import tomllib  # noqa: PLC0415 - some runs read no table

    return tomllib.loads((DATA / name).read_text(encoding="utf-8"))


def deep_line(text: str) -> int:
    """Return the first line of a TOML text with a key that is nested too deeply; 0 where there is none."""
    for number, row in enumerate(text.split("\n"), start=1):
        if row.count(".") > MOST_DEPTH and _STRINGS.sub("", row).partition("#")[0].count(".") > MOST_DEPTH:
            return number
    return 0


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
        value = None if value is None else getattr(value, name)
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
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {key: jsonable(getattr(value, name)) for name, key in names}
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


def parse_json(raw: bytes) -> Any:  # noqa: ANN401 - plain data of any shape
    """Read a JSON file that anyone may have made: UTF-8, each key once, text that can be shown and be a path.

    Raises:
        ValueError: it is something else; the message says what, in one clause.
    """
    try:
        data = json.loads(
            raw.decode("utf-8-sig"),
            object_pairs_hook=_unique_keys,
            parse_constant=_no_constant,
            parse_int=_whole_number,
        )
        # Neither can stand in UTF-8 as it is: only an escape brings them in.
        texts = texts_in(data) if b"\\u" in raw else ()
        strange = next((text for text in texts if "\0" in text or not _encodes(text)), None)
    except RecursionError:
        msg = "it is too deep"
        raise ValueError(msg) from None
    if strange is not None:
        msg = f"the text {ascii(strange)[:80]} holds a NUL or half a character"
        raise ValueError(msg)
    return data


def texts_in(data: object) -> Iterator[str]:
    """Yield every text in JSON data, keys too."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from texts_in(value)
    elif isinstance(data, list):
        for value in data:
            yield from texts_in(value)


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        msg = "one object has the same key twice"
        raise ValueError(msg)
    return found


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is not a JSON number"
    raise ValueError(msg)


def _whole_number(digits: str) -> int:
    if len(digits) > 20 or not -MAX_NUMBER <= int(digits) < MAX_NUMBER:  # noqa: PLR2004 - 2**63 has 19 digits
        msg = f"{digits[:20]} is too large a number"
        raise ValueError(msg)
    return int(digits)
