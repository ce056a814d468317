"""NVIDIA's libraries as data: their files, what the CUDA runtime calls, what layers do with each function."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path, PureWindowsPath
from typing import Any, Final

import msgspec
from msgspec import Struct

from scripts.serialize import DATA, data_table

DRIVER: Final = "nvcuda"
#: Letters that stand for themselves: no character that repeats, chooses or groups comes after the last.
_LITERAL: Final = re.compile(r"(?:[\w-]|\\\.)+(?![?*{|])(?<!\\)")
_GROUP: Final = re.compile(r"\([^()]*\)")
_SUFFIXES: Final = ("_ptsz", "_ptds")


class Part(StrEnum):
    """What a library is to a translation layer; ``data/libraries.toml`` explains the words."""

    PLAIN = "plain"
    RUNTIME = "runtime"
    CLIENT = "client"
    COMPILER = "compiler"
    ABSENT = "absent"
    HARMLESS = "harmless"


class Names:
    """A regular expression of names, compiled when a name begins as it does: most never have to be."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        """Take the pattern."""
        self.pattern = pattern
        self._flags = re.IGNORECASE if ignore_case else re.NOFLAG
        head = _LITERAL.match(pattern) if "|" not in _GROUP.sub("", pattern) else None
        self._head = head[0].replace("\\.", ".") if head else ""
        if ignore_case:
            self._head = self._head.lower()

    def fullmatch(self, name: str) -> re.Match[str] | None:
        """As a pattern's method."""
        return self._compiled.fullmatch(name) if self._may(name) else None

    def match(self, name: str) -> re.Match[str] | None:
        """As a pattern's method."""
        return self._compiled.match(name) if self._may(name) else None

    def _may(self, name: str) -> bool:
        """Whether a name begins with the pattern's first letters."""
        return (name.lower() if self._flags else name).startswith(self._head)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self._flags)


class Library(Struct, frozen=True, kw_only=True):
    """One of NVIDIA's libraries."""

    id: str
    title: str
    part: Part
    windows: Names | None
    linux: Names | None
    functions: Names | None = None
    api: str = ""
    gap: str = ""
    package: str = ""
    numbered: bool = True
    digits: int = 0
    cuda: dict[str, str] | None = None


class Named(Struct, frozen=True, kw_only=True):
    """A library with the number in its file name; ``cuda`` is CUDA's major version where it is known."""

    library: Library
    number: str
    cuda: str

    @property
    def key(self) -> str:
        """The name that pins.lock uses in ``provides``."""
        return f"{self.library.id}{self.number}" if self.library.numbered else self.library.id

    @property
    def api(self) -> str:
        """The key in the call tables; cuDNN has one for each number."""
        return f"{self.library.api}{self.number}" if self.library.id == "cudnn" else self.library.api

    @property
    def title(self) -> str:
        """How a person calls it; a number that is CUDA's own version is shown by its major part."""
        number = self.cuda if self.library.digits else self.number
        return f"{self.library.title} {number}".strip() if self.library.numbered else self.library.title


