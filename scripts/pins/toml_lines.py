"""Where everything in a TOML document stands: tomllib tells values, this tells lines.

The scanner reads a document that tomllib has accepted; it checks nothing again. Its cost is linear in
the length of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

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
    """Return the text of a bare, literal or basic key."""
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
