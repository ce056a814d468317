"""Runtimes that are made: their manifests, and the history of which one is active.

``stage/generations.json`` holds a list that only grows and the number of the current one. ``use``
appends, ``rollback`` moves the current number back; both are one atomic write.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from scripts.errors import ConflictError, HistoryError, StagedFileError, UsageError
from scripts.model import Progress, Runtime, RuntimeFile
from scripts.osal.fs import (
    hash_file,
    is_link,
    long_path,
    paths_below,
    read_bounded,
    write_atomic,
)
from scripts.osal.text import utc_now
from scripts.serialize import parse_json, plain
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
        files = msgspec.convert(data["files"], tuple[RuntimeFile, ...])
        intact = data["format"] == FORMAT and digest_of(files) == digest and folder.is_dir()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Runtime(stack=stack, digest=digest, path=folder, files=files) if intact else None


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
        if size > SMALL:
            from scripts.osal.parallel import parallel_map  # noqa: PLC0415 - the CPU reference is small

            states = parallel_map(lambda f: _state(root / f.name, f, advance), runtime.files, threads=2)
        else:
            states = [_state(root / f.name, f, advance) for f in runtime.files]
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


HISTORY_FORMAT: Final = 1
#: Ten thousand generations need less.
_MOST_BYTES: Final = 16 * 1024 * 1024
WAIT_SECONDS: Final = 60
#: No stack's name, option or document's path is longer.
MAX_TEXT: Final = 1024


class Generation(Struct, frozen=True, kw_only=True):
    """One entry: ``activated`` is UTC in ISO 8601, ``lock`` the digest of the lock it came from."""

    number: int
    stack: str
    digest: str
    options: tuple[str, ...]
    lock: str
    activated: str = field(name="created")
    reason: str
    document: str = ""


class History(Struct, frozen=True, kw_only=True):
    """All generations and the number of the current one (0: nothing is active)."""

    current: int = 0
    generations: tuple[Generation, ...] = ()

    @property
    def active(self) -> Generation | None:
        """The generation in use."""
        return next((g for g in self.generations if g.number == self.current), None)

    @property
    def previous(self) -> Generation | None:
        """The generation before the current one."""
        older = [g for g in self.generations if g.number < self.current]
        return older[-1] if older else None

    def of(self, stack: str) -> tuple[Generation, ...]:
        """Return the generations of one stack, newest first."""
        return tuple(g for g in reversed(self.generations) if g.stack == stack)


def read_history(stage: Path) -> History:
    """Read the history; none yet is an empty one.

    Raises:
        HistoryError: the file is damaged or made by a newer workspace.
    """
    path = stage / "generations.json"
    try:
        data = parse_json(read_bounded(path, _MOST_BYTES))
        if data["format"] > HISTORY_FORMAT:
            raise _unreadable(path, "it was made by a newer workspace")
        history = msgspec.convert({name: data[name] for name in ("current", "generations")}, History)
    except FileNotFoundError:
        return History()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, str(error)) from error
    for generation in history.generations:
        # These may become part of a path.
        texts = (generation.stack, generation.lock, generation.document, *generation.options)
        if not is_digest(generation.digest) or any(len(text) > MAX_TEXT for text in texts):
            raise _unreadable(path, f"generation {generation.number} names no digest, or a text is too long")
    if history.current not in {0, *(generation.number for generation in history.generations)}:
        raise _unreadable(path, f"it calls generation {history.current} the current one and does not list it")
    return history


def _unreadable(path: Path, why: str) -> HistoryError:
    """Say what is wrong with the history and the harmless way out."""
    hint = "move the file away and run `invoke setup`: the store keeps everything that was verified"
    msg = "the list of generations cannot be read"
    return HistoryError("generations-unreadable", msg, context=(str(path), why), hint=hint)


@contextmanager
def changing(stage: Path) -> Iterator[None]:
    """Keep other processes from changing the history meanwhile."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 - slow to import, and reading takes no lock

    stage.mkdir(parents=True, exist_ok=True)
    lock = FileLock(stage / ".generations.lock", timeout=WAIT_SECONDS)
    try:
        with lock:
            yield
    except Timeout as error:
        msg = f"another process has been changing this stage for {WAIT_SECONDS} seconds"
        raise ConflictError(
            "stage-busy", msg, context=(str(stage),), hint="wait for it to end, then try again"
        ) from error


