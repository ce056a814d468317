"""Command lines: from the words a person typed to the line a program sees, and how a Python reads its own.

Pure: nothing here touches a file. POSIX hands a list to the program and nothing can go wrong; on
Windows every argument travels inside one line of text that each program splits for itself, and
``zluda.exe`` (vosen/ZLUDA@87531d3, ``zluda_inject/src/args.rs``) splits that line and joins it again
*without quoting*. What it is handed must therefore already be quoted for the second reading.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePath, PureWindowsPath
from typing import Final

from msgspec import Struct

from scripts.errors import LaunchError, UsageError

#: UTF-16 units of a command line, without the closing NUL (CreateProcessW's documented limit is 32,767).
LINE_LIMIT: Final = 32_766
#: Units of a path that CreateProcessW accepts inside a line (MAX_PATH counts the NUL).
PATH_LIMIT: Final = 259
#: What cmd.exe would parse a second time, by rules that no quoting survives.
BATCH: Final = frozenset({".bat", ".cmd"})
#: Kinds of files that are opened by another program, not started.
DOCUMENTS: Final[dict[str, str]] = {
    ".py": "name the Python interpreter as the program and the script as its first argument",
    ".pyw": "name the Python interpreter as the program and the script as its first argument",
    ".ps1": "name powershell.exe as the program, with -File and the script as arguments",
    ".lnk": "name the program that the shortcut points to (right-click, Properties, Target)",
    ".url": "name the program itself",
    ".msi": "name msiexec.exe as the program",
}


def parse_args_file(text: str, *, name: str = "the arguments file") -> tuple[str, ...]:
    """Read a JSON list of strings, for shells that cannot hand over every argument.

    Raises:
        UsageError: ``args-file-invalid``, naming the line or the element that is wrong.
    """
    try:
        data = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        msg = f"{name} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        raise _args_file_error(msg) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, a thousand brackets
        msg = f"{name} must hold a list of strings"
        raise _args_file_error(msg) from error
    if not isinstance(data, list):
        msg = f"{name} holds {_kind(data)}, not a list"
        raise _args_file_error(msg)
    for number, item in enumerate(data, start=1):
        if not isinstance(item, str):
            msg = f"{name}: element {number} is {_kind(item)}, not a string"
            raise _args_file_error(msg)
    return tuple(data)


def _args_file_error(msg: str) -> UsageError:
    return UsageError(
        "args-file-invalid", msg, hint='write one JSON list of strings, for example ["--size", "64", ""]'
    )


def _kind(value: object) -> str:
    """Name a JSON value's kind as a person would."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def refuse_nul(args: Sequence[str]) -> None:
    """Refuse what no operating system can deliver.

    Raises:
        UsageError: ``argument-nul``.
    """
    for number, arg in enumerate(args, start=1):
        if "\0" in arg:
            msg = f"argument {number} holds a NUL character, which no program can receive"
            raise UsageError("argument-nul", msg, hint="remove the NUL, or hand the data over in a file")


def refuse_unstartable(exe: PurePath) -> None:
    """Refuse files that are not programs although double-clicking them runs something (Windows).

    Raises:
        LaunchError: ``batch-file`` or ``not-a-program``, with what to name instead.
    """
    suffix = exe.suffix.lower()
    if suffix in BATCH:
        msg = f"{exe.name} is a batch file: cmd.exe would read the arguments again and run what is in them"
        raise LaunchError(
            "batch-file", msg, hint="name the .exe that the batch file starts, or cmd.exe itself"
        )
    if suffix in DOCUMENTS:
        msg = f"{exe.name} is opened by another program and cannot be started itself"
        raise LaunchError("not-a-program", msg, hint=DOCUMENTS[suffix])


def utf16_units(text: str) -> int:
    """Count the UTF-16 code units of a text; a lone surrogate counts as one."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def quote(arg: str) -> str:
    r"""Quote one argument so that the usual Windows rules give it back exactly.

    The rules of Microsoft's C runtime, ``CommandLineToArgvW``, Rust and CPython agree on the form: quotes
    around it only where needed, ``\"`` for a quote, and backslashes doubled only before a quote.
    """
    return subprocess.list2cmdline([arg])


def child_line(exe: PureWindowsPath, args: Sequence[str]) -> str:
    """Return the line a Windows program sees: its path always in quotes, then its arguments."""
    refuse_nul(args)
    return " ".join([f'"{exe}"', *(quote(a) for a in args)])


def direct_line(exe: PureWindowsPath, args: Sequence[str]) -> str:
    """Return the line for starting a program directly, checked against Windows' limit.

    Raises:
        UsageError: ``arguments-too-long`` or ``argument-nul``.
    """
    line = child_line(exe, args)
    _refuse_long(utf16_units(line), advice="")
    return line


def launcher_line(
    launcher: PureWindowsPath, exe: PureWindowsPath, args: Sequence[str], *, options: Sequence[str] = ()
) -> tuple[str, str]:
    """Return the line for ``zluda.exe`` and the line the program will see behind it.

    Every token is quoted twice: once for the program, once for ``zluda.exe``, which takes the second
    quoting off and joins the rest with single spaces. ``options`` are for ``zluda.exe`` itself.

    Raises:
        UsageError: ``argument-nul``, or ``arguments-too-long`` (the outer line is the longer one: each
            quote in an argument costs four units instead of one).
        LaunchError: ``path-too-long``: the program's path does not fit a line without module name.
    """
    inner = child_line(exe, args)
    if utf16_units(str(exe)) > PATH_LIMIT:
        msg = (
            f"the program's path has {utf16_units(str(exe))} characters; the launcher can start {PATH_LIMIT}"
        )
        raise LaunchError(
            "path-too-long", msg, hint="move the program to a shorter folder", context=(str(exe),)
        )
    tokens = [f'"{exe}"', *(quote(a) for a in args)]
    outer = " ".join([f'"{launcher}"', *options, "--", *(quote(t) for t in tokens)])
    fits_inside = utf16_units(inner) <= LINE_LIMIT
    _refuse_long(
        utf16_units(outer), advice="use --via=beside, where the line is shorter, or " if fits_inside else ""
    )
    return outer, inner


def _refuse_long(units: int, *, advice: str) -> None:
    if units > LINE_LIMIT:
        msg = f"the command line would have {units} characters; Windows allows {LINE_LIMIT}"
        hint = f"{advice}let the program read its arguments from a file, if it can (many take @FILE)"
        raise UsageError("arguments-too-long", msg, hint=hint)


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
