"""The store's figures: fetch and verify, unpack and hash, memory, and cost as work grows.

Every contender of a race is a process of its own, ours with its interpreter's start-up included.
Run ``python -m tools.figures.store_figures [--rounds=5] [--pooch=PYTHON] [--folder=DIR]``; it writes 5 GB.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from scripts.model import Artifact, ArtifactFormat, NoProgress
from scripts.osal import fs
from scripts.store.archive import unpack
from scripts.store.cache import Cache
from tools.figures.rows import Row, against, race, show
from tools.figures.store_child import MB, artifact

MEMORY_BAR = 100.0  # MB
#: A member of a large archive may cost this much of what one costs in a small archive: noise, not growth.
LINEAR = 1.2
NOT_INSTALLED = "not installed"


def make_file(path: Path, size: int) -> str:
    """Write ``size`` random bytes and return their hash."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for at in range(0, size, MB):
            block = os.urandom(min(MB, size - at))
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def make_zip(path: Path, members: int, size: int) -> str:
    """Write a zip of ``members`` files of ``size`` bytes that compress about as libraries do (2.4 : 1)."""
    rng = np.random.default_rng(1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for number in range(members):
            fresh = rng.integers(0, 64, size=size, dtype=np.uint8).reshape(-1, 4096)
            again = np.flatnonzero(rng.random(len(fresh)) < 0.5)
            fresh[again[again > 0]] = fresh[again[again > 0] - 1]
            archive.writestr(f"package/part{number % 40}/file{number}.bin", fresh.tobytes())
    return fs.hash_file(path)


@contextmanager
def server(path: Path) -> Iterator[str]:
    """Serve ``path`` from another process and yield the address."""
    process = subprocess.Popen(
        [*THIS, "serve", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.communicate("")


THIS = (sys.executable, "-m", "tools.figures.store_child")
ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> str:
    """Run a peer or ourselves and return what it printed."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return done.stdout


def emptied(folder: Path) -> Path:
    """Return the folder, empty: cleaning up is not timed."""
    fs.remove_tree(folder)
    folder.mkdir()
    return folder


def timed(folder: Path, work: Callable[[Path], object]) -> Callable[[], float]:
    """Give each round an empty folder outside of its time."""

    def contender() -> float:
        place = emptied(folder)
        began = time.perf_counter()
        work(place)
        took = time.perf_counter() - began
        emptied(folder)  # before the next one waits for the disk: what is gone need not be written
        return took

    return contender


def fetching(folder: Path, rounds: int, pooch: str | None, size: int) -> list[Row]:
    """Race fetch + verify against curl with sha256sum and cp, pooch and aria2c."""
    source = folder / "download.bin"
    sha256 = make_file(source, size)
    memory: list[float] = []
    with server(source) as url:

        def ours(place: Path) -> None:
            memory.append(float(run(*THIS, "fetch", url, sha256, str(size), str(place / "store"))))

        def curl(place: Path) -> None:
            run("curl", "-s", "-o", str(place / "part"), f"{url}/{sha256}")
            run("sha256sum", str(place / "part"))
            run("cp", str(place / "part"), str(place / "final"))

        def aria2c(place: Path) -> None:
            run(
                "aria2c", "-q", f"--checksum=sha-256={sha256}", "-d", str(place), "-o", "x", f"{url}/{sha256}"
            )

        def by_pooch(place: Path) -> None:
            code = "import pooch,sys; pooch.retrieve(sys.argv[1], 'sha256:' + sys.argv[2], path=sys.argv[3])"
            run(pooch or sys.executable, "-c", code, f"{url}/{sha256}", sha256, str(place))

        peers = {"curl + sha256sum + cp": curl, "pooch": by_pooch, "aria2c --checksum": aria2c}
        there = {
            "curl + sha256sum + cp": all(shutil.which(tool) for tool in ("curl", "sha256sum", "cp")),
            "pooch": pooch is not None or importlib.util.find_spec("pooch") is not None,
            "aria2c --checksum": shutil.which("aria2c") is not None,
        }
        racing = {"ours": ours} | {name: work for name, work in peers.items() if there[name]}
        times = race({name: timed(folder / "race", work) for name, work in racing.items()}, rounds)
    what = f"fetch + verify {size // MB} MB"
    skipped = {name: NOT_INSTALLED for name, present in there.items() if not present}
    bars = {"curl + sha256sum + cp": 0.5, "pooch": 0.3, "aria2c --checksum": 1.0}
    source.unlink()
    return [
        *against(what, times, bars, skipped),
        Row(what=f"{what}: peak memory", who="ours", values=tuple(memory), unit="MB", bar=MEMORY_BAR),
    ]


def unpacking(folder: Path, rounds: int, members: int, size: int) -> list[Row]:
    """Race unpack + hash against unzip and bsdtar, which do not hash."""
    source = folder / "many.zip"
    sha256 = make_zip(source, members, size)
    memory: list[float] = []

    def ours(place: Path) -> None:
        memory.append(float(run(*THIS, "unpack", str(source), sha256, str(place / "store"))))

    peers: dict[str, Callable[[Path], object]] = {
        "unzip": lambda place: run("unzip", "-q", str(source), "-d", str(place)),
        "bsdtar": lambda place: run("bsdtar", "-xf", str(source), "-C", str(place)),
    }
    racing = {"ours": ours} | {name: work for name, work in peers.items() if shutil.which(name)}
    times = race({name: timed(folder / "race", work) for name, work in racing.items()}, rounds)
    what = f"unpack + hash {members:,} files, {members * size // MB} MB"
    source.unlink()
    return [
        *against(
            what,
            times,
            {"unzip": 0.6, "bsdtar": 1.8},
            {name: NOT_INSTALLED for name in peers if not shutil.which(name)},
        ),
        Row(what=f"{what}: peak memory", who="ours", values=tuple(memory), unit="MB", bar=MEMORY_BAR),
    ]


def growing(folder: Path, rounds: int, counts: tuple[int, ...] = (10, 100, 1000)) -> list[Row]:
    """Show what one member costs as an archive gets more of them, unpacked and found unpacked."""
    rows: list[Row] = []
    bars: dict[str, float] = {}
    for count in counts:
        source = folder / f"{count}.zip"
        what = artifact(make_zip(source, count, 64 * 1024), source.stat().st_size, ArtifactFormat.ZIP)
        kept = Cache(folder / f"kept-{count}")
        unpack(what, kept, source, progress=NoProgress())

        def cold(place: Path, what: Artifact = what, source: Path = source) -> None:
            unpack(what, Cache(place / "store"), source, progress=NoProgress())

        def warm(_: Path, what: Artifact = what, source: Path = source, kept: Cache = kept) -> None:
            unpack(what, kept, source, progress=NoProgress())

        runs = {
            "unpack": timed(folder / "race", cold),
            "unpack again": timed(folder / "race", warm),
        }
        for name, values in race(runs, rounds).items():
            each = tuple(1e6 * value / count for value in values)
            row = Row(what=f"{name} {count:,} members", who="ours", values=each, unit="µs each")
            rows.append(replace(row, bar=bars.get(name)))
            bars.setdefault(name, round(LINEAR * (row.median or 0.0)))
        fs.remove_tree(kept.root)
    return rows


def figures(
    *, rounds: int = 5, pooch: str | None = None, folder: Path | None = None, scale: float = 1.0
) -> Iterator[Row]:
    """Measure everything; ``scale`` below 1 makes a quick rehearsal whose figures mean little."""
    with tempfile.TemporaryDirectory(prefix="store-figures-", dir=folder) as place:
        try:
            yield from fetching(Path(place), rounds, pooch, int(500 * MB * scale))
            yield from unpacking(Path(place), rounds, max(1, int(4000 * scale)), 256 * 1024)
            yield from growing(Path(place), rounds)
        finally:
            fs.remove_tree(Path(place, "race"))


def main(arguments: list[str]) -> int:
    """Measure and print a table; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pooch", metavar="PYTHON", help="an interpreter that has pooch")
    parser.add_argument("--folder", type=Path, help="where to write, instead of the temporary folder")
    parser.add_argument("--scale", type=float, default=1.0, help="below 1: a rehearsal with less data")
    options = parser.parse_args(arguments)
    rows = show(
        figures(rounds=options.rounds, pooch=options.pooch, folder=options.folder, scale=options.scale)
    )
    return int(any(row.met is False for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
