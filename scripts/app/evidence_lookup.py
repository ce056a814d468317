"""What committed documents say a stack is worth, asked the way the use cases need it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scripts.app.context import Workspace
from scripts.evidence.document import exercised
from scripts.evidence.index import EvidenceIndex, EvidenceStanding, load_evidence
from scripts.model import CapabilityResult, Level, Outcome
from scripts.probing.catalogue import probes
from scripts.serialize import JsonRecord


class Proof(JsonRecord, frozen=True, kw_only=True):
    """One document about a stack on one GPU; ``failed`` are the probes that did not pass in it."""

    gfx: str
    gpu: str
    level: Level | None
    outcome: str
    provenance: str
    path: str
    failed: tuple[str, ...] = ()

    JSON = "gfx gpu level outcome provenance document=path failed"

    @property
    def sentence(self) -> str:
        """Say it in a few words."""
        word = self.level.value if self.level is not None and self.outcome == "pass" else self.outcome
        return f"{self.gfx}: {word} ({self.provenance})"


class Worth(JsonRecord, frozen=True, kw_only=True):
    """What all documents together allow to say about a stack on one architecture.

    Attributes:
        gfx: the architecture.
        level: what stands, ``None`` where a failure is all there is.
        outcome: ``pass``, or the newest failure's.
        provenance: who saw it.
        document: the one that shows it.
        against: documents that say otherwise.
    """

    gfx: str
    level: Level | None
    outcome: str
    provenance: str
    document: str
    against: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Say it in a few words."""
        word = self.level.value if self.level is not None and self.outcome == "pass" else self.outcome
        return f"{self.gfx}: {word} ({self.provenance}{', contested' if self.against else ''})"


def evidence_of(ws: Workspace) -> EvidenceIndex:
    """Read the committed documents; under another lock they prove nothing, so there are none."""
    return EvidenceIndex() if ws.custom_lock else load_evidence(ws.evidence, trusted=True)


def worth_here(ws: Workspace) -> Callable[[str, str], Level | None]:
    """Return the question "which level do documents give this stack on this gfx?"."""
    index: list[EvidenceIndex] = []

    def worth(stack: str, gfx: str) -> Level | None:
        if not index:
            index.append(evidence_of(ws))  # read only when asked: most machines need none
        return index[0].level(stack, gfx)

    return worth


def known_by_stack(index: EvidenceIndex) -> dict[str, tuple[list[Worth], list[Proof]]]:
    """Group what the documents say by stack: its worth on each architecture, and each document by itself."""
    found: dict[str, tuple[list[Worth], list[Proof]]] = {}
    for filed in index.filed:
        document = filed.document
        gpu = document.subject.gpu
        if not filed.counts or gpu is None:
            continue
        worths, proofs = found.setdefault(document.subject.stack, ([], []))
        proofs.append(
            Proof(
                gfx=filed.gfx or gpu.name,
                gpu=gpu.name,
                level=document.level,
                outcome=document.outcome.value,
                provenance=document.provenance.value,
                path=f"evidence/{filed.path}",
                failed=failed_probes(document.results),
            )
        )
        standing = index.whole(document.subject.stack, filed.gfx)
        if standing is not None and filed.gfx not in {worth.gfx for worth in worths}:
            worths.append(_worth(filed.gfx, standing))
    return found


def failed_probes(results: Iterable[CapabilityResult]) -> tuple[str, ...]:
    """Name the probes that were exercised and did not pass, each with its outcome."""
    known = probes()
    return tuple(
        f"{r.capability} ({r.outcome.value})"
        for r in exercised(results)
        if r.capability in known and r.outcome is not Outcome.PASS
    )


def _worth(gfx: str, standing: EvidenceStanding) -> Worth:
    """Turn a standing into what is shown."""
    against = tuple(f"evidence/{e.filed.path}" for e in standing.against if e.filed.path != standing.path)
    return Worth(
        gfx=gfx,
        level=standing.level,
        outcome=standing.outcome.value,
        provenance=standing.provenance.value,
        document=f"evidence/{standing.path}",
        against=against,
    )
