"""``cache.list``, ``cache.prune`` and ``remove``: what we hold on this disk, and taking it away.

Each of the first three may have been pointed at a folder that holds other things as well: what is not known
by name stays. An environment that this very process runs from stays too, and is named. So do documents that
were measured on real hardware: no run here can make them again.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.app.compile_cache import CompileCache, clear, compile_cache
from scripts.app.context import Workspace, cache_of, lock_of
from scripts.app.stack_process import running_here
from scripts.app.wrap_placing import placed_here, registry_of, shims_here, still_placed
from scripts.errors import ConflictError, ExitCode, HistoryError, HostError, WorkspaceError
from scripts.evidence.document import Provenance
from scripts.evidence.evidence_io import FILE_NAME, read_document
from scripts.osal.fs import is_link, remove_tree
from scripts.serialize import JsonRecord, pick
from scripts.staging.build import build_key_of
from scripts.staging.runtimes import forget_stage, known_stages, load_runtime, read_history
from scripts.staging.state_folder import SHIMS
from scripts.store.cache import CacheEntry, disk_of


class CacheListResult(Struct, frozen=True, kw_only=True):
    """Everything in the store; ``needed_by`` says why an entry stays, entry key by entry key."""

    root: str
    entries: tuple[CacheEntry, ...]
    needed_by: dict[str, str]
    exit_code: int = ExitCode.OK

    @property
    def bytes(self) -> int:
        """Disk in use: less than the entries' sum where they share files."""
        return disk_of(self.entries)

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        rows = [
            {**pick(e, "kind key bytes path"), "needed_by": self.needed_by.get(e.key)} for e in self.entries
        ]
        return {"root": self.root, "bytes": self.bytes, "entries": rows}


def cache_list(ws: Workspace) -> CacheListResult:
    """List the store; changes nothing."""
    needed = references(ws, skip_unreadable=True)
    return CacheListResult(root=str(ws.cache_root), entries=cache_of(ws).entries(), needed_by=needed)


class CachePruneResult(Struct, frozen=True, kw_only=True):
    """What went (or with ``dry_run`` would go), what stays, and how many bytes that freed.

    With ``compiled`` it is the layer's compile cache that went, and nothing of the store.
    """

    gone: tuple[CacheEntry, ...]
    kept: int
    dry_run: bool
    freed: int = 0
    compiled: CompileCache | None = None
    exit_code: int = ExitCode.OK

    @property
    def bytes(self) -> int:
        """Disk that became free."""
        return self.compiled.bytes if self.compiled else self.freed

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        rows = [pick(entry, "kind key bytes") for entry in self.gone]
        return {**pick(self, "dry_run bytes kept compile_cache=compiled"), "gone": rows}


def cache_prune(ws: Workspace, *, compile_: bool = False, dry_run: bool = False) -> CachePruneResult:
    """Remove every entry that no generation of any checkout and no placement refers to.

    With ``compile_`` clear the layer's compile cache instead, which grows for ever; programs fill it again.

    Raises:
        ConflictError: ``compile-cache-in-use``.
        HostError: ``compile-cache-unknown``: this user's cache folder is not known.
    """
    if compile_:
        return _clear_compiled(ws, dry_run=dry_run)
    cache, needed = cache_of(ws), references(ws)
    entries = cache.entries()
    gone = tuple(entry for entry in entries if entry.key not in needed)
    if not dry_run:
        for entry in gone:
            cache.remove(entry)
    kept = [entry for entry in entries if entry.key in needed]
    freed = disk_of(entries) - disk_of(kept)
    return CachePruneResult(gone=gone, kept=len(kept), dry_run=dry_run, freed=freed)


def _clear_compiled(ws: Workspace, *, dry_run: bool) -> CachePruneResult:
    """Clear the compile cache, or with ``dry_run`` say what would go."""
    compiled = compile_cache(ws)
    if compiled is None:
        msg = "this user's cache folder is not known"
        raise HostError("compile-cache-unknown", msg, hint="set HOME, as the layer needs it too")
    if not dry_run:
        clear(compiled)
    return CachePruneResult(gone=(), kept=0, dry_run=dry_run, compiled=compiled)


def references(ws: Workspace, *, skip_unreadable: bool = False) -> dict[str, str]:
    """Map every needed key of the store to a sentence that says who needs it.

    A runtime is needed by a generation, a placement or a shim; the archives and trees it was made from stay
    with it, so that a file an antivirus program takes can be put back without a download.

    Raises:
        HistoryError: the list of a checkout cannot be read, so that nothing of it may be removed; with
            ``skip_unreadable`` this is noted instead.
    """
    needed: dict[str, str] = {}
    cache, artifacts = cache_of(ws), lock_of(ws).artifacts
    for digest, who in _runtimes(ws, skip_unreadable=skip_unreadable):
        needed.setdefault(digest, who)
        runtime = load_runtime(cache, digest, stack="")
        for origin in {file.origin for file in runtime.files} if runtime else ():
            key = build_key_of(origin) or (artifacts[origin].sha256 if origin in artifacts else None)
            if key:
                needed.setdefault(key, who)
    return needed


