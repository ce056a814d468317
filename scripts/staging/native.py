"""Our own C: compiled once for each (sources, compiler, processor) and kept in the store like a tree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from scripts.model import Progress, RuntimeFile, Stack, StackKind
from scripts.staging.build import build, find_compiler, host_cpu, key_of
from scripts.staging.plan import PlannedFile
from scripts.staging.recipe import Compiler
from scripts.store.cache import Cache, manifest_path
from scripts.system.files import hash_file, make_read_only, remove_tree, replace, write_atomic

PREFIX: Final = "native:"
CHECK_PROGRAM: Final = "cuda_check"


def build_key_of(origin: str) -> str | None:
    """Return the store key in a file's origin, ``None`` for files that were downloaded."""
    return origin.removeprefix(PREFIX) if origin.startswith(PREFIX) else None


def native_files(
    root: Path, stack: Stack, cache: Cache, environ: Mapping[str, str], platform: str, *, progress: Progress
) -> tuple[tuple[PlannedFile, ...], str]:
    """Return what of ours belongs to a stack, and ``done``, ``kept`` or ``skipped``.

    The reference stack is all ours; the control brings no cuda_check, so it gets our own. A translation
    layer ships its own.

    Raises:
        HostError: there is no C compiler, or it fails.
    """
    if stack.kind is StackKind.TRANSLATION:
        return (), "skipped"
    compiler = find_compiler(environ, platform=platform)
    key = key_of(root / "native", compiler, cpu=host_cpu())
    found = _load(cache, key)
    files = found if found is not None else _build(root, cache, key, compiler, progress)
    wanted = files if stack.kind is StackKind.REFERENCE else [f for f in files if _is_check(f.file.name)]
    return tuple(wanted), "done" if found is None else "kept"


def _is_check(name: str) -> bool:
    """Whether this is the program that asks every library to load."""
    return Path(name).stem == CHECK_PROGRAM


def _load(cache: Cache, key: str) -> list[PlannedFile] | None:
    """Return an earlier build if every byte is still what was built; else it is to be built anew.

    A runtime's files are further names of these, so what changed the one has changed the other.
    """
    folder = cache.tree_path(key)
    try:
        rows = json.loads(manifest_path(folder).read_bytes())["built"]
        files = [RuntimeFile(**row, origin=PREFIX + key) for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    planned = [PlannedFile(file=f, source=folder / f.name) for f in files]
    intact = all(p.source.is_file() and hash_file(p.source) == p.file.sha256 for p in planned)
    return planned if intact else None


def _build(root: Path, cache: Cache, key: str, compiler: Compiler, progress: Progress) -> list[PlannedFile]:
    """Compile beside the final folder, then rename; another process may have been faster."""
    cache.ensure()
    final = cache.tree_path(key)
    with cache.making(final):
        found = _load(cache, key)
        if found is not None:
            return found
        work = final.with_name(final.name + ".new")
        final.parent.mkdir(parents=True, exist_ok=True)
        for leftover in (work, final):
            if leftover.exists():
                remove_tree(leftover)
        built = build(root / "native", work, compiler, progress=progress)
        rows = [
            {
                "name": f.name,
                "sha256": hash_file(f.path),
                "size": f.path.stat().st_size,
                "provides": f.provides,
            }
            for f in built
        ]
        make_read_only(work)
        replace(work, final)
        write_atomic(manifest_path(final), (json.dumps({"built": rows}, indent=1) + "\n").encode())
    loaded = _load(cache, key)
    return loaded if loaded is not None else []
