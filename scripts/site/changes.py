"""What one build of the site says, kept for the next one, and what is different since. Pure.

A build keeps itself as ``this-build.json`` and the last different one as ``previous-build.json``. So the same
documents give the same bytes however often the site is built: only a build that differs moves on.
"""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from scripts.evidence.document import IDLE, Provenance
from scripts.evidence.merging import Cell, CellKey
from scripts.model import Level, Outcome
from scripts.serialize import JsonRecord

FORMAT: Final = 1


class BuiltCell(Struct, frozen=True, kw_only=True, array_like=True):
    """What stood in one cell: as much as a later build compares."""

    gpu: str
    stack: str
    application: str
    capability: str
    level: Level | None
    outcome: Outcome
    provenance: Provenance
    seen: str
    count: int
    conflict: bool

    @property
    def key(self) -> CellKey:
        """What it is about."""
        return CellKey(self.gpu, self.stack, self.application, self.capability)

    @property
    def rank(self) -> int:
        """Order what can stand: failures, what was not tried, then the levels of what passed."""
        if self.outcome is not Outcome.PASS:
            return 0 if self.outcome in IDLE else -1
        return 0 if self.level is None else 1 + self.level.rank

    @property
    def word(self) -> str:
        """Say what stood."""
        passed = self.outcome is Outcome.PASS
        word = self.outcome.value if not passed else self.level.value if self.level else "nothing shown"
        return f"{word} ({self.provenance.value})"


class SiteBuild(Struct, frozen=True, kw_only=True):
    """One build: what stood everywhere, in the order of the page."""

    format: int
    documents: int
    cells: tuple[BuiltCell, ...]


class ChangeKind(StrEnum):
    """How a result differs from the build before; what matters most comes first."""

    WORSE = "worse"
    BETTER = "better"
    CHANGED = "changed"
    GONE = "gone"
    NEW = "new"


class MatrixChange(JsonRecord, frozen=True, kw_only=True):
    """One result that is not what it was."""

    kind: ChangeKind
    gpu: str
    stack: str
    application: str
    capability: str
    before: str
    now: str


def build_of(cells: tuple[Cell, ...], *, documents: int) -> SiteBuild:
    """Keep what a later build compares."""
    kept = (
        BuiltCell(
            **cell.key._asdict(),
            level=cell.level,
            outcome=cell.outcome,
            provenance=cell.provenance,
            seen=cell.seen,
            count=cell.count,
            conflict=cell.conflict,
        )
        for cell in cells
    )
    return SiteBuild(format=FORMAT, documents=documents, cells=tuple(kept))


def dump_build(build: SiteBuild) -> bytes:
    """Write a build, a line for each cell, so that two of them can be compared by eye."""
    rows = ",\n".join(json.dumps(msgspec.to_builtins(cell), ensure_ascii=True) for cell in build.cells)
    head = f'{{"format": {build.format}, "documents": {build.documents}, "cells": ['
    return f"{head}\n{rows}\n]}}\n".encode("ascii")


def read_build(raw: bytes | None) -> SiteBuild | None:
    """Read a build; ``None`` where there is none, or one that this version does not understand."""
    if not raw:
        return None
    try:
        build = msgspec.json.decode(raw, type=SiteBuild)
    except msgspec.DecodeError:
        return None
    return build if build.format == FORMAT else None


def changes_between(before: SiteBuild, now: SiteBuild) -> tuple[MatrixChange, ...]:
    """Return what is different, worse results first; inside a kind in the order of the page."""
    old = {cell.key: cell for cell in before.cells}
    new = {cell.key: cell for cell in now.cells}
    found = [_change(old.get(key), cell) for key, cell in new.items()]
    found += [_change(cell, None) for key, cell in old.items() if key not in new]
    order = list(ChangeKind)
    return tuple(sorted((change for change in found if change), key=lambda change: order.index(change.kind)))


def count_kinds(changes: tuple[MatrixChange, ...]) -> dict[str, int]:
    """Count changes by kind, those that exist."""
    counted = Counter(change.kind for change in changes)
    return {kind.value: counted[kind] for kind in ChangeKind if counted[kind]}


def _change(old: BuiltCell | None, new: BuiltCell | None) -> MatrixChange | None:
    """Compare one cell with itself."""
    cell = new or old
    if cell is None or (old and new and (old.word, old.conflict) == (new.word, new.conflict)):
        return None
    return MatrixChange(kind=_kind(old, new), **cell.key._asdict(), before=_stood(old), now=_stood(new))


def _kind(old: BuiltCell | None, new: BuiltCell | None) -> ChangeKind:
    if old is None:
        return ChangeKind.NEW
    if new is None:
        return ChangeKind.GONE
    if new.rank == old.rank:
        return ChangeKind.CHANGED
    return ChangeKind.BETTER if new.rank > old.rank else ChangeKind.WORSE


def _stood(cell: BuiltCell | None) -> str:
    """Say what stood, and that documents disagree."""
    if cell is None:
        return ""
    return f"{cell.word}, documents disagree" if cell.conflict else cell.word
