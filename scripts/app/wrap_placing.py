"""Between a staged runtime and a program's folder: what goes beside it, what is placed, which shims exist."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.app.context import Staged, Workspace, cache_of
from scripts.app.wrap_result import WrapPlacement
from scripts.errors import TargetError
from scripts.model import RuntimeFile, StackKind
from scripts.osal.fs import read_bounded
from scripts.osal.text import option
from scripts.placement.layout import fold
from scripts.placement.place import Placement as Placing
from scripts.placement.place import Session, explain, place, placed
from scripts.placement.plan import Deed, PlacementItem, PlacementPlan, another_way
from scripts.placement.status import PlacementStatus, placements
from scripts.preflight.loading import Place, Places
from scripts.serialize import JsonRecord
from scripts.staging.runtimes import load_runtime
from scripts.staging.state_folder import SHIMS, PlacementRegistry, RegistryEntry

#: Bytes of a script of ours; a longer one is another's.
LONGEST_SHIM: Final = 1024 * 1024


def registry_of(ws: Workspace) -> PlacementRegistry:
    """Open this user's index of placements and shims."""
    return PlacementRegistry(ws.state_root)


def placed_here(ws: Workspace) -> tuple[PlacementStatus, ...]:
    """Return every placement that the registry knows and that is not gone, for ``status``."""
    return placements(registry_of(ws))


def still_placed(ws: Workspace) -> tuple[str, ...]:
    """Return one line for each placement, for ``remove``."""
    return tuple(f"{status.target}: {status.standing.value}" for status in placed_here(ws))


class BesidePlacer:
    """The ``Placer`` of ``wrap --via=beside``; without ``places`` it takes all that the stack answers for."""

    def __init__(self, ws: Workspace, *, signals: bool = False) -> None:
        """``signals`` is for callers that do not handle signals themselves."""
        self._ws = ws
        self._signals = signals

    def __call__(
        self, staged: Staged, program: Path, *, keep: bool = False, places: Places | None = None
    ) -> AbstractContextManager[WrapPlacement]:
        """Place on entering; on leaving undo, unless others use it or it is kept. Leaving never raises."""
        chosen = self._chosen(staged, program, places)
        return self._placed(staged, program, chosen, keep=keep)

    def explain(self, staged: Staged, program: Path, chosen: Chosen) -> PlacementPlan:
        """Say what would be placed, or why not; changes nothing."""
        return explain(
            chosen.target,
            chosen.items,
            stack=staged.stack.id,
            digest=staged.runtime.digest,
            program=program,
            system_folders=system_folders(self._ws.environ),
        )

    def sentences(self, staged: Staged, program: Path, places: Places | None = None) -> tuple[str, ...]:
        """Say what would be placed, file by file, for whom, or why not; changes nothing."""
        chosen = self._chosen(staged, program, places)
        plan = self.explain(staged, program, chosen)
        verbs = {
            Deed.CREATE: "would create",
            Deed.REPLACE: "would replace (the original is kept and put back)",
        }
        return (
            *chosen.notes,
            *(f"{verbs[a.deed]}: {plan.target / a.path}{_for(chosen, a.path)}" for a in plan.actions),
            *(f"already the same: {plan.target / path}{_for(chosen, path)}" for path in plan.identical),
            *(f"refused: {refusal.message}" for refusal in plan.refusals),
            *plan.warnings,
        )

    def _chosen(self, staged: Staged, program: Path, places: Places | None) -> Chosen:
        """Choose, and refuse to do nothing."""
        chosen = choose(staged, program, places)
        if not chosen.items:
            msg = f"{staged.stack.id} has no library that {program.name} would load from its folder"
            hint = another_way(program)
            raise TargetError("nothing-to-place", msg, context=chosen.notes, hint=hint)
        return chosen

    @contextlib.contextmanager
    def _placed(
        self, staged: Staged, program: Path, chosen: Chosen, *, keep: bool
    ) -> Iterator[WrapPlacement]:
        """Translate between a session of ``placement`` and what ``wrap`` reports."""
        seen = WrapPlacement(kept=keep, target=chosen.target)
        session: Session | None = None
        try:
            with placed(
                lambda: self._place(staged, program, chosen, keep=keep), signals=self._signals
            ) as session:
                seen.files = session.placement.files
                seen.hashes = session.placement.hashes
                yield seen
        finally:
            if session is not None:
                seen.left = session.left
                seen.pending = session.pending
                seen.lost = session.lost

    def _place(self, staged: Staged, program: Path, chosen: Chosen, *, keep: bool) -> Placing:
        placement = place(
            chosen.target,
            chosen.items,
            stack=staged.stack.id,
            digest=staged.runtime.digest,
            keep=keep,
            program=program,
            system_folders=system_folders(self._ws.environ),
            registry=registry_of(self._ws),
        )
        for note in (*chosen.notes, *placement.warnings):
            self._ws.progress.note(note)
        return placement


