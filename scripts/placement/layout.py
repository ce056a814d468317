"""Where a placement is recorded: the target's ``.cuda-amd`` folder, with everything needed to undo it."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.osal import paths

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
