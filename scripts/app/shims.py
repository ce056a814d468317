"""The scripts that ``shim`` made, as they are now."""

from __future__ import annotations

import hashlib
from pathlib import Path

from scripts.app.context import Workspace, cache_of
from scripts.app.wrap.placing import registry_of
from scripts.placement.registry import SHIMS, RegistryEntry
from scripts.serialize import JsonRecord
from scripts.staging.runtimes import load_runtime


class ShimStatus(JsonRecord, frozen=True, kw_only=True):
    """One script as it is now; ``standing`` is ``ready``, ``changed``, ``gone`` or ``without files``."""

    path: Path
    program: Path
    stack: str
    digest: str
    standing: str

    @property
    def advice(self) -> str:
        """What to do where it would not work; empty where it would."""
        again = f'invoke shim --exe="{self.program}"'
        return {
            "changed": "it was changed, so `shim --remove` leaves it alone",
            "gone": f"it was moved or deleted: {again} --remove takes it off the list",
            "without files": f"its stack is no longer in the store: {again} makes it anew",
        }.get(self.standing, "")


def shims_here(ws: Workspace) -> tuple[ShimStatus, ...]:
    """Return every shim that this user made, from any checkout."""
    return tuple(_status(ws, entry) for entry in registry_of(ws).entries(SHIMS))


def digest_of(text: bytes) -> str:
    """Return the SHA-256 by which a script is known as ours."""
    return hashlib.sha256(text).hexdigest()


def _status(ws: Workspace, entry: RegistryEntry) -> ShimStatus:
    """Look at one script."""
    facts = entry.facts
    stack, digest = facts.get("stack", ""), facts.get("digest", "")
    try:
        ours = digest_of(entry.path.read_bytes()) == facts.get("sha256")
        standing = "ready" if ours else "changed"
    except OSError:
        standing = "gone"
    if standing == "ready" and load_runtime(cache_of(ws), digest, stack=stack) is None:
        standing = "without files"
    return ShimStatus(
        path=entry.path,
        program=Path(facts.get("program", "")),
        stack=stack,
        digest=digest,
        standing=standing,
    )
