"""One value of a lock and where it stands; every refusal names file, line and dotted key."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from msgspec import Struct

from scripts.errors import LockError

E = TypeVar("E", bound=StrEnum)

SEE: Final = "docs/pins.md describes the format."

MOST_NUMBER: Final = 2**63

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class LockSource:
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


class LockNode(Struct, frozen=True, kw_only=True):
    """One value of the document, and where it stands.

    Attributes:
        source: the document.
        key: the way to this value.
        value: what tomllib read.
        owner: the ``id`` of the artifact or stack around it, for messages.
    """

    source: LockSource
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

    def child(self, part: str | int, value: object) -> LockNode:
        """Step down to one key or element."""
        return LockNode(source=self.source, key=(*self.key, part), value=value, owner=self.owner)

    def table(self, *, required: Iterable[str] = (), optional: Iterable[str] = ()) -> dict[str, LockNode]:
        """Return the children of a table that has all ``required`` keys and no unknown ones."""
        entries = self.entries()
        needed = tuple(required)
        known = (*needed, *optional)
        for name, node in entries.items():
            if name not in known:
                msg = f"the key {name!r} is unknown"
                raise node.refusal(msg, "lock-unknown-key", f"Known here: {', '.join(known)}. {SEE}")
        for name in needed:
            if name not in entries:
                msg = f"the key {name!r} is missing"
                raise self.refusal(msg, "lock-missing-key", f"Add it. {SEE}", at=(*self.key, name))
        return entries

    def entries(self) -> dict[str, LockNode]:
        """Return the children of a table with keys of any name."""
        if not isinstance(self.value, dict):
            raise self.wrong_type(needed="a table")
        return {name: self.child(name, value) for name, value in self.value.items()}

    def items(self) -> list[LockNode]:
        """Return the elements of an array."""
        if not isinstance(self.value, list):
            raise self.wrong_type(needed="an array")
        return [self.child(index, value) for index, value in enumerate(self.value)]

    def text(self, *, empty: bool = False) -> str:
        """Return a string of one line; ``empty`` allows ``""``."""
        if not isinstance(self.value, str):
            raise self.wrong_type(needed="a string")
        if not self.value.strip() and not (empty and not self.value):
            msg = "the text is empty"
            raise self.refusal(msg, "lock-empty-value", f"Fill it in. {SEE}")
        if _CONTROL.search(self.value):
            msg = "the text holds a control character"
            raise self.refusal(msg, "lock-bad-text", "Write it as one line of plain text.")
        return self.value

    def size(self) -> int:
        """Return a number of bytes, 1 or more."""
        value = self.number()
        if value < 1:
            msg = f"the size {value} is not a number of bytes"
            raise self.refusal(msg, "lock-bad-size", "Give the exact size, or leave the key out if unknown.")
        return value

    def number(self) -> int:
        """Return a whole number."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.wrong_type(needed="a whole number")
        if abs(self.value) >= MOST_NUMBER:  # not shown: it may have a million digits
            msg = "the number does not fit into 64 bits"
            raise self.refusal(msg, "lock-bad-size", "Give the exact number.")
        return self.value

    def sha256(self) -> str:
        """Return 64 lower-case hex digits."""
        value = self.text()
        if not _SHA256.fullmatch(value):
            msg = "this is not a SHA-256: 64 lower-case hex digits are needed"
            hint = "copy it again from the source that published it, without prefix or blanks"
            raise self.refusal(msg, "lock-bad-sha256", hint)
        return value

    def choice(self, kind: type[E]) -> E:
        """Return a member of ``kind``."""
        value = self.text()
        try:
            return kind(value)
        except ValueError:
            choices = ", ".join(kind)
            msg = f"{value!r} is not one of: {choices}"
            raise self.refusal(msg, "lock-unknown-value", f"Use one of them. {SEE}") from None

    def wrong_type(self, *, needed: str) -> LockError:
        """Make the error for a value of another type."""
        msg = f"{needed.capitalize()} is needed here, not {_type_name(self.value)}"
        return self.refusal(msg, "lock-wrong-type", SEE)


