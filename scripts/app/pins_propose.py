"""``pins.update --gpu``: complete a proposed stack from AMD's package index, which names digests."""

from __future__ import annotations

from typing import Final

from scripts.app.context import Workspace
from scripts.app.pins_check import web
from scripts.errors import FetchError, UsageError
from scripts.lock.proposals import Proposal, completed, fits, indexed, proposals
from scripts.lock.writer import with_artifact, with_stack
from scripts.model import Lock
from scripts.net.web import Web

ALL: Final = "all"
#: No index page of one package is longer.
MOST: Final = 8 << 20


def chosen_proposals(gpu: str, lock: Lock) -> tuple[Proposal, ...]:
    """Return the proposals for an architecture, or all of them, that a lock does not have yet.

    Raises:
        UsageError: ``no-proposal``: there is none for it.
    """
    found = tuple(one for one in proposals() if gpu in {ALL, one.gfx})
    if not found:
        known = ", ".join(sorted({one.gfx for one in proposals()}))
        msg = f"no stack is proposed for {gpu}"
        raise UsageError("no-proposal", msg, hint=f"use one of: {known}, {ALL}")
    return tuple(one for one in found if fits(one, lock))


def complete(ws: Workspace, lock: Lock, text: str, proposal: Proposal) -> tuple[str, str, str]:
    """Ask the index for one proposal; return the lock's new text, a status, and a detail.

    A file that is not there leaves the text as it is.
    """
    try:
        page = _page(web(ws), proposal.index)
    except FetchError as error:
        return text, "unreachable", " ".join((error.message, *error.context))
    found = indexed(page, base=proposal.index, file=proposal.file)
    if found is None:
        return text, "not-listed", f"{proposal.index} does not name {proposal.file} with a SHA-256"
    artifact, stack = completed(proposal, lock, found)
    return with_stack(with_artifact(text, artifact), stack), "new", f"sha256 {found.sha256}; {stack.id}"


def _page(asking: Web, url: str) -> str:
    """Read one page of an index."""
    return asking.read_page(url, most=MOST).decode("utf-8", "replace")
