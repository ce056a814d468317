"""What got worse: a new document held against the earlier ones.

A *regression* is a capability that a new document shows worse than the newest earlier one in which it
*passed*: it stays named until it has recovered, however often it is measured again meanwhile. Measured
documents go before reported ones. What the new document does not mention was not asked: no regression.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from scripts.evidence.document import Document, Provenance
from scripts.model import CapabilityResult, Level, Outcome
from scripts.serialize import JsonRecord


class Filed(Struct, frozen=True, kw_only=True):
    """A document and the name of the file it lies in."""

    path: str
    document: Document


class EarlierResult(Struct, frozen=True, kw_only=True):
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


def _regressed(result: CapabilityResult, known: Iterable[EarlierResult]) -> Regression | None:
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


def _entry(filed: Filed, result: CapabilityResult) -> EarlierResult:
    """File one result."""
    return EarlierResult(
        filed=filed,
        capability=result.capability,
        level=result.level,
        outcome=result.outcome,
        detail=result.detail,
    )


def _recency(entry: EarlierResult) -> tuple[bool, object, str]:
    """Order results: measured before reported, then the newer, then the name."""
    document = entry.filed.document
    return (document.provenance is Provenance.MEASURED, document.observed, entry.filed.path)
