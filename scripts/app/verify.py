"""``verify``: are the files what the lock says?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scripts.app.context import Workspace, cache_of, generation_of, lock_of
from scripts.errors import ExitCode, StagedFileError
from scripts.model import Lock
from scripts.osal.fs import hash_file
from scripts.serialize import JsonRecord
from scripts.staging.runtimes import Generation, load_runtime, read_history, verify_runtime
from scripts.store.trees import load_tree, verify_tree

DAMAGED: Final = frozenset({"missing", "changed"})


class Verified(JsonRecord, frozen=True, kw_only=True):
    """One thing that was looked at; ``status`` is ``intact``, ``missing``, ``changed`` or ``absent``."""

    what: str
    name: str
    status: str
    how: str
    details: tuple[str, ...] = ()


class VerifyResult(JsonRecord, frozen=True, kw_only=True):
    """Everything that was verified, and the commands that repair what is not intact.

    ``signer`` is the fingerprint of the key that signed the lock; empty where no signature lies beside it.
    """

    items: tuple[Verified, ...]
    deep: bool
    repair: tuple[str, ...] = ()
    signer: str = ""

    JSON = "deep intact lock_signed_by=signer items repair"

    @property
    def intact(self) -> bool:
        """Whether files were looked at and none is missing or changed."""
        return bool(self.items) and not any(item.status in DAMAGED for item in self.items)

    @property
    def exit_code(self) -> int:
        """0 when all is intact, 2 when nothing is staged, 32 when a file is missing or changed."""
        if not self.items:
            return ExitCode.USAGE
        return ExitCode.OK if self.intact else ExitCode.STAGED


def verify(ws: Workspace, *, stack: str = "", deep: bool = False) -> VerifyResult:
    """Read and hash what would be loaded; with ``deep`` also the archives and unpacked trees behind it.

    Nothing is repaired: the result names every file that is missing or changed.

    Raises:
        UsageError: the stack that was named is unknown or was never staged here.
    """
    lock, history = lock_of(ws), read_history(ws.stage)
    if stack:
        generation_of(ws, lock, stack)
    wanted = [g for g in history.generations if not stack or g.stack == stack]
    latest = {(g.stack, g.digest): g for g in wanted}
    items = {f"{g.stack} {g.digest[:12]}": [_runtime(ws, g)] for g in latest.values()}
    if deep:
        items |= {id_: _artifact(ws, lock, id_) for id_ in _parts(lock, latest.values())}
    damaged = {name for name, found in items.items() if any(i.status in DAMAGED for i in found)}
    broken = [
        g.stack
        for g in latest.values()
        if damaged & {f"{g.stack} {g.digest[:12]}", *(_parts(lock, [g]) if deep else ())}
    ]
    return VerifyResult(
        items=tuple(item for found in items.values() for item in found),
        deep=deep,
        signer=lock.signer,
        repair=tuple(f"invoke stage --stack={stack}" for stack in dict.fromkeys(broken)),
    )


def verify_active(ws: Workspace) -> Verified | None:
    """Read every file of the active runtime; ``None`` where nothing is active."""
    active = read_history(ws.stage).active
    return _runtime(ws, active) if active is not None else None


def _parts(lock: Lock, generations: Iterable[Generation]) -> list[str]:
    ids: dict[str, None] = {}
    for generation in generations:
        stack = lock.stacks.get(generation.stack)
        options = generation.options
        if stack is not None:
            ids.update(
                dict.fromkeys([*stack.parts, *(i for o in options for i in stack.optional.get(o, ()))])
            )
    return list(ids)


def _runtime(ws: Workspace, generation: Generation) -> Verified:
    name, how = f"{generation.stack} {generation.digest[:12]}", "every byte"
    runtime = load_runtime(cache_of(ws), generation.digest, stack=generation.stack)
    if runtime is None:
        return Verified(what="runtime", name=name, status="missing", how=how)
    try:
        verify_runtime(runtime, progress=ws.progress)
    except StagedFileError as error:
        status = "missing" if error.reference == "staged-file-missing" else "changed"
        return Verified(what="runtime", name=name, status=status, how=how, details=error.context)
    return Verified(what="runtime", name=name, status="intact", how=how)


def _artifact(ws: Workspace, lock: Lock, id_: str) -> list[Verified]:
    """Read one archive and its tree in full."""
    cache, artifact = cache_of(ws), lock.artifacts[id_]
    items = []
    if artifact.sha256 is not None:
        blob = cache.blob_path(artifact.sha256)
        status = (
            "absent" if not blob.exists() else "intact" if hash_file(blob) == artifact.sha256 else "changed"
        )
        items.append(Verified(what="archive", name=id_, status=status, how="every byte"))
    tree = load_tree(artifact, cache)
    if tree is not None:
        findings = verify_tree(tree, deep=True, progress=ws.progress)
        status = "changed" if findings else "intact"
        details = tuple(f"{f.path}: {f.change.value}; {f.detail}" for f in findings)
        items.append(Verified(what="tree", name=id_, status=status, how="every byte", details=details))
    return items
