"""Paths as people type them: quoted, with ``~``, in one of Windows' many spellings, or no path at all."""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path, PurePath
from typing import Final

from scripts.errors import UsageError
from scripts.osal.fs import extended_path

#: Names that Windows gives to devices in every folder, whatever ending is added.
#: Source: Microsoft's "Naming Files, Paths, and Namespaces".
_DEVICE: Final = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE
)
#: Prefixes that switch Windows' own reading of a path off, and what they stand for.
_VERBATIM: Final = ("\\\\?\\", "\\\\.\\", "\\??\\")
#: UTF-16 units of a name, and of a path with the prefix for long ones and the closing NUL.
_COMPONENT_UNITS: Final = 255
_PATH_UNITS: Final = 32_767 - len("\\\\?\\UNC\\") - 1
#: ERROR_INVALID_NAME.
_INVALID_NAME: Final = 123
_DRIVE: Final = re.compile(r"[A-Za-z]:(?:\\|$)")


def user_path(text: str, option: str, *, cwd: Path | None = None) -> Path:
    """Return the absolute path that a person means by ``text``, relative to ``cwd`` or the current folder.

    Raises:
        UsageError: ``bad-path``, with ``option`` named: it is no path, or none that this system has.
    """
    words = unquoted(text)
    if "\0" in words:
        raise _bad(option, "holds a NUL character", "name the file again")
    if not words:
        raise _bad(option, "is empty", "name a file")
    path = _expanded(words, option)
    if not path.is_absolute():
        path = (cwd or current_folder()) / path
    if sys.platform == "win32" and too_long(path):
        raise _bad(option, "is too long for this system", "choose a shorter path")
    try:
        os.lstat(extended_path(path))
    except FileNotFoundError:
        pass
    except ValueError as error:
        raise _bad(option, "holds characters that no file name has", "name the file again") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _bad(option, "is too long for this system", "choose a shorter path") from error
        if getattr(error, "winerror", None) == _INVALID_NAME:
            raise _bad(option, "holds characters that no file name has", "name the file again") from error
    return path


def too_long(path: PurePath) -> bool:
    """Whether Windows has no such path: it looks for what is too long and says that it is not there.

    Source: Microsoft's "Maximum Path Length Limitation".
    """
    units = [len(part.encode("utf-16-le", "surrogatepass")) // 2 for part in path.parts]
    return max(units, default=0) > _COMPONENT_UNITS or sum(units) + len(units) > _PATH_UNITS


def unquoted(text: str) -> str:
    """Take away quotes that a shell left around a whole value, and blanks around those."""
    inner = text.strip()
    quoted = len(inner) > 1 and inner[0] == inner[-1] and inner[0] in "\"'"
    return inner[1:-1] if quoted and not os.path.lexists(text.replace("\0", "")) else text


def current_folder() -> Path:
    """Return the current folder.

    Raises:
        UsageError: ``no-current-folder``: it was deleted.
    """
    try:
        return Path.cwd()
    except OSError as error:
        msg = "the current folder does not exist any more"
        hint = "change to a folder that exists, then try again"
        raise UsageError("no-current-folder", msg, context=(error.strerror or "",), hint=hint) from error


def home_folder() -> Path | None:
    """Return this user's home folder; an environment without one is no reason to stop."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def device_of(name: str) -> str:
    """Return the Windows device that a file name means (upper case), or an empty string."""
    stem = re.split(r"[.:]", name, maxsplit=1)[0].rstrip(" ")
    return stem.upper() if _DEVICE.fullmatch(stem) else ""


def plain_spelling(text: str) -> str:
    r"""Return a Windows path without the prefixes under which the same folder has another name.

    ``\\?\C:\x`` and ``\\.\C:\x`` are ``C:\x``; ``\\?\UNC\server\share`` is ``\\server\share``.
    A device (``\\.\PhysicalDrive0``) stays what it is.
    """
    spelled = text.replace("/", "\\") if text.startswith(("//?/", "//./")) else text
    for prefix in _VERBATIM:
        rest = spelled[len(prefix) :]
        if spelled.startswith(prefix) and rest[:4].upper() == "UNC\\":
            return "\\\\" + rest[4:]
        if spelled.startswith(prefix) and _DRIVE.match(rest):
            return rest
    return text


def plain_path(path: Path) -> Path:
    """Return a path in its plain spelling; unchanged on other systems than Windows."""
    return Path(plain_spelling(str(path))) if sys.platform == "win32" else path


def _expanded(words: str, option: str) -> Path:
    """Replace ``~``, which a shell leaves as it is behind ``--option=``."""
    if words.startswith("~") and not os.path.lexists(words):
        try:
            return Path(words).expanduser()
        except RuntimeError as error:
            raise _bad(
                option, "begins with ~, and no home folder is known for it", "write it in full"
            ) from error
    return plain_path(Path(words))


def _bad(option: str, why: str, hint: str) -> UsageError:
    """Return the refusal of something that is no path."""
    return UsageError("bad-path", f"{option} {why}", hint=hint)
