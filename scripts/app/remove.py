"""``remove``: remove all we own in stage, store, registry and checkout, by name; never a file of the user's.

Each of the first three may have been pointed at a folder that holds other things as well: what is not known
by name stays. An environment that this very process runs from stays too, and is named. So do documents that
were measured on real hardware: no run here can make them again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scripts.app.context import Workspace, cache_of
from scripts.app.wrap.placing import still_placed
from scripts.app.wrap.running import running_here
from scripts.errors import ConflictError, ExitCode, WorkspaceError
from scripts.evidence.document import Provenance
from scripts.evidence.evidence_io import FILE_NAME, read_document
from scripts.osal.fs import is_link, remove_tree
from scripts.serialize import JsonRecord
from scripts.staging.generations import forget_stage, known_stages

#: What git tracks below ``stage/``.
TRACKED: Final = frozenset({"README.md", ".gitignore"})
#: What this workspace makes below ``stage/`` and in the user's registry.
IN_STAGE: Final = (
    "evidence.sqlite",
    "evidence.sqlite-journal",
    "generations.json",
    ".generations.lock",
    "logs",
    "reports",
    "shims",
    "traces",
)
#: What the tools of this checkout leave in it; git ignores them all.
IN_CHECKOUT: Final = (".nox", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache")
ENVIRONMENTS: Final = (".venv", ".nox")
IN_STATE: Final = ("workspaces.json", ".workspaces.json.lock", "registry-v1", "preflight-v1", "kernels-v1")


class RemoveResult(JsonRecord, frozen=True, kw_only=True):
    """What went, or would go without ``--yes``, and what stays for other checkouts."""

    paths: tuple[str, ...]
    kept: tuple[str, ...]
    done: bool
    exit_code: int = ExitCode.OK


def remove(ws: Workspace, *, yes: bool = False) -> RemoveResult:
    """Remove what the workspace made, after everything placed beside programs was taken back.

    The store and the registry stay while another checkout uses them.

    Raises:
        ConflictError: something is still placed, a wrapped program runs, or ``stage/`` is a link.
    """
    placed = still_placed(ws)
    if placed:
        msg = "something is still placed beside a program; take it back first"
        raise ConflictError("still-placed", msg, context=placed, hint="invoke unwrap --all")
    if running := running_here(ws):
        msg = "a wrapped program runs with files of the store"
        raise ConflictError("stack-in-use", msg, context=running, hint="end it, then try again")
    _refuse_linked_stage(ws)
    others = [stage for stage in known_stages(ws.state_root) if stage != ws.stage]
    kept = tuple(f"{ws.cache_root}: also used by {stage.parent}" for stage in others)
    paths = [*(_own_paths(ws) if not others else _named(ws.stage, IN_STAGE)), *_in_checkout(ws)]
    measured = _measured(ws)
    kept += tuple(f"{path}: measured here; copy it where you keep it, then delete it" for path in measured)
    kept += _running_from(ws)
    if yes:
        for path in paths:
            _remove(ws, path, measured)
        if others:
            forget_stage(ws.state_root, ws.stage)
        elif ws.state_root.is_dir() and not is_link(ws.state_root) and not any(ws.state_root.iterdir()):
            ws.state_root.rmdir()
    return RemoveResult(paths=tuple(map(str, paths)), kept=(*kept, *_strangers(ws)), done=yes)


def _refuse_linked_stage(ws: Workspace) -> None:
    """Refuse to delete by name in a folder that the user chose: ``reports`` may be theirs there."""
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


def _in_checkout(ws: Workspace) -> list[Path]:
    """List what tools left in the checkout, but for the environment that runs us."""
    named = [ws.root / name for name in IN_CHECKOUT]
    found = [path for path in named if path.is_dir() and not is_link(path) and not _runs_us(path)]
    return [*found, *_compiled(ws.root)]


def _compiled(root: Path) -> Iterator[Path]:
    """Yield the folders of compiled modules beside our sources."""
    for folder, names, _files in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith("."))
        if "__pycache__" in names:
            names.remove("__pycache__")
            yield Path(folder) / "__pycache__"


def _runs_us(path: Path) -> bool:
    return Path(sys.prefix).resolve().is_relative_to(path.resolve())


def _running_from(ws: Workspace) -> tuple[str, ...]:
    """Name the environments of this checkout that stay: one that runs us, and ``.venv`` always."""
    stay = [ws.root / name for name in ENVIRONMENTS]
    stay = [path for path in stay if path.is_dir() and (path.name == ".venv" or _runs_us(path))]
    return tuple(f"{path}: may be running this command; delete the folder yourself" for path in stay)


def _measured(ws: Workspace) -> tuple[Path, ...]:
    """List the documents of this checkout that were measured on real hardware."""
    found = []
    for path in sorted((ws.stage / "reports").glob(f"*/{FILE_NAME}")):
        try:
            document = read_document(path, trusted=True)
        except WorkspaceError:
            continue  # damaged: it shows nothing
        if document.provenance is Provenance.MEASURED and not document.simulated:
            found.append(path)
    return tuple(found)


def _remove(ws: Workspace, path: Path, measured: tuple[Path, ...]) -> None:
    """Remove one of our paths: the store only when it carries its tag, reports but for what was measured."""
    if path == ws.cache_root:
        cache_of(ws).clear()
    elif any(document.is_relative_to(path) for document in measured):
        for inner in sorted(path.iterdir()):
            if inner not in measured:
                _remove(ws, inner, measured)
    elif path.is_dir():
        remove_tree(path)
    else:
        path.unlink()
