"""Where everything lies for one run: the checkout, the lock, the store, the stage, the environment."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from scripts.errors import StagedFileError, UsageError
from scripts.host.facts import scan_host
from scripts.lock.reader import find_stack, read_lock
from scripts.model import Host, Lock, NoProgress, Progress, Runtime, Stack
from scripts.osal.paths import unquoted, user_path
from scripts.staging.runtimes import Generation, load_runtime, read_history, verify_runtime
from scripts.store.cache import Cache

if TYPE_CHECKING:
    from scripts.app.download_summary import DownloadSummary


ROOT: Final = Path(__file__).resolve().parents[2]
APP_NAME: Final = "cuda-on-amd"


class Workspace(Struct, frozen=True, kw_only=True):
    """The places and the environment a use case works with; tests make their own.

    Attributes:
        root: the checkout, holding ``pins.lock``, ``stage`` and ``evidence``.
        lock_path: the lock in use; ``custom_lock`` says that it is not the checkout's own.
        cache_root: the content-addressed store.
        stage: this checkout's pointers, logs and reports.
        state_root: the user's registry of placements and shims.
        environ: the environment this process was started with.
        platform: ``sys.platform`` (``linux`` or ``win32``).
        progress: where long work reports.
        caches: where this user's programs keep their caches; ``None`` where that is not known.
        ask: asks a person to agree to a download; ``None`` without a terminal.
    """

    root: Path
    lock_path: Path
    custom_lock: bool
    cache_root: Path
    stage: Path
    state_root: Path
    environ: Mapping[str, str]
    platform: str = sys.platform
    progress: Progress = field(default_factory=NoProgress)
    ask: Callable[[DownloadSummary], bool] | None = None
    caches: Path | None = None

    @property
    def evidence(self) -> Path:
        """Committed evidence documents."""
        return self.root / "evidence"


def own_environ() -> dict[str, str]:
    """Return the environment this process was started with."""
    return dict(os.environ)


def workspace_from_environ(
    environ: Mapping[str, str] | None = None,
    *,
    root: Path = ROOT,
    progress: Progress | None = None,
    ask: Callable[[DownloadSummary], bool] | None = None,
) -> Workspace:
    """Resolve every place from the environment.

    ``CUDA_AMD_LOCK``, ``CUDA_AMD_CACHE`` and ``CUDA_AMD_STATE`` move the lock, the store and the
    registry. Each is absolute, so that every folder and every process means the same place by it.

    Raises:
        UsageError: ``bad-path``: one of them is no path that this system has, or not absolute.
    """
    env = own_environ() if environ is None else dict(environ)
    own_lock = root / "pins.lock"
    lock = _named(env, "CUDA_AMD_LOCK") or own_lock.absolute()
    return Workspace(
        root=root,
        lock_path=lock,
        custom_lock=lock != own_lock.absolute(),
        cache_root=_named(env, "CUDA_AMD_CACHE") or _users("cache"),
        stage=root / "stage",
        state_root=_named(env, "CUDA_AMD_STATE") or _users("state"),
        environ=env,
        progress=progress if progress is not None else NoProgress(),
        ask=ask,
        caches=user_caches(env),
    )


def user_caches(environ: Mapping[str, str]) -> Path | None:
    """Return the folder in which this user's programs keep their caches.

    On Windows the system says it, whatever the environment says; elsewhere ``XDG_CACHE_HOME``, which counts
    only if it is absolute.
    """
    if sys.platform == "win32":
        import platformdirs  # noqa: PLC0415 - see `_users`

        return Path(platformdirs.user_data_dir(roaming=False))
    named = Path(environ.get("XDG_CACHE_HOME") or "")
    if named.is_absolute():
        return named
    home = environ.get("HOME")
    return Path(home) / ".cache" if home else None


def _named(environ: Mapping[str, str], variable: str) -> Path | None:
    """Return the absolute path that a variable names; ``None`` where it is unset or empty."""
    text = environ.get(variable, "")
    if not unquoted(text):
        return None
    path = user_path(text, variable, cwd=Path())
    if not path.is_absolute():
        msg = f"{variable} is not an absolute path"
        hint = "write it in full, or unset it"
        raise UsageError("bad-path", msg, context=(str(path),), hint=hint)
    return path


def _users(kind: str) -> Path:
    """Return where this system keeps a user's cached files, or state."""
    import platformdirs  # noqa: PLC0415 - slow to import, and tests and CI name their own places

    folders = {"cache": platformdirs.user_cache_dir, "state": platformdirs.user_state_dir}
    return Path(folders[kind](APP_NAME, appauthor=False)).absolute()


