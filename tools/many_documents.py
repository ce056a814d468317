"""Evidence documents by the thousand, to see how the store and the pages made from it bear them.

python -m tools.many_documents FOLDER [--count=10000] [--seed=1]

They are inventions: valid in form, about real GPUs, stacks and probes, with results drawn at random. Never
put them below ``evidence/``. A few GPUs have most of them, as people have; one file in a hundred holds what
another holds, and one in a hundred is no document.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from scripts.evidence.document import (
    Document,
    DocumentMachine,
    DocumentSource,
    FigureFact,
    FileFact,
    GpuKey,
    HipFact,
    LockFact,
    Provenance,
    Revision,
    Subject,
    exercised,
    within_ceiling,
)
from scripts.evidence.evidence_io import dump
from scripts.evidence.merging import PROBES
from scripts.host.gpu import named_models
from scripts.lock.reader import read_lock
from scripts.model import CapabilityResult, Level, Outcome, StackKind
from scripts.probing.catalogue import probes

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("nvcuda", "cublas12", "cublaslt12", "cusparse12", "cufft11", "cudnn8", "cudnn9", "nvml")
PROGRAMS = ("blender", "llama-cli.exe", "ComfyUI", "PyTorch 2.3.0+cu118", "train <b>&amp;</b>", "koboldcpp")
OUTCOMES = (Outcome.PASS,) * 16 + tuple(Outcome)
HOSTILE = (b"", b"{}", b"[" * 5000, b'{"format": 1}', bytes(range(256)), b'{"format": 1, "format": 1}')
START = datetime(2026, 1, 1, tzinfo=UTC)


def many_documents(count: int, *, seed: int = 1) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of files."""
    rng = random.Random(seed)  # noqa: S311 - inventions, no secrets
    gpus = sorted(named_models())
    rng.shuffle(gpus)
    lock = read_lock(ROOT / "pins.lock")
    stacks = [stack.id for stack in lock.stacks.values() if stack.kind is StackKind.TRANSLATION]
    last = b"{}"
    for number in range(count):
        if number % 100 == 99:
            content = rng.choice(HOSTILE)
        elif number % 50 != 49:
            name, gfx = gpus[int(len(gpus) * rng.random() ** 3)]
            content = last = dump(
                _document(rng, GpuKey(name=name, gfx=gfx, vendor="amd"), rng.choice(stacks))
            )
        else:
            content = last.replace(b"\n", b"\r\n")
        yield f"{number:06}.json", content


def _document(rng: random.Random, gpu: GpuKey, stack: str) -> Document:
    """Invent one document: half are matrices of probes, the others checks and programs, a third reported."""
    kind = rng.choice((PROBES, PROBES, "", "program"))
    application = rng.choice(PROGRAMS) if kind == "program" else kind
    names = {PROBES: tuple(probes()), "": LIBRARIES, "program": (application[:12].strip(),)}[kind]
    top = {PROBES: Level.FUNCTIONAL, "": Level.LOADABLE, "program": Level.INTEGRATED}[kind]
    created = START + timedelta(seconds=rng.randrange(330 * 86400))
    reported = rng.random() < 1 / 3
    results = tuple(_result(rng, name, top) for name in names)
    steps = FigureFact(capability=names[0], metric="steps per second", value=rng.uniform(50, 90), unit="1/s")
    return Document(
        created=created,
        provenance=Provenance.REPORTED if reported else Provenance.MEASURED,
        source=_source(rng, created) if reported else None,
        subject=Subject(stack=stack, digest=f"{rng.getrandbits(256):064x}", gpu=gpu, application=application),
        machine=DocumentMachine(
            os="windows",
            machine="AMD64",
            driver="32.0.31041.1004",
            hip_roots=(HipFact(path="", version="6.4"),),
        ),
        results=results,
        lock=None if reported else LockFact(digest="a" * 64),
        revision=None if reported else Revision(commit="c" * 40, dirty=False),
        files=tuple(FileFact(name=f"{n}.dll", sha256=f"{rng.getrandbits(256):064x}") for n in LIBRARIES),
        not_exercised=tuple(
            sorted({r.capability for r in results} - {r.capability for r in exercised(results)})
        ),
        notes=("an invention",),
        figures=(steps,) if kind == "program" else (),
    )


def _result(rng: random.Random, name: str, top: Level) -> CapabilityResult:
    outcome = rng.choice(OUTCOMES)
    level = top if outcome is Outcome.PASS else rng.choice((None, Level.DETECTED, Level.LOADABLE))
    detail = f"error_over_tolerance {rng.random():.4g}, seconds {rng.uniform(0.1, 9):.3f}"
    return within_ceiling(CapabilityResult(capability=name, level=level, outcome=outcome, detail=detail))


def _source(rng: random.Random, created: datetime) -> DocumentSource:
    number = rng.randrange(900)
    day = f"{created:%Y-%m-%d}" if number % 10 else ""
    return DocumentSource(name=f"issue {number}", url=f"https://example.org/issues/{number}", date=day)


def main() -> None:
    """Write the files."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    asked = options.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, content in many_documents(asked.count, seed=asked.seed):
        (asked.folder / name).write_bytes(content)
    print(json.dumps({"folder": str(asked.folder), "files": asked.count}))


if __name__ == "__main__":
    main()
