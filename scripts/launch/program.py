"""What a person types about a program to run: which one, its settings, its time limit.

Pure but for the looks for the program's file.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path, PureWindowsPath
from typing import Final

from scripts.errors import LaunchError, UsageError
from scripts.launch.argv import PATH_LIMIT, utf16_units
from scripts.launch.argv import quote as windows_quote
from scripts.osal.fs import long_path
from scripts.osal.paths import device_of, plain_spelling, unquoted, user_path
from scripts.osal.text import option

UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
#: So many files of a folder are compared with the name of one that is not there.
_MOST: Final = 5000
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)")


def find_program(
    text: str,
    *,
    cwd: Path,
    search: Callable[[str], str | None],
    platform: str,
    short_name: Callable[[Path], str | None] = lambda _path: None,
) -> Path:
    """Return the program's absolute path, links left as they are (a virtual environment depends on them).

    Args:
        text: what the user named: a path, or a bare name.
        cwd: the folder that relative paths start from.
        search: looks a bare name up in PATH, as the shell would.
        platform: on ``win32`` a name without extension means the ``.exe``.
        short_name: returns the 8.3 form of a path, by which a program in a very deep folder can be started.

    Raises:
        UsageError: ``no-program``: nothing was named.
        LaunchError: ``program-not-found``, ``not-a-file``, ``path-too-long``.
    """
    if not text:
        raise UsageError(
            "no-program", "no program was named", hint="name it: invoke wrap --exe=PROGRAM -- ARGUMENTS"
        )
    text = unquoted(text)
    if platform == "win32":
        _refuse_no_file(text)
    path = user_path(text, "--exe", cwd=cwd)
    candidates = [path]
    if platform == "win32" and not path.suffix:
        candidates.insert(0, path.with_name(path.name + ".exe"))
    for candidate in candidates:
        if long_path(candidate).is_file():
            path = candidate.absolute()
            return _startable(path, short_name) if platform == "win32" else path
    if long_path(path).is_dir():
        msg = f"{path} is a folder"
        raise LaunchError("not-a-file", msg, hint="name the program in it")
    found = search(text) if path.name == text else None
    if found is None and long_path(path).exists():
        msg = f"{path} is no file but a pipe, a socket or a device"
        raise LaunchError("not-a-file", msg, hint="name the program's file")
    if found is None:
        where = "" if path.name != text else ", nor is a program of that name in PATH"
        msg = f"{path} does not exist{where}"
        hint = "check the path" if Path(text).is_absolute() else "give the program's full path"
        hint = _with_dashes(text, cwd) or _meant(path, cwd, search) or hint
        raise LaunchError("program-not-found", msg, context=(_looked_for(candidates),), hint=hint)
    return (cwd / found).absolute()


def _looked_for(candidates: Sequence[Path]) -> str:
    folder = candidates[0].parent
    absent = "" if long_path(folder).is_dir() else ", which is no folder"
    return f"looked for {' and '.join(path.name for path in candidates)} in {folder}{absent}"


def _meant(path: Path, cwd: Path, search: Callable[[str], str | None]) -> str:
    """Name a program of this name in PATH, else a file of a similar name in the same folder; or empty."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where a program is missing

    found = search(path.name)
    near = cwd / found if found else None
    if near is None:
        try:
            with os.scandir(long_path(path.parent)) as entries:
                names = {
                    entry.name.casefold(): entry.name for entry in islice(entries, _MOST) if entry.is_file()
                }
        except OSError:
            return ""
        close = get_close_matches(path.name.casefold(), names, n=1)
        near = path.with_name(names[close[0]]) if close else None
    return f"see whether this one was meant: {option('exe', near)}" if near else ""


def _with_dashes(text: str, cwd: Path) -> str:
    """Say where the arguments in a value belong; empty where no program that exists stands before them."""
    for at in (at for at, sign in enumerate(text) if sign == " "):
        program, arguments = text[:at], text[at:].split()
        if program.strip() and arguments and long_path(user_path(program, "--exe", cwd=cwd)).is_file():
            join = subprocess.list2cmdline if sys.platform == "win32" else shlex.join
            return f"put its arguments behind `--`: invoke wrap {option('exe', program)} -- {join(arguments)}"
    return ""


