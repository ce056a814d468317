"""NVIDIA's libraries as data: which file name is which library, and what the CUDA runtime calls."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path, PureWindowsPath
from typing import Any, Final

DATA: Final = Path(__file__).resolve().parents[1] / "data"
_SUFFIXES: Final = ("_ptsz", "_ptds")


class Part(StrEnum):
    """What a library is to a translation layer; ``data/libraries.toml`` explains the words."""

    PLAIN = "plain"
    RUNTIME = "runtime"
    CLIENT = "client"
    COMPILER = "compiler"
    ABSENT = "absent"
    HARMLESS = "harmless"


@dataclass(frozen=True, kw_only=True)
class Library:
    """One of NVIDIA's libraries."""

    id: str
    title: str
    part: Part
    windows: re.Pattern[str] | None
    linux: re.Pattern[str] | None
    functions: re.Pattern[str] | None = None
    api: str = ""
    gap: str = ""
    numbered: bool = True
    digits: int = 0
    cuda: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Named:
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


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """What serves on a Radeon without translation, and how its users are recognised."""

    id: str
    packages: tuple[str, ...]
    files: tuple[str, ...]
    what: str
    source: str


@cache
def libraries() -> tuple[Library, ...]:
    """Read the table."""
    return tuple(_library(row) for row in _document("libraries.toml")["library"])


@cache
def alternatives() -> tuple[Alternative, ...]:
    """Read what serves without translation."""
    rows = _document("libraries.toml")["alternative"]
    return tuple(
        Alternative(**{**row, "packages": tuple(row["packages"]), "files": tuple(row["files"])})
        for row in rows
    )


@cache
def named(file: str) -> Named | None:
    """Say which of NVIDIA's libraries a file name means, ``None`` for any other file.

    Names ending in ``.dll`` are compared without case. A .NET import without ending is one, too.
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


def library_of(function: str) -> Library | None:
    """Say which library a function belongs to, by its name."""
    for library in libraries():
        if library.functions and library.functions.match(function) and not _longer(library, function):
            return library
    return None


@dataclass(frozen=True, kw_only=True)
class RuntimeCalls:
    """What functions of the CUDA runtime ask of the driver, and which are not in the table."""

    driver: tuple[str, ...]
    unknown: tuple[str, ...]


def runtime_calls(functions: tuple[str, ...]) -> RuntimeCalls:
    """Map functions of the CUDA runtime to the driver's."""
    table = _document("cudart.toml")
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


@cache
def _document(name: str) -> dict[str, Any]:
    """Read one of the tables."""
    return tomllib.loads((DATA / name).read_text(encoding="utf-8"))


def _library(row: dict[str, object]) -> Library:
    """Compile one row."""
    patterns = {
        key: re.compile(str(row[key]), re.IGNORECASE if key == "windows" else 0) if key in row else None
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
    return library.cuda.get(number, number if library.cuda and number not in library.cuda else "")


def _longer(library: Library, function: str) -> bool:
    """Whether another library's name for functions fits better (cu[A-Z] is the driver's)."""
    return library.id == "nvcuda" and function.startswith(("cuda", "cuDNN"))
