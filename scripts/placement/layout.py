"""Where placements are recorded: a target's ``.cuda-amd`` folder, and the index of this user.

Everything needed to undo lies in the target itself. Losing this folder loses the list, nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import sys
from functools import cached_property
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from scripts.osal import paths
from scripts.osal.fs import extended_path, read_bounded, remove, write_atomic
from scripts.osal.text import utc_now

STATE: Final = ".cuda-amd"
#: Everything that we ever put into the state folder; anything else there belongs to another program.
FOLDERS: Final = ("new", "originals", "trash", "users")
FILES: Final = ("README.txt", "journal", "lock")
#: What file systems allow for one name: bytes on Linux, UTF-16 units on Windows.
_LONGEST_NAME: Final = 255
_FORBIDDEN: Final = frozenset("\\:")
_CONTROL: Final = frozenset(map(chr, (*range(32), 127)))
fold: Final = paths.fold


class Layout(Struct, frozen=True, dict=True):
    """The paths below one target."""

    target: Path

    @cached_property
    def state(self) -> Path:
        """Our folder in the target."""
        return self.target / STATE

    @cached_property
    def journal(self) -> Path:
        """The record of what was planned and how far it went."""
        return self.state / "journal"

    @cached_property
    def lock(self) -> Path:
        """Held while placing and undoing."""
        return self.state / "lock"

    @cached_property
    def readme(self) -> Path:
        """For a person without this tool."""
        return self.state / "README.txt"

    @cached_property
    def users(self) -> Path:
        """One empty file for each process that uses the placement."""
        return self.state / "users"

    def new(self, number: int) -> Path:
        """A file of ours before it is placed."""
        return self._numbered("new", number)

    def original(self, number: int) -> Path:
        """A file of the user's while ours has its name."""
        return self._numbered("originals", number)

    def trash(self, number: int) -> Path:
        """A file that is about to be removed."""
        return self._numbered("trash", number)

    def inside(self, relative: str) -> Path:
        """Join a checked relative POSIX path."""
        path = self._known.get(relative)
        if path is None:
            path = self.target.joinpath(*relative.split("/")) if relative else self.target
            self._known[relative] = path
        return path

    @cached_property
    def _known(self) -> dict[str | tuple[str, int], Path]:
        """Paths that were made: with a thousand files making them again and again is what takes time."""
        return {}

    def _numbered(self, folder: str, number: int) -> Path:
        """A file of ours in one of the folders of ours."""
        path = self._known.get((folder, number))
        if path is None:
            path = self._known[folder, number] = self.state.joinpath(folder, numbered(number))
        return path


def numbered(number: int) -> str:
    """Return the name of an action's files in the folders of ours."""
    return f"{number:04d}"


def unsafe_path(relative: str) -> str:
    """Say why a relative POSIX path must not be used below a target; empty if it may.

    Backslash and colon are refused everywhere: what is a name on one system is a way out on another.
    """
    parts = relative.split("/")
    if parts[0] and fold(parts[0]).rstrip(". ") == STATE:
        return "leads into the placement's own folder"
    for part in parts:
        if part in {"", ".", ".."}:
            return f"has the component {part!r}"
        if not _FORBIDDEN.isdisjoint(part) or not _CONTROL.isdisjoint(part):
            return f"has a character in {part!r} that no path of ours has"
        if why := _unusual(part):
            return why
    return ""


def _unusual(part: str) -> str:
    """Say why no file system has such a name."""
    try:
        units = len(part.encode("utf-16-le", "surrogatepass")) // 2
        size = units if sys.platform == "win32" else len(os.fsencode(part))
    except UnicodeEncodeError:
        return f"has a character in {part!r} that no file name has"
    return f"has a component of {size} characters" if size > _LONGEST_NAME else ""


PLACEMENTS: Final = "placements"
SHIMS: Final = "shims"
#: A fact about a placement: the target's own record had vanished, and not everything could be put back.
LOST: Final = "lost"
_VERSION: Final = "registry-v1"


#: Bytes of an entry, and of a memory, beyond which it is not ours.
LONGEST: Final = 256 * 1024
LONGEST_MEMORY: Final = 64 * 1024 * 1024
#: The ending of a file that remembers.
MEMORY: Final = ".memory"


class RegistryEntry(Struct, frozen=True, kw_only=True):
    """One listed path, and what was noted about it."""

    path: Path
    added: str = ""
    facts: dict[str, str] = field(default_factory=dict)


def usable(path: Path) -> bool:
    """Whether the system can be asked about a path at all: absolute, and neither too long nor misspelled."""
    if not path.is_absolute():
        return False
    try:
        os.lstat(extended_path(path))
    except FileNotFoundError:
        return True
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    except ValueError:  # NUL, or characters that no file system has
        return False
    return True


class PlacementRegistry(Struct, frozen=True):
    """The index below a user's state folder."""

    root: Path

    def add(self, kind: str, path: Path, **facts: str) -> None:
        """List a path; again is an update. The file appears whole or not at all."""
        entry = self._file(kind, path)
        entry.parent.mkdir(parents=True, exist_ok=True)
        added = utc_now().isoformat()
        body = {"path": os.fspath(path), "added": added, "facts": facts}
        write_atomic(entry, json.dumps(body, indent=1).encode("ascii"), durable=False)

    def remove(self, kind: str, path: Path) -> None:
        """Take a path off the list, with what is remembered of it; absent is fine."""
        entry = self._file(kind, path)
        remove(entry)
        remove(entry.with_suffix(MEMORY))

    def remember(self, kind: str, path: Path, memory: bytes) -> None:
        """Keep what must be known of a path even if everything there vanishes."""
        file = self._file(kind, path).with_suffix(MEMORY)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, memory)

    def memory(self, kind: str, path: Path) -> bytes | None:
        """Return what is remembered of a path, ``None`` if nothing is or it cannot be read."""
        try:
            return read_bounded(self._file(kind, path).with_suffix(MEMORY), LONGEST_MEMORY)
        except (OSError, ValueError):
            return None

    def entry(self, kind: str, path: Path) -> RegistryEntry | None:
        """Return what is listed about one path."""
        return next((entry for entry in self.entries(kind) if entry.path == path), None)

    def entries(self, kind: str) -> tuple[RegistryEntry, ...]:
        """Return what is listed, by path; a damaged entry is skipped, the target knows better."""
        found: list[RegistryEntry] = []
        for file in sorted((self.root / _VERSION / kind).glob("*.json")):
            with contextlib.suppress(
                OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError
            ):
                body = json.loads(read_bounded(file, LONGEST).decode("ascii"))
                facts = {str(key): str(value) for key, value in body["facts"].items()}
                path = Path(body["path"])
                if usable(path):
                    found.append(RegistryEntry(path=path, added=str(body["added"]), facts=facts))
        return tuple(sorted(found, key=lambda entry: entry.path))

    def _file(self, kind: str, path: Path) -> Path:
        """Name an entry's file after its path."""
        key = hashlib.sha256(os.fsencode(os.path.normcase(path))).hexdigest()[:32]
        return self.root / _VERSION / kind / f"{key}.json"
