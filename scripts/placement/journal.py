"""The journal of one placement: what was planned, and how far it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final

from scripts.placement.plan import Action
from scripts.placement.records import record
from scripts.records import dataclass

FORMAT: Final = 1


class Step(StrEnum):
    """How far a placement went; recovery looks at the disk for everything else."""

    BEGIN = "begin"
    COMMITTED = "committed"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, kw_only=True)
class Journal:
    """A journal that was read and checked, or one about to be written.

    Attributes:
        stack, digest: what was placed.
        actions: the plan.
        folders: times of last change before placing, by folder.
        created: UTC, for people.
        step: the last record.
        placed_folders: times of last change after placing, from ``committed``.
        reset: folders whose time an undo puts back, from ``undoing``.
        end: where the next record goes.
        torn: whether something unreadable lay behind that.
    """

    stack: str
    digest: str
    actions: tuple[Action, ...]
    folders: Mapping[str, int] = field(default_factory=dict)
    created: str = ""
    step: Step = Step.BEGIN
    placed_folders: Mapping[str, int] = field(default_factory=dict)
    reset: tuple[str, ...] = ()
    end: int = 0
    torn: bool = False


def begin(journal: Journal) -> bytes:
    """Return the first record, which holds the whole plan.

    Names that are no text (Linux allows any bytes) survive as escaped surrogates.
    """
    return record(
        {
            "record": Step.BEGIN,
            "format": FORMAT,
            "stack": journal.stack,
            "digest": journal.digest,
            "created": journal.created,
            "folders": dict(journal.folders),
            "actions": [_action_json(action) for action in journal.actions],
        }
    )


def committed(folders: Mapping[str, int]) -> bytes:
    """Return the record that ends placing."""
    return record({"record": Step.COMMITTED, "folders": dict(folders)})


def undoing(reset: tuple[str, ...]) -> bytes:
    """Return the record that starts an undo."""
    return record({"record": Step.UNDOING, "reset": list(reset)})


def undone() -> bytes:
    """Return the record behind which only our own folder is left to remove."""
    return record({"record": Step.UNDONE})


def _action_json(action: Action) -> dict[str, object]:
    """Write one action."""
    body: dict[str, object] = {
        "deed": action.deed,
        "folder": action.folder,
        "name": action.name,
        "new": f"new/{action.number:04d}",
        "original": f"originals/{action.number:04d}",
        "sha256": action.sha256,
        "size": action.size,
    }
    if action.before:
        body["before"] = {**vars(action.before)}
    return body
