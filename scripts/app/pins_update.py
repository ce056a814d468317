"""``pins.update``: ask releases about their files, and bring newer ones in beside the old."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from msgspec import Struct, field

from scripts.app.context import Workspace, lock_of
from scripts.app.pins import chosen, github, transport
from scripts.app.pins_stale import read_page
from scripts.errors import ExitCode, FetchError, UsageError
from scripts.lock import update
from scripts.lock.package_index import index_of, indexed
from scripts.lock.proposals import Proposal, completed, fits, proposals
from scripts.lock.reader import parse_lock
from scripts.lock.update import LockDiff, PinFinding, diff
from scripts.lock.values import url_problem
from scripts.lock.writer import format_lock, save_lock, with_artifact, with_fields, with_stack
from scripts.model import Artifact, Lock, Trust
from scripts.net.github import AssetRef, GitHub, Release
from scripts.net.sources import last_component
from scripts.serialize import JsonRecord
from scripts.staging.select import check_system

BY_INDEX: Final = "The package index gives this digest."
#: Why an artifact's host was not asked.
NO_METADATA = "no-metadata"
#: A proposal's index did not answer, or does not list the file with a digest.
UNREACHABLE = "unreachable"
NOT_LISTED = "not-listed"


class AskedPin(Struct, frozen=True, kw_only=True):
    """What upstream says about one artifact, or about a newer release of it."""

    artifact: str
    status: str
    detail: str


class PinsUpdateResult(JsonRecord, frozen=True, kw_only=True):
    """What was found, the change it means for the lock, and whether it was written."""

    asked: tuple[AskedPin, ...]
    diff: LockDiff
    written: bool

    @property
    def exit_code(self) -> int:
        """3 when upstream contradicts a pin, 20 when an index did not answer or list a file, else 0."""
        found = {row.status for row in self.asked}
        if found & {PinFinding.DIFFERS.value, PinFinding.GONE.value}:
            return int(ExitCode.NEGATIVE)
        return int(ExitCode.FETCH if found & {UNREACHABLE, NOT_LISTED} else ExitCode.OK)


class _Work(Struct, kw_only=True):
    """The lock's text as it grows, and what was found on the way."""

    lock: Lock
    text: str
    server: GitHub
    rows: list[AskedPin] = field(default_factory=list)
    releases: dict[tuple[str, str, str], Release] = field(default_factory=dict)

    def say(self, artifact: str, status: str, detail: str) -> None:
        self.rows.append(AskedPin(artifact=artifact, status=status, detail=detail))

    def release(self, owner: str, repo: str, tag: str) -> Release:
        """Ask once for each release."""
        key = owner, repo, tag
        if key not in self.releases:
            self.releases[key] = self.server.release(*key)
        return self.releases[key]


def pins_update(
    ws: Workspace, *, artifact: str = "", tag: str = "", gpu: str = "", for_: str = "", write: bool = False
) -> PinsUpdateResult:
    """Compare pins with their releases' metadata and propose newer releases.

    A pin that upstream contradicts is reported and never changed. A newer release becomes a new artifact
    and new stacks; the old ones stay.

    ``artifact`` names artifacts, comma separated (empty: all), ``tag`` the release to bring in (empty: the
    newest). With ``gpu`` the stack that is proposed for this architecture (``all``: every one) is completed,
    on the system ``for_`` (empty: this one's), and nothing else. Without ``write`` only the difference is
    returned.

    Raises:
        LockError: the lock is wrong, or a change would make it so.
        FetchError: a server did not answer; nothing was written.
        UsageError: an artifact or system is unknown.
    """
    if for_:
        check_system(for_)
    lock = lock_of(ws)
    text = format_lock(ws.lock_path.read_bytes().decode(), path=ws.lock_path)
    work = _Work(lock=lock, text=text, server=github(ws))
    if gpu:
        system = for_ or ("windows" if ws.platform == "win32" else "linux")
        for proposal in chosen_proposals(gpu, system, lock):
            work.text, status, detail = complete(ws, lock, work.text, proposal)
            work.say(proposal.artifact, status, detail)
        return _finish(ws, work, write=write)
    families: dict[tuple[str, str, str], list[tuple[Artifact, AssetRef]]] = defaultdict(list)
    for item in chosen(lock, artifact):
        ref = work.server.ref(item.urls[0]) if item.urls else None
        if ref is None:
            _confirm_by_index(ws, work, item)
            continue
        _confirm(work, item, ref)
        families[ref.owner, ref.repo, update.shape(ref.name, ref.tag)].append((item, ref))
    for (owner, repo, _), family in families.items():
        _bring_in(work, owner, repo, family, tag)
    return _finish(ws, work, write=write)


def _confirm(work: _Work, item: Artifact, ref: AssetRef) -> None:
    asset = work.release(ref.owner, ref.repo, ref.tag).asset(ref.name)
    judged = update.judge(item, asset)
    work.say(item.id, judged.finding.value, judged.detail)
    if judged.fields:
        work.text = with_fields(work.text, item.id, judged.fields)


