"""Paths: as people type them, and what a file of ours may be called.

A name means the same on Linux and on Windows or is refused, so the rules of both apply to both; names that
differ by case alone are the one exception (see ``PathNames``).
"""

from __future__ import annotations

import errno
import os
import re
import sys
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePath
from typing import Final

from msgspec import Struct

from scripts.errors import ArchiveError, UsageError
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


MAX_COMPONENT: Final = 255
MAX_PATH: Final = 1024
MAX_DEPTH: Final = 64
#: Files and folders that one archive may have.
MAX_NAMES: Final = 100_000
_SHOWN: Final = 200
_HERE: Final = re.compile(r"^(?:\./)+")


class NameRefusal(Struct, frozen=True):
    """One rule: a reference, what it says, and when it applies to a name or to one of its components."""

    reference: str
    sentence: str
    applies: Callable[[str], bool]


def _has_control(name: str) -> bool:
    """Say whether a name holds a control character (C0, DEL, C1) or a line separator."""
    return not name.isprintable() and any(unicodedata.category(c) in {"Cc", "Zl", "Zp"} for c in name)


_WILD: Final = frozenset('<>"|?*')
#: Rules for the whole name, checked in this order.
WHOLE: Final = (
    NameRefusal("name-empty", "has no name", lambda n: not n),
    NameRefusal("name-nul", "has a NUL or control character in its name", _has_control),
    NameRefusal("name-not-unicode", "has a name that is not valid Unicode", lambda n: not _is_unicode(n)),
    NameRefusal("name-backslash", "has a backslash in its name", lambda n: "\\" in n),
    NameRefusal("name-absolute", "has an absolute path", lambda n: n.startswith("/")),
    NameRefusal("name-drive", "has a drive or stream in its name (a colon)", lambda n: ":" in n),
    NameRefusal(
        "name-too-long", f"has a path of more than {MAX_PATH} characters", lambda n: len(n) > MAX_PATH
    ),
    NameRefusal(
        "name-too-deep", f"lies more than {MAX_DEPTH} folders deep", lambda n: n.count("/") > MAX_DEPTH
    ),
)
#: Rules for every component.
COMPONENT: Final = (
    NameRefusal("name-empty-component", "has an empty or '.' path component", lambda c: c in {"", "."}),
    NameRefusal("name-parent", "climbs out of its folder (..)", lambda c: c == ".."),
    NameRefusal(
        "name-trailing", "has a component that ends with a dot or space", lambda c: c[-1:] in {".", " "}
    ),
    NameRefusal("name-reserved", "uses a name reserved by Windows", lambda c: device_of(c) != ""),
    NameRefusal("name-wildcard", "uses a character Windows forbids", lambda c: not _WILD.isdisjoint(c)),
    NameRefusal(
        "name-long-component",
        f"has a component of more than {MAX_COMPONENT} bytes",
        lambda c: len(c.encode("utf-8", "surrogatepass")) > MAX_COMPONENT,
    ),
)


def refusal(name: str) -> NameRefusal | None:
    """Return the first rule that ``name`` breaks, or ``None``."""
    for rule in WHOLE:
        if rule.applies(name):
            return rule
    for component in name.split("/"):
        for rule in COMPONENT:
            if rule.applies(component):
                return rule
    return None


def fold(name: str) -> str:
    """Return what two names share that a case-insensitive or normalising file system takes for one."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


class _PathEntry:
    __slots__ = ("children", "folder", "name")

    def __init__(self, name: str, *, folder: bool) -> None:
        self.name = name
        self.folder = folder
        self.children: dict[str, _PathEntry] = {}


class PathNames:
    """The names of one archive so far; ``admit`` lets each in once, and never two that may collide.

    Folders that are only implied count against ``most``, so that time and memory grow with the archive's
    own size, however deep its names are. ``case_counts`` says that the volume tells names apart by case.
    Only tars are unpacked so: ZLUDA's Linux release holds both ``libcublaslt.so`` and ``libcublasLt.so``.
    """

    def __init__(self, *, case_counts: bool = False, most: int = MAX_NAMES) -> None:
        """Start with no name."""
        self._key = partial(unicodedata.normalize, "NFC") if case_counts else fold
        self._left = self._most = most
        self._root = _PathEntry("", folder=True)

    def admit(self, raw: str, *, folder: bool) -> str:
        """Return the clean name of a member (POSIX, relative, no ``.``), or refuse it.

        A leading ``./`` and a folder's trailing ``/`` are ordinary and dropped; ``.`` itself gives "".

        Raises:
            ArchiveError: the name breaks a rule, or collides with one that is already in.
        """
        name = raw.removesuffix("/") if folder else raw
        name = _HERE.sub("", name)
        if folder and name == ".":
            return ""
        rule = refusal(name)
        if rule is not None:
            raise refused(raw, rule.reference, rule.sentence)
        place, *rest = name.split("/")
        here = self._root
        for part in rest:
            here = self._enter(here, place, raw, folder=True)
            place = part
        self._enter(here, place, raw, folder=folder)
        return name

    def _enter(self, parent: _PathEntry, part: str, raw: str, *, folder: bool) -> _PathEntry:
        """Record one component; a folder may be named again, anything else not."""
        known = parent.children.get(key := self._key(part))
        if known is None:
            self._left -= 1
            if self._left < 0:
                raise refused(raw, "archive-bomb", f"comes after {self._most:,} other names")
            known = parent.children[key] = _PathEntry(part, folder=folder)
        elif known.name != part:
            raise refused(
                raw, "name-collision", f"has {known.name!r} beside it, the same name on other systems"
            )
        elif known.folder != folder:
            raise refused(raw, "name-file-as-folder", f"needs {part!r} to be a file and a folder")
        elif not folder:
            raise refused(raw, "name-twice", "is in the archive twice")
        return known


def refused(name: str, reference: str, sentence: str) -> ArchiveError:
    """Make the error for one member; control characters in its name are shown escaped."""
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    return ArchiveError(
        reference,
        f"the archive is refused: {shown!r} {sentence}",
        hint="report the artifact, and leave it packed: nothing of it was kept",
    )


def _is_unicode(name: str) -> bool:
    """Say whether a name can be written as UTF-8 (no lone surrogates from undecodable bytes)."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
