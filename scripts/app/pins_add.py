"""``pins.add``: download a file once, hash it, and propose its pin with the trust it deserves."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from scripts.app.context import Workspace
from scripts.app.pins_check import github
from scripts.errors import ConflictError, ExitCode, FetchError, IntegrityError, UsageError
from scripts.lock.reader import parse_lock, read_lock
from scripts.lock.update import CONFIRMED, LockDiff, diff
from scripts.lock.urls import url_problem
from scripts.lock.writer import format_lock, save_lock, with_artifact
from scripts.model import Artifact, ArtifactFormat, Trust
from scripts.net.github import Asset, AssetRef, GitHub
from scripts.net.request import MAX_BYTES, HashedUrl, hash_url, is_web_page
from scripts.serialize import pick

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

    @property
    def exit_code(self) -> int:
        """Always 0: everything else is an error."""
        return int(ExitCode.OK)

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

    Args:
        ws: the workspace.
        url: the https address of one unchanging file.
        id: the new artifact's id; empty to derive it from the address.
        license: the licence of what is downloaded.
        write: add it to the lock file; otherwise only the difference is returned.

    Raises:
        UsageError: no URL, one that cannot be pinned, or no licence.
        ConflictError: the lock has this file already.
        FetchError: it did not arrive.
        IntegrityError: what arrived is not what the release's digest says; nothing was written.
        LockError: the lock is wrong, or the new entry would make it so.
    """
    _acceptable(url, license)
    lock = read_lock(ws.lock_path, custom=ws.custom_lock)
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
