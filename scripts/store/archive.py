"""Unpack a verified archive into a read-only tree, and verify such trees later."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from scripts.model import Artifact, Member, Progress
from scripts.store.cache import Cache


@dataclass(frozen=True, kw_only=True)
class TreeFile:
    """One file of a tree; ``path`` is POSIX, below the tree. ``link`` is a symbolic link's target or empty."""

    path: str
    sha256: str
    size: int
    mtime_ns: int = 0
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The files of one artifact on disk. ``surplus`` names files beside them (supplied folders only)."""

    path: Path
    root: str
    files: tuple[TreeFile, ...]
    surplus: tuple[str, ...] = ()

    def member(self, member: Member) -> TreeFile:
        """Return the file of a pinned member (``root`` joined with ``member.path``)."""
        raise NotImplementedError


class Change(StrEnum):
    """How a file on disk differs from the manifest."""

    MISSING = "missing"
    CHANGED = "changed"
    SURPLUS = "surplus"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One difference between a tree and its manifest; ``path`` is POSIX, below the tree."""

    path: str
    change: Change
    detail: str


def unpack(artifact: Artifact, cache: Cache, blob: Path, *, progress: Progress) -> Tree:
    """Unpack ``blob`` into the store once; later calls verify size and time and do nothing."""
    raise NotImplementedError


def load_tree(artifact: Artifact, cache: Cache) -> Tree | None:
    """Return the tree of ``artifact`` as its manifest tells, or ``None`` when it was never unpacked."""
    raise NotImplementedError


def verify_tree(tree: Tree, *, deep: bool, progress: Progress | None = None) -> tuple[Finding, ...]:
    """Compare a tree with its manifest: size and time, or with ``deep`` every byte."""
    raise NotImplementedError


def require_intact(tree: Tree, findings: tuple[Finding, ...]) -> None:
    """Raise ``StagedFileError`` naming every finding (``staged-file-missing`` before ``-changed``)."""
    raise NotImplementedError


def supplied_files(artifact: Artifact, folder: Path, *, progress: Progress | None = None) -> Tree:
    """Verify the files a person brought for a ``supplied`` artifact and return them as a tree."""
    raise NotImplementedError
