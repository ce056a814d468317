"""Ask place after place for an artifact, in rounds that span at least a minute.

What fails for good is not asked again; what may pass (a broken line, a busy server) is. Every place's
error is kept for the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import requests

from scripts.errors import FetchError, IntegrityError, WorkspaceError
from scripts.model import Artifact, Progress
from scripts.store.mirrors import Source
from scripts.store.receive import Job, from_place
from scripts.store.transport import AttemptError, Transport

__all__ = ["Download", "Job", "Transport"]

#: An attempt that brings this many bytes is followed by another at the same place.
_GOOD_PIECE: Final = 1024 * 1024


@dataclass(frozen=True)
class Download:
    """One artifact on its way from one of several places."""

    job: Job
    progress: Progress

    def run(self, places: tuple[Source, ...]) -> Path:
        """Ask the places in rounds until one delivers; return the blob.

        Raises:
            FetchError: none had it, or the disk is full.
            IntegrityError: none had it, and one had other bytes.
        """
        failures: dict[Source, AttemptError] = {}
        open_places = list(places)
        try:
            with self.job.transport.session() as session:
                for delay in (*self.job.transport.delays, None):
                    for place in tuple(open_places):
                        failure = self._ask(session, place)
                        if failure is None:
                            self._tell(failures)
                            return self.job.partial.keep()
                        failures[place] = failure
                        if not failure.transient:
                            open_places.remove(place)
                    if not open_places or delay is None:
                        break
                    self._pause(delay, [failures[place] for place in open_places])
        finally:
            self.job.partial.tidy()
        raise _failure(self.job.artifact, failures)

    def _ask(self, session: requests.Session, place: Source) -> AttemptError | None:
        """Ask one place, again as long as each attempt brings a good piece of the file."""
        while True:
            before = self.job.partial.size()
            try:
                self._receive(session, place)
            except AttemptError as error:
                if not error.transient or self.job.partial.size() - before < _GOOD_PIECE:
                    return error
                self.progress.note(f"{self.job.artifact.id}: {error}; going on from where it stopped")
            else:
                return None

    def _receive(self, session: requests.Session, place: Source) -> None:
        """Bring the file from one place and compare it; a wrong resumed one is begun anew once."""
        resumed = place.file is None and bool(self.job.partial.etag()) and self.job.partial.size() > 0
        with self.progress.task(f"fetch {self.job.artifact.id}", self.job.artifact.size) as advance:
            try:
                from_place(self.job, session, place, advance)
            except AttemptError as error:
                if error.wrong_bytes and resumed:
                    self.job.partial.discard()
                    msg = "the resumed file was damaged; beginning anew"
                    raise AttemptError(msg, transient=True) from error
                raise

    def _pause(self, delay: float, failures: list[AttemptError]) -> None:
        """Wait before the next round, as long as the most patient server asks for."""
        wait = max(delay, *(failure.wait for failure in failures))
        self.progress.note(f"{self.job.artifact.id}: {failures[-1]}; trying again in {wait:.0f} s")
        self.job.transport.sleep(wait)

    def _tell(self, failures: dict[Source, AttemptError]) -> None:
        """Say which earlier places had wrong bytes: somebody should look at them."""
        for place, failure in failures.items():
            if failure.wrong_bytes:
                self.progress.note(f"{self.job.artifact.id}: {place.label} was passed over: {failure}")


def _failure(artifact: Artifact, failures: dict[Source, AttemptError]) -> WorkspaceError:
    """Put every place's error into one; wrong bytes are the graver news."""
    lines: list[str] = []
    for place, failure in failures.items():
        lines += [f"{place.label}: {failure}", *(f"  {fact}" for fact in failure.context)]
    if any(failure.wrong_bytes for failure in failures.values()):
        return IntegrityError(
            "hash-mismatch",
            f"what came for {artifact.id} is not the pinned file; nothing of it was kept",
            context=tuple(lines),
            hint="Usually the file was replaced upstream (`invoke pins.check` tells), or something on the "
            "way (a mirror, proxy or login page) changed it. Try another network or mirror.",
        )
    return FetchError(
        "fetch-failed",
        f"{artifact.id} could not be downloaded",
        context=tuple(lines),
        hint="Check network and proxy and try again; --mirror=FOLDER takes a file you already have.",
    )
