"""Put a stack's files into one read-only folder of the store, once, and verify them ever after.

The digest of a runtime covers every file's place and content, so the same parts give the same folder
on every machine, and a changed part can never hide behind an old name. The manifest beside the folder
is written last: a folder without one does not exist for us.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from scripts.errors import HostError, StagedFileError
from scripts.model import Progress, Runtime
from scripts.osal.fs import free_space, hash_file, is_link, long_path, make_read_only
from scripts.serialize import plain
from scripts.staging.plan import PlannedFile, RuntimePlan
from scripts.staging.runtimes import FORMAT, bound_runtime, load_runtime
from scripts.store.cache import Cache, write_manifest
from scripts.store.publish import clear_away, publish


def assemble(plan: RuntimePlan, cache: Cache, *, progress: Progress) -> tuple[Runtime, bool]:
    """Make the runtime's folder, or find it made: check, take the lock, check again, work aside, rename.

    Returns the runtime, and whether it was made, every byte hashed, or only found: see ``verify_runtime``.
    """
    digest = plan.digest
    found = load_runtime(cache, digest, stack=plan.stack)
    if found is not None:
        return found, False
    cache.ensure()
    with cache.making(cache.runtime_path(digest)):
        found = load_runtime(cache, digest, stack=plan.stack)
        if found is not None:
            return found, False
        return _assemble_locked(plan, digest, cache, progress), True


def _assemble_locked(plan: RuntimePlan, digest: str, cache: Cache, progress: Progress) -> Runtime:
    """Fill a folder beside the final one."""
    final = cache.runtime_path(digest)
    final.parent.mkdir(parents=True, exist_ok=True)
    _require_space(plan, final.parent)

    def fill(work: Path) -> None:
        with progress.task(f"assemble {plan.stack}", plan.bytes) as advance:
            for folder in {(work / f.name).parent for f in plan.runtime_files}:
                long_path(folder).mkdir(parents=True, exist_ok=True)
            for planned in plan.files:
                ours = planned.source.is_relative_to(cache.root)
                _bring(planned, work / planned.file.name, link=ours)
                advance(planned.file.size)
        make_read_only(work)

    publish(final, fill)
    files = plain(plan.runtime_files)
    write_manifest(final, {"format": FORMAT, "digest": digest, "files": files})
    return bound_runtime(plan.stack, digest, final, plan.runtime_files)


def _require_space(plan: RuntimePlan, folder: Path) -> None:
    """Refuse before the first byte when the disk cannot hold the runtime."""
    have = free_space(folder)
    if have < plan.bytes:
        msg = f"not enough free space to assemble {plan.stack}: {plan.bytes:,} bytes needed, {have:,} free"
        raise HostError(
            "no-space",
            msg,
            context=(str(folder),),
            hint="free some space, or move the store with CUDA_AMD_CACHE",
        )


def _bring(planned: PlannedFile, destination: Path, *, link: bool) -> None:
    """Link (both sides are ours and read-only) or copy one file, then read it in full: its bytes decide."""
    if not (link and not is_link(long_path(planned.source)) and _linked(planned.source, destination)):
        shutil.copyfile(long_path(planned.source), long_path(destination))
    got = hash_file(destination)
    if got != planned.file.sha256:
        msg = f"{planned.file.name} changed in the store while it was taken over"
        context = (f"from {planned.source}", f"expected {planned.file.sha256}", f"got {got}")
        raise StagedFileError(
            "staged-file-changed",
            msg,
            context=context,
            hint="run `invoke verify --deep` to see what else changed",
        )


def _linked(source: Path, destination: Path) -> bool:
    """Make a second name for a file where the file system can."""
    try:
        os.link(long_path(source), long_path(destination))
    except OSError:
        return False
    return True


def discard_runtime(cache: Cache, digest: str) -> None:
    """Take a runtime away so that it is assembled anew; the manifest goes first."""
    folder = cache.runtime_path(digest)
    with cache.making(folder):
        clear_away(folder)
