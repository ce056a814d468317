"""Between a staged runtime and a program's folder: which files go beside it, and what is placed where."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from scripts.app.placing_items import Chosen, choose
from scripts.app.staged import Staged
from scripts.app.workspace import Workspace
from scripts.app.wrapping import Placement
from scripts.errors import TargetError
from scripts.placement.layout import fold
from scripts.placement.place import Placement as Placing
from scripts.placement.place import explain, place
from scripts.placement.plan import Deed, Plan
from scripts.placement.registry import Registry
from scripts.placement.session import Session, placed
from scripts.placement.status import PlacementStatus, placements
from scripts.preflight.places import Places


def registry_of(ws: Workspace) -> Registry:
    """Open this user's index of placements and shims."""
    return Registry(ws.state_root)


def placed_here(ws: Workspace) -> tuple[PlacementStatus, ...]:
    """Return every placement that the registry knows and that is not gone, for ``status``."""
    return placements(registry_of(ws))


def still_placed(ws: Workspace) -> tuple[str, ...]:
    """Return one line for each placement, for ``remove``."""
    return tuple(f"{status.target}: {status.standing.value}" for status in placed_here(ws))


class Beside:
    """The ``Placer`` of ``wrap --via=beside``; without ``places`` it takes all that the stack answers for."""

    def __init__(self, ws: Workspace, *, signals: bool = False) -> None:
        """``signals`` is for callers that do not handle signals themselves."""
        self._ws = ws
        self._signals = signals

    def __call__(
        self, staged: Staged, program: Path, *, keep: bool = False, places: Places | None = None
    ) -> AbstractContextManager[Placement]:
        """Place on entering; on leaving undo, unless others use it or it is kept. Leaving never raises."""
        chosen = self._chosen(staged, program, places)
        return self._placed(staged, program, chosen, keep=keep)

    def explain(self, staged: Staged, program: Path, chosen: Chosen) -> Plan:
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
            hint = "use another way: see `invoke wrap --explain`"
            raise TargetError("nothing-to-place", msg, context=chosen.notes, hint=hint)
        return chosen

    @contextlib.contextmanager
    def _placed(self, staged: Staged, program: Path, chosen: Chosen, *, keep: bool) -> Iterator[Placement]:
        """Translate between a session of ``placement`` and what ``wrap`` reports."""
        seen = Placement(kept=keep, target=chosen.target)
        session: Session | None = None
        try:
            with placed(
                lambda: self._place(staged, program, chosen, keep=keep), signals=self._signals
            ) as session:
                seen.files = session.placement.files
                yield seen
        finally:
            if session is not None:
                seen.left = session.left
                seen.lost = session.report is not None and session.report.lost

    def _place(self, staged: Staged, program: Path, chosen: Chosen, *, keep: bool) -> Placing:
        """Place for this process."""
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
    """Say who asks for a file, where that is known."""
    asker = next((who for name, who in chosen.askers.items() if fold(name) == fold(path)), "")
    return f" (for {asker})" if asker else ""


def system_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders that belong to Windows; elsewhere they are known without asking."""
    root = environ.get("SYSTEMROOT")
    store = environ.get("PROGRAMFILES")
    return (*([Path(root)] if root else []), *([Path(store) / "WindowsApps"] if store else []))