def activate(
    stage: Path,
    *,
    stack: str,
    digest: str,
    lock: str,
    options: tuple[str, ...] = (),
    reason: str,
    document: str = "",
) -> Generation:
    """Make a runtime the active one: a new generation, unless the current one is already it.

    A newer ``document`` about what is active takes the place of the older one.
    """
    with changing(stage):
        history = read_history(stage)
        now = history.active
        wanted = (stack, digest, options, lock)
        if now is not None and (now.stack, now.digest, now.options, now.lock) == wanted:
            if document in {"", now.document}:
                return now
            shown = replace(now, document=document)
            rows = tuple(shown if g.number == now.number else g for g in history.generations)
            _write(stage, History(current=history.current, generations=rows))
            return shown
        number = max((g.number for g in history.generations), default=0) + 1
        new = Generation(
            number=number,
            stack=stack,
            digest=digest,
            options=options,
            lock=lock,
            activated=utc_now().isoformat(),
            reason=reason,
            document=document,
        )
        _write(stage, History(current=number, generations=(*history.generations, new)))
        return new


def go_back(stage: Path, *, to: int | None = None) -> tuple[Generation, Generation]:
    """Make an earlier generation current; return (left, now active).

    Raises:
        UsageError: there is none, or no generation ``to``.
    """
    with changing(stage):
        history = read_history(stage)
        left = history.active
        numbered = {g.number: g for g in history.generations}
        target = history.previous if to is None else numbered.get(to)
        if left is None or target is None:
            known = ", ".join(f"{g.number} ({g.stack})" for g in history.generations) or "none"
            msg = "there is no " + ("earlier generation to go back to" if to is None else f"generation {to}")
            hint = "see which stacks there are: invoke stacks"
            raise UsageError("no-such-generation", msg, context=(f"generations: {known}",), hint=hint)
        _write(stage, History(current=target.number, generations=history.generations))
        return left, target


def _write(stage: Path, history: History) -> None:
    """Replace the file in one step."""
    body = {"format": HISTORY_FORMAT, **plain(history)}
    write_atomic(stage / "generations.json", (json.dumps(body, indent=1) + "\n").encode())


NAME: Final = "workspaces.json"


def known_stages(state_root: Path) -> tuple[Path, ...]:
    """Return the stages of all checkouts that still exist; what is no path in the index is passed over."""
    try:
        names = parse_json(read_bounded(state_root / NAME, _MOST_BYTES))["stages"]
        return tuple(Path(name) for name in names if isinstance(name, str) and os.path.isdir(name))  # noqa: PTH112 - never raises
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def remember_stage(state_root: Path, stage: Path) -> None:
    """Add a checkout to the index; already known is nothing to do."""
    if stage not in known_stages(state_root):
        state_root.mkdir(parents=True, exist_ok=True)
        _change_index(state_root, lambda known: {*known, stage})


def forget_stage(state_root: Path, stage: Path) -> None:
    """Take a checkout out of the index."""
    if (state_root / NAME).exists():
        _change_index(state_root, lambda known: known - {stage})


def _change_index(state_root: Path, change: Callable[[set[Path]], set[Path]]) -> None:
    """Write the index again; other processes wait meanwhile."""
    from filelock import FileLock  # noqa: PLC0415 - slow to import, and most runs only read

    with FileLock(state_root / f".{NAME}.lock", timeout=60):
        stages = sorted(map(str, change({*known_stages(state_root)})))
        write_atomic(state_root / NAME, (json.dumps({"stages": stages}, indent=1) + "\n").encode())
