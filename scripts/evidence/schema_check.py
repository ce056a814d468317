"""A JSON Schema turned into functions, because ten thousand documents are checked at a time.

It knows the keywords that our schemas use and refuses any other. It decides what ``jsonschema`` decides, in a
small part of the time (``tests/test_evidence_schema.py`` holds both against the same damaged documents), and
says yes or no only: the words about a document that is refused come from ``jsonschema``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import jsonschema

Check = Callable[[Any], bool]

#: Words that describe and do not restrict.
SILENT: Final = frozenset({"$schema", "$id", "$defs", "title", "description"})


def is_newer(data: object, known: int) -> bool:
    """Whether a document says that its format is later than the one that is known."""
    written = data.get("format") if isinstance(data, Mapping) else None
    return isinstance(written, int) and not isinstance(written, bool) and written > known


def first_fault(data: object, schema: Path) -> tuple[str, str] | None:
    """Say where something is wrong and what; ``None`` where nothing is."""
    import jsonschema  # noqa: PLC0415 - takes a tenth of a second, and good documents do without

    error = jsonschema.exceptions.best_match(_validator(schema).iter_errors(data))
    return None if error is None else (error.json_path, error.message)


@cache
def _validator(schema: Path) -> jsonschema.Draft202012Validator:
    """Load a schema once."""
    import jsonschema  # noqa: PLC0415 - as above

    return jsonschema.Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))


def compile_schema(schema: Mapping[str, Any]) -> Check:
    """Return the function that says whether a value follows a schema.

    Raises:
        ValueError: the schema uses a keyword that is not known here.
    """
    return _Compiler(schema).check(schema)


#: What restricts a text. Most of a document is texts, so these are checked in one step.
OF_TEXT: Final = SILENT | {"type", "minLength", "maxLength", "pattern", "not"}


class _Compiler:
    """Turns a schema's parts into functions; what is referred to several times is made once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._made: dict[str, Check] = {}

    def check(self, schema: Mapping[str, Any]) -> Check:
        """Return the function for one schema: everything in it must hold."""
        if schema.get("type") == "string" and schema.keys() <= OF_TEXT:
            return _text(schema)
        checks = [
            self._one(word, value, schema)
            for word, value in schema.items()
            if word not in SILENT and word not in {"then", "else", "additionalProperties"}
        ]
        if "additionalProperties" in schema:
            checks.append(_closed(schema))
        return _all(checks)

    def _one(self, word: str, value: Any, schema: Mapping[str, Any]) -> Check:  # noqa: ANN401 - any keyword's value
        """Return the function for one keyword."""
        if word in PLAIN:
            return PLAIN[word](value)
        made: dict[str, Callable[[], Check]] = {
            "$ref": lambda: self._reference(value),
            "properties": lambda: self._properties(value),
            "items": lambda: _each(self.check(value)),
            "allOf": lambda: _all([self.check(part) for part in value]),
            "oneOf": lambda: _exactly_one([self.check(part) for part in value]),
            "not": lambda: _not(self.check(value)),
            "if": lambda: self._condition(value, schema),
        }
        if word not in made:
            msg = f"a schema with {word!r} cannot be compiled"
            raise ValueError(msg)
        return made[word]()

    def _reference(self, name: str) -> Check:
        """Return the function for another part of the same schema."""
        if name not in self._made:
            part: Any = self._root
            for step in name.removeprefix("#/").split("/"):
                part = part[step]
            self._made[name] = self.check(part)
        return self._made[name]

    def _properties(self, parts: Mapping[str, Any]) -> Check:
        """Return the function for the values of an object's known keys."""
        checks = {name: self.check(part) for name, part in parts.items()}

        def hold(found: Any) -> bool:  # noqa: ANN401 - JSON of any shape
            if isinstance(found, dict):
                for name, value in found.items():
                    if name in checks and not checks[name](value):
                        return False
            return True

        return hold

    def _condition(self, test: Mapping[str, Any], schema: Mapping[str, Any]) -> Check:
        """Return the function for ``if``, ``then`` and ``else``."""
        asks = self.check(test)
        then, otherwise = (self.check(schema.get(word, {})) for word in ("then", "else"))
        return lambda found: then(found) if asks(found) else otherwise(found)


