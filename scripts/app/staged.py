"""A stack whose files lie ready and verified: what check, run and wrap start from."""

from __future__ import annotations

from scripts.app.workspace import Workspace
from scripts.errors import StagedFileError, UsageError
from scripts.host.facts import scan_host
from scripts.model import Host, Lock, Runtime, Stack
from scripts.pins.lock import read_lock
from scripts.pins.resolve import find_stack
from scripts.records import dataclass
from scripts.staging.assemble import load_runtime, verify_runtime
from scripts.staging.generations import Generation, read_history
from scripts.store.cache import Cache


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A stack, its verified runtime, the lock it comes from, and this machine."""

    lock: Lock
    stack: Stack
    runtime: Runtime
    host: Host


def lock_of(ws: Workspace) -> Lock:
    """Read the lock in use."""
    return read_lock(ws.lock_path, custom=ws.custom_lock)


def host_of(ws: Workspace, *, gpu: str = "") -> Host:
    """Look at this machine."""
    return scan_host(ws.environ, platform=ws.platform, gpu=gpu)


def cache_of(ws: Workspace) -> Cache:
    """Open the store."""
    return Cache(ws.cache_root, ws.progress)


def staged_runtime(ws: Workspace, stack: str = "", *, gpu: str = "") -> Staged:
    """Return the active stack, or a named one that this workspace has staged, verified in full.

    Raises:
        UsageError: the stack is unknown, or nothing is active yet.
        StagedFileError: files are missing or changed.
    """
    lock = lock_of(ws)
    generation = generation_of(ws, lock, stack)
    known = lock.stacks.get(generation.stack)
    if known is None:
        msg = f"the active stack {generation.stack} is not in the lock any more"
        raise UsageError(
            "stack-not-in-lock", msg, context=(str(lock.path),), hint="choose another one: invoke setup"
        )
    runtime = load_runtime(cache_of(ws), generation.digest, stack=known.id)
    if runtime is None:
        msg = f"the files of {known.id} are no longer in the store"
        hint = f"put them back: invoke setup --stack={known.id}"
        raise StagedFileError("runtime-missing", msg, context=(f"digest {generation.digest}",), hint=hint)
    verify_runtime(runtime, progress=ws.progress)
    return Staged(lock=lock, stack=known, runtime=runtime, host=host_of(ws, gpu=gpu))


def generation_of(ws: Workspace, lock: Lock, stack: str) -> Generation:
    """Find the generation that answers for a stack: the current one, or the newest of that name.

    Raises:
        UsageError: the stack is unknown, was never staged here, or nothing is active yet.
    """
    history = read_history(ws.stage)
    if not stack:
        if history.active is None:
            raise UsageError(
                "nothing-active", "no stack is active in this workspace yet", hint="run `invoke setup` first"
            )
        return history.active
    find_stack(lock, stack)
    active = history.active
    if active is not None and active.stack == stack:
        return active
    staged = [g for g in history.generations if g.stack == stack]
    if not staged:
        msg = f"{stack} has not been staged in this workspace"
        raise UsageError("not-staged", msg, hint=f"stage it first: invoke setup --stack={stack}")
    return staged[-1]
