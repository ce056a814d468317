"""``pins.check`` and ``pins.add``: hash what upstream publishes, and propose pins with a fair trust."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from scripts.app.context import Workspace, lock_of
from scripts.app.download_summary import DownloadRow, DownloadSummary
from scripts.app.pins_stale import AgedPin, PinAge, ages
from scripts.errors import ConflictError, ExitCode, FetchError, IntegrityError, UsageError
from scripts.lock.reader import parse_lock, unknown_name
from scripts.lock.update import CONFIRMED, LockDiff, diff
from scripts.lock.values import url_problem
from scripts.lock.writer import format_lock, save_lock, with_artifact
from scripts.model import Artifact, ArtifactFormat, Lock, Progress, Trust
from scripts.net.github import API, Asset, AssetRef, GitHub, api_base
from scripts.net.request import MAX_BYTES, HashedUrl, hash_url, is_web_page
from scripts.net.session import SHORT_DELAYS, Transport
from scripts.net.sources import shown
from scripts.serialize import JsonRecord, pick
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

    ``only`` names artifacts, comma separated (empty: all). ``stale`` asks for names of newer versions
    instead, and downloads no file. ``offline`` is refused, because there would be nothing to check.

    Raises:
        LockError: the lock is wrong.
        UsageError: an artifact is unknown, or ``offline``.
    """
    if offline:
        msg = "pins.check asks servers, which --offline forbids"
        hint = "leave --offline out; `invoke verify --deep` hashes what is already here"
        raise UsageError(reference="offline", message=msg, hint=hint)
    lock = lock_of(ws)
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
        progress.note(f"reading {artifact.id} from {shown(url)}")
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
    file = Path(ca_file) if ca_file else None
    return Transport(ca_file=file, delays=SHORT_DELAYS, note=ws.progress.note)


def github(ws: Workspace) -> GitHub:
    """Make the metadata server: GitHub, or the one in ``CUDA_AMD_GITHUB_API``.

    ``GITHUB_TOKEN`` raises the number of questions GitHub answers; it is sent to that server only.

    Raises:
        UsageError: ``CUDA_AMD_GITHUB_API`` is neither https nor loopback.
    """
    address = ws.environ.get("CUDA_AMD_GITHUB_API")
    api = api_base(address) if address else API
    return GitHub(transport=transport(ws), api=api, token=ws.environ.get("GITHUB_TOKEN", ""))


ONE_REPORT: Final = "Downloaded and hashed once by whoever added it; its host publishes no digest."
NO_DIGEST: Final = "Downloaded and hashed once by whoever added it; its release gives no SHA-256."

_ENDS: Final = (
    (".tar.gz", ArtifactFormat.TAR_GZ),
    (".tgz", ArtifactFormat.TAR_GZ),
    (".zip", ArtifactFormat.ZIP),
    (".whl", ArtifactFormat.WHEEL),
)


class PinsAddResult(Struct, frozen=True, kw_only=True):
    """The new artifact, the change it means for the lock, and whether it was written."""

    artifact: Artifact
    diff: LockDiff
    written: bool
    exit_code: int = ExitCode.OK

    def to_json(self) -> dict[str, object]:
        """Return the pin, the diff and whether it was written."""
        return {"artifact": pick(self.artifact, "id sha256 size trust"), **pick(self, "diff written")}


def pins_add(
    ws: Workspace,
    *,
    url: str = "",
    id: str = "",  # noqa: A002 - the option's name on the command line
    license: str = "",  # noqa: A002 - the option's name on the command line
    write: bool = False,
) -> PinsAddResult:
    """Download a file, keep nothing but its hash, compare it with the release's digest, propose the pin.

    ``url`` is the https address of one unchanging file, ``license`` that of what is downloaded; an empty
    ``id`` is derived from the address. Without ``write`` only the difference is returned.

    Raises:
        UsageError: no URL, one that cannot be pinned, or no licence.
        ConflictError: the lock has this file already.
        FetchError: it did not arrive.
        IntegrityError: what arrived is not what the release's digest says; nothing was written.
        LockError: the lock is wrong, or the new entry would make it so.
    """
    _acceptable(url, license)
    lock = lock_of(ws)
    server = github(ws)
    ref = server.ref(url)
    name = id or _identifier(url, ref)
    for item in lock.artifacts.values():
        if url in item.urls or name == item.id:
            raise _known(item)
    asset = _asset(server, ref)
    hashed = hash_url(url, server.transport, most=MAX_BYTES, progress=ws.progress)
    _plausible(url, hashed)
    trust, note = _trust(url, asset, hashed, ref)
    artifact = Artifact(
        id=name,
        urls=(url,),
        sha256=hashed.sha256,
        size=hashed.size,
        format=_format(url),
        root="",
        license=license,
        source=f"{ref.owner}/{ref.repo}@{ref.tag}" if ref else urlsplit(url).hostname or "",
        trust=trust,
        note=note,
    )
    for item in lock.artifacts.values():
        if item.sha256 == artifact.sha256:
            raise _known(item)
    text = with_artifact(format_lock(ws.lock_path.read_bytes().decode(), path=ws.lock_path), artifact)
    change = diff(lock, parse_lock(text.encode(), path=ws.lock_path, custom=ws.custom_lock))
    if write:
        save_lock(ws.lock_path, text, expected=lock.digest)
    return PinsAddResult(artifact=artifact, diff=change, written=write)


