"""The evidence store with many documents: taking them in, memory, and the questions that tasks and pages ask.

python -m tools.figures.evidence_figures [--count=10000] [--rounds=5]

The documents are inventions (tools/many_documents.py). Taking in is a process of its own, with a store in a
file: what a person waits for, the processor's time (which a busy machine stretches less), and the most
memory that was resident. The questions go to the GPU, the stack and the application with most documents.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from scripts.app.advice import advise
from scripts.app.evidence_lookup import levels_of
from scripts.evidence.matrix import matrix
from scripts.evidence.store import EvidenceStore, open_store
from scripts.lock.reader import read_lock
from tools.figures.rows import Row, show
from tools.many_documents import many_documents

ROOT = Path(__file__).resolve().parents[2]
#: Seconds, MB resident, and seconds a question.
INGEST_BAR, MEMORY_BAR, QUERY_BAR = 20.0, 500.0, 0.1
ONE = """
import sys, time
from pathlib import Path
start = time.perf_counter()
from scripts.evidence.store import open_store
with open_store(Path(sys.argv[2])) as store:
    store.ingest(Path(sys.argv[1]))
seconds = time.perf_counter() - start
from tools.figures.store_child import peak_memory
print(seconds, time.process_time(), peak_memory())
"""


def taking_in(folder: Path, base: Path, rounds: int, what: str) -> Iterable[Row]:
    """Take everything in, each time into a new file; then again, when nothing has changed."""
    for name, first, bar in (("take in", True, INGEST_BAR), ("take in again, unchanged", False, None)):
        runs = []
        for _ in range(rounds if first else 1):
            if first:
                base.unlink(missing_ok=True)
            command = [sys.executable, "-c", ONE, str(folder), str(base)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
            runs.append([float(word) for word in done.stdout.split()])
        seconds, processor, memory = (tuple(values) for values in zip(*runs, strict=True))
        yield Row(what=f"{name}: {what}", who="store", values=seconds, bar=bar)
        yield Row(what=f"{name}: {what}", who="store, processor", values=processor, bar=bar)
        if first:
            yield Row(what="memory", who="store", values=memory, unit="MB", bar=MEMORY_BAR)


def asking(store: EvidenceStore, rounds: int) -> Iterable[Row]:
    """Ask what tasks and pages ask, of what has most documents."""
    lock = read_lock(ROOT / "pins.lock")
    cells = store.cells()
    gpu = Counter({c.gpu: 0 for c in cells})
    for kept in store.documents():
        gpu[kept.document.subject.gpu.gfx or "" if kept.document.subject.gpu else ""] += 1
    most = gpu.most_common(1)[0][0]
    fullest = max((c for c in cells if c.gpu == most and c.capability), key=lambda c: c.count)
    questions: dict[str, Callable[[], object]] = {
        "the level of every stack on every GPU": lambda: levels_of(store),
        "one cell with all observations": lambda: store.cells(**fullest.key._asdict(), observations=True),
        f"every cell of a GPU ({gpu[most]} documents)": lambda: store.cells(gpu=most),
        "every cell of a stack": lambda: store.cells(stack=fullest.stack),
        "one probe on every GPU and stack": lambda: store.cells(
            application=fullest.application, capability=fullest.capability
        ),
        "one document": lambda: store.document(fullest.document),
        "the newest hundred documents of a GPU": lambda: list(store.documents(gpu=most, limit=100)),
        "faults": store.faults,
        "advice for a GPU": lambda: advise(store, lock, gfx=most, os="windows"),
    }
    for what, ask in questions.items():
        yield Row(what=f"ask for {what}", who="store", values=_timed(ask, rounds), bar=QUERY_BAR)
    whole = _timed(lambda: matrix(store, observations=False), 1)
    yield Row(what="everything at once, for a page", who="store", values=whole, note="no question of a task")


def _timed(ask: Callable[[], object], rounds: int) -> tuple[float, ...]:
    values = []
    for _ in range(rounds):
        start = time.perf_counter()
        ask()
        values.append(time.perf_counter() - start)
    return tuple(values)


def figures(count: int = 10_000, rounds: int = 5) -> Iterable[Row]:
    """Measure everything."""
    with tempfile.TemporaryDirectory(prefix="evidence-figures-") as text:
        folder, base = Path(text) / "evidence", Path(text) / "evidence.sqlite"
        folder.mkdir()
        size = 0
        for name, content in many_documents(count):
            size += (folder / name).write_bytes(content)
        yield from taking_in(
            folder, base, max(1, rounds // 2), f"{count:,} documents, {size // 1_000_000} MB"
        )
        with open_store(base) as store:
            store.ingest(folder)
            yield from asking(store, rounds)


def main() -> int:
    """Measure and print; 1 if a bar is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    rows = show(figures(asked.count, asked.rounds))
    return int(any(row.met is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
