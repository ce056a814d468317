"""``rollback``: go back to the generation before."""

from __future__ import annotations

from scripts.app.staged import cache_of
from scripts.app.workspace import Workspace
from scripts.errors import ExitCode, StagedFileError, UsageError
from scripts.records import dataclass
from scripts.staging.assemble import load_runtime, verify_runtime
from scripts.staging.generations import Generation, go_back, read_history


@dataclass(frozen=True, kw_only=True)
class RollbackResult:
    """The generation that was left and the one that is active now."""

    left: Generation
    active: Generation
    exit_code: int = ExitCode.OK

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {
            "left": {"number": self.left.number, "stack": self.left.stack},
            "generation": self.active.number,
            "stack": self.active.stack,
            "digest": self.active.digest,
        }


def rollback(ws: Workspace, *, to: str = "") -> RollbackResult:
    """Verify the earlier generation's files in full, then make it current again.

    Raises:
        UsageError: there is no such generation.
        StagedFileError: its files are gone or changed; nothing was switched.
    """
    history = read_history(ws.stage)
    if to and not to.isdecimal():
        raise UsageError(
            "bad-number", f"--to={to}: a generation is a whole number", hint="`invoke status` lists them"
        )
    target = (
        history.previous if not to else next((g for g in history.generations if g.number == int(to)), None)
    )
    if target is not None:
        runtime = load_runtime(cache_of(ws), target.digest, stack=target.stack)
        if runtime is None:
            msg = f"generation {target.number} ({target.stack}) is no longer in the store"
            hint = f"put it back with `invoke setup --stack={target.stack}`"
            raise StagedFileError("runtime-missing", msg, hint=hint)
        verify_runtime(runtime, progress=ws.progress)
    left, active = go_back(ws.stage, to=int(to) if to else None)
    return RollbackResult(left=left, active=active)
