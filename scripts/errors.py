"""Every error a person can meet, and the exit code it ends with.

This module imports nothing of ours. An error carries a kebab-case reference (stable, searchable),
one sentence that says what is wrong, lines of context, and a hint that says what to do.
Each subclass owns one exit code, so that the codes stay unique and mean something.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """What a task's exit code means; ``docs/exit-codes.md`` has the table."""

    OK = 0
    BUG = 1
    USAGE = 2
    NEGATIVE = 3
    LOCK = 10
    FETCH = 20
    INTEGRITY = 21
    ARCHIVE = 22
    TARGET = 30
    CONFLICT = 31
    STAGED = 32
    JOURNAL = 40
    UNDO_INCOMPLETE = 41
    GPU_NOT_USED = 42
    HOST = 50
    LAUNCH = 60
    WRAP_NOT_STARTED = 120
    TIMEOUT = 124
    INTERRUPTED = 130


class WorkspaceError(Exception):
    """A failure we understand: shown as a short panel, never as a traceback.

    Args:
        reference: kebab-case name of the kind of failure, for example ``hash-mismatch``.
        message: one sentence, true and short.
        context: facts that help, one a line.
        hint: what the person can do now.
    """

    code: ClassVar[ExitCode] = ExitCode.BUG

    def __init__(
        self,
        reference: str,
        message: str,
        *,
        context: tuple[str, ...] = (),
        hint: str = "",
    ) -> None:
        """Keep the four parts; ``str(error)`` is the message alone."""
        super().__init__(message)
        self.reference = reference
        self.message = message
        self.context = context
        self.hint = hint

    def to_json(self, code: int | None = None) -> dict[str, object]:
        """Return the object that ``--json`` prints for a failure; ``code`` is the process's own."""
        body: dict[str, object] = {
            "reference": self.reference,
            "message": self.message,
            "hint": self.hint,
            "code": int(self.code) if code is None else code,
        }
        if self.context:
            body["context"] = list(self.context)
        return {"error": body}


class UsageError(WorkspaceError):
    """The command line asks for something we cannot read or do not offer."""

    code = ExitCode.USAGE


class LockError(WorkspaceError):
    """``pins.lock`` (or the file that replaces it) is wrong; the context names line and key."""

    code = ExitCode.LOCK


class FetchError(WorkspaceError):
    """A download did not arrive."""

    code = ExitCode.FETCH


class IntegrityError(WorkspaceError):
    """Bytes arrived or lie on disk that are not the pinned ones."""

    code = ExitCode.INTEGRITY


class ArchiveError(WorkspaceError):
    """An archive holds something we refuse to unpack."""

    code = ExitCode.ARCHIVE


class TargetError(WorkspaceError):
    """The program or its folder cannot be used."""

    code = ExitCode.TARGET


class ConflictError(WorkspaceError):
    """Another one holds what we need: another stack, another process, another owner."""

    code = ExitCode.CONFLICT


class StagedFileError(WorkspaceError):
    """A file that we had verified is missing or has changed since."""

    code = ExitCode.STAGED


class JournalError(WorkspaceError):
    """A placement journal cannot be trusted; nothing was touched."""

    code = ExitCode.JOURNAL


class HistoryError(WorkspaceError):
    """The list of what was active here cannot be trusted; nothing was touched."""

    code = ExitCode.JOURNAL


class UndoIncompleteError(WorkspaceError):
    """An undo kept files that it did not dare to change; the context lists them."""

    code = ExitCode.UNDO_INCOMPLETE


class HostError(WorkspaceError):
    """This machine lacks something a stack requires."""

    code = ExitCode.HOST


class LaunchError(WorkspaceError):
    """A program could not be started."""

    code = ExitCode.LAUNCH
