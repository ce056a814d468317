"""What an undo may do, and what it says it did."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from scripts.serialize import JsonRecord


class Mode(StrEnum):
    """What to do about files that changed meanwhile."""

    SAFE = "safe"
    OURS = "ours"
    THEIRS = "theirs"


class Left(Struct, frozen=True, kw_only=True):
    """A file that the undo did not dare to change, and why."""

    path: str
    why: str


class UndoReport(JsonRecord, frozen=True, kw_only=True):
    """What an undo did.

    Attributes:
        target: the folder.
        restored: originals that are back.
        removed: files of ours that are gone.
        kept: files left alone; with any of these the undo is incomplete.
        aside: files moved to a name beside, by ``--ours`` and ``--theirs``.
        pending: files of ours, out of the way already, that a running program still holds.
        lost: the target's record had vanished; what to do was known from the memory outside it.
    """

    target: Path
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[Left, ...] = ()
    aside: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    lost: bool = False

    JSON = "target complete restored removed kept aside pending lost"

    @property
    def complete(self) -> bool:
        """Whether every name is what it was."""
        return not self.kept
