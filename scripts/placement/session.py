"""``with placed(...)``: placed while the program runs, undone however it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scripts.placement.place import Placement
from scripts.placement.report import UndoReport
from scripts.system.shield import Shield


@dataclass
class Session:
    """A placement in use. ``report`` is filled on leaving: ``None`` if it stayed for others or was kept."""

    placement: Placement
    report: UndoReport | None = None


@contextlib.contextmanager
def placed(start: Callable[[], Placement]) -> Iterator[Session]:
    """Call ``start`` (which places), run the body, and leave, whatever happens.

    A signal while placing waits until placing is done. One in the body ends the body: Ctrl-C as
    ``KeyboardInterrupt``, SIGTERM, SIGHUP and a closed console as ``SystemExit``. During the undo
    every further signal waits until the undo is finished.
    """
    with Shield() as shield:
        session = Session(placement=start())
        try:
            try:
                shield.lower()
                yield session
            finally:
                shield.raise_()
        finally:
            session.report = session.placement.leave()
