"""What in the store is still needed, and by whom: generations of every checkout, placements and shims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scripts.app.placing import placed_here
from scripts.app.shims import shims_here
from scripts.app.staged import cache_of, lock_of
from scripts.app.workspace import Workspace
from scripts.staging.assemble import load_runtime
from scripts.staging.generations import read_history
from scripts.staging.native import build_key_of
from scripts.staging.workspaces import known_stages


def references(ws: Workspace) -> dict[str, str]:
    """Map every needed key of the store to a sentence that says who needs it.

    A runtime is needed by a generation, a placement or a shim; the archives and trees it was made from stay
    with it, so that a file an antivirus program takes can be put back without a download.
    """
    needed: dict[str, str] = {}
    cache, artifacts = cache_of(ws), lock_of(ws).artifacts
    for digest, who in _runtimes(ws):
        needed.setdefault(digest, who)
        runtime = load_runtime(cache, digest, stack="")
        for origin in {file.origin for file in runtime.files} if runtime else ():
            key = build_key_of(origin) or (artifacts[origin].sha256 if origin in artifacts else None)
            if key:
                needed.setdefault(key, who)
    return needed


def _runtimes(ws: Workspace) -> Iterator[tuple[str, str]]:
    """Yield every runtime somebody may still use."""
    for stage in dict.fromkeys((ws.stage, *known_stages(ws.state_root))):
        for generation in read_history(stage).generations:
            yield (
                generation.digest,
                f"generation {generation.number} ({generation.stack}) of {_checkout(stage)}",
            )
    for placed in placed_here(ws):
        if placed.digest:
            yield placed.digest, f"placed in {placed.target}"
    for shim in shims_here(ws):
        if shim.standing != "gone":
            yield shim.digest, f"started by {shim.path}"


def _checkout(stage: Path) -> str:
    """Name a checkout by its folder."""
    return str(stage.parent)
