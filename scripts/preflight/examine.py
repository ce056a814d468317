"""Reads a program's files: all that static reading shows of it; what did not change is not read again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from scripts.guards import GuardSign, guard_of
from scripts.preflight.kernels import KernelStore, keep
from scripts.preflight.libraries import named
from scripts.preflight.needs import Closure, FileFacts, follow
from scripts.preflight.packaging import (
    Listing,
    Package,
    Recognised,
    environments,
    guarded_kind,
    installed,
    is_python,
    is_shared,
    list_folder,
    merged,
    recognise,
)
from scripts.serialize import DATA, plain

FORMAT: Final = 5
#: Programs whose answers are kept; the oldest go.
MAX_PROGRAMS: Final = 64
MAX_BYTES: Final = 1 << 26


def _look(path: Path, kernels: KernelStore | None) -> FileFacts:
    """Read one file; most runs read none, and do not pay for the readers."""
    from scripts.preflight.look import look  # noqa: PLC0415 - that is why

    return look(path, kernels)


class FileCache:
    """Answers of ``look``, for one program, keyed by path, size, modification time and file id.

    A cache that cannot be read, written, or was made by other tables is as good as none. With ``kernels`` a
    file whose kernels have no report there is read again.
    """

    def __init__(
        self,
        folder: Path,
        program: Path,
        look: Callable[[Path], FileFacts] | None = None,
        *,
        kernels: KernelStore | None = None,
    ) -> None:
        """Load what is known; ``folder`` may not exist yet."""
        name = hashlib.sha256(str(program).encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self.path = folder / f"{name}.json"
        self._look = look or (lambda path: _look(path, kernels))
        self._kernels = kernels
        self._tables = _fingerprint()
        self._known = self._load()
        self._used: dict[str, list[Any]] = {}
        self.hits = self.misses = 0

    def __call__(self, path: Path) -> FileFacts:
        """Return what a file tells, from the cache where it is the same file."""
        identity = _identity(path)
        known = self._used.get(str(path)) or self._known.get(str(path))
        if identity is not None and known is not None and known[0] == identity:
            facts = _facts(known[1])
            if facts is not None and self._checked(facts):
                self.hits += 1
                self._used[str(path)] = known
                return facts
        self.misses += 1
        facts = self._look(path)
        if identity is not None and identity == _identity(path):
            self._used[str(path)] = [identity, plain(facts)]
        return facts

    def _checked(self, facts: FileFacts) -> bool:
        """Whether the kernels of a file were checked, where that is wanted."""
        return self._kernels is None or not facts.device or self._kernels.get(facts.device) is not None

    def save(self) -> None:
        """Write what was used, if anything is new; failing to is no failure."""
        if not self.misses and len(self._used) == len(self._known):
            return
        body = {"format": FORMAT, "tables": self._tables, "files": self._used}
        keep(self.path, json.dumps(body, separators=(",", ":")).encode(), most=MAX_PROGRAMS)

    def _load(self) -> dict[str, list[Any]]:
        """Read the file, if it is one of ours."""
        try:
            if self.path.stat().st_size > MAX_BYTES:
                return {}
            body = json.loads(self.path.read_bytes())
            ours = body["format"] == FORMAT and body["tables"] == self._tables
            files = body["files"] if ours else {}
            return {str(k): v for k, v in files.items() if isinstance(v, list) and len(v) == 2}  # noqa: PLR2004 - a pair
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}


def _identity(path: Path) -> list[int] | None:
    """Return size, modification time and file id; ``None`` where there is no file."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return [found.st_size, found.st_mtime_ns, found.st_dev, found.st_ino]


def _fingerprint() -> str:
    """Name the tables and this code's format: other tables give other answers."""
    digest = hashlib.sha256()
    for name in ("libraries.toml", "kinds.toml"):
        digest.update((DATA / name).read_bytes())
    return digest.hexdigest()[:16]


def _facts(body: object) -> FileFacts | None:
    """Read facts back, ``None`` where the text is not what was written."""
    try:
        facts = msgspec.convert(body, FileFacts)
    except (msgspec.ValidationError, RecursionError):
        return None
    return facts if isinstance(body, dict) and body.keys() == set(FileFacts.__struct_fields__) else None


class Examined(Struct, frozen=True, kw_only=True):
    """What was read: the closure, the kinds that were recognised, the packages, an anti-cheat system."""

    closure: Closure
    kinds: tuple[Recognised, ...] = ()
    packages: tuple[Package, ...] = ()
    guard: GuardSign | None = None


def examine(program: Path, *, cache: Path, kernels: KernelStore | None = None) -> Examined:
    """Read a program and everything it ships; ``cache`` is the folder that keeps the answers.

    With ``kernels`` every PTX text is checked, too, unless that store has the answer.

    Never raises for what lies in files: damage and limits are part of the answer.
    """
    look = FileCache(cache, program, kernels=kernels)
    packages = installed(environments(program)) if is_python(program) else ()
    shared = is_shared(program.parent) or is_python(program)
    listing = list_folder(program.parent, deep=not shared)
    alone = shared or not look(program).format  # what lies beside a file that is no program is not its own
    # Other programs beside it are no part of it.
    beside = [p for p in listing.files if p != program and p.suffix.lower() != ".exe"] if not alone else []
    shipped = [("", path) for path in beside]
    shipped += [(package.name, path) for package in packages for path in package.files]
    everything = merged(listing, _by_name(packages))
    closure = follow(program, look, everything, others=[(o, p) for o, p in shipped if not named(p.name)])
    look.save()
    facts = closure.program.facts
    kinds = recognise(program.name, listing.beside, facts.sections, facts.signs)
    sign = guard_of(program)
    guarded = (guarded_kind(sign),) if sign is not None else ()
    return Examined(closure=closure, kinds=(*guarded, *kinds), packages=packages, guard=sign)


def _by_name(packages: tuple[Package, ...]) -> Listing:
    found: dict[str, tuple[Path, ...]] = {}
    for package in packages:
        for path in package.files:
            found[path.name.lower()] = (*found.get(path.name.lower(), ()), path)
    return Listing(by_name=found)