def _for(chosen: Chosen, path: str) -> str:
    asker = next((who for name, who in chosen.askers.items() if fold(name) == fold(path)), "")
    return f" (for {asker})" if asker else ""


def system_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders that belong to Windows; elsewhere they are known without asking."""
    root = environ.get("SYSTEMROOT")
    store = environ.get("PROGRAMFILES")
    return (*([Path(root)] if root else []), *([Path(store) / "WindowsApps"] if store else []))


#: ZLUDA's counterpart of the CUDA 13 runtime's own helper: goes with nvcuda, under its own name.
HYBRID: Final = "nvcudart_hybrid64.dll"
DRIVERS: Final = frozenset({"nvcuda", "cuda"})
#: What a program brings itself and nothing of ours may cover.
NEVER: Final = ("cudart", "ptxas")
#: Where a translation layer has these without anything behind them, they are stubs.
STUBS: Final = ("cufft", "cudnn")
#: The layer's cuBLAS loads the layer's cuBLASLt from its own folder (vosen/ZLUDA@87531d3).
_CUBLAS: Final = re.compile(r"cublas(\d*)")
_ITSELF: Final = "the stack's own libraries"


class Chosen(Struct, frozen=True, kw_only=True):
    """What goes beside a program.

    Attributes:
        target: the folder that placement works in, real.
        askers: for an item's path the file that asks for it, where that is known.
        notes: what a person should know about the choice.
    """

    target: Path
    items: tuple[PlacementItem, ...]
    askers: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def choose(staged: Staged, program: Path, places: Places | None = None) -> Chosen:
    """Choose the files; without ``places`` all that answer for a library, in the program's folder."""
    home = program.resolve().parent
    seen = places.found if places is not None else ()
    found = tuple(replace(place, folder=place.folder.resolve()) for place in seen)
    target = _target(home, found, places)
    choice = _Choice(staged=staged, target=target, absent=places.absent if places else frozenset())
    for wanted in found:
        choice.take(wanted)
    choice.add_companions(home)
    if places is None or not places.complete:
        rest = choice.add_rest(home)
        choice.notes.insert(0, _unknown(staged, program, rest, known=bool(found)))
    choice.notes += places.unserved if places is not None else ()
    return Chosen(
        target=target,
        items=tuple(choice.items.values()),
        askers=choice.askers,
        notes=tuple(dict.fromkeys(choice.notes)),
    )


def _target(home: Path, found: tuple[Place, ...], places: Places | None) -> Path:
    """Return the program's folder or, where more of the places lie there, the environment's around it."""
    roots = tuple(root.resolve() for root in places.roots) if places is not None else ()
    return max((home, *roots), key=lambda root: sum(place.folder.is_relative_to(root) for place in found))


def _unknown(staged: Staged, program: Path, rest: int, *, known: bool) -> str:
    """Say that more is placed than is known to be needed."""
    if known:
        why = f"{program.name} hides part of what it loads"
        return f"{why}, so the other {rest} libraries of {staged.stack.id} go beside it as well"
    why = f"what {program.name} loads is not known from its files"
    return f"{why}, so all {rest} libraries of {staged.stack.id} go beside it"