def _type_name(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    names |= {list: "an array", dict: "a table"}
    return names.get(type(value), "a date or time")


#: The way to a value: table keys as text, positions in arrays as numbers.
Key = tuple[str | int, ...]

_BLANK: Final = re.compile(r"[ \t]*")
_TRIVIA: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR: Final = re.compile(r"[^,\]}#\r\n]*")
_STRING: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'  # up to two more quotes may end a multi-line string
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)


def locate(text: str) -> dict[Key, int]:
    """Map the path of every table, key and array element to the line (from 1) where it begins.

    Args:
        text: a valid TOML 1.0 document, with LF or CRLF line ends.
    """
    return _Scanner(text).run()


def line_of(lines: Mapping[Key, int], key: Key) -> int:
    """Return the line of ``key``, or of the nearest thing around it; 1 for the whole document."""
    while key and key not in lines:
        key = key[:-1]
    return lines.get(key, 1)


def dotted(key: Key) -> str:
    """Write a path the way people read it: ``artifact[3].urls[0]``."""
    out = ""
    for part in key:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
            out += f".{name}" if out else name
    return out


class _Scanner:
    """One pass over one document."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.counted = 0
        self.lines: dict[Key, int] = {}
        self.arrays: dict[Key, int] = {}  # array of tables -> index of its newest element

    def run(self) -> dict[Key, int]:
        table: Key = ()
        while True:
            self.skip(_TRIVIA)
            if self.at >= len(self.text):
                return self.lines
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)

    def header(self) -> Key:
        """Read ``[a.b]`` or ``[[a.b]]`` and return the path of the table it opens."""
        line = self.here()
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        path: Key = ()
        names = self.names()
        for position, name in enumerate(names):
            path = (*path, name)
            self.lines.setdefault(path, line)
            last = position == len(names) - 1
            if last and many:
                self.arrays[path] = self.arrays.get(path, -1) + 1
            if path in self.arrays:
                path = (*path, self.arrays[path])
        self.lines[path] = line
        self.at += 2 if many else 1
        return path

    def pair(self, table: Key) -> None:
        """Read ``a.b = value`` below ``table``."""
        line = self.here()
        path = table
        for name in self.names():
            path = (*path, name)
            self.lines.setdefault(path, line)
        self.at += 1  # the equals sign
        self.skip(_BLANK)
        self.value(path)

    def names(self) -> list[str]:
        """Read a dotted key and the blanks around it."""
        names = []
        while True:
            self.skip(_BLANK)
            match = _STRING.match(self.text, self.at) or _BARE.match(self.text, self.at)
            assert match is not None  # noqa: S101 - tomllib has accepted this document
            names.append(_unquote(match.group()))
            self.at = match.end()
            self.skip(_BLANK)
            if not self.text.startswith(".", self.at):
                return names
            self.at += 1

    def value(self, path: Key) -> None:
        """Step over one value, noting what lies inside it."""
        if self.text[self.at] == "[":
            self.array(path)
        elif self.text[self.at] == "{":
            self.inline(path)
        else:
            self.skip(_STRING if self.text[self.at] in "\"'" else _SCALAR)

    def array(self, path: Key) -> None:
        self.at += 1
        index = 0
        while True:
            self.skip(_TRIVIA)
            if self.text[self.at] == "]":
                break
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self.lines[*path, index] = self.here()
            self.value((*path, index))
            index += 1
        self.at += 1

    def inline(self, path: Key) -> None:
        self.at += 1
        while True:
            self.skip(_TRIVIA)
            if self.text[self.at] == "}":
                break
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self.pair(path)
        self.at += 1

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def here(self) -> int:
        """Return the current line; each character is counted once."""
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line


def _unquote(key: str) -> str:
    if key.startswith("'"):
        return key[1:-1]
    if key.startswith('"'):
        return _ESCAPE.sub(_unescape, key[1:-1])
    return key


_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SHORT: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _SHORT.get(match[3], match[3])
