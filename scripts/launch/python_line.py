"""A Python interpreter's command line: its options, what it runs, and whether PYTHONPATH reaches it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

#: Options with which Python reads no PYTHONPATH, or no start-up file in it.
#: Source: CPython Doc/using/cmdline.rst.
ISOLATED: Final = {"I": "-I", "E": "-E", "S": "-S"}
#: Options that take a value, in the same word or the next.
VALUED: Final = "WX"
TARGETS: Final = "cm"
#: A file of this name beside python makes it ignore its environment (CPython Doc/c-api/init_config.rst).
PATH_FILES: Final = ("python*._pth",)


class PythonLine(Struct, frozen=True, kw_only=True):
    """The arguments of a Python interpreter, read as it reads them.

    Attributes:
        options: its own options, as given.
        target: ``-m NAME``, ``-c CODE`` or a script's path in one or two words; empty: it reads its input.
        rest: the arguments of what it runs.
        isolated: the option that keeps PYTHONPATH or start-up files out, empty where none does.
    """

    options: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()
    isolated: str = ""

    @property
    def script(self) -> str:
        """The script's path, empty where it runs something else."""
        return self.target[0] if len(self.target) == 1 else ""

    @property
    def module(self) -> str:
        """The module of ``-m``, empty where it runs something else."""
        return self.target[1] if self.target[:1] == ("-m",) else ""


def read_python_line(args: Sequence[str]) -> PythonLine:
    """Read the arguments of an interpreter as CPython does."""
    words = list(args)
    options: list[str] = []
    isolated = ""
    while words:
        word = words.pop(0)
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            words.insert(0, word)
            break
        if word.startswith("--"):
            options.append(word)
            if word == "--check-hash-based-pycs" and words:
                options.append(words.pop(0))
            continue
        letters, target, valued = _cluster(word[1:])
        isolated = isolated or next((ISOLATED[letter] for letter in letters if letter in ISOLATED), "")
        if target:
            if letters:
                options.append(f"-{letters}")
            value = word[len(letters) + 2 :] or (words.pop(0) if words else "")
            return PythonLine(
                options=tuple(options), target=(f"-{target}", value), rest=tuple(words), isolated=isolated
            )
        options.append(word)
        if valued and words:
            options.append(words.pop(0))
    run = tuple(words[:1]) if words[:1] != ["-"] else ()
    return PythonLine(options=tuple(options), target=run, rest=tuple(words[1:]), isolated=isolated)


def _cluster(letters: str) -> tuple[str, str, bool]:
    """Return the plain letters of one word, the ``c`` or ``m`` behind them, and whether a value follows."""
    for number, letter in enumerate(letters):
        if letter in TARGETS:
            return letters[:number], letter, False
        if letter in VALUED:
            return letters[:number], "", number == len(letters) - 1
    return letters, "", False


def keeps_out(line: PythonLine, beside: Iterable[str]) -> str:
    """Say by what PYTHONPATH is kept out; empty where it is read.

    ``beside`` are the names in the interpreter's folder.
    """
    if line.isolated:
        return f"Python's option {line.isolated}"
    named = (name for name in beside if any(fnmatchcase(name.lower(), pattern) for pattern in PATH_FILES))
    return next((f"{name} beside Python" for name in sorted(named)), "")


def through(line: PythonLine, start: str) -> tuple[str, ...]:
    """Return the arguments with which the same program begins in the script ``start``."""
    return (*line.options, start, *line.target, *line.rest)
