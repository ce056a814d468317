"""``use``: make a stack that is staged already the active one."""

from __future__ import annotations

from scripts.app.staged import staged_runtime
from scripts.app.workspace import Workspace
from scripts.errors import ExitCode, UsageError
from scripts.records import dataclass
from scripts.staging.generations import Generation, activate, read_history


@dataclass(frozen=True, kw_only=True)
class UseResult:
    """The generation that is active now, and the one before."""

    active: Generation
    before: Generation | None
    exit_code: int = ExitCode.OK

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        before = {"number": self.before.number, "stack": self.before.stack} if self.before else None
        return {
            "generation": self.active.number,
            "stack": self.active.stack,
            "digest": self.active.digest,
            "before": before,
        }


def use(ws: Workspace, *, stack: str = "") -> UseResult:
    """Verify a staged stack in full, then make it active.

    Raises:
        UsageError: none was named, it is unknown, or it was never staged here.
        StagedFileError: its files are missing or changed; the active stack stays what it was.
    """
    if not stack:
        raise UsageError(
            "stack-needed",
            "which stack should be used?",
            hint="invoke use --stack=ID; `invoke stacks` lists them",
        )
    staged = staged_runtime(ws, stack)
    history = read_history(ws.stage)
    source = next(
        g for g in reversed(history.generations) if (g.stack, g.digest) == (stack, staged.runtime.digest)
    )
    active = activate(
        ws.stage,
        stack=stack,
        digest=source.digest,
        lock=source.lock,
        options=source.options,
        reason="use",
        document=source.document,
    )
    return UseResult(active=active, before=history.active)
