"""Which kernels of one file each release compiles; ZLUDA's choice among the texts of a container is followed.

A container holds the same source compiled for several GPUs. From the last PTX text to the first, the first
one without anything dropped is taken, else the one with the fewest; a text that cannot be read counts for
nothing (vosen/ZLUDA, zluda/src/impl/module.rs). Numbers of processors play no part.
"""

from __future__ import annotations

from collections.abc import Sequence

from scripts.binary.payload import Unopened
from scripts.binary.ptx_text import PtxGroup, PtxReader
from scripts.binary.source import FileBytes
from scripts.preflight.kernels import ContainerKernels, GoneKernel, ImageOutcome, KernelReport, PtxImage
from scripts.preflight.ptx_check import PtxChecker, TextVerdict
from scripts.preflight.ptx_scan import scan_ptx
from scripts.preflight.ptx_table import PtxTable, ptx_tables


def read_kernels(source: FileBytes, groups: Sequence[PtxGroup]) -> KernelReport:
    """Unpack and check the PTX of one file for every release with a table. One text is held at a time."""
    reader, tables = PtxReader(source), ptx_tables()
    containers: list[ContainerKernels] = []
    unread: dict[str, None] = {}
    texts = 0
    for group in groups:
        read = _container(reader, group, tables, unread)
        texts += len(read.images)
        if read.images:
            containers.append(read)
    of = sum(len(group.entries) for group in groups)
    return KernelReport(containers=tuple(containers), texts=texts, of=of, unread=tuple(unread))


def _container(
    reader: PtxReader, group: PtxGroup, tables: Sequence[PtxTable], unread: dict[str, None]
) -> ContainerKernels:
    """Read texts from the last to the first until every release has one that it takes as a whole."""
    images: list[PtxImage] = []
    best: dict[str, tuple[int, TextVerdict]] = {}
    open_ = list(tables)
    for entry in reversed(group.entries):
        text = reader.text(entry)
        if isinstance(text, Unopened):
            unread[text.reason] = None
            continue
        image, verdicts = _image(text, f"sm_{entry.sm}{entry.letter}", entry.isa, open_)
        for table in open_:
            _, known = best.get(table.name, (0, None))
            if _better(verdicts[table.name], known):
                best[table.name] = (len(images), verdicts[table.name])
        images.append(image)
        open_ = [table for table in open_ if best[table.name][1].unusable or best[table.name][1].lost]
        if not open_:
            break
    outcomes = {name: _outcome(images[number], number, verdict) for name, (number, verdict) in best.items()}
    return ContainerKernels(images=tuple(images), outcomes=outcomes, copies=group.copies)


def _image(
    text: bytes, target: str, isa: str, tables: Sequence[PtxTable]
) -> tuple[PtxImage, dict[str, TextVerdict]]:
    """Scan a text and hold it against tables; the text itself is let go."""
    scan = scan_ptx(text)
    checker = PtxChecker(scan)
    verdicts = {table.name: checker.verdict(table) for table in tables}
    return PtxImage(target=target, isa=isa, kernels=scan.kernels, instructions=scan.instructions), verdicts


def _better(new: TextVerdict, known: TextVerdict | None) -> bool:
    """Whether a text is taken rather than the one before it."""
    if known is None:
        return True
    if new.unusable or known.unusable:
        return bool(known.unusable) and not new.unusable
    return new.lost < known.lost


def _outcome(image: PtxImage, number: int, verdict: TextVerdict) -> ImageOutcome:
    """Say what becomes of the kernels of the text that is taken."""
    lost, why = "", ""
    if verdict.unusable:
        lost, why = "text", verdict.unusable
    elif verdict.linking:
        lost, why = "linking", f"a call of {verdict.linking}, which lies in another file"
    elif verdict.ends:
        lost, why = "ends", verdict.ends
    elif verdict.fails:
        lost, why = "module", next(iter(verdict.fails))
    gone = [
        GoneKernel(name=name, instruction=refusal.instruction, why=refusal.why, line=refusal.line)
        for name, refusal in verdict.dropped.items()
        if name in set(image.kernels)
    ]
    differs: dict[str, list[str]] = {}
    for name, rules in verdict.differs.items():
        for rule in rules:
            differs.setdefault(rule, []).append(name)
    return ImageOutcome(
        image=number,
        lost=lost,
        why=why,
        gone=tuple(gone),
        differs={rule: tuple(names) for rule, names in differs.items()},
        refused=verdict.refused,
    )