class Alternative(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What serves on a Radeon without translation, and how its users are recognised."""

    id: str
    packages: tuple[str, ...]
    files: tuple[str, ...]
    what: str
    source: str


@cache
def libraries() -> tuple[Library, ...]:
    """Read the table."""
    return tuple(_library(row) for row in data_table("libraries.toml")["library"])


@cache
def alternatives() -> tuple[Alternative, ...]:
    """Read what serves without translation."""
    return msgspec.convert(data_table("libraries.toml")["alternative"], tuple[Alternative, ...])


@cache
def named(file: str) -> Named | None:
    """Say which of NVIDIA's libraries a file name means, ``None`` for any other file.

    Names are compared without case: logs do not keep it. A .NET import without ending is one, too.
    """
    lower = PureWindowsPath(file).name.lower()
    stem = lower.removesuffix(".dll")
    for library in libraries():
        windows = library.windows and ".so" not in lower and library.windows.fullmatch(stem)
        match = windows or (library.linux and library.linux.fullmatch(file.rpartition("/")[2]))
        if match:
            number = (match[1] if match.re.groups else None) or ""
            return Named(library=library, number=number, cuda=_cuda(library, number))
    return None


def heads(library: Library) -> str:
    """Return how a library's functions begin, as a regular expression."""
    return library.functions.pattern if library.functions else "(?!)"


def library_of(function: str) -> Library | None:
    """Say which library a function belongs to, by its name."""
    for library in libraries():
        if library.functions and library.functions.match(function) and not _longer(library, function):
            return library
    return None


class RuntimeCalls(Struct, frozen=True, kw_only=True):
    """What functions of the CUDA runtime ask of the driver, and which are not in the table."""

    driver: tuple[str, ...]
    unknown: tuple[str, ...]


def runtime_calls(functions: tuple[str, ...]) -> RuntimeCalls:
    """Map functions of the CUDA runtime to the driver's."""
    table = data_table("cudart.toml")
    own, calls = set(table["own"]), table["calls"]
    driver: dict[str, None] = {}
    unknown = []
    for function in functions:
        suffix = next((s for s in _SUFFIXES if function.endswith(s)), "")
        base = function.removesuffix(suffix)
        if base in calls:
            driver |= {call + suffix: None for call in calls[base]}
        elif base not in own:
            unknown.append(function)
    return RuntimeCalls(driver=tuple(driver), unknown=tuple(unknown))


def _library(row: dict[str, object]) -> Library:
    patterns = {
        key: Names(str(row[key]), ignore_case=key != "functions") if key in row else None
        for key in ("windows", "linux", "functions")
    }
    return Library(**{**row, **patterns, "part": Part(str(row["part"]))})  # type: ignore[arg-type]  # our own file, read by tests


def _cuda(library: Library, number: str) -> str:
    """Return CUDA's major version for the number in a file name, empty where it does not tell."""
    if not number or not library.numbered:
        return ""
    if library.digits:
        return number[: library.digits]
    if library.cuda is None:
        return number
    return library.cuda.get(number, number) if library.cuda else ""


def _longer(library: Library, function: str) -> bool:
    """Whether another library's name for functions fits better (cu[A-Z] is the driver's)."""
    return library.id == "nvcuda" and function.startswith(("cuda", "cuDNN"))


class CallSupport(StrEnum):
    """What happens when a program asks for a function."""

    IMPLEMENTED = "implemented"
    NOT_SUPPORTED = "not-supported"
    ABORTS = "aborts"
    NOT_EXPORTED = "not-exported"
    UNKNOWN = "unknown"


class ApiTable:
    """One release's tables; read when the first call is looked up, for most programs ask for none."""

    def __init__(self, path: Path) -> None:
        """Name a table after its file."""
        self.name = path.stem
        self._path = path

    @cached_property
    def _body(self) -> dict[str, Any]:
        import json  # noqa: PLC0415 - see above

        return dict(json.loads(self._path.read_text(encoding="utf-8")))

    @cached_property
    def calls(self) -> Mapping[str, Mapping[str, CallSupport]]:
        """Library to function to what happens."""
        kinds = (
            ("unimplemented", CallSupport.NOT_SUPPORTED),
            ("implemented", CallSupport.IMPLEMENTED),
            ("aborts", CallSupport.ABORTS),
        )
        return {
            library: {function: call for key, call in kinds for function in body[key]}
            for library, body in self._body.items()
            if library != "_meta"
        }

    @property
    def source(self) -> str:
        """Where the table was read from, public."""
        meta = self._body["_meta"]
        return f"vosen/ZLUDA@{meta['commit'][:7]} ({meta['tag']})"

    @property
    def assumed(self) -> frozenset[str]:
        """Libraries whose table is taken from a neighbouring release."""
        confidence = self._body["_meta"].get("confidence", {})
        return frozenset(library for library, word in confidence.items() if word == "assumed")

    def lookup(self, library: str, function: str) -> CallSupport:
        """Say what happens; a library without a table, and an import by number, are unknown."""
        known = self.calls.get(library)
        if known is None or function.startswith("#"):
            return CallSupport.UNKNOWN
        return known.get(function, CallSupport.NOT_EXPORTED)


@cache
def api_table(name: str) -> ApiTable | None:
    """Return a table by the name a stack gives it, ``None`` where there is none: never another one's."""
    path = DATA / "api" / f"{name}.json"
    return ApiTable(path) if path.is_file() else None
