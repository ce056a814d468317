"""``pins.check``: hash everything upstream again, and keep nothing."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from scripts.app.context import Workspace
from scripts.app.pins_stale import AgedPin, PinAge, ages
from scripts.app.setup.download_summary import DownloadRow, DownloadSummary
from scripts.errors import ExitCode, FetchError, UsageError
from scripts.lock.reader import read_lock
from scripts.lock.resolve import unknown_name
from scripts.model import Artifact, ArtifactFormat, Lock, Progress
from scripts.net.github import API, GitHub, api_base
from scripts.net.request import MAX_BYTES, hash_url
from scripts.net.session import SHORT_DELAYS, Transport
from scripts.serialize import JsonRecord
from scripts.store.fetch import FetchAction


class PinStatus(StrEnum):
    """What one URL gave."""

    SAME = "same"
    DIFFERS = "differs"
    UNREACHABLE = "unreachable"
    SUPPLIED = "supplied"


class CheckedUrl(Struct, frozen=True, kw_only=True):
    """One URL of one artifact; ``url`` is empty for supplied files, which are not downloaded."""

    artifact: str
    url: str
    status: PinStatus
    detail: str


class PinsCheckResult(JsonRecord, frozen=True, kw_only=True):
    """Every URL that was asked, or with ``--stale`` how every pin stands to what upstream names."""

    checked: tuple[CheckedUrl, ...] = ()
    ages: tuple[AgedPin, ...] = ()

    @property
    def exit_code(self) -> int:
        """3 when bytes differ or a pin is behind, 20 when something could not be asked, else 0."""
        found = {row.status.value for row in self.checked} | {row.status.value for row in self.ages}
        if found & {PinStatus.DIFFERS.value, PinAge.BEHIND.value}:
            return int(ExitCode.NEGATIVE)
        return int(ExitCode.FETCH if PinStatus.UNREACHABLE.value in found else ExitCode.OK)


def pins_check(
    ws: Workspace, *, only: str = "", offline: bool = False, stale: bool = False
) -> PinsCheckResult:
    """Stream every pinned URL through the hasher; nothing is stored and the lock is not written.

    Args:
        ws: the workspace.
        only: artifact ids, comma separated; empty for all.
        offline: refused, because there would be nothing to check.
        stale: ask for names of newer versions instead, and download no file.

    Raises:
        LockError: the lock is wrong.
        UsageError: an artifact is unknown, or ``offline``.
    """
    if offline:
        msg = "pins.check asks servers, which --offline forbids"
        hint = "leave --offline out; `invoke verify --deep` hashes what is already here"
        raise UsageError(reference="offline", message=msg, hint=hint)
    lock = read_lock(ws.lock_path, custom=ws.custom_lock)
    if stale:
        return PinsCheckResult(ages=ages(ws, github(ws), transport(ws), chosen(lock, only)))
    agree(ws, chosen(lock, only))
    way = transport(ws)
    rows = [row for artifact in chosen(lock, only) for row in _check(way, artifact, ws.progress)]
    return PinsCheckResult(checked=tuple(rows))


def agree(ws: Workspace, artifacts: Sequence[Artifact]) -> None:
    """Ask a person before gigabytes are read; without a terminal the command is consent.

    Raises:
        UsageError: the answer was no.
    """
    rows = tuple(
        DownloadRow(
            artifact=artifact.id,
            action=FetchAction.FETCH,
            bytes=artifact.size,
            license=artifact.license,
            trust=artifact.trust,
            note="",
        )
        for artifact in artifacts
        for _url in artifact.urls
    )
    summary = DownloadSummary(stack="pins.check, which keeps nothing", rows=rows)
    if ws.ask is None or not rows or ws.ask(summary):
        return
    hint = f"check one at a time: invoke pins.check --only={rows[0].artifact}"
    raise UsageError("declined", "nothing was downloaded", hint=hint)


def chosen(lock: Lock, only: str) -> tuple[Artifact, ...]:
    """Return the artifacts named in a comma-separated list, or all of them."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    for name in names:
        if name not in lock.artifacts:
            raise unknown_name("artifact", name, tuple(lock.artifacts))
    return tuple(lock.artifacts[name] for name in dict.fromkeys(names or lock.artifacts))


def _check(transport: Transport, artifact: Artifact, progress: Progress) -> list[CheckedUrl]:
    if artifact.format is ArtifactFormat.SUPPLIED:
        detail = "supplied by the user; hashed when it is staged"
        return [CheckedUrl(artifact=artifact.id, url="", status=PinStatus.SUPPLIED, detail=detail)]
    rows = []
    for url in artifact.urls:
        status, detail = _ask(transport, artifact, url, progress)
        rows.append(CheckedUrl(artifact=artifact.id, url=url, status=status, detail=detail))
    return rows


def _ask(transport: Transport, artifact: Artifact, url: str, progress: Progress) -> tuple[PinStatus, str]:
    most = artifact.size or MAX_BYTES
    try:
        found = hash_url(url, transport, most=most, progress=progress)
    except FetchError as error:
        return PinStatus.UNREACHABLE, " ".join([error.message, *error.context])
    if found.cut:
        return PinStatus.DIFFERS, f"more than {most} bytes"
    if found.sha256 != artifact.sha256:
        return PinStatus.DIFFERS, f"sha256 {found.sha256}, pinned {artifact.sha256}; {found.size} bytes"
    if artifact.size not in {None, found.size}:
        return PinStatus.DIFFERS, f"{found.size} bytes, pinned {artifact.size}"
    return PinStatus.SAME, f"{found.size} bytes"


def transport(ws: Workspace) -> Transport:
    """Make the way to ask servers; ``SSL_CERT_FILE`` adds certificates to the system's."""
    ca_file = ws.environ.get("SSL_CERT_FILE")
    return Transport(ca_file=Path(ca_file) if ca_file else None, delays=SHORT_DELAYS)


def github(ws: Workspace) -> GitHub:
    """Make the metadata server: GitHub, or the one in ``CUDA_AMD_GITHUB_API``.

    ``GITHUB_TOKEN`` raises the number of questions GitHub answers; it is sent to that server only.

    Raises:
        UsageError: ``CUDA_AMD_GITHUB_API`` is neither https nor loopback.
    """
    address = ws.environ.get("CUDA_AMD_GITHUB_API")
    api = api_base(address) if address else API
    return GitHub(transport=transport(ws), api=api, token=ws.environ.get("GITHUB_TOKEN", ""))
