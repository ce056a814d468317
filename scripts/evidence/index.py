"""What all documents together say. Pure over loaded documents.

The rules:

* A ``simulated`` document and one made under a custom lock never count for a GPU.
* A capability's standing is asked per (stack, gfx). Its worth is the best level among the passes that
  stand; at equal level ``measured`` goes before ``reported``, then the newer (``Document.observed``).
* Contradiction: a failure takes away every pass that is not newer than it, on the same stack, gfx and
  application. A ``reported`` failure does not take away what was ``measured``; it is listed beside it.
* Where no pass stands, the newest failure is the standing: its outcome, and the level it reached.
* A document's own level is what counts for a whole stack (``level``): the best among documents whose
  outcome is ``pass``, under the same rule of contradiction.

Nothing is thrown away: ``entries`` keeps passes, failures and what they contradict.

A *regression* is a capability that a new document shows worse than the newest earlier one in which it
*passed*: it stays named until it has recovered, however often it is measured again meanwhile. Measured
documents go before reported ones. What the new document does not mention was not asked: no regression.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from scripts.errors import WorkspaceError
from scripts.evidence.document import IDLE, Document, Provenance
from scripts.evidence.evidence_io import read_document
from scripts.model import CapabilityResult, Level, Outcome
from scripts.serialize import JsonRecord


class Filed(Struct, frozen=True, kw_only=True):
    """A document and the name of the file it lies in, relative to the evidence folder."""

    path: str
    document: Document

    @property
    def counts(self) -> bool:
        """Whether it can prove anything for our stacks on a GPU."""
        document = self.document
        custom = document.lock is not None and document.lock.custom
        return not document.simulated and not custom and document.subject.gpu is not None

    @property
    def gfx(self) -> str:
        """The architecture it speaks about, or an empty string."""
        gpu = self.document.subject.gpu
        return (gpu.gfx or "") if gpu else ""


class IndexEntry(Struct, frozen=True, kw_only=True):
    """One result with the document that shows it."""

    filed: Filed
    capability: str
    level: Level | None
    outcome: Outcome
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether it ended well."""
        return self.outcome is Outcome.PASS


class EvidenceStanding(Struct, frozen=True, kw_only=True):
    """What a capability is worth on (stack, gfx), and where it is written.

    ``contested`` says that documents disagree; ``against`` are the failures.
    """

    level: Level | None
    outcome: Outcome
    provenance: Provenance
    path: str
    detail: str = ""
    contested: bool = False
    against: tuple[IndexEntry, ...] = ()


class EvidenceIndex(Struct, frozen=True, kw_only=True, dict=True):
    """Documents, and questions to all of them. ``faults`` are files that are no valid documents."""

    filed: tuple[Filed, ...] = ()
    faults: tuple[str, ...] = ()

    @cached_property
    def entries(self) -> tuple[IndexEntry, ...]:
        """Every result that counts, tried or not, in the order of the files."""
        return tuple(_entry(f, r) for f in self.filed if f.counts for r in f.document.results)

    def for_stack(self, stack: str, gfx: str) -> dict[str, EvidenceStanding]:
        """Return the standing of every capability that was exercised on (stack, gfx)."""
        mine = [e for e in self.entries if _about(e.filed, stack, gfx)]
        found = {name: _standing(e for e in mine if e.capability == name) for name in _names(mine)}
        return {name: standing for name, standing in found.items() if standing is not None}

    def standing(self, stack: str, gfx: str, capability: str) -> EvidenceStanding | None:
        """Return one capability's standing, ``None`` without evidence."""
        return self.for_stack(stack, gfx).get(capability)

    def whole(self, stack: str, gfx: str) -> EvidenceStanding | None:
        """Return what a whole stack is worth on a gfx and which document shows it, ``None`` without any."""
        wholes = [
            IndexEntry(filed=f, capability="", level=f.document.level, outcome=f.document.outcome)
            for f in self.filed
            if f.counts and _about(f, stack, gfx)
        ]
        return _standing(wholes)

    def level(self, stack: str, gfx: str) -> Level | None:
        """Return the level that committed documents give a whole stack on a gfx, ``None`` without any."""
        standing = self.whole(stack, gfx)
        return standing.level if standing is not None and standing.outcome is Outcome.PASS else None


def load_evidence(folder: Path, *, trusted: bool = False) -> EvidenceIndex:
    """Read every ``*.json`` of a folder, sorted by name; what is not valid is listed and proves nothing.

    ``trusted`` leaves the schema out (see ``from_json``): for the checkout's own folder, where it is quick.
    """
    filed: list[Filed] = []
    faults: list[str] = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        if not path.is_file():
            faults.append(f"{path.name}: it is no file")
            continue
        try:
            filed.append(Filed(path=path.name, document=read_document(path, trusted=trusted)))
        except WorkspaceError as error:
            faults.append("; ".join((f"{path.name}: {error.message}", *error.context)))
    return EvidenceIndex(filed=tuple(filed), faults=tuple(faults))


