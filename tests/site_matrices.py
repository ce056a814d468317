"""Matrices for tests of the site: small ones, hostile ones, and as many documents as wanted."""

from __future__ import annotations

import hashlib
import random
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.app.advice import FILLER
from scripts.evidence.document import CEILING, Provenance
from scripts.evidence.matrix import DocumentFact, FigurePoint, Matrix
from scripts.evidence.merging import CellKey, Observation, merge
from scripts.evidence.store import IngestFault
from scripts.lock.reader import read_lock
from scripts.model import Level, Outcome
from scripts.site.data import GpuModel, SiteContent

ROOT = Path(__file__).resolve().parents[1]
CAPABILITIES = (
    "nvcuda",
    "cublas gemm",
    "cufft-c2c",
    "sdpa-math",
    "sdpa-memory-efficient",
    "cudnn-conv2d",
    "memory-copy",
)
#: What would do harm wherever a page took it for markup, a script, an address or a direction of writing.
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\"'><svg onload=alert(3)>",
    "javascript:alert(4)",
    "${7*7}{{8*8}} `$(x)` \\u003cscript\\u003e",
    "\u202eevil\u2066\u200b\u2028\u0007 text",
    "../../../etc/passwd",
    "con.js?#&%2f%00/..",
)


def result(
    word: str,
    *,
    level: Level | None = Level.FUNCTIONAL,
    outcome: Outcome = Outcome.PASS,
    day: str = "2026-10-01",
    who: Provenance = Provenance.MEASURED,
    detail: str = "",
) -> Observation:
    """One observation of the document that a word stands for."""
    observed = f"{day}T00:00:00Z" if day else "0001-01-01T00:00:00Z"
    return Observation(
        document=hash_of(word), observed=observed, provenance=who, level=level, outcome=outcome, detail=detail
    )


def hash_of(word: str) -> str:
    return hashlib.sha256(word.encode()).hexdigest()


def fact(
    word: str,
    *,
    gpu: str = "gfx1200",
    stack: str = "zluda-v6p69-sdk64",
    application: str = "",
    why_not: str = "",
    text: str = "",
    who: Provenance = Provenance.MEASURED,
    url: str = "",
    day: str = "2026-10-01",
) -> DocumentFact:
    """The document that a word stands for; ``text`` goes into every field that a stranger writes."""
    return DocumentFact(
        document=hash_of(word),
        paths=(f"evidence/{text or word}.json",),
        created=f"{day or '2026-10-01'}T00:00:00Z",
        seen=day,
        provenance=who,
        reporter=text or ("a thread" if who is Provenance.REPORTED else ""),
        url=url,
        gpu=gpu,
        gpu_name=text or f"A product with {gpu}",
        gfx=gpu if gpu.startswith("gfx") else "",
        vendor="amd",
        stack=stack,
        pinned=True,
        digest="",
        application=application,
        os=text or "windows",
        driver=text or "32.0.1",
        hip=(text or "6.4",),
        level=Level.LOADABLE,
        outcome=Outcome.PASS,
        not_exercised=(text or "nccl",),
        notes=(text or "a note",),
        why_not=why_not,
    )


def content(matrix: Matrix) -> SiteContent:
    """The matrix with this project's own GPUs and stacks."""
    rows = tomllib.loads((ROOT / "scripts" / "data" / "gpus.toml").read_text(encoding="utf-8"))["model"]
    models = tuple(GpuModel(name=row["name"], gfx=row["gfx"], family=row["generation"]) for row in rows)
    stacks = tuple(read_lock(ROOT / "pins.lock", custom=False).stacks.values())
    return SiteContent(matrix=matrix, models=models, stacks=stacks, filler=FILLER)


def matrix_of(
    observed: Iterable[tuple[CellKey, Observation]],
    documents: Sequence[DocumentFact],
    *,
    figures: Sequence[FigurePoint] = (),
    faults: Sequence[IngestFault] = (),
) -> Matrix:
    """Merge observations as the store does."""
    cells: dict[CellKey, list[Observation]] = {}
    for key, observation in observed:
        cells.setdefault(key, []).append(observation)
    return Matrix(
        cells=tuple(merge(key, seen, pinned=True) for key, seen in sorted(cells.items())),
        documents=tuple(documents),
        figures=tuple(figures),
        faults=tuple(faults),
    )


def hostile_matrix() -> Matrix:
    """Every hostile text in every place where a document may have text."""
    observed, documents, figures = [], [], []
    for number, text in enumerate(HOSTILE):
        url = "javascript:alert(5)" if number % 2 else f"https://example.org/{text}"
        documents.append(
            fact(text, gpu=text, stack=text, application=text, text=text, url=url, who=Provenance.REPORTED)
        )
        for capability in ("", text):
            key = CellKey(text, text, text, capability)
            observed.append((key, result(text, detail=text, who=Provenance.REPORTED)))
        figures += [
            FigurePoint(
                document=hash_of(text),
                seen=day,
                provenance=Provenance.REPORTED,
                gpu=text,
                stack=text,
                application=text,
                capability=text,
                metric=text,
                value=2.5,
                unit=text,
            )
            for day in ("2026-10-01", "2026-10-02")
        ]
    faults = [IngestFault(path=f"evidence/{text}", reason=text) for text in HOSTILE]
    return matrix_of(observed, documents, figures=figures, faults=faults)


def large_matrix(count: int) -> Matrix:
    """So many documents about all GPUs, stacks, forty programs and sixty probes, the same every time."""
    chance = random.Random(1)  # noqa: S311 - a table, not a secret
    lists = content(matrix_of((), ()))
    gpus = [gpu for gpu in lists.gpus if gpu.startswith("gfx1")]
    stacks = [stack.id for stack in lists.stacks if stack.kind.value == "translation"]
    programs = ["", "", "probes", *(f"Program {number}" for number in range(40))]
    probes = [f"{name}-{size}" for name in CAPABILITIES for size in range(9)]
    observed, documents, figures = [], [], []
    for number in range(count):
        word, who = f"document {number}", chance.choice(tuple(Provenance))
        day = f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
        gpu, stack, program = chance.choice(gpus), chance.choice(stacks), chance.choice(programs)
        url = f"https://example.org/{number}" if who is Provenance.REPORTED else ""
        documents.append(fact(word, gpu=gpu, stack=stack, application=program, who=who, url=url, day=day))
        for capability in ("", *chance.sample(probes, 6)):
            outcome = chance.choices(tuple(Outcome), weights=[12] + [1] * (len(Outcome) - 1))[0]
            level = (
                None
                if CEILING[outcome] is None
                else min(chance.choice(tuple(Level)), CEILING[outcome], key=rank)
            )
            detail = f"{outcome.value} after {chance.random():.3f} s"
            seen = result(word, level=level, outcome=outcome, day=day, who=who, detail=detail)
            observed.append((CellKey(gpu, stack, program, capability), seen))
        if program == "":
            figures.append(
                FigurePoint(
                    document=hash_of(word),
                    seen=day,
                    provenance=who,
                    gpu=gpu,
                    stack=stack,
                    application="",
                    capability=probes[0],
                    metric="gflops_float32",
                    value=1000 * chance.random(),
                    unit="GFLOP/s",
                )
            )
    return matrix_of(observed, documents, figures=figures)


def rank(level: Level | None) -> int:
    return -1 if level is None else level.rank