def _text(schema: Mapping[str, Any]) -> Check:
    """Hold a text against everything that restricts it."""
    least, most = schema.get("minLength", 0), schema.get("maxLength", sys.maxsize)
    wanted, never = re.compile(schema.get("pattern", "")).search, schema.get("not", {"pattern": r"(?!)"})
    if never.keys() != {"pattern"}:
        msg = "a text that must not be anything else than a pattern cannot be compiled"
        raise ValueError(msg)
    refused = re.compile(never["pattern"]).search

    def hold(found: Any) -> bool:  # noqa: ANN401 - JSON of any shape
        return (
            isinstance(found, str)
            and least <= len(found) <= most
            and refused(found) is None
            and wanted(found) is not None
        )

    return hold


def _all(checks: list[Check]) -> Check:
    """Loops are written out here: they are what the time goes into."""
    if len(checks) == 1:
        return checks[0]

    def hold(found: Any) -> bool:  # noqa: ANN401 - JSON of any shape
        for check in checks:  # noqa: SIM110 - see above
            if not check(found):
                return False
        return True

    return hold


def _exactly_one(checks: list[Check]) -> Check:
    return lambda found: sum(check(found) for check in checks) == 1


def _not(inner: Check) -> Check:
    return lambda found: not inner(found)


def _each(check: Check) -> Check:
    return lambda found: not isinstance(found, list) or all(map(check, found))


def _type(name: str | list[str]) -> Check:
    """A truth value is no number, and 1.0 is a whole one: JSON does not tell 1.0 from 1."""
    if isinstance(name, list):
        several = [_type(each) for each in name]
        return lambda v: any(check(v) for check in several)
    types: dict[str, tuple[type[Any], ...]] = {
        "object": (dict,),
        "array": (list,),
        "string": (str,),
        "boolean": (bool,),
        "null": (type(None),),
        "number": (int, float),
        "integer": (int, float),
    }
    kind = types[name]
    if name == "integer":
        return lambda v: (
            isinstance(v, kind) and not isinstance(v, bool) and (isinstance(v, int) or v.is_integer())
        )
    if name == "number":
        return lambda v: isinstance(v, kind) and not isinstance(v, bool)
    return lambda v: isinstance(v, kind)


def _closed(schema: Mapping[str, Any]) -> Check:
    if schema["additionalProperties"] is not False:
        msg = "a schema with other additionalProperties than false cannot be compiled"
        raise ValueError(msg)
    allowed = frozenset(schema.get("properties", ()))
    return lambda v: not isinstance(v, dict) or v.keys() <= allowed


def _is(wanted: object) -> Check:
    return lambda v: v == wanted and isinstance(v, bool) == isinstance(wanted, bool)


def _one_of(wanted: list[object]) -> Check:
    allowed = frozenset(wanted)
    if not all(isinstance(each, (str, type(None))) for each in wanted):
        msg = "a choice of other things than texts and null cannot be compiled"
        raise ValueError(msg)
    return lambda v: isinstance(v, (str, type(None))) and v in allowed


def _pattern(text: str) -> Check:
    search = re.compile(text).search
    return lambda v: not isinstance(v, str) or search(v) is not None


def _length(kind: type[Any], fits: Callable[[int], bool]) -> Check:
    return lambda v: not isinstance(v, kind) or fits(len(v))


def _number(fits: Callable[[float], bool]) -> Check:
    return lambda v: not isinstance(v, (int, float)) or isinstance(v, bool) or fits(v)


def _required(names: list[str]) -> Check:
    wanted = frozenset(names)
    return lambda v: not isinstance(v, dict) or wanted <= v.keys()


def _unique(wanted: bool) -> Check:  # noqa: FBT001 - a keyword's value
    """Lists of texts only, as in our schemas: whatever else is in them is refused by ``items``."""
    return lambda v: not wanted or not isinstance(v, list) or len({str(each) for each in v}) == len(v)


#: Keywords that need nothing but their own value.
PLAIN: Final[Mapping[str, Callable[[Any], Check]]] = {
    "type": _type,
    "const": _is,
    "enum": _one_of,
    "pattern": _pattern,
    "required": _required,
    "uniqueItems": _unique,
    "minLength": lambda n: _length(str, lambda size: size >= n),
    "maxLength": lambda n: _length(str, lambda size: size <= n),
    "minItems": lambda n: _length(list, lambda size: size >= n),
    "maxItems": lambda n: _length(list, lambda size: size <= n),
    "minimum": lambda n: _number(lambda value: value >= n),
    "maximum": lambda n: _number(lambda value: value <= n),
}
