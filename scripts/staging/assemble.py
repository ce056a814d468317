"""Put a stack's files into one read-only folder of the store, once, and verify them ever after.

The digest of a runtime covers every file's place and content, so the same parts give the same folder
on every machine, and a changed part can never hide behind an old name. The manifest beside the folder
is written last: a folder without one does not exist for us.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from scripts.errors import HostError, StagedFileError
from scripts.model import Progress, Runtime, RuntimeFile
from scripts.osal.fs import free_space, hash_file, is_link, long_path, make_read_only
from scripts.osal.parallel_map import parallel_map
from scripts.serialize import plain
from scripts.staging.plan import FORMAT, PlannedFile, RuntimePlan, digest_of
from scripts.store.cache import Cache, is_digest
from scripts.store.publish import clear_away, publish, read_manifest, write_manifest
from scripts.store.trees import paths_below

#: Bytes that one thread hashes before a second one would have started.
SMALL: Final = 8 * 1024 * 1024


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
    return _runtime(plan.stack, digest, final, plan.runtime_files)


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


def load_runtime(cache: Cache, digest: str, *, stack: str) -> Runtime | None:
    """Return an assembled runtime as its manifest tells, or ``None`` when there is none to trust.

    A manifest is believed only if its files give the digest again: others than those that were asked for
    cannot hide behind the name.
    """
    if not is_digest(digest):  # a registry or a list of generations that was edited by hand
        return None
    folder = cache.runtime_path(digest)
    try:
        data = read_manifest(folder)
        files = tuple(RuntimeFile(**{**row, "needs": tuple(row["needs"])}) for row in data["files"])
        intact = data["format"] == FORMAT and digest_of(files) == digest and folder.is_dir()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return _runtime(stack, digest, folder, files) if intact else None


def _runtime(stack: str, digest: str, folder: Path, files: tuple[RuntimeFile, ...]) -> Runtime:
    """Bind the pieces together."""
    return Runtime(stack=stack, digest=digest, path=folder, files=files)


def verify_runtime(runtime: Runtime, *, progress: Progress) -> None:
    """Read and hash every file of a runtime.

    Files beside them count as changes: programs search the whole folder, and would load a library that
    was slipped in.

    Raises:
        StagedFileError: ``staged-file-missing`` (antivirus programs do that) or ``staged-file-changed``,
            each file named.
    """
    if runtime.path is None:
        return
    root = runtime.path
    size = sum(f.size for f in runtime.files)
    with progress.task(f"verify {runtime.stack}", size) as advance:
        states = parallel_map(
            lambda f: _state(root / f.name, f, advance), runtime.files, threads=2 if size > SMALL else 1
        )
    missing = [f.name for f, state in zip(runtime.files, states, strict=True) if state == "missing"]
    changed = [f.name for f, state in zip(runtime.files, states, strict=True) if state == "changed"]
    listed = {f.name for f in runtime.files}
    changed += sorted(f"{name} (not part of it)" for name in paths_below(root) if name not in listed)
    if missing:
        msg = f"{len(missing)} file(s) of {runtime.stack} have vanished since they were assembled"
        hint = (
            "look at your antivirus program's history first: it may have taken them; "
            f"then run `invoke stage --stack={runtime.stack}` to put them back from the verified archive"
        )
        raise StagedFileError("staged-file-missing", msg, context=(str(root), *missing, *changed), hint=hint)
    if changed:
        msg = f"{len(changed)} file(s) of {runtime.stack} have changed since they were assembled"
        hint = f"run `invoke stage --stack={runtime.stack}` to assemble them again from the verified archive"
        raise StagedFileError("staged-file-changed", msg, context=(str(root), *changed), hint=hint)


def _state(path: Path, file: RuntimeFile, advance: Callable[[int], None]) -> str:
    """Compare one file with its manifest."""
    try:
        here = long_path(path)
        if is_link(here) or here.stat().st_size != file.size:
            return "changed"
        got = hash_file(here, advance=advance)
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "changed"
    return "intact" if got == file.sha256 else "changed"


def discard_runtime(cache: Cache, digest: str) -> None:
    """Take a runtime away so that it is assembled anew; the manifest goes first."""
    folder = cache.runtime_path(digest)
    with cache.making(folder):
        clear_away(folder)
