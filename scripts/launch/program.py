"""What a person types about a program to run: which one, its settings, its time limit.

Pure but for the looks for the program's file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path, PureWindowsPath
from typing import Final

from scripts.errors import LaunchError, UsageError
from scripts.launch.argv import PATH_LIMIT, utf16_units
from scripts.osal.fs import long_path
from scripts.osal.paths import device_of, plain_spelling, unquoted, user_path

UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
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
        raise UsageError("no-program", "no program was named", hint="name it: wrap --exe=PATH -- ARGUMENTS")
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
    if found is None:
        where = "" if path.name != text else ", nor is a program of that name in PATH"
        msg = f"{path} does not exist{where}"
        raise LaunchError("program-not-found", msg, hint="check --exe")
    return (cwd / found).absolute()


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
