"""``remove``: take away everything we own in stage, store and registry, by name; never a file of the user's.

Each of the three folders may have been pointed at one that holds other things as well: what is not known by
name stays. ``.venv`` stays too, since this very process may run from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from scripts.app.context import Workspace, cache_of
from scripts.app.wrap.placing import still_placed
from scripts.errors import ConflictError, ExitCode
from scripts.osal.fs import is_link, remove_tree
from scripts.records import dataclass
from scripts.staging.generations import forget_stage, known_stages

#: What git tracks below ``stage/``.
TRACKED: Final = frozenset({"README.md", ".gitignore"})
#: What this workspace makes below ``stage/`` and in the user's registry.
IN_STAGE: Final = ("generations.json", ".generations.lock", "logs", "reports", "shims", "traces")
IN_STATE: Final = ("workspaces.json", ".workspaces.json.lock", "registry-v1", "preflight-v1")


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
        ConflictError: something is still placed beside a program, or ``stage/`` leads elsewhere.
    """
    placed = still_placed(ws)
    if placed:
        msg = "something is still placed beside a program; take it back first"
        raise ConflictError("still-placed", msg, context=placed, hint="invoke unwrap --all")
    _refuse_linked_stage(ws)
    others = [stage for stage in known_stages(ws.state_root) if stage != ws.stage]
    kept = tuple(f"{ws.cache_root}: also used by {stage.parent}" for stage in others)
    paths = _own_paths(ws) if not others else _named(ws.stage, IN_STAGE)
    if yes:
        for path in paths:
            _remove(ws, path)
        if others:
            forget_stage(ws.state_root, ws.stage)
        elif ws.state_root.is_dir() and not is_link(ws.state_root) and not any(ws.state_root.iterdir()):
            ws.state_root.rmdir()
    return RemoveResult(paths=tuple(map(str, paths)), kept=(*kept, *_strangers(ws)), done=yes)


def _refuse_linked_stage(ws: Workspace) -> None:
    """Refuse to delete by name in a folder that somebody chose: ``reports`` may be theirs there."""
    if ws.stage.exists() and is_link(ws.stage):
        msg = f"{ws.stage} is a link to another folder, so nothing in it is deleted"
        hint = f"delete there by hand what is ours, then the link: {', '.join(IN_STAGE)}"
        raise ConflictError("stage-is-a-link", msg, context=(str(ws.stage.resolve()),), hint=hint)


def _named(folder: Path, names: tuple[str, ...]) -> list[Path]:
    """List what is ours in a folder, with what a killed run left of it half-written."""
    if not folder.is_dir():
        return []
    halves = tuple(f".{name}." for name in names)
    return sorted(
        path
        for path in folder.iterdir()
        if path.name in names or (path.suffix == ".tmp" and path.name.startswith(halves))
    )


def _strangers(ws: Workspace) -> tuple[str, ...]:
    """Say what stays below ``stage/`` because it is not known to be ours."""
    if not ws.stage.is_dir():
        return ()
    ours = {path.name for path in _named(ws.stage, IN_STAGE)} | TRACKED
    return tuple(f"{path}: not made by us" for path in sorted(ws.stage.iterdir()) if path.name not in ours)


def _own_paths(ws: Workspace) -> list[Path]:
    """List everything, the store and the registry included."""
    store = [ws.cache_root] if ws.cache_root.exists() else []
    return [*_named(ws.stage, IN_STAGE), *store, *_named(ws.state_root, IN_STATE)]


def _remove(ws: Workspace, path: Path) -> None:
    """Remove one of our paths; the store only when it carries its tag."""
    if path == ws.cache_root:
        cache_of(ws).clear()
    else:
        remove_tree(path)
