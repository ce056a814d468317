"""What committed documents say a stack is worth, asked the way the use cases need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scripts.app.workspace import Workspace
from scripts.model import Level
from scripts.reporting.index import EvidenceIndex, load_evidence


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One document about a stack on one GPU."""

    gfx: str
    gpu: str
    level: Level | None
    outcome: str
    provenance: str
    path: str

    @property
    def sentence(self) -> str:
        """Say it in a few words."""
        word = self.level.value if self.level is not None and self.outcome == "pass" else self.outcome
        return f"{self.gfx}: {word} ({self.provenance})"

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {
            "gfx": self.gfx,
            "gpu": self.gpu,
            "level": self.level.value if self.level else None,
            "outcome": self.outcome,
            "provenance": self.provenance,
            "document": self.path,
        }


def evidence_of(ws: Workspace) -> EvidenceIndex:
    """Read the committed documents; under another lock they prove nothing, so there are none."""
    return EvidenceIndex() if ws.custom_lock else load_evidence(ws.evidence, trusted=True)


def worth_here(ws: Workspace) -> Callable[[str, str], Level | None]:
    """Return the question "which level do documents give this stack on this gfx?"."""
    index: list[EvidenceIndex] = []

    def worth(stack: str, gfx: str) -> Level | None:
        if not index:
            index.append(evidence_of(ws))  # read only when somebody asks: most machines need none
        return index[0].level(stack, gfx)

    return worth


def proofs_by_stack(ws: Workspace) -> dict[str, list[Proof]]:
    """Group the committed documents that count for a GPU by stack."""
    found: dict[str, list[Proof]] = {}
    for filed in evidence_of(ws).filed:
        document = filed.document
        gpu = document.subject.gpu
        if not filed.counts or gpu is None:
            continue
        proof = Proof(
            gfx=filed.gfx or gpu.name,
            gpu=gpu.name,
            level=document.level,
            outcome=document.outcome.value,
            provenance=document.provenance.value,
            path=f"evidence/{filed.path}",
        )
        found.setdefault(document.subject.stack, []).append(proof)
    return found