def _confirm_by_index(ws: Workspace, work: _Work, item: Artifact) -> None:
    """Hold a wheel's pin against the digest in its package index; other hosts publish none."""
    url = item.urls[0] if item.urls else ""
    base = index_of(url) if url else ""
    if not base:
        work.say(item.id, NO_METADATA, "this host publishes no digests")
        return
    try:
        page = read_page(transport(ws), base)
    except FetchError as error:
        work.say(item.id, UNREACHABLE, " ".join((error.message, *error.context)))
        return
    found = indexed(page, base=base, file=last_component(url))
    if found is None:
        work.say(item.id, PinFinding.NO_DIGEST.value, f"{base} names no SHA-256 for it")
        return
    if found.sha256 != item.sha256:
        detail = f"sha256 {found.sha256}, pinned {item.sha256}"
        work.say(item.id, PinFinding.DIFFERS.value, detail)
        return
    work.say(item.id, PinFinding.CONFIRMED.value, "the index gives this digest")
    if item.trust is not Trust.UPSTREAM_DIGEST:
        note = f"{BY_INDEX} {item.note}".strip()
        fields: dict[str, str | int] = {"trust": Trust.UPSTREAM_DIGEST.value, "note": note}
        work.text = with_fields(work.text, item.id, fields)


def _bring_in(
    work: _Work, owner: str, repo: str, family: list[tuple[Artifact, AssetRef]], wanted: str
) -> None:
    """Add the release's file of one family, unless the lock has it."""
    tags = work.server.tags(owner, repo)
    tag = wanted or next(iter(tags), "")
    base, ref = update.newest_first(family, tags)[0]
    known = {
        found.tag
        for item in work.lock.artifacts.values()
        for url in item.urls
        if (found := _same(work, url, ref))
    }
    if not tag or tag in known:
        return
    release = work.release(owner, repo, tag)
    asset = update.counterpart(ref, release)
    if asset is None:
        work.say(base.id, "no-counterpart", f"{tag} has no file that corresponds to {ref.name}")
        return
    problem = url_problem(asset.url)
    if problem is not None or asset.sha256 is None:
        detail = problem.message if problem else f"{tag} gives no SHA-256 for {asset.name}; use pins.add"
        work.say(base.id, PinFinding.NO_DIGEST.value, detail)
        return
    new = update.with_known_needs(update.successor(base, ref, release, asset), work.lock)
    stacks = update.successor_stacks(work.lock, base, new, ref.tag, tag)
    work.text = with_artifact(work.text, new)
    for stack in stacks:
        work.text = with_stack(work.text, stack)
    work.say(new.id, "new", f"{tag}; stacks: {', '.join(stack.id for stack in stacks) or 'none'}")


def _same(work: _Work, url: str, ref: AssetRef) -> AssetRef | None:
    """Return the reference of a URL of the same family as ``ref``."""
    found = work.server.ref(url)
    if found is None or (found.owner, found.repo) != (ref.owner, ref.repo):
        return None
    return found if update.shape(found.name, found.tag) == update.shape(ref.name, ref.tag) else None


def _finish(ws: Workspace, work: _Work, *, write: bool) -> PinsUpdateResult:
    change = diff(work.lock, parse_lock(work.text.encode(), path=ws.lock_path, custom=ws.custom_lock))
    if write and change:
        save_lock(ws.lock_path, work.text, expected=work.lock.digest)
    return PinsUpdateResult(asked=tuple(work.rows), diff=change, written=write and bool(change))


#: Completing a proposed stack from AMD's package index, which names digests.
ALL: Final = "all"


def chosen_proposals(gpu: str, system: str, lock: Lock) -> tuple[Proposal, ...]:
    """Return the proposals for an architecture, or all of a system, that a lock does not have yet.

    Raises:
        UsageError: ``no-proposal``: there is none for it.
    """
    there = [one for one in proposals() if one.os == system]
    found = tuple(one for one in there if gpu in {ALL, one.gfx})
    if not found:
        known = ", ".join(sorted({one.gfx for one in there})) or "none"
        msg = f"no stack is proposed for {gpu} on {system}"
        hint = f"use one of: {known}, {ALL}" if there else "use --for=windows or --for=linux"
        raise UsageError("no-proposal", msg, hint=hint)
    return tuple(one for one in found if fits(one, lock))


def complete(ws: Workspace, lock: Lock, text: str, proposal: Proposal) -> tuple[str, str, str]:
    """Ask the index for one proposal; return the lock's new text, a status, and a detail.

    A file that is not there leaves the text as it is.
    """
    try:
        page = read_page(transport(ws), proposal.index)
    except FetchError as error:
        return text, UNREACHABLE, " ".join((error.message, *error.context))
    found = indexed(page, base=proposal.index, file=proposal.file)
    if found is None:
        return text, NOT_LISTED, f"{proposal.index} does not name {proposal.file} with a SHA-256"
    artifact, stack = completed(proposal, lock, found)
    return with_stack(with_artifact(text, artifact), stack), "new", f"sha256 {found.sha256}; {stack.id}"
