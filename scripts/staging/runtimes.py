"""Runtimes that are made: read from their manifests, and verified."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from scripts.errors import StagedFileError
from scripts.model import Progress, Runtime, RuntimeFile
from scripts.osal.fs import hash_file, is_link, long_path, paths_below
from scripts.osal.parallel_map import parallel_map
from scripts.store.cache import Cache, is_digest, read_manifest

#: The number of the manifest's and the digest's format.
FORMAT: Final = 1
#: Bytes that one thread hashes before a second one would have started.
SMALL: Final = 8 * 1024 * 1024


def digest_of(files: Iterable[RuntimeFile]) -> str:
    """SHA-256 over format, and place, content and role of every file; independent of paths and time."""
    rows = [[FORMAT], *sorted([f.name, f.sha256, f.provides or "", list(f.needs)] for f in files)]
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


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
    return bound_runtime(stack, digest, folder, files) if intact else None


def bound_runtime(stack: str, digest: str, folder: Path, files: tuple[RuntimeFile, ...]) -> Runtime:
    """Bind the pieces of a runtime together."""
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
