"""A JSON Schema turned into functions, because ten thousand documents are checked at a time.

It knows the keywords that our schemas use and refuses any other, and decides what ``jsonschema`` decides
(``tests/test_evidence_schema.py`` holds both against the same damaged documents) in a thirtieth of the time. It
says yes or no only: the words for a document that is refused come from ``jsonschema``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Check = Callable[[Any], bool]

#: Words that describe and do not restrict.
SILENT: Final = frozenset({"$schema", "$id", "$defs", "title", "description"})


def compile_schema(schema: Mapping[str, Any]) -> Check:
    """Return the function that says whether a value follows a schema.

    Raises:
        ValueError: the schema uses a keyword that is not known here.
    """
    return _Compiler(schema).check(schema)


class _Compiler:
    """Turns a schema's parts into functions; what is referred to several times is made once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._made: dict[str, Check] = {}

    def check(self, schema: Mapping[str, Any]) -> Check:
        """Return the function for one schema: everything in it must hold."""
        if schema.get("additionalProperties", False) is not False:
            msg = "a schema with other additionalProperties than false cannot be compiled"
            raise ValueError(msg)
        checks = [
            self._one(word, value, schema)
            for word, value in schema.items()
            if word not in SILENT and word not in {"then", "else", "additionalProperties"}
        ]
        if len(checks) == 1:
            return checks[0]
        return lambda value: all(check(value) for check in checks)

    def _one(self, word: str, value: Any, schema: Mapping[str, Any]) -> Check:  # noqa: ANN401 - any keyword's value
        """Return the function for one keyword."""
        if word in PLAIN:
            return PLAIN[word](value)
        if word == "$ref":
            return self._reference(value)
        if word == "properties":
            return self._properties(value, closed=schema.get("additionalProperties") is False)
        if word == "items":
            each = self.check(value)
            return lambda found: not isinstance(found, list) or all(map(each, found))
        if word in {"allOf", "oneOf"}:
            return _several(word, [self.check(part) for part in value])
        if word == "not":
            inner = self.check(value)
            return lambda found: not inner(found)
        if word == "if":
            return self._condition(value, schema)
        msg = f"a schema with {word!r} cannot be compiled"
        raise ValueError(msg)

    def _reference(self, name: str) -> Check:
        """Return the function for another part of the same schema."""
        if name not in self._made:
            part: Any = self._root
            for step in name.removeprefix("#/").split("/"):
                part = part[step]
            self._made[name] = self.check(part)
        return self._made[name]

    def _properties(self, parts: Mapping[str, Any], *, closed: bool) -> Check:
        """Return the function for an object's known keys; ``closed`` allows no other."""
        checks = {name: self.check(part) for name, part in parts.items()}

        def holds(found: Any) -> bool:  # noqa: ANN401 - JSON of any shape
            if not isinstance(found, dict):
                return True
            for name, value in found.items():
                check = checks.get(name)
                if not (check(value) if check is not None else not closed):
                    return False
            return True

        return holds

    def _condition(self, test: Mapping[str, Any], schema: Mapping[str, Any]) -> Check:
        """Return the function for ``if``, ``then`` and ``else``."""
        asks = self.check(test)
        then, otherwise = (self.check(schema.get(word, {})) for word in ("then", "else"))
        return lambda found: then(found) if asks(found) else otherwise(found)


def _several(word: str, checks: list[Check]) -> Check:
    if word == "allOf":
        return lambda found: all(check(found) for check in checks)
    return lambda found: sum(check(found) for check in checks) == 1


def _type(name: str | list[str]) -> Check:
    """A truth value is no number, and 1.0 is a whole one: JSON does not tell 1.0 from 1."""
    if isinstance(name, list):
        several = [_type(each) for each in name]
        return lambda v: any(check(v) for check in several)
    types: dict[str, tuple[type, ...]] = {
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
        return lambda v: isinstance(v, kind) and not isinstance(v, bool) and v == v // 1
    if name == "number":
        return lambda v: isinstance(v, kind) and not isinstance(v, bool)
    return lambda v: isinstance(v, kind)


def _is(wanted: object) -> Check:
    return lambda v: v == wanted and isinstance(v, bool) == isinstance(wanted, bool)


def _one_of(wanted: list[object]) -> Check:
    checks = [_is(each) for each in wanted]
    return lambda v: any(check(v) for check in checks)


def _pattern(text: str) -> Check:
    search = re.compile(text).search
    return lambda v: not isinstance(v, str) or search(v) is not None


def _length(kind: type, fits: Callable[[int], bool]) -> Check:
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