def _acceptable(url: str, license_: str) -> None:
    if not url:
        msg = "pins.add needs the address of the file"
        raise UsageError(reference="no-url", message=msg, hint="add --url=https://…")
    problem = url_problem(url)
    if problem is not None:
        raise UsageError(problem.reference, problem.message, hint=problem.hint)
    if not license_.strip():
        msg = "pins.add needs the licence of what is downloaded"
        hint = 'give it as an SPDX expression, for example --license="MIT OR Apache-2.0"'
        raise UsageError(reference="no-license", message=msg, hint=hint)


def _asset(server: GitHub, ref: AssetRef | None) -> Asset | None:
    """Ask the release before the download: a file it does not name is not worth the bytes."""
    if ref is None:
        return None
    asset = server.release(ref.owner, ref.repo, ref.tag).asset(ref.name)
    if asset is None:
        msg = f"the release {ref.tag} of {ref.owner}/{ref.repo} has no file {ref.name}"
        hint = "copy the address from the release page"
        raise FetchError(reference="upstream-not-found", message=msg, hint=hint)
    return asset


def _plausible(url: str, hashed: HashedUrl) -> None:
    if hashed.cut:
        msg = f"the file is larger than {MAX_BYTES} bytes"
        raise FetchError(reference="too-large", message=msg, context=(url,), hint="pin a smaller file")
    if hashed.size == 0 or is_web_page(hashed.first):
        msg = "the address gives a web page or nothing, not a file to pin"
        hint = "use the address of the file itself, as the browser's download list shows it"
        raise FetchError(reference="not-a-file", message=msg, context=(url,), hint=hint)


def _trust(url: str, asset: Asset | None, hashed: HashedUrl, ref: AssetRef | None) -> tuple[Trust, str]:
    """Judge the hash by what the release says; a contradiction is an error."""
    if asset is None or asset.sha256 is None:
        return Trust.SINGLE_REPORT, NO_DIGEST if ref else ONE_REPORT
    if (asset.sha256, asset.size) == (hashed.sha256, hashed.size):
        return Trust.UPSTREAM_DIGEST, CONFIRMED
    msg = "what arrived is not what the release's metadata names, so it was not pinned"
    context = (
        f"url: {url}",
        f"release says: sha256 {asset.sha256}, {asset.size} bytes",
        f"got: sha256 {hashed.sha256}, {hashed.size} bytes",
        f"first bytes: {hashed.first[:16].hex(' ')}",
    )
    hint = "try from another network, as a proxy may have changed it; report it if it stays so"
    raise IntegrityError(reference="hash-mismatch", message=msg, context=context, hint=hint)


def _known(item: Artifact) -> ConflictError:
    msg = f"the lock has this file or this id already: {item.id}"
    hint = "use that artifact, or give another --id for another file"
    return ConflictError(reference="already-pinned", message=msg, hint=hint)


def _format(url: str) -> ArtifactFormat:
    path = urlsplit(url).path.lower()
    return next((form for end, form in _ENDS if path.endswith(end)), ArtifactFormat.RAW)


def _identifier(url: str, ref: AssetRef | None) -> str:
    """Derive an id from the file's name, with the release's tag in the place of a commit."""
    name = unquote(urlsplit(url).path.rpartition("/")[2]).lower()
    for end, _ in _ENDS:
        name = name.removesuffix(end)
    if ref is not None:
        name = re.sub(r"-[0-9a-f]{7,40}$", "", name)
        tag = ref.tag.lower()
        name = name if tag in name else f"{name}-{tag}"
    return re.sub(r"[-.+_]*[^a-z0-9.+_-]+[-.+_]*|[-.+_]{2,}", "-", name).strip("-.+_")
