"""``stage``: assemble a stack in the store, or repair it, without making it active."""

from __future__ import annotations

from pathlib import Path

from scripts.app.context import Workspace, cache_of
from scripts.app.setup.download_summary import DownloadSummary
from scripts.app.setup.flow import Flow, FlowStep, read_request
from scripts.errors import ExitCode, UsageError
from scripts.model import ArtifactFormat
from scripts.osal.output_file import check_output
from scripts.osal.user_path import user_path
from scripts.serialize import JsonRecord
from scripts.store.bundle import BundleFacts, write_bundle
from scripts.store.fetch import fetch as fetch_artifact


class StageResult(JsonRecord, frozen=True, kw_only=True):
    """An assembled runtime; it is not active until `use` or `setup` says so."""

    stack: str
    digest: str
    path: str
    steps: tuple[FlowStep, ...]
    exit_code: int = ExitCode.OK


def stage(
    ws: Workspace,
    *,
    stack: str = "",
    gpu: str = "",
    with_: str = "",
    yes: bool = False,
    offline: bool = False,
    mirror: str = "",
    supplied: str = "",
    force: bool = False,
    for_: str = "",
) -> StageResult:
    """Fetch, unpack and assemble a stack; what is damaged, archives too, is replaced as the lock says."""
    request = read_request(
        stack=stack,
        gpu=gpu,
        with_=with_,
        yes=yes,
        offline=offline,
        mirror=mirror,
        supplied=supplied,
        force=force,
        system=for_,
    )
    flow = Flow(ws, request)
    flow.take_bundle()
    _lock, _selection, resolved = flow.select(flow.scan())
    flow.distrust(resolved)
    flow.confirm_downloads(resolved)
    runtime = flow.runtime(resolved)
    return StageResult(
        stack=runtime.stack, digest=runtime.digest, path=str(runtime.path or ""), steps=tuple(flow.steps)
    )


class FetchResult(JsonRecord, frozen=True, kw_only=True):
    """What is in the store now, and the bundle that was made of it."""

    stack: str
    summary: DownloadSummary
    blobs: tuple[str, ...]
    steps: tuple[FlowStep, ...]
    bundle: Path | None = None
    bundle_bytes: int | None = None
    exit_code: int = ExitCode.OK

    JSON = "stack bill=summary files=blobs steps bundle bundle_bytes"


def fetch(
    ws: Workspace,
    *,
    stack: str = "",
    gpu: str = "",
    with_: str = "",
    yes: bool = False,
    offline: bool = False,
    mirror: str = "",
    for_: str = "",
    bundle: str = "",
) -> FetchResult:
    """Download what is missing; what is in the store already is verified again.

    ``bundle`` names a file into which the archives are written too, for a machine without network.

    Raises:
        WorkspaceError: something did not arrive, or the bundle cannot be written.
    """
    target = _bundle_path(ws, bundle)
    request = read_request(
        stack=stack, gpu=gpu, with_=with_, yes=yes, offline=offline, mirror=mirror, system=for_
    )
    flow = Flow(ws, request)
    lock, _selection, resolved = flow.select(flow.scan())
    summary = flow.confirm_downloads(resolved)
    cache = cache_of(ws)
    with flow.step("fetch") as notes:
        published = [a for a in resolved.artifacts if a.format is not ArtifactFormat.SUPPLIED]
        blobs = [fetch_artifact(a, cache, options=request.fetching, progress=ws.progress) for a in published]
        notes.detail = f"{len(blobs)} verified by hash"
    size = None
    if target is not None:
        with flow.step("bundle") as notes:
            facts = BundleFacts(stack=resolved.stack.id, options=request.parts, lock=lock.digest)
            pairs = zip(published, blobs, strict=True)
            size = write_bundle(target, facts, pairs, progress=ws.progress)
            notes.detail = f"{len(blobs)} archives, {size:,} bytes"
    return FetchResult(
        stack=resolved.stack.id,
        summary=summary,
        blobs=tuple(map(str, blobs)),
        steps=tuple(flow.steps),
        bundle=target,
        bundle_bytes=size,
    )


def _bundle_path(ws: Workspace, text: str) -> Path | None:
    """Read where the bundle goes, before anything is downloaded; it is never written into our own folders."""
    if not text:
        return None
    path = user_path(text, "--bundle", cwd=Path.cwd()).absolute()
    check_output(path, "--bundle", trees={"the store": ws.cache_root, "the stage": ws.stage})
    if path.is_dir() or not path.parent.is_dir():
        hint = "name a file in a folder that exists"
        raise UsageError("bad-output", "--bundle names no file", context=(str(path),), hint=hint)
    return path
