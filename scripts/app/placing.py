"""Between a staged runtime and a program's folder: which files go beside it, and what is placed where."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import Final

from scripts.app.staged import Staged
from scripts.app.workspace import Workspace
from scripts.app.wrapping import Placement
from scripts.errors import TargetError
from scripts.model import Runtime, RuntimeFile, StackKind
from scripts.placement.place import Placement as Placing
from scripts.placement.place import explain, place
from scripts.placement.plan import Deed, PlacementItem, Plan
from scripts.placement.registry import Registry
from scripts.placement.session import Session, placed
from scripts.placement.status import PlacementStatus, placements

#: ZLUDA's counterpart of the CUDA 13 runtime's own helper: goes with nvcuda, under its own name.
HYBRID: Final = "nvcudart_hybrid64.dll"
DRIVERS: Final = frozenset({"nvcuda", "cuda"})
#: What a program brings itself and nothing of ours may cover.
NEVER: Final = ("cudart", "ptxas")
#: Where a translation layer has these without anything behind them, they are stubs.
STUBS: Final = ("cufft", "cudnn")


def registry_of(ws: Workspace) -> Registry:
    """Open this user's index of placements and shims."""
    return Registry(ws.state_root)


def placed_here(ws: Workspace) -> tuple[PlacementStatus, ...]:
    """Return every placement that the registry knows and that is not gone, for ``status``."""
    return placements(registry_of(ws))


def still_placed(ws: Workspace) -> tuple[str, ...]:
    """Return one line for each placement, for ``remove``."""
    return tuple(f"{status.target}: {status.standing.value}" for status in placed_here(ws))


def items_of(
    runtime: Runtime,
    *,
    kind: StackKind,
    folders: Sequence[str] = ("",),
    wanted: frozenset[str] | None = None,
    backends: frozenset[str] | None = None,
) -> tuple[PlacementItem, ...]:
    """Choose the files of a runtime that answer for a CUDA library, for each folder that asks.

    Args:
        runtime: the stack's files.
        kind: of the stack; in a translation layer cuFFT and cuDNN without a back-end are stubs.
        folders: of the importing modules, relative to the target.
        wanted: names of CUDA libraries or files that the program needs; ``None`` for all.
        backends: HIP libraries that exist; ``None`` where nobody has looked.
    """
    if runtime.path is None:
        return ()
    chosen = [file for file in runtime.files if _serves(file, kind, wanted, backends)]
    if any(file.provides in DRIVERS for file in chosen):
        chosen += [file for file in runtime.files if file.name.casefold() == HYBRID and file not in chosen]
    return tuple(
        PlacementItem(
            folder=folder,
            name=PurePosixPath(file.name).name,
            source=runtime.path / file.name,
            sha256=file.sha256,
            size=file.size,
        )
        for folder in folders
        for file in chosen
    )


def _serves(
    file: RuntimeFile, kind: StackKind, wanted: frozenset[str] | None, backends: frozenset[str] | None
) -> bool:
    """Say whether a file belongs beside a program."""
    provides = file.provides
    if provides is None or "/" in file.name or provides.startswith(NEVER):
        return False
    if kind is StackKind.TRANSLATION and provides.startswith(STUBS) and not file.needs:
        return False
    if backends is not None and not backends.issuperset(file.needs):
        return False
    return wanted is None or provides in wanted or file.name in wanted


class Beside:
    """The ``Placer`` of ``wrap --via=beside``; without ``wanted`` it takes all that the stack answers for."""

    def __init__(
        self,
        ws: Workspace,
        *,
        wanted: frozenset[str] | None = None,
        folders: Sequence[str] = ("",),
        backends: frozenset[str] | None = None,
        signals: bool = False,
    ) -> None:
        """``signals`` is for callers that do not handle signals themselves."""
        self._ws = ws
        self._wanted = wanted
        self._folders = tuple(folders)
        self._backends = backends
        self._signals = signals

    def __call__(
        self, staged: Staged, program: Path, *, keep: bool = False
    ) -> AbstractContextManager[Placement]:
        """Place on entering; on leaving undo, unless others use it or it is kept. Leaving never raises."""
        items = self._items(staged, program)
        return self._placed(staged, program, items, keep=keep)

    def explain(self, staged: Staged, program: Path) -> Plan:
        """Say what would be placed, or why not; changes nothing."""
        return explain(
            program.resolve().parent,
            self._items(staged, program),
            stack=staged.stack.id,
            digest=staged.runtime.digest,
            program=program,
            system_folders=system_folders(self._ws.environ),
        )

    def sentences(self, staged: Staged, program: Path) -> tuple[str, ...]:
        """Say what would be placed, file by file, or why not; changes nothing."""
        plan = self.explain(staged, program)
        verbs = {
            Deed.CREATE: "would create",
            Deed.REPLACE: "would replace (the original is kept and put back)",
        }
        return (
            *(f"{verbs[action.deed]}: {plan.target / action.path}" for action in plan.actions),
            *(f"already the same: {plan.target / path}" for path in plan.identical),
            *(f"refused: {refusal.message}" for refusal in plan.refusals),
            *plan.warnings,
        )

    def _items(self, staged: Staged, program: Path) -> tuple[PlacementItem, ...]:
        """Choose, and refuse to do nothing."""
        items = items_of(
            staged.runtime,
            kind=staged.stack.kind,
            folders=self._folders,
            wanted=self._wanted,
            backends=self._backends,
        )
        if not items:
            msg = f"{staged.stack.id} has no library that {program.name} would load from its folder"
            raise TargetError("nothing-to-place", msg, hint="use another way: see `wrap --explain`")
        return items

    @contextlib.contextmanager
    def _placed(
        self, staged: Staged, program: Path, items: tuple[PlacementItem, ...], *, keep: bool
    ) -> Iterator[Placement]:
        """Translate between a session of ``placement`` and what ``wrap`` reports."""
        seen = Placement(kept=keep)
        session: Session | None = None
        try:
            with placed(
                lambda: self._place(staged, program, items, keep=keep), signals=self._signals
            ) as session:
                seen.files = session.placement.files
                yield seen
        finally:
            if session is not None:
                seen.left = session.left

    def _place(
        self, staged: Staged, program: Path, items: tuple[PlacementItem, ...], *, keep: bool
    ) -> Placing:
        """Place for this process."""
        placement = place(
            program.resolve().parent,
            items,
            stack=staged.stack.id,
            digest=staged.runtime.digest,
            keep=keep,
            program=program,
            system_folders=system_folders(self._ws.environ),
            registry=registry_of(self._ws),
        )
        for warning in placement.warnings:
            self._ws.progress.note(warning)
        return placement


def system_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders that belong to Windows; elsewhere they are known without asking."""
    root = environ.get("SYSTEMROOT")
    store = environ.get("PROGRAMFILES")
    return (*([Path(root)] if root else []), *([Path(store) / "WindowsApps"] if store else []))
