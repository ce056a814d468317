"""``remove``: take away everything we own: stage, store, registry, ``.venv``; never a file of the user's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.app.placing import still_placed
from scripts.app.staged import cache_of
from scripts.app.workspace import Workspace
from scripts.errors import ConflictError, ExitCode
from scripts.staging.workspaces import forget_stage, known_stages
from scripts.system.files import remove_tree

#: What git tracks below ``stage/``; the rest is generated.
KEPT = frozenset({"README.md", ".gitignore"})


@dataclass(frozen=True, kw_only=True)
class RemoveResult:
    """What went, or would go without ``--yes``, and what stays for other checkouts."""

    paths: tuple[str, ...]
    kept: tuple[str, ...]
    done: bool
    exit_code: int = ExitCode.OK

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {"done": self.done, "paths": list(self.paths), "kept": list(self.kept)}


def remove(ws: Workspace, *, yes: bool = False) -> RemoveResult:
    """Remove what the workspace made, after everything placed beside programs was taken back.

    The store and the registry stay while another checkout uses them.

    Raises:
        ConflictError: something is still placed beside a program.
    """
    placed = still_placed(ws)
    if placed:
        msg = "something is still placed beside a program; take it back first"
        raise ConflictError("still-placed", msg, context=placed, hint="invoke unwrap --all")
    others = [stage for stage in known_stages(ws.state_root) if stage != ws.stage]
    kept = tuple(f"{ws.cache_root}: also used by {stage.parent}" for stage in others)
    paths = _own_paths(ws) if not others else _stage_paths(ws)
    if yes:
        for path in paths:
            _remove(ws, path)
        if others:
            forget_stage(ws.state_root, ws.stage)
    return RemoveResult(paths=tuple(map(str, paths)), kept=kept, done=yes)


def _stage_paths(ws: Workspace) -> list[Path]:
    """List what is generated below ``stage/``."""
    if not ws.stage.is_dir():
        return []
    return sorted(path for path in ws.stage.iterdir() if path.name not in KEPT)


def _own_paths(ws: Workspace) -> list[Path]:
    """List everything, the store and the registry included."""
    return [*_stage_paths(ws), *(path for path in (ws.cache_root, ws.state_root) if path.exists())]


def _remove(ws: Workspace, path: Path) -> None:
    """Remove one of our paths; the store only when it carries its tag."""
    if path == ws.cache_root:
        cache_of(ws).clear()
    elif path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)
