"""Where everything lies for one run: the checkout, the lock, the store, the stage, the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.model import NoProgress, Progress
from scripts.records import dataclass

if TYPE_CHECKING:
    from scripts.app.bill import Bill

ROOT: Final = Path(__file__).resolve().parents[2]
APP_NAME: Final = "cuda-on-amd"


@dataclass(frozen=True, kw_only=True)
class Workspace:
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
        ask: asks a person to agree to a bill; ``None`` when nobody is there to answer.
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
    ask: Callable[[Bill], bool] | None = None
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
    ask: Callable[[Bill], bool] | None = None,
) -> Workspace:
    """Resolve every place from the environment.

    ``CUDA_AMD_LOCK``, ``CUDA_AMD_CACHE`` and ``CUDA_AMD_STATE`` move the lock, the store and the
    registry. Paths are made absolute here, once.
    """
    env = own_environ() if environ is None else dict(environ)
    own_lock = root / "pins.lock"
    lock = Path(env.get("CUDA_AMD_LOCK") or own_lock).absolute()
    cache = env.get("CUDA_AMD_CACHE") or _users("cache")
    state = env.get("CUDA_AMD_STATE") or _users("state")
    return Workspace(
        root=root,
        lock_path=lock,
        custom_lock=lock != own_lock.absolute(),
        cache_root=Path(cache).absolute(),
        stage=root / "stage",
        state_root=Path(state).absolute(),
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


def _users(kind: str) -> str:
    """Return where this system keeps a user's cached files, or state."""
    import platformdirs  # noqa: PLC0415 - slow to import, and tests and CI name their own places

    folders = {"cache": platformdirs.user_cache_dir, "state": platformdirs.user_state_dir}
    return folders[kind](APP_NAME, appauthor=False)


def within(ws: Workspace, path: Path) -> str:
    """Name a path of this checkout relative to it, so that the checkout can be moved."""
    return path.relative_to(ws.root).as_posix() if path.is_relative_to(ws.root) else str(path)
