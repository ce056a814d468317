"""The words that were probably meant where a line cannot be read.

Standard library only; looks whether files exist, and no more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from scripts.cli.parse import DASHES, EQUALS, TYPOGRAPHIC

EXE: Final = "--exe"
LOG: Final = "--log"
#: Other names for the program to start.
_PROGRAM: Final = frozenset(
    {"app", "application", "binary", "exec", "executable", "prog", "program", "programm", "programme"}
)
#: What other programs take a program by.
_SHORT: Final = "-e"
#: What takes a folder, and what takes a file; the first that the task has.
_OF_FOLDERS: Final = ("--target", "--import", EXE)
_OF_FILES: Final = (LOG, "--import", EXE)
#: Letters of an option that may be a long one with a dash missing.
_LONG: Final = 2


def close(word: str, known: Sequence[str]) -> str:
    """Return the known word that is most like this one, or an empty string."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where a word is unknown

    return next(iter(get_close_matches(word.replace("_", "-"), known, n=1)), "")


def option_meant(word: str, known: Sequence[str]) -> str:
    """Return the option that was probably meant, whatever its dashes and capital letters; or an empty string.

    >>> [option_meant(word, ["--exe", "--json"]) for word in ("--ex=a", "-exe=a", "--EXE", "--program", "-x")]
    ['--exe', '--exe', '--exe', '--exe', '']
    """
    name = word.partition(EQUALS)[0]
    bare = name.lstrip("-").casefold()
    if name == _SHORT and EXE in known:
        return EXE
    if len(bare) < _LONG:
        return ""
    if bare in _PROGRAM and EXE in known:
        return EXE
    return close(f"--{bare}", known)


def with_option(words: Sequence[str], at: int, name: str, *, is_switch: bool) -> Iterator[list[str]]:
    """Yield lines with the option at ``at`` under its right name."""
    rest = list(words[at + 1 :])
    value = words[at].partition(EQUALS)[2]
    if not is_switch and EQUALS not in words[at] and rest and not rest[0].startswith("-"):
        value = rest.pop(0)
    if value or is_switch:
        yield from _with_dashes([*words[:at], name if is_switch else f"{name}={value}"], rest)


def with_path(words: Sequence[str], at: int, value: str) -> Iterator[list[str]]:
    """Yield lines in which a path that its blanks divided is one word; ``at`` is behind its first part."""
    joined, count = _divided(value, words[at:])
    if count:
        first = at - (2 if words[at - 2 : at - 1] == [EXE] else 1)
        yield from _with_dashes([*words[:first], f"{EXE}={joined}"], words[at + count :])


def option_of_path(word: str, known: Sequence[str]) -> str:
    """Return the option that an existing file or folder, or a log, belongs to; else an empty string."""
    if "\0" in word or not os.path.lexists(_home(word)):
        return LOG if word.lower().endswith(".log") and LOG in known else ""
    names = _OF_FOLDERS if os.path.isdir(_home(word)) else _OF_FILES  # noqa: PTH112 - takes any text
    return next((name for name in names if name in known), "")


def without_slip(words: Sequence[str], at: int, known: Sequence[str]) -> Iterator[list[str]]:
    """Yield lines with what was meant by a lone typographic dash or ``=`` at ``at``."""
    before, rest = list(words[:at]), list(words[at + 1 :])
    if words[at] in TYPOGRAPHIC:
        yield [*before, DASHES, *rest]
    elif before and before[-1] in known and rest:
        yield from _with_dashes([*before[:-1], f"{before[-1]}={rest[0]}"], rest[1:])
    yield from _with_dashes(before, rest)


def _with_dashes(before: Sequence[str], rest: Sequence[str]) -> Iterator[list[str]]:
    """Yield a line as it is, and with ``--`` before the rest."""
    yield [*before, *rest]
    if DASHES not in rest:
        yield [*before, DASHES, *rest]


def _divided(value: str, words: Sequence[str]) -> tuple[str, int]:
    """Return the program that a value and so many words after it name together; 0 where there is none."""
    if "\0" in "".join((value, *words)) or _is_there(value):
        return "", 0
    for count in range(1, len(words) + 1):
        joined = " ".join((value, *words[:count]))
        if _is_file(joined):
            return joined, count
    return "", 0


def _is_there(value: str) -> bool:
    from shutil import which  # noqa: PLC0415 - most lines have no divided path

    return os.path.lexists(_home(value)) or which(value) is not None


def _is_file(path: str) -> bool:
    endings = ("", ".exe") if sys.platform == "win32" else ("",)
    return any(os.path.isfile(_home(path) + ending) for ending in endings)  # noqa: PTH113 - takes any text


def _home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - takes any text
