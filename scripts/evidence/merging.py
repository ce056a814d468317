"""What many documents say of one thing, merged. Pure.

The rules:

* A *cell* is everything about one GPU, stack, application and capability; without a capability it is
  about documents as a whole, with their own level and outcome.
* Its worth is the best level among the passes that stand; at equal level ``measured`` goes before
  ``reported``, then the newer. It is the level of one document, never more than any document shows.
* A failure takes away every pass that is not newer than it. What was only ``reported`` takes nothing away
  from what was ``measured``; it is listed beside it.
* Where no pass stands, the newest failure is what stands: its outcome, and the level it reached.
* Nothing is thrown away: a cell keeps all its observations, newest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from scripts.evidence.document import IDLE, Document, Provenance
from scripts.model import Level, Outcome
from scripts.serialize import JsonRecord

#: The application that ``probe`` writes its documents about.
PROBES = "probes"
#: What is older than every date: a report without one.
UNDATED = "0001-01-01T00:00:00Z"


class CellKey(NamedTuple):
    """What a cell is about; see ``Cell``."""

    gpu: str
    stack: str
    application: str
    capability: str


class Observation(JsonRecord, frozen=True, kw_only=True):
    """One result of one document, or the document's own level and outcome.

    Attributes:
        document: the document's content hash.
        observed: UTC, ISO 8601; ``UNDATED`` for a report without a date.
    """

    document: str
    observed: str
    provenance: Provenance
    level: Level | None
    outcome: Outcome
    detail: str = ""

    JSON = "document seen provenance level outcome detail"

    @property
    def seen(self) -> str:
        """The day, ``YYYY-MM-DD``; empty for a report without a date."""
        return "" if self.observed == UNDATED else self.observed[:10]

    @property
    def passed(self) -> bool:
        """Whether it ended well."""
        return self.outcome is Outcome.PASS

    @property
    def measured(self) -> bool:
        """Whether this tool saw it."""
        return self.provenance is Provenance.MEASURED


class Cell(JsonRecord, frozen=True, kw_only=True):
    """Everything about one (gpu, stack, application, capability), and what stands.

    Attributes:
        gpu: the architecture; where that is not known, the product's name.
        stack: a stack's id; where none pins it, the words that a report has for it.
        pinned: whether ``stack`` is an id.
        application: the program, ``PROBES``, or empty for checks and workloads.
        capability: the library, call family or probe; empty for documents as a whole.
        stands: the observation that decides.
        newest: the day of the newest observation; empty where no report has a date.
        conflict: documents disagree: some passed and some failed.
        count: how many observations there are.
        observations: all of them, newest first, with failures and with what was not tried; empty where only
            what stands was asked for.
    """

    gpu: str
    stack: str
    application: str
    capability: str
    pinned: bool
    stands: Observation
    newest: str
    conflict: bool
    count: int
    observations: tuple[Observation, ...] = ()

    JSON = (
        "gpu stack pinned application capability level=stands.level outcome=stands.outcome "
        "provenance=stands.provenance seen=stands.seen document=stands.document detail=stands.detail newest "
        "conflict count observations"
    )

    @property
    def key(self) -> CellKey:
        """What it is about."""
        return CellKey(self.gpu, self.stack, self.application, self.capability)

    @property
    def level(self) -> Level | None:
        """The level of the observation that stands."""
        return self.stands.level

    @property
    def outcome(self) -> Outcome:
        """The outcome of the observation that stands."""
        return self.stands.outcome

    @property
    def provenance(self) -> Provenance:
        """Who saw what stands."""
        return self.stands.provenance

    @property
    def document(self) -> str:
        """The document that it rests on."""
        return self.stands.document

    @property
    def seen(self) -> str:
        """The day of what stands."""
        return self.stands.seen

    @property
    def failures(self) -> tuple[Observation, ...]:
        """What was tried and did not pass, newest first."""
        return tuple(o for o in self.observations if o.outcome not in IDLE and not o.passed)


def merge(key: CellKey, observations: Iterable[Observation], *, pinned: bool) -> Cell:
    """Merge at least one observation of the same thing; the order in which they come does not matter."""
    ordered = newest_first(observations)
    outcomes = {o.outcome for o in ordered} - IDLE
    return Cell(
        **key._asdict(),
        pinned=pinned,
        stands=what_stands(ordered),
        newest=ordered[0].seen,
        conflict=Outcome.PASS in outcomes and len(outcomes) > 1,
        count=len(ordered),
        observations=ordered,
    )


def newest_first(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Order observations; of the same moment ``measured`` comes first."""
    return tuple(sorted(observations, key=_recency, reverse=True))


def what_stands(observations: Sequence[Observation]) -> Observation:
    """Return the observation that decides, of at least one about the same thing."""
    tried = [o for o in observations if o.outcome not in IDLE]
    failures = [o for o in tried if not o.passed]
    of_all = max((f.observed for f in failures), default="")
    of_measured = max((f.observed for f in failures if f.measured), default="")
    standing = [o for o in tried if o.passed and o.observed > (of_measured if o.measured else of_all)]
    if standing:
        return max(standing, key=_worth)
    return max(failures or observations, key=lambda o: (o.measured, *_recency(o)))


def strongest(cells: Iterable[Cell]) -> Cell | None:
    """Return the cell that counts where it does not matter which application showed it; ``None`` without any.

    A failure with one application takes nothing away from another.
    """
    tried = [cell for cell in cells if cell.outcome not in IDLE]
    passed = [cell for cell in tried if cell.stands.passed]
    if passed:
        return max(passed, key=lambda cell: _worth(cell.stands))
    return max(tried, key=lambda cell: (cell.stands.measured, *_recency(cell.stands)), default=None)


def observations_of(document: Document, content: str) -> dict[str, Observation]:
    """Return what a document says by capability; without a capability, of itself. ``content`` is its hash."""
    whole = Observation(
        document=content,
        observed=f"{document.observed.isoformat()[:19]}Z",
        provenance=document.provenance,
        level=document.level,
        outcome=document.outcome,
    )
    found = {
        result.capability: replace(whole, level=result.level, outcome=result.outcome, detail=result.detail)
        for result in document.results
    }
    return {**found, "": whole}


def why_not(document: Document) -> str:
    """Say why a document proves nothing for a GPU; empty where it may."""
    if document.simulated:
        return "simulated"
    if document.lock is not None and document.lock.custom:
        return "custom-lock"
    return "" if document.subject.gpu is not None else "no-gpu"


def gpu_key(document: Document) -> str:
    """Return what a document's GPU is filed under."""
    gpu = document.subject.gpu
    if gpu is None:
        return ""
    # A product called like an architecture must not be filed under it.
    return gpu.gfx or (f"GPU {gpu.name}" if gpu.name.startswith("gfx") else gpu.name)


def stack_key(document: Document) -> str:
    """Return what a document's stack is filed under."""
    return document.subject.stack or document.combination


def _recency(observation: Observation) -> tuple[str, bool, str]:
    return observation.observed, observation.measured, observation.document


def _worth(observation: Observation) -> tuple[int, bool, str, str]:
    """Order passes: level, then measured before reported, then the newer, then the hash."""
    rank = observation.level.rank if observation.level else -1
    return rank, observation.measured, observation.observed, observation.document