def _startable(path: Path, short_name: Callable[[Path], str | None]) -> Path:
    """Return a path that fits a command line: itself, its folder's 8.3 form, or its own."""
    if utf16_units(str(path)) <= PATH_LIMIT:
        return path
    folder = short_name(path.parent)
    for shorter in (folder and f"{folder}\\{path.name}", short_name(path)):
        if shorter and utf16_units(shorter) <= PATH_LIMIT:
            return Path(shorter)
    units = utf16_units(str(path))
    msg = f"the program's path has {units} characters, more than {PATH_LIMIT}, and no short (8.3) form"
    raise LaunchError("path-too-long", msg, context=(str(path),), hint="move it to a shorter folder")


def _refuse_no_file(text: str) -> None:
    """Refuse a drive, a share or a device as a program, before the system is asked about it."""
    path = PureWindowsPath(plain_spelling(text))
    device = device_of(path.name)
    if device or not path.name or str(path).startswith(("\\\\.\\", "\\\\?\\")):
        what = f"the device {device}" if device else "a drive, a share or a device"
        raise LaunchError("not-a-file", f"{text} names {what}", hint="name the program in a folder")


#: How a file for Windows begins, and how one that starts on every system as well (a llamafile).
_WINDOWS: Final = b"MZ"
_EVERY_SYSTEM: Final = (b"MZqFpD='", b"jartsr='")
_SCRIPT: Final = b"#!"
#: What a shell would read within double quotes.
_READ_BY_SHELLS: Final = re.compile(r'[\\"$`!\n]')


def refuse_foreign(program: Path, *, platform: str) -> None:
    """Refuse a program for Windows on another system, before anything is started.

    Raises:
        LaunchError: ``program-format``.
    """
    if platform == "win32":
        return
    head = _head(program)
    if head.startswith(_WINDOWS) and not head.startswith(_EVERY_SYSTEM):
        msg = f"{program} is a Windows program, which does not run on this system"
        raise LaunchError("program-format", msg, hint="start it on Windows")


def refuse_script(program: Path, line: str, *, platform: str) -> None:
    """Refuse a Python script that the system does not start by itself; ``line`` starts its interpreter.

    Raises:
        LaunchError: ``not-a-program``, ``program-not-executable`` or ``program-format``.
    """
    reference, why = {
        "windows": ("not-a-program", "which Windows does not start by itself"),
        "mode": ("program-not-executable", "which may not be executed"),
        "first line": ("program-format", "and its first line names no interpreter"),
    }[unstartable_script(program, platform=platform)]
    raise LaunchError(reference, f"{program} is a Python script, {why}", hint=f"type {line}")


def unstartable_script(program: Path, *, platform: str) -> str:
    """Say what a Python script lacks to be started itself: ``mode``, ``first line``; empty where nothing.

    On Windows none can be: ``windows``.
    """
    if program.suffix.lower() != ".py":
        return ""
    if platform == "win32":
        return "windows"
    if not os.access(program, os.X_OK):
        return "mode"
    return "" if _head(program).startswith((_SCRIPT, b"\x7fELF")) else "first line"


def interpreter_line(
    program: Path, args: Sequence[str] = (), options: Sequence[str] = (), *, platform: str
) -> str:
    """Return the whole line that starts a Python script under ``wrap``, to be pasted."""
    windows = platform == "win32"
    quote = windows_quote if windows else shlex.quote
    plain = windows or not _READ_BY_SHELLS.search(str(program))
    path = f'"{program}"' if plain else quote(str(program))
    exe = "--exe=python.exe" if windows else "--exe=python3"
    return " ".join(["invoke wrap", exe, *map(quote, options), "--", path, *map(quote, args)])


def _head(program: Path) -> bytes:
    """Read how a file begins; what cannot be read has its own error when it is started."""
    try:
        with long_path(program).open("rb") as file:
            return file.read(8)
    except OSError:
        return b""


def parse_timeout(text: str) -> float | None:
    """Read ``90``, ``90s``, ``5m`` or ``1h`` as seconds; empty is no limit.

    Raises:
        UsageError: ``bad-timeout``; zero is none either.
    """
    if not text:
        return None
    match = _DURATION.fullmatch(text.strip().lower())
    seconds = float(match[1]) * UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        msg = f"--timeout={text} is not a duration"
        raise UsageError("bad-timeout", msg, hint="write seconds, or 90s, 5m, 1h")
    return seconds


def parse_settings(items: Sequence[str]) -> dict[str, str]:
    """Read ``NAME=VALUE`` words; the value may be empty and may hold ``=``.

    Raises:
        UsageError: ``bad-setting``.
    """
    settings = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name or "\0" in item:
            msg = f"--set={item!r} is not of the form NAME=VALUE"
            raise UsageError("bad-setting", msg, hint="write for example --set=ZLUDA_CC=8.6")
        settings[name] = value
    return settings
