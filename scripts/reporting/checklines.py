"""Read the lines that a ``cuda_check`` prints: ``name: OK``, ``name: OK (path)`` or ``name: ERROR: …``.

Whatever the encoding, colours, line ends, order and company: reading never fails, and never sees an
``OK`` that is not wholly there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from scripts.records import dataclass

#: Windows' numbers for a failed load. Its words are localised, the numbers are not.
LOAD_CODES: Final[Mapping[int, str]] = {
    126: "it or a library it needs was not found",
    127: "a function it needs was not found",
    193: "it is not a library for this kind of process",
}

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_LINE: Final = re.compile(
    r"\s*(?P<name>[A-Za-z]+[0-9]*)\s*:\s*(?:OK(?:\s+\((?P<path>.+)\))?|ERROR:\s*(?P<error>.*?))\s*"
)
_INITIALIZATION: Final = re.compile(r'Initialization\(\s*"(?P<call>[^"]*)"\s*,\s*(?P<code>-?\d+)\s*\)')
_NUMBER: Final = re.compile(r"(?<![\w.])(\d{3})(?![\w.])")


@dataclass(frozen=True, kw_only=True)
class CheckLine:
    """One library's line. ``call`` and ``code`` are set for a failed initialisation.

    ``loading`` says that the library itself did not load; ``code`` is then the system's number if known.
    """

    name: str
    ok: bool
    path: str | None = None
    error: str = ""
    loading: bool = False
    call: str | None = None
    code: int | None = None


@dataclass(frozen=True, kw_only=True)
class CheckOutput:
    """Everything a run printed: the lines understood, and the others as they were."""

    lines: tuple[CheckLine, ...]
    noise: tuple[str, ...] = ()


def parse_output(data: bytes | str) -> CheckOutput:
    """Read the lines of a run, in any encoding, order and company; never fails.

    A line that was cut off in the middle of ``OK`` or of its path is noise: it shows nothing. A name
    printed twice appears twice.
    """
    lines: list[CheckLine] = []
    noise: list[str] = []
    for raw in re.split(r"[\r\n]+", _ANSI.sub("", decode(data))):
        text = raw.strip("\ufeff\0 \t")
        match = _LINE.fullmatch(text)
        if match:
            lines.append(_line(match))
        elif text:
            noise.append(text)
    return CheckOutput(lines=tuple(lines), noise=tuple(noise))


def decode(data: bytes | str) -> str:
    """Turn a program's output into text; undecodable bytes are replaced."""
    if isinstance(data, str):
        return data
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    if data[1::2].count(0) * 2 > len(data) // 2:
        return data.decode("utf-16-le", errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def _line(match: re.Match[str]) -> CheckLine:
    """Take one matching line apart."""
    name, error = match["name"].lower(), match["error"]
    if error is None:
        return CheckLine(name=name, ok=True, path=match["path"])
    start = _INITIALIZATION.search(error)
    if start:
        return CheckLine(name=name, ok=False, error=error, call=start["call"], code=int(start["code"]))
    loading = error.startswith("Loading")
    numbers = [int(n) for n in _NUMBER.findall(error) if int(n) in LOAD_CODES] if loading else []
    return CheckLine(name=name, ok=False, error=error, loading=loading, code=numbers[0] if numbers else None)


def group_of(name: str) -> str:
    """Return a library's group: its name without the version (``cublaslt12`` → ``cublaslt``)."""
    return name.lower().rstrip("0123456789")
