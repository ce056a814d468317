"""The whole of the evidence as one value: cells, documents and figures, for pages and tables."""

from __future__ import annotations

from collections.abc import Container, Iterable

from msgspec.structs import replace

from scripts.evidence.document import Provenance
from scripts.evidence.merging import PROBES, Cell, gpu_key, stack_key, why_not
from scripts.evidence.store import EvidenceStore, IngestFault, Kept
from scripts.model import Level, Outcome
from scripts.serialize import JsonRecord


class DocumentFact(JsonRecord, frozen=True, kw_only=True):
    """One document, once, however many files hold it.

    Attributes:
        document: its content hash.
        paths: the files.
        created: UTC, ISO 8601.
        seen: the day of what it says; empty for a report without a date.
        reporter: the public source of a report, with its ``url``; empty for what was measured.
        gpu: what its cells are filed under; ``gpu_name`` is the product.
        why_not: why it proves nothing for a GPU (``simulated``, ``custom-lock``, ``no-gpu``), or empty.
    """

    document: str
    paths: tuple[str, ...]
    created: str
    seen: str
    provenance: Provenance
    reporter: str
    url: str
    gpu: str
    gpu_name: str
    gfx: str
    vendor: str
    stack: str
    pinned: bool
    digest: str
    application: str
    os: str
    driver: str
    hip: tuple[str, ...]
    level: Level | None
    outcome: Outcome
    not_exercised: tuple[str, ...]
    notes: tuple[str, ...]
    why_not: str

    JSON = (
        "document paths created seen provenance reporter url gpu gpu_name gfx vendor stack pinned digest "
        "application os driver hip level outcome not_exercised notes counts why_not"
    )

    @property
    def counts(self) -> bool:
        """Whether it can prove anything for a GPU."""
        return not self.why_not


class FigurePoint(JsonRecord, frozen=True, kw_only=True):
    """One figure of one document that counts."""

    document: str
    seen: str
    provenance: Provenance
    gpu: str
    stack: str
    application: str
    capability: str
    metric: str
    value: float
    unit: str


class Matrix(JsonRecord, frozen=True, kw_only=True):
    """Everything at once.

    Attributes:
        cells: sorted by what they are about.
        documents: newest first, with those that do not count.
        figures: sorted by what they are about and by metric, then oldest first.
        faults: files that are no documents.
    """

    cells: tuple[Cell, ...]
    documents: tuple[DocumentFact, ...]
    figures: tuple[FigurePoint, ...]
    faults: tuple[IngestFault, ...]

    @property
    def gpus(self) -> tuple[str, ...]:
        """Every GPU that there is a cell about."""
        return tuple(sorted({cell.gpu for cell in self.cells}))

    @property
    def stacks(self) -> tuple[str, ...]:
        """Every stack, and every combination that no stack pins."""
        return tuple(sorted({cell.stack for cell in self.cells}))


def matrix(
    store: EvidenceStore, *, gpu: str = "", stack: str = "", application: str = "", observations: bool = True
) -> Matrix:
    """Return what a store holds, or what it holds about one GPU, stack or application.

    Without ``observations`` each cell has only what stands, which is quick however many documents there are.
    """
    kept = [
        each
        for each in store.documents(gpu=gpu, stack=stack)
        if application in {"", each.document.subject.application}
    ]
    return Matrix(
        cells=store.cells(
            gpu=gpu or None, stack=stack or None, application=application or None, observations=observations
        ),
        documents=tuple(document_fact(each) for each in kept),
        figures=tuple(sorted(_figures(kept), key=_place)),
        faults=store.faults(),
    )


def document_fact(kept: Kept) -> DocumentFact:
    """Return what is shown of one document."""
    document, gpu = kept.document, kept.document.subject.gpu
    return DocumentFact(
        document=kept.content,
        paths=kept.paths,
        created=f"{document.created.isoformat()[:19]}Z",
        seen=document.day,
        provenance=document.provenance,
        reporter=document.source.name if document.source else "",
        url=document.source.url if document.source else "",
        gpu=gpu_key(document),
        gpu_name=gpu.name if gpu else "",
        gfx=(gpu.gfx or "") if gpu else "",
        vendor=gpu.vendor if gpu else "",
        stack=stack_key(document),
        pinned=bool(document.subject.stack),
        digest=document.subject.digest or "",
        application=document.subject.application,
        os=document.machine.os,
        driver=document.machine.driver or "",
        hip=tuple(root.version or "" for root in document.machine.hip_roots),
        level=document.level,
        outcome=document.outcome,
        not_exercised=document.not_exercised,
        notes=document.notes,
        why_not=why_not(document),
    )


def _figures(kept: Iterable[Kept]) -> Iterable[FigurePoint]:
    """Yield the figures of documents that count."""
    for each in kept:
        document = each.document
        if why_not(document):
            continue
        for figure in document.figures:
            yield FigurePoint(
                document=each.content,
                seen=document.day,
                provenance=document.provenance,
                gpu=gpu_key(document),
                stack=stack_key(document),
                application=document.subject.application,
                capability=figure.capability,
                metric=figure.metric,
                value=figure.value,
                unit=figure.unit,
            )


def _place(point: FigurePoint) -> tuple[str, ...]:
    about = (point.gpu, point.stack, point.application, point.capability, point.metric)
    return (*about, point.seen, point.document)


def without_retired(shown: Matrix, probes: Container[str]) -> Matrix:
    """Leave out results and mentions of probes that are asked no longer; the documents stay.

    Args:
        shown: the matrix.
        probes: the names of the probes that there are.
    """

    def stays(application: str, capability: str) -> bool:
        return application != PROBES or not capability or capability in probes

    def idle(fact: DocumentFact) -> tuple[str, ...]:
        return tuple(name for name in fact.not_exercised if stays(fact.application, name))

    return replace(
        shown,
        cells=tuple(cell for cell in shown.cells if stays(cell.application, cell.capability)),
        documents=tuple(replace(fact, not_exercised=idle(fact)) for fact in shown.documents),
        figures=tuple(point for point in shown.figures if stays(point.application, point.capability)),
    )