def within(ws: Workspace, path: Path) -> str:
    """Name a path of this checkout relative to it, so that the checkout can be moved."""
    return path.relative_to(ws.root).as_posix() if path.is_relative_to(ws.root) else str(path)


class Staged(Struct, frozen=True, kw_only=True):
    """A stack, its verified runtime, the lock it comes from, and this machine."""

    lock: Lock
    stack: Stack
    runtime: Runtime
    host: Host


def lock_of(ws: Workspace, *, own: bool = False) -> Lock:
    """Read the lock in use; where ``CUDA_AMD_TRUST`` is set, one of the keys it names must have signed it.

    Set and empty it names none, and is refused: a script that lost its keys must not go on without. ``own``
    means the checkout's lock, whichever one is in use. No use case reads a lock in another way.
    """
    path, custom = (ws.root / "pins.lock", False) if own else (ws.lock_path, ws.custom_lock)
    trust = ws.environ.get("CUDA_AMD_TRUST")
    return read_lock(path, custom=custom, trust=None if trust is None else unquoted(trust))


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
    for policy in known.env if lock.custom else ():
        if policy.value is not None:
            ws.progress.note(f"the custom lock sets {policy.name}={policy.value} for every program")
    return Staged(lock=lock, stack=known, runtime=runtime, host=host_of(ws, gpu=gpu))


def generation_of(ws: Workspace, lock: Lock, stack: str) -> Generation:
    """Find the generation that answers for a stack: the current one, or the newest of that name.

    Raises:
        UsageError: the stack is unknown, was never staged here, or nothing is active yet.
    """
    if not stack:
        return active(ws)
    find_stack(lock, stack)
    history = read_history(ws.stage)
    if history.active is not None and history.active.stack == stack:
        return history.active
    staged = history.of(stack)
    if not staged:
        msg = f"{stack} has not been staged in this workspace"
        raise UsageError("not-staged", msg, hint=f"stage it first: invoke setup --stack={stack}")
    return staged[0]


def active(ws: Workspace) -> Generation:
    """Return the generation in use.

    Raises:
        UsageError: ``nothing-active``.
    """
    found = read_history(ws.stage).active
    if found is None:
        msg = "no stack is active in this workspace yet"
        hint = "run `invoke setup` first, or name one: --stack=ID (`invoke stacks` lists them)"
        raise UsageError("nothing-active", msg, hint=hint)
    return found


def newest(ws: Workspace, stack: str) -> Runtime | None:
    """Return a stack's newest staged runtime as it lies there, not verified; ``None`` without one."""
    staged = read_history(ws.stage).of(stack)
    return load_runtime(cache_of(ws), staged[0].digest, stack=stack) if staged else None


def read_count(text: str, *, option: str, most: int, least: int = 1) -> int:
    """Read a number of things.

    Raises:
        UsageError: ``bad-number`` (``bad-size`` for ``--size``): it is no whole number in its range.
    """
    digits = text.lstrip("0") or "0"
    if not text.isdecimal() or len(digits) > len(str(most)) or not least <= int(digits) <= most:
        reference = "bad-size" if option == "size" else "bad-number"
        raise UsageError(reference, f"--{option}={text[:40]}: must be a whole number from {least} to {most}")
    return int(digits)


def read_percent(text: str, reference: str, *, option: str, most: float = 0) -> float:
    """Read ``20`` or ``20%``: from 0 to ``most``, or where that is left out above 0 and below 100.

    Raises:
        UsageError: by ``reference``: it is none.
    """
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if (0 <= value <= most) if most else (0 < value < 100):  # noqa: PLR2004 - percent
        return value
    allowed = f"from 0 to {most:g}" if most else "above 0 and below 100"
    raise UsageError(reference, f"--{option}={text[:40]}: percent, {allowed}")
