"""What was shown before and is not shown any more, capability by capability. Pure over documents.

A capability's mark is the newest earlier document in which it *passed*: a regression stays named until
it has recovered, however often it is measured again meanwhile. Measured documents go before reported
ones. A capability that the new document does not mention at all was not asked, which is no regression.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from scripts.evidence.document import Document, Provenance
from scripts.model import CapabilityResult, Level, Outcome
from scripts.serialize import JsonRecord


class Earlier(Struct, frozen=True, kw_only=True):
    """A document and where it lies, as a person would look for it."""

    path: str
    document: Document


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


def find_regressions(now: Document, earlier: Iterable[Earlier]) -> tuple[Regression, ...]:
    """Compare a new document with everything known about the same stack, GPU and application.

    Documents about another stack, architecture or application, newer ones, and those of another kind
    (simulated, another lock) do not count. The result is sorted by capability.
    """
    known = [item for item in earlier if _comparable(item.document, now)]
    found = (_regressed(result, known) for result in sorted(now.results, key=lambda r: r.capability))
    return tuple(regression for regression in found if regression is not None)


def _comparable(document: Document, now: Document) -> bool:
    """Whether an earlier document speaks about the same thing."""
    return (
        document.observed < now.observed
        and document.subject.stack == now.subject.stack
        and document.subject.application == now.subject.application
        and document.simulated == now.simulated
        and _custom(document) == _custom(now)
        and _gpu(document) == _gpu(now)
    )


def _custom(document: Document) -> bool:
    return document.lock is not None and document.lock.custom


def _gpu(document: Document) -> str:
    """Name the architecture; where it is unknown, the product."""
    gpu = document.subject.gpu
    return "" if gpu is None else gpu.gfx or gpu.name


def _regressed(result: CapabilityResult, known: list[Earlier]) -> Regression | None:
    """Hold one result against the newest pass of the same capability."""
    passes = [
        (item, old)
        for item in known
        for old in item.document.results
        if old.capability == result.capability and old.outcome is Outcome.PASS and old.level is not None
    ]
    if not passes:
        return None
    item, old = max(passes, key=_weight)
    if old.level is None or _as_good(result, old.level):
        return None
    return Regression(
        capability=result.capability,
        before=old.level,
        now=result.level,
        outcome=result.outcome,
        detail=result.detail,
        document=item.path,
        provenance=item.document.provenance,
    )


def _weight(found: tuple[Earlier, CapabilityResult]) -> tuple[bool, object, str]:
    """Order passes: measured before reported, then the newer, then the name."""
    document = found[0].document
    return (document.provenance is Provenance.MEASURED, document.observed, found[0].path)


def _as_good(result: CapabilityResult, level: Level) -> bool:
    return result.outcome is Outcome.PASS and result.level is not None and result.level.rank >= level.rank
