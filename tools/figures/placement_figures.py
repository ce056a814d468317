"""What placing and undoing cost beside copying and removing by hand, ``cp`` + ``rm`` and ``rsync``.

python -m tools.figures.placement_figures [--rounds=N] [--folder=DIR]

The peers neither verify, nor wait for the disk, nor remember what they replaced; placing does all three. The
line "``cp``, flushed and hashed" does the first two as well, and is the fair one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from scripts.placement.place import place
from scripts.placement.plan import PlacementItem
from scripts.placement.rollback import undo
from tests.placement_harness import GONE
from tools.figures.rows import Row, against, race, show

MB = 1_000_000
#: Sizes as in ZLUDA's Windows archives: one driver library of 68 MB, the others small.
LARGE = {
    "nvcuda.dll": 68 * MB,
    "cublas64_11.dll": MB,
    "cublasLt64_11.dll": MB,
    "cusparse64_11.dll": MB,
    "nvml.dll": MB,
}
SMALL = 16_384
COUNTS = (10, 100, 1000)
#: Milliseconds that one more small file may cost, placed and undone.
BAR = 1.0


class Job:
    """Files to put into a folder, some over files that are there."""

    def __init__(self, folder: Path, sizes: dict[str, int]) -> None:
        self.source, self.target = folder / "source", folder / "target"
        self.source.mkdir(parents=True)
        self.target.mkdir()
        self.items = []
        #: Seconds of processor time that each round of ours took.
        self.processor: list[float] = []
        for number, (name, size) in enumerate(sizes.items()):
            data = os.urandom(size)
            (self.source / name).write_bytes(data)
            if number % 2:
                (self.target / name).write_bytes(b"theirs")
            digest = hashlib.sha256(data).hexdigest()
            self.items.append(
                PlacementItem(folder="", name=name, source=self.source / name, sha256=digest, size=size)
            )

    def ours(self) -> None:
        before = time.process_time()
        place(self.target, self.items, stack="figure", digest="d", user=GONE)
        report = undo(self.target)
        self.processor.append(time.process_time() - before)
        if not report.complete:
            msg = f"the figure is worthless: {report.kept}"
            raise RuntimeError(msg)

    def copy_by_hand(self, *, flushed: bool) -> None:
        """Keep the originals aside, copy, remove, put back; ``flushed``: also hash and wait for the disk."""
        aside = self.target.with_name("aside")
        aside.mkdir()
        names = [item.name for item in self.items]
        there = [name for name in names if (self.target / name).exists()]
        for name in there:
            shutil.copy2(self.target / name, aside / name)
        subprocess.run(["cp", "-t", self.target, *(self.source / name for name in names)], check=True)
        for name in names if flushed else ():
            with (self.target / name).open("rb") as file:
                hashlib.file_digest(file, "sha256")
                os.fsync(file.fileno())
        subprocess.run(["rm", *(self.target / name for name in names)], check=True)
        for name in there:
            (aside / name).replace(self.target / name)
        aside.rmdir()

    def rsync(self) -> None:
        """``--backup-dir`` keeps what was replaced; taking away is done by ``rm`` and a second ``rsync``."""
        aside = self.target.with_name("aside")
        line = ["rsync", "-a", "--checksum", f"--backup-dir={aside}", "--backup"]
        subprocess.run([*line, f"{self.source}/", f"{self.target}/"], check=True)
        subprocess.run(["rm", *(self.target / item.name for item in self.items)], check=True)
        if aside.exists():
            subprocess.run(["rsync", "-a", f"{aside}/", f"{self.target}/"], check=True)
            shutil.rmtree(aside)


def contenders(job: Job) -> tuple[dict[str, Callable[[], object]], dict[str, str]]:
    """Ours first; a peer that is not installed is named."""
    found: dict[str, Callable[[], object]] = {"place + undo": job.ours}
    missing: dict[str, str] = {}
    if shutil.which("cp"):
        found["cp + rm, originals aside"] = partial(job.copy_by_hand, flushed=False)
        found["cp + rm, flushed and hashed"] = partial(job.copy_by_hand, flushed=True)
    else:
        missing["cp + rm"] = "not installed"
    if shutil.which("rsync"):
        found["rsync --checksum --backup"] = job.rsync
    else:
        missing["rsync"] = "not installed"
    return found, missing


def figures(*, rounds: int = 5, folder: Path | None = None) -> list[Row]:
    """Measure everything; ``folder`` decides the disk."""
    rows: list[Row] = []
    ours: dict[int, tuple[float, ...]] = {}
    spent: dict[int, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=folder) as name:
        jobs = {"ZLUDA's sizes (72 MB)": LARGE} | {
            f"{count} files of 16 kB": {f"{number}.dll": SMALL for number in range(count)} for count in COUNTS
        }
        for number, (what, sizes) in enumerate(jobs.items()):
            job = Job(Path(name) / str(number), sizes)
            found, missing = contenders(job)
            times = race(found, rounds)
            ours[len(sizes)], spent[len(sizes)] = times["place + undo"], job.processor
            rows += against(what, times, {}, missing)
    for what, values in (("one more small file", ours), ("the same, processor time", spent)):
        rows.append(Row(what=what, who="place + undo", unit="ms", values=(_extra(values),), bar=BAR))
    return rows


def _extra(values: Mapping[int, Sequence[float]]) -> float:
    """Return the milliseconds that one more small file costs."""
    few, many = COUNTS[0], COUNTS[-1]
    return (statistics.median(values[many]) - statistics.median(values[few])) / (many - few) * 1000


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args(arguments)
    show(figures(rounds=options.rounds, folder=options.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