def _entry(filed: Filed, result: CapabilityResult) -> IndexEntry:
    """File one result."""
    return IndexEntry(
        filed=filed,
        capability=result.capability,
        level=result.level,
        outcome=result.outcome,
        detail=result.detail,
    )


def _about(filed: Filed, stack: str, gfx: str) -> bool:
    """Whether a document speaks about this pair; an unknown gfx matches nothing."""
    return bool(gfx) and filed.gfx == gfx and filed.document.subject.stack == stack


def _names(entries: Iterable[IndexEntry]) -> list[str]:
    return sorted({e.capability for e in entries})


def _standing(entries: Iterable[IndexEntry]) -> EvidenceStanding | None:
    """Apply the rules to all results for one key."""
    tried = [e for e in entries if e.outcome not in IDLE]
    if not tried:
        return None
    failures = tuple(e for e in tried if not e.passed)
    passes = [e for e in tried if e.passed]
    standing = [p for p in passes if not any(_takes_away(f, p) for f in failures)]
    best = max(standing, key=_worth) if standing else max(failures, key=_recency)
    return EvidenceStanding(
        level=best.level,
        outcome=best.outcome,
        provenance=best.filed.document.provenance,
        path=best.filed.path,
        detail=best.detail,
        contested=bool(failures) and bool(passes),
        against=failures,
    )


def _takes_away(failure: IndexEntry, success: IndexEntry) -> bool:
    """Whether a failure contradicts a pass; what merely was reported never outweighs what was measured."""
    bad, good = failure.filed.document, success.filed.document
    if bad.provenance is Provenance.REPORTED and good.provenance is Provenance.MEASURED:
        return False
    return bad.subject.application == good.subject.application and bad.observed >= good.observed


def _worth(entry: IndexEntry) -> tuple[int, bool, object, str]:
    """Order passes: level, then measured before reported, then the newer, then the name."""
    document = entry.filed.document
    rank = entry.level.rank if entry.level else -1
    return (rank, document.provenance is Provenance.MEASURED, document.observed, entry.filed.path)


def _recency(entry: IndexEntry) -> tuple[bool, object, str]:
    """Order results: measured before reported, then the newer, then the name."""
    document = entry.filed.document
    return (document.provenance is Provenance.MEASURED, document.observed, entry.filed.path)


class Regression(JsonRecord, frozen=True, kw_only=True):
    """One capability that was better before; ``document`` shows how much better."""

    capability: str
    before: Level
    now: Level | None
    outcome: Outcome
    detail: str
    document: str
    provenance: Provenance

    @property
    def sentence(self) -> str:
        """Say what changed."""
        then = f"{self.before.value} ({self.provenance.value})"
        now = self.outcome.value if self.outcome is not Outcome.PASS else self.now.value if self.now else "-"
        detail = f"; {self.detail}" if self.detail else ""
        return f"{self.capability}: {then} became {now}{detail}"


def find_regressions(now: Document, earlier: Iterable[Filed]) -> tuple[Regression, ...]:
    """Compare a new document with everything known about the same stack, GPU and application.

    Documents about another stack, architecture or application, newer ones, and those of another kind
    (simulated, another lock) do not count. The result is sorted by capability.
    """
    known = [_entry(f, r) for f in earlier if _comparable(f.document, now) for r in f.document.results]
    found = (_regressed(result, known) for result in sorted(now.results, key=lambda r: r.capability))
    return tuple(regression for regression in found if regression is not None)


def _comparable(document: Document, now: Document) -> bool:
    """Whether an earlier document speaks about the same thing."""
    return document.observed < now.observed and _scope(document) == _scope(now)


def _scope(document: Document) -> tuple[object, ...]:
    """Return what a document speaks about; where the architecture is unknown, the product."""
    subject, gpu = document.subject, document.subject.gpu
    custom = document.lock is not None and document.lock.custom
    product = "" if gpu is None else gpu.gfx or gpu.name
    return subject.stack, subject.application, document.simulated, custom, product


def _regressed(result: CapabilityResult, known: Iterable[IndexEntry]) -> Regression | None:
    """Hold one result against the newest pass of the same capability."""
    passes = [e for e in known if e.capability == result.capability and e.passed and e.level is not None]
    best = max(passes, key=_recency, default=None)
    if best is None or best.level is None:
        return None
    rank = result.level.rank if result.outcome is Outcome.PASS and result.level is not None else -1
    if rank >= best.level.rank:
        return None
    return Regression(
        capability=result.capability,
        before=best.level,
        now=result.level,
        outcome=result.outcome,
        detail=result.detail,
        document=best.filed.path,
        provenance=best.filed.document.provenance,
    )
