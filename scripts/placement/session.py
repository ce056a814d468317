"""``with placed(...)``: placed while the program runs, undone however it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scripts.errors import WorkspaceError
from scripts.placement.place import Placement
from scripts.placement.report import UndoReport
from scripts.system.shield import Shield


@dataclass
class Session:
    """A placement in use.

    On leaving either ``report`` is filled (``None`` if it stays for others or was kept) or, when the
    undo could not even be tried, ``failure``. Leaving raises neither: the program's end comes first.
    """

    placement: Placement
    report: UndoReport | None = None
    failure: WorkspaceError | None = None
    still_there: tuple[str, ...] = ()

    @property
    def left(self) -> tuple[str, ...]:
        """What is still there after leaving, one line each; empty if all is as before."""
        if self.failure is not None:
            still = (f"{path}: still beside the program" for path in self.still_there)
            return (self.failure.message, *self.failure.context, *still)
        if self.report is None:
            return ()
        return (
            *(f"{left.path}: {left.why}" for left in self.report.kept),
            *self.report.pending,
            *(_vanished(self.report) if self.report.lost else ()),
        )


@contextlib.contextmanager
def placed(start: Callable[[], Placement], *, signals: bool = True) -> Iterator[Session]:
    """Call ``start`` (which places), run the body, and leave, whatever happens.

    A signal while placing waits until placing is done. One in the body ends the body: Ctrl-C as
    ``KeyboardInterrupt``, SIGTERM, SIGHUP and a closed console as ``SystemExit``. During the undo
    every further signal waits until the undo is finished. With ``signals=False`` the caller sees to
    it that no signal raises here.
    """
    with Shield(signals=signals) as shield:
        session = Session(placement=start())
        try:
            try:
                shield.lower()
                yield session
            finally:
                shield.raise_()
        finally:
            try:
                session.report = session.placement.leave()
            except WorkspaceError as error:
                session.failure = error
                session.still_there = session.placement.still_there()


def _vanished(report: UndoReport) -> tuple[str, ...]:
    """Say what became of the files whose record vanished while the program ran."""
    why = "the record of the placement (.cuda-amd) vanished while the program ran"
    return (
        why,
        *(f"{path}: removed, since it was still the stack's copy" for path in report.removed),
        *(f"{path}: your original was put back" for path in report.restored),
    )
