"""What committed documents say a stack is worth, asked the way the use cases need it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Final

from scripts.app.context import Workspace
from scripts.evidence.document import exercised
from scripts.evidence.merging import PROBES, Cell, strongest, why_not
from scripts.evidence.store import EvidenceStore, open_store, store_of
from scripts.model import CapabilityResult, Level, Outcome
from scripts.probing.catalogue import probes
from scripts.serialize import JsonRecord

#: Below the stage: the store of a folder with many documents, so that only new ones are read.
STORE: Final = "evidence.sqlite"
#: A folder with fewer files is read each time, which leaves nothing behind.
FEW: Final = 200


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
        return f"{self.gfx}: {_word(self)} ({self.provenance})"


class Worth(JsonRecord, frozen=True, kw_only=True):
    """What all documents together allow to say about a stack on one architecture.

    Attributes:
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
        return f"{self.gfx}: {_word(self)} ({self.provenance}{', contested' if self.against else ''})"


def _word(shown: Proof | Worth) -> str:
    return shown.level.value if shown.level is not None and shown.outcome == "pass" else shown.outcome


def evidence_store(ws: Workspace) -> EvidenceStore:
    """Open the store of the committed documents; under another lock they prove nothing, so there are none."""
    if ws.custom_lock:
        return open_store()
    many = ws.evidence.is_dir() and len(os.listdir(ws.evidence)) > FEW  # noqa: PTH208 - counted, not read
    return store_of(ws.evidence, ws.stage / STORE if many else None)


def worth_here(ws: Workspace) -> Callable[[str, str], Level | None]:
    """Return the question "which level do documents give this stack on this gfx?"."""
    known: list[dict[tuple[str, str], Level | None]] = []

    def worth(stack: str, gfx: str) -> Level | None:
        if not known:  # read only when asked: most machines need none
            with evidence_store(ws) as store:
                known.append(levels_of(store))
        return known[0].get((stack, gfx))

    return worth


def levels_of(store: EvidenceStore) -> dict[tuple[str, str], Level | None]:
    """Return the level of every pinned stack on every GPU where it rests on a pass."""
    best = {pair: strongest(cells) for pair, cells in _wholes(store).items()}
    return {pair: cell.level for pair, cell in best.items() if cell is not None and cell.stands.passed}


def known_by_stack(store: EvidenceStore, *, gpu: str = "") -> dict[str, tuple[list[Worth], list[Proof]]]:
    """Group what the documents say by stack: its worth on each architecture, and each document by itself."""
    found: dict[str, tuple[list[Worth], list[Proof]]] = {}
    paths: dict[str, str] = {}
    for kept in store.documents(gpu=gpu):
        document, subject = kept.document, kept.document.subject
        paths[kept.content] = kept.paths[0]
        if why_not(document) or subject.gpu is None or not subject.stack:
            continue
        found.setdefault(subject.stack, ([], []))[1].append(
            Proof(
                gfx=subject.gpu.gfx or subject.gpu.name,
                gpu=subject.gpu.name,
                level=document.level,
                outcome=document.outcome.value,
                provenance=document.provenance.value,
                path=kept.paths[0],
                failed=failed_probes(document.results) if subject.application == PROBES else (),
            )
        )
    for (stack, name), cells in _wholes(store, gpu=gpu or None, observations=True).items():
        best = strongest(cells)
        if best is not None and name.startswith("gfx"):
            found[stack][0].append(_worth(name, best, cells, paths))
    return found


def failed_probes(results: Iterable[CapabilityResult]) -> tuple[str, ...]:
    """Name the probes that were exercised and did not pass, each with its outcome."""
    known = probes()
    return tuple(
        f"{r.capability} ({r.outcome.value})"
        for r in exercised(results)
        if r.capability in known and r.outcome is not Outcome.PASS
    )


def _wholes(
    store: EvidenceStore, *, gpu: str | None = None, observations: bool = False
) -> dict[tuple[str, str], list[Cell]]:
    """Return the cells about whole documents by stack and GPU, without what no stack pins."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in store.cells(gpu=gpu, capability="", observations=observations):
        if cell.pinned:
            found.setdefault((cell.stack, cell.gpu), []).append(cell)
    return found


def _worth(gfx: str, best: Cell, cells: Iterable[Cell], paths: dict[str, str]) -> Worth:
    """Turn what stands, and the failures of all applications, into what is shown."""
    failures = {paths[seen.document] for cell in cells for seen in cell.failures}
    return Worth(
        gfx=gfx,
        level=best.level,
        outcome=best.outcome.value,
        provenance=best.provenance.value,
        document=paths[best.document],
        against=tuple(sorted(failures - {paths[best.document]})),
    )