class _Choice(Struct, kw_only=True):
    """The items so far, by folded path."""

    staged: Staged
    target: Path
    absent: frozenset[str]
    items: dict[str, PlacementItem] = field(default_factory=dict)
    askers: dict[str, str] = field(default_factory=dict)
    libraries: dict[str, set[Path]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def take(self, place: Place) -> None:
        """Choose the file for a place, or say why there is none."""
        if not place.folder.is_relative_to(self.target):
            why = f"{place.asker} looks for {place.name} in {place.folder}, which is no part of the program"
            self.notes.append(f"{why}; nothing is placed there")
            return
        file = self._file(place.library, place.name)
        if file is None:
            return
        lacking = sorted(self.absent.intersection(file.needs))
        if lacking:
            self.notes.append(f"{place.name} is not placed: behind it {', '.join(lacking)} is missing")
            return
        self._add(file, place.folder, place.asker, name=place.name)

    def add_companions(self, home: Path) -> None:
        """Add what the chosen files themselves look for: cuBLASLt beside cuBLAS, and the driver."""
        if self.staged.stack.kind is not StackKind.TRANSLATION:
            return
        for library, folders in list(self.libraries.items()):
            match = _CUBLAS.fullmatch(library)
            file = self._file(f"cublaslt{match[1]}") if match else None
            for folder in folders if file is not None and not self.absent.intersection(file.needs) else ():
                self._add(file, folder, _ITSELF)
        driver = next(filter(None, map(self._file, sorted(DRIVERS))), None)
        alone = bool(self.libraries) and not DRIVERS.intersection(self.libraries)
        if alone and home.is_relative_to(self.target) and self.staged.host.os == "windows":
            self._add(driver, home, _ITSELF)  # loaded by its bare name
        self._add_hybrid()

    def add_rest(self, home: Path) -> int:
        """Add every library without a place of its own; return how many."""
        if not home.is_relative_to(self.target):
            return 0
        known = set(self.libraries)
        rest = [file for file in self._serving() if file.provides not in known]
        rest = [file for file in rest if not self.absent.intersection(file.needs)]
        for file in rest:
            self._add(file, home, "")
        self._add_hybrid()
        return len(rest)

    def _add_hybrid(self) -> None:
        """Put the helper beside each driver."""
        files = self.staged.runtime.files
        hybrid = next((file for file in files if file.name.casefold() == HYBRID), None)
        for library in DRIVERS.intersection(self.libraries) if hybrid is not None else ():
            for folder in self.libraries[library]:
                self._add(hybrid, folder, _ITSELF)

    def _add(self, file: RuntimeFile | None, folder: Path, asker: str, *, name: str = "") -> None:
        """Add one file under the name that is asked for; the first to ask counts."""
        if file is None or self.staged.runtime.path is None:
            return
        own = PurePosixPath(file.name).name
        inside = folder.relative_to(self.target).as_posix()
        item = PlacementItem(
            folder="" if inside == "." else inside,
            name=own if not name or fold(name) == fold(own) else name,
            source=self.staged.runtime.path / file.name,
            sha256=file.sha256,
            size=file.size,
        )
        if self.items.setdefault(fold(item.path), item) is item and asker:
            self.askers[item.path] = asker
        self.libraries.setdefault(file.provides or "", set()).add(folder)

    def _file(self, library: str, name: str = "") -> RuntimeFile | None:
        """Return the file that answers for a library, rather the one of that name."""
        found = [file for file in self._serving() if file.provides == library]
        named = [file for file in found if fold(file.name) == fold(name)]
        return next(iter((*named, *found)), None)

    def _serving(self) -> Iterator[RuntimeFile]:
        """Yield what may go beside a program at all."""
        translation = self.staged.stack.kind is StackKind.TRANSLATION
        for file in self.staged.runtime.files:
            provides = file.provides
            if provides is None or "/" in file.name or provides.startswith(NEVER):
                continue
            if not (translation and provides.startswith(STUBS) and not file.needs):
                yield file


class ShimStatus(JsonRecord, frozen=True, kw_only=True):
    """One script as it is now; ``standing`` is ``ready``, ``changed``, ``gone`` or ``without files``."""

    path: Path
    program: Path
    stack: str
    digest: str
    standing: str

    @property
    def advice(self) -> str:
        """What to do where it would not work; empty where it would."""
        again = f"invoke shim {option('exe', self.program)}"
        return {
            "changed": "it was changed, so `shim --remove` leaves it alone",
            "gone": f"it was moved or deleted: {again} --remove takes it off the list",
            "without files": f"its stack is no longer in the store: {again} makes it again",
        }.get(self.standing, "")


def shims_here(ws: Workspace) -> tuple[ShimStatus, ...]:
    """Return every shim that this user made, from any checkout."""
    return tuple(_status(ws, entry) for entry in registry_of(ws).entries(SHIMS))


def digest_of(text: bytes) -> str:
    """Return the SHA-256 by which a script is known as ours."""
    return hashlib.sha256(text).hexdigest()


def _status(ws: Workspace, entry: RegistryEntry) -> ShimStatus:
    facts = entry.facts
    stack, digest = facts.get("stack", ""), facts.get("digest", "")
    try:
        ours = digest_of(read_bounded(entry.path, LONGEST_SHIM)) == facts.get("sha256")
        standing = "ready" if ours else "changed"
    except OSError:
        standing = "gone"
    if standing == "ready" and load_runtime(cache_of(ws), digest, stack=stack) is None:
        standing = "without files"
    return ShimStatus(
        path=entry.path,
        program=Path(facts.get("program", "")),
        stack=stack,
        digest=digest,
        standing=standing,
    )