def _runtimes(ws: Workspace, *, skip_unreadable: bool) -> Iterator[tuple[str, str]]:
    """Yield every runtime that may still be used."""
    for stage in dict.fromkeys((ws.stage, *known_stages(ws.state_root))):
        try:
            generations = read_history(stage).generations
        except HistoryError as error:
            if not skip_unreadable:
                raise
            ws.progress.note(f"{error.message}: {error.context[0]}")
            continue
        for generation in generations:
            who = f"generation {generation.number} ({generation.stack}) of {stage.parent}"
            yield generation.digest, who
    for placed in placed_here(ws):
        if placed.digest:
            yield placed.digest, f"placed in {placed.target}"
    for shim in shims_here(ws):
        if shim.standing != "gone":
            yield shim.digest, f"started by {shim.path}"


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
#: The folders of our own modules, and what marks an environment or a repository of the user's below one.
SOURCES: Final = (".github", "docs", "native", "scripts", "tests", "tools")
FOREIGN: Final = frozenset({"pyvenv.cfg", "conda-meta", ".git"})
#: Among this user's caches, what our tests make there: see ``tests/checkout.py``.
TESTS: Final = "cuda-on-amd tests"
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
    kept += _running_from(ws) + _of_tests(ws)
    if yes:
        for path in paths:
            _remove(ws, path, measured)
        if others:
            forget_stage(ws.state_root, ws.stage)
            _forget_shims(ws)
        elif ws.state_root.is_dir() and not is_link(ws.state_root) and not any(ws.state_root.iterdir()):
            ws.state_root.rmdir()
    return RemoveResult(paths=tuple(map(str, paths)), kept=(*kept, *_strangers(ws)), done=yes)


def _forget_shims(ws: Workspace) -> None:
    """Take this checkout's scripts, which went with its stage, off the list that other checkouts read too."""
    registry = registry_of(ws)
    for entry in registry.entries(SHIMS):
        if entry.path.is_relative_to(ws.stage) and not os.path.lexists(entry.path):
            registry.remove(SHIMS, entry.path)


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
    """Yield the folders of compiled modules beside our sources, and of nothing that a user put there."""
    if _is_folder(root / "__pycache__"):
        yield root / "__pycache__"
    for ours in SOURCES:
        for folder, names, files in os.walk(root / ours) if _is_folder(root / ours) else ():
            foreign = FOREIGN.intersection((*names, *files))
            names[:] = () if foreign else sorted(name for name in names if not name.startswith("."))
            if "__pycache__" in names:
                names.remove("__pycache__")
                if _is_folder(Path(folder) / "__pycache__"):
                    yield Path(folder) / "__pycache__"


def _is_folder(folder: Path) -> bool:
    return folder.is_dir() and not is_link(folder)


def _runs_us(path: Path) -> bool:
    return Path(sys.prefix).resolve().is_relative_to(path.resolve())


def _running_from(ws: Workspace) -> tuple[str, ...]:
    """Name the environments of this checkout that stay: one that runs us, and ``.venv`` always."""
    stay = [ws.root / name for name in ENVIRONMENTS]
    stay = [path for path in stay if path.is_dir() and (path.name == ".venv" or _runs_us(path))]
    return tuple(f"{path}: may be running this command; to delete it: {_deleting(path)}" for path in stay)


def _of_tests(ws: Workspace) -> tuple[str, ...]:
    """Name the folder in which the tests of every checkout keep what they compiled."""
    folder = ws.caches / TESTS if ws.caches else None
    if folder is None or not folder.is_dir():
        return ()
    return (f"{folder}: compiled by the tests of this user's checkouts; to delete it: {_deleting(folder)}",)


def _deleting(environment: Path) -> str:
    """Return the line that deletes an environment and the lock file beside it."""
    lock = environment.with_name(f"{environment.name}.lock")
    if sys.platform == "win32":
        also = f' & del "{lock}"' if lock.exists() else ""
        return f'rmdir /s /q "{environment}"{also}'
    return shlex.join(["rm", "-rf", str(environment), *([str(lock)] if lock.exists() else [])])


def _measured(ws: Workspace) -> tuple[Path, ...]:
    """List the documents of this checkout that were measured on real hardware."""
    found = []
    for path in sorted((ws.stage / "reports").glob(f"*/{FILE_NAME}")):
        try:
            document = read_document(path)
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
