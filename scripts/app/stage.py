"""``stage``: assemble a stack in the store, or repair it, without making it active."""

from __future__ import annotations

from scripts.app.context import Workspace, cache_of
from scripts.app.setup.download_summary import DownloadSummary
from scripts.app.setup.flow import Flow, FlowStep, read_request
from scripts.errors import ExitCode
from scripts.model import ArtifactFormat
from scripts.serialize import JsonRecord
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
    _lock, _selection, resolved = flow.select(flow.scan())
    flow.distrust(resolved)
    flow.confirm_downloads(resolved)
    runtime = flow.runtime(resolved)
    return StageResult(
        stack=runtime.stack, digest=runtime.digest, path=str(runtime.path or ""), steps=tuple(flow.steps)
    )


class FetchResult(JsonRecord, frozen=True, kw_only=True):
    """What is in the store now."""

    stack: str
    summary: DownloadSummary
    blobs: tuple[str, ...]
    steps: tuple[FlowStep, ...]
    exit_code: int = ExitCode.OK

    JSON = "stack bill=summary files=blobs steps"


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
) -> FetchResult:
    """Download what is missing; what is in the store already is verified again."""
    request = read_request(
        stack=stack, gpu=gpu, with_=with_, yes=yes, offline=offline, mirror=mirror, system=for_
    )
    flow = Flow(ws, request)
    _lock, _selection, resolved = flow.select(flow.scan())
    summary = flow.confirm_downloads(resolved)
    cache = cache_of(ws)
    with flow.step("fetch") as notes:
        published = [a for a in resolved.artifacts if a.format is not ArtifactFormat.SUPPLIED]
        blobs = [fetch_artifact(a, cache, options=request.fetching, progress=ws.progress) for a in published]
        notes.detail = f"{len(blobs)} verified by hash"
    return FetchResult(
        stack=resolved.stack.id, summary=summary, blobs=tuple(map(str, blobs)), steps=tuple(flow.steps)
    )
