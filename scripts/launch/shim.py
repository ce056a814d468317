"""The text of a small script that starts one program with one stack, without starting Python. Pure.

It does what ``wrap`` does last: set the environment, start the program. What ``wrap`` does before and after
(verifying the stack's files, placing and undoing, waiting for the process tree) it leaves out, and says so in
its first line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from scripts.errors import LaunchError
from scripts.launch.environ import DEVICE_CHOICES, EnvChange

SKIPS: Final = "without verifying the stack's files, without undo, and without waiting for what it starts"
#: What cmd.exe takes as its own outside quotes.
_CMD: Final = "&|<>^()"


class Shim(Struct, frozen=True, kw_only=True):
    """What a script starts.

    Attributes:
        name: the program's, for the first line.
        stack: the stack's id.
        changes: the environment: ``set`` and ``prepend``, in order.
        yielding: names of those that are only proposed: whoever starts the script may have set them already.
        unset: variables that would mislead the stack, whoever sets them.
        line: Windows: the exact command line.
        words: elsewhere: program and arguments.
    """

    name: str
    stack: str
    changes: tuple[EnvChange, ...] = ()
    yielding: frozenset[str] = frozenset()
    unset: tuple[str, ...] = ()
    line: str = ""
    words: tuple[str, ...] = field(default=())


def cmd_text(shim: Shim) -> str:
    """Return a ``.cmd`` file, with Windows line ends.

    Raises:
        LaunchError: ``shim-not-ascii``: cmd.exe reads the file in a code page that differs between consoles,
            so that only ASCII arrives everywhere; ``shim-line-break``.
    """
    lines = [f"@rem {_plain(shim.name)} with {shim.stack}: starts it {SKIPS}.", "@echo off", "setlocal"]
    lines += [f'set "{name}="' for name in shim.unset]
    unchosen = "".join(f"if not defined {name} " for name in DEVICE_CHOICES)
    for change in _sets(shim.changes):
        yields = f"if not defined {change.name} " if change.name in shim.yielding else ""
        guard = unchosen if change.name in DEVICE_CHOICES else yields
        lines.append(f'{guard}set "{change.name}={_percent(change.value)}"')
    for name, folders in _prepends(shim.changes):
        separator = ";"
        if name != "PATH":  # which is never empty; an empty part would be the current folder
            lines.append(f'if defined {name} set "{name}=;%{name}%"')
            separator = ""
        lines.append(f'set "{name}={";".join(map(_percent, folders))}{separator}%{name}%"')
    lines += [for_cmd(shim.line), "exit /b %ERRORLEVEL%"]
    text = "".join(f"{line}\r\n" for line in lines)
    _refuse_line_breaks([*(c.value for c in shim.changes), shim.line])
    if not text.isascii():
        strange = sorted({char for char in text if not char.isascii()})
        msg = f"a .cmd file cannot carry these letters on every computer: {''.join(strange)}"
        hint = "move the program (or the store, with CUDA_AMD_CACHE) to a folder with plain letters"
        raise LaunchError("shim-not-ascii", msg, context=(shim.line,), hint=hint)
    return text


def sh_text(shim: Shim) -> str:
    """Return a script for a POSIX shell; arguments it is given follow those it was made with."""
    lines = ["#!/bin/sh", f"# {_plain(shim.name)} with {shim.stack}: starts it {SKIPS}."]
    lines += [f"unset {name}" for name in shim.unset]
    for change in _sets(shim.changes):
        line = f"export {change.name}={shlex.quote(change.value)}"
        if change.name in DEVICE_CHOICES:
            chosen = "".join(f"${{{name}-}}" for name in DEVICE_CHOICES)
            line = f'[ -n "{chosen}" ] || {line}'
        elif change.name in shim.yielding:
            line = f'[ -n "${{{change.name}+set}}" ] || {line}'
        lines.append(line)
    for name, folders in _prepends(shim.changes):
        lines.append(f'export {name}={shlex.quote(":".join(folders))}"${{{name}:+:${name}}}"')
    lines.append(f'exec {shlex.join(shim.words)} "$@"')
    return "".join(f"{line}\n" for line in lines)


def for_cmd(line: str) -> str:
    """Write a command line so that cmd.exe hands it on unchanged.

    cmd knows no escaped quote: every ``"`` opens or closes. Outside, its own characters get a caret; a
    percent sign is doubled everywhere.
    """
    written, inside = [], False
    for char in line:
        if char == '"':
            inside = not inside
        written.append(f"^{char}" if char in _CMD and not inside else "%%" if char == "%" else char)
    return "".join(written)


def misleading(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a script can remove: patterns cannot be written without a loop."""
    return tuple(dict.fromkeys(name for name in names if "*" not in name))


def _sets(changes: Sequence[EnvChange]) -> list[EnvChange]:
    return [change for change in changes if change.action == "set"]


def _prepends(changes: Sequence[EnvChange]) -> list[tuple[str, list[str]]]:
    """Gather what goes in front of each search path."""
    found: dict[str, list[str]] = {}
    for change in changes:
        if change.action == "prepend":
            found.setdefault(change.name, []).append(change.value)
    return list(found.items())


def _percent(value: str) -> str:
    return value.replace("%", "%%")


def _plain(name: str) -> str:
    """Make a file name harmless inside a comment."""
    return "".join(char if char.isascii() and (char.isalnum() or char in " ._-+") else "?" for char in name)


def _refuse_line_breaks(values: Iterable[str]) -> None:
    if any(char in value for value in values for char in "\r\n"):
        msg = "a .cmd file cannot carry an argument with a line break"
        raise LaunchError("shim-line-break", msg, hint="let the program read it from a file")


def file_name(program: Path, stack: str, *, windows: bool) -> str:
    """Name a script after its program and stack."""
    return f"{program.stem}-{stack}{'.cmd' if windows else '.sh'}"
