"""``fetch``: bring a stack's archives into the store, verified, and unpack nothing."""

from __future__ import annotations

from scripts.app.bill import Bill
from scripts.app.flow import Flow, Step, read_request
from scripts.app.staged import cache_of
from scripts.app.workspace import Workspace
from scripts.errors import ExitCode
from scripts.model import ArtifactFormat
from scripts.records import dataclass
from scripts.store.fetch import fetch as fetch_artifact


@dataclass(frozen=True, kw_only=True)
class FetchResult:
    """What is in the store now."""

    stack: str
    bill: Bill
    blobs: tuple[str, ...]
    steps: tuple[Step, ...]
    exit_code: int = ExitCode.OK

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        steps = [step.to_json() for step in self.steps]
        return {"stack": self.stack, "bill": self.bill.to_json(), "files": list(self.blobs), "steps": steps}


def fetch(
    ws: Workspace,
    *,
    stack: str = "",
    gpu: str = "",
    with_: str = "",
    yes: bool = False,
    offline: bool = False,
    mirror: str = "",
) -> FetchResult:
    """Download what is missing; what is in the store already is verified again."""
    request = read_request(stack=stack, gpu=gpu, with_=with_, yes=yes, offline=offline, mirror=mirror)
    flow = Flow(ws, request)
    _lock, _selection, resolved = flow.select(flow.scan())
    bill = flow.bill(resolved)
    cache = cache_of(ws)
    with flow.step("fetch") as notes:
        published = [a for a in resolved.artifacts if a.format is not ArtifactFormat.SUPPLIED]
        blobs = [fetch_artifact(a, cache, options=request.fetching, progress=ws.progress) for a in published]
        notes.detail = f"{len(blobs)} verified by hash"
    return FetchResult(
        stack=resolved.stack.id, bill=bill, blobs=tuple(map(str, blobs)), steps=tuple(flow.steps)
    )
