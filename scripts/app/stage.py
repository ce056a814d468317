"""``stage``: assemble a stack in the store, or repair it, without making it active."""

from __future__ import annotations

from scripts.app.flow import Flow, Step, read_request
from scripts.app.workspace import Workspace
from scripts.errors import ExitCode
from scripts.records import dataclass


@dataclass(frozen=True, kw_only=True)
class StageResult:
    """An assembled runtime; it is not active until `use` or `setup` says so."""

    stack: str
    digest: str
    path: str
    steps: tuple[Step, ...]
    exit_code: int = ExitCode.OK

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        steps = [step.to_json() for step in self.steps]
        return {"stack": self.stack, "digest": self.digest, "path": self.path, "steps": steps}


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
    )
    flow = Flow(ws, request)
    _lock, _selection, resolved = flow.select(flow.scan())
    flow.distrust(resolved)
    flow.bill(resolved)
    runtime = flow.runtime(resolved)
    return StageResult(
        stack=runtime.stack, digest=runtime.digest, path=str(runtime.path or ""), steps=tuple(flow.steps)
    )
