"""One value of a lock and where it stands; every refusal names file, line and dotted key."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from scripts.errors import LockError
from scripts.pins.toml_lines import Key, dotted, line_of, locate
from scripts.records import dataclass

E = TypeVar("E", bound=StrEnum)

SEE: Final = "docs/pins.md describes the format."

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Source:
    """A document's name and text. Its lines are looked up only when something is refused."""

    def __init__(self, file: str, text: str) -> None:
        """Keep the file's name as the person knows it, and what tomllib has read."""
        self.file = file
        self.text = text

    @functools.cached_property
    def lines(self) -> Mapping[Key, int]:
        """Where every key begins."""
        return locate(self.text)

    def line(self, key: Key) -> int:
        """Return the line of a key, or of what is around it."""
        return line_of(self.lines, key)


@dataclass(frozen=True, kw_only=True)
class Node:
    """One value of the document, and where it stands.

    Attributes:
        source: the document.
        key: the way to this value.
        value: what tomllib read.
        owner: the ``id`` of the artifact or stack around it, for messages.
    """

    source: Source
    key: Key
    value: object
    owner: str = ""

    def refusal(self, message: str, reference: str, hint: str, *, at: Key | None = None) -> LockError:
        """Make the error that names this value (or ``at``, the key inside it that is wrong)."""
        key = self.key if at is None else at
        where = f"{self.source.file}:{self.source.line(key)}"
        name = dotted(key)
        context = [f"{where}: {name}" if name else where]
        if self.owner:
            context.append(f"in: {self.owner}")
        return LockError(reference, message, context=tuple(context), hint=hint)

    def child(self, part: str | int, value: object) -> Node:
        """Step down to one key or element."""
        return Node(source=self.source, key=(*self.key, part), value=value, owner=self.owner)

    def table(self, *, required: Iterable[str] = (), optional: Iterable[str] = ()) -> dict[str, Node]:
        """Return the children of a table that has all ``required`` keys and no unknown ones."""
        entries = self.entries()
        needed = tuple(required)
        known = (*needed, *optional)
        for name, node in entries.items():
            if name not in known:
                msg = f"The key {name!r} is unknown."
                raise node.refusal(msg, "lock-unknown-key", f"Known here: {', '.join(known)}. {SEE}")
        for name in needed:
            if name not in entries:
                msg = f"The key {name!r} is missing."
                raise self.refusal(msg, "lock-missing-key", f"Add it. {SEE}", at=(*self.key, name))
        return entries

    def entries(self) -> dict[str, Node]:
        """Return the children of a table with keys of any name."""
        if not isinstance(self.value, dict):
            raise self.wrong_type(needed="a table")
        return {name: self.child(name, value) for name, value in self.value.items()}

    def items(self) -> list[Node]:
        """Return the elements of an array."""
        if not isinstance(self.value, list):
            raise self.wrong_type(needed="an array")
        return [self.child(index, value) for index, value in enumerate(self.value)]

    def text(self, *, empty: bool = False) -> str:
        """Return a string of one line; ``empty`` allows ``""``."""
        if not isinstance(self.value, str):
            raise self.wrong_type(needed="a string")
        if not self.value.strip() and not (empty and not self.value):
            msg = "The text is empty."
            raise self.refusal(msg, "lock-empty-value", f"Fill it in. {SEE}")
        if _CONTROL.search(self.value):
            msg = "The text holds a control character."
            raise self.refusal(msg, "lock-bad-text", "Write it as one line of plain text.")
        return self.value

    def size(self) -> int:
        """Return a number of bytes, 1 or more."""
        value = self.number()
        if value < 1:
            msg = f"The size {value} is not a number of bytes."
            raise self.refusal(msg, "lock-bad-size", "Give the exact size, or leave the key out if unknown.")
        return value

    def number(self) -> int:
        """Return a whole number."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.wrong_type(needed="a whole number")
        return self.value

    def sha256(self) -> str:
        """Return 64 lower-case hex digits."""
        value = self.text()
        if not _SHA256.fullmatch(value):
            msg = "This is not a SHA-256: 64 lower-case hex digits are needed."
            hint = "Copy it again from the source that published it, without prefix or blanks."
            raise self.refusal(msg, "lock-bad-sha256", hint)
        return value

    def choice(self, kind: type[E]) -> E:
        """Return a member of ``kind``."""
        value = self.text()
        try:
            return kind(value)
        except ValueError:
            choices = ", ".join(kind)
            msg = f"{value!r} is not one of: {choices}."
            raise self.refusal(msg, "lock-unknown-value", f"Use one of them. {SEE}") from None

    def wrong_type(self, *, needed: str) -> LockError:
        """Make the error for a value of another type."""
        msg = f"{needed.capitalize()} is needed here, not {_type_name(self.value)}."
        return self.refusal(msg, "lock-wrong-type", SEE)


def _type_name(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    names |= {list: "an array", dict: "a table"}
    return names.get(type(value), "a date or time")
