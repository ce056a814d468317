"""Stacks that lack one public hash: what they would be, and how AMD's index completes them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, convert
from msgspec.structs import replace

from scripts.model import Artifact, Lock, Stack, Trust
from scripts.serialize import data_table

if TYPE_CHECKING:
    from scripts.lock.package_index import IndexedFile

NOTE: Final = "The digest is AMD's own, from its package index; the file was not downloaded for it."


class Proposal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stack for one architecture, whose hash is not known yet; see ``data/proposals.toml``."""

    gfx: str
    os: str
    artifact: str
    like: str
    replaces: tuple[str, ...]
    index: str
    file: str
    stack: str
    stack_like: str
    source: str


@cache
def proposals() -> tuple[Proposal, ...]:
    """Return every proposal, one for each architecture."""
    rows = [_filled(row, gfx) for row in data_table("proposals.toml")["proposal"] for gfx in row["gfx"]]
    return convert(rows, tuple[Proposal, ...])


def _filled(row: dict[str, Any], gfx: str) -> dict[str, Any]:
    words = {key: value.replace("{gfx}", gfx) for key, value in row.items() if isinstance(value, str)}
    return {**row, **words, "gfx": gfx}


def proposed_for(gfx: str, os: str) -> Proposal | None:
    """Return the proposal for an architecture and a system."""
    return next((one for one in proposals() if (one.gfx, one.os) == (gfx, os)), None)


def fits(proposal: Proposal, lock: Lock) -> bool:
    """Whether a lock has what the proposal builds on, and not yet the proposal itself."""
    there = {proposal.like, *proposal.replaces} <= set(lock.artifacts) and proposal.stack_like in lock.stacks
    return there and proposal.stack not in lock.stacks


def completed(proposal: Proposal, lock: Lock, found: IndexedFile) -> tuple[Artifact, Stack]:
    """Return the artifact and the stack that a found digest makes of a proposal."""
    artifact = replace(
        lock.artifacts[proposal.like],
        id=proposal.artifact,
        urls=(found.url,),
        sha256=found.sha256,
        size=None,
        source=proposal.source,
        trust=Trust.UPSTREAM_DIGEST,
        note=NOTE,
    )
    old = lock.stacks[proposal.stack_like]
    kept = tuple(part for part in old.parts if part not in proposal.replaces)
    stack = replace(
        old,
        id=proposal.stack,
        parts=(*kept, artifact.id),
        requires=replace(old.requires, gfx=(proposal.gfx,)),
        note=f"As {old.id}, for {proposal.gfx}; nothing is known about it yet: the check decides.",
    )
    return artifact, stack
