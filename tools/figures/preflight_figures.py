"""How long reading a program's files takes: 2 GB of libraries, cold and warm, in turns.

python -m tools.figures.preflight_figures [--gib=2] [--rounds=5]

Cold is an empty cache of ours and, on Linux, files that the system was told to forget. Each reading is a
process of its own: what a person waits for, the processor's time (which a busy machine does not stretch),
and the most memory that was resident.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.fatbins import SASS, container, cubin, entry, ptx
from tests.pe_files import pe
from tools.figures.rows import Row, race, show

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
LIBRARY = 50 * MIB
ENTRY = 62_000
#: Seconds, and MiB resident.
BARS = {"cold": 5.0, "warm": 0.3}
MEMORY_BAR = 300.0
ONE = """
import sys, time
from pathlib import Path
start = time.perf_counter()
from scripts.preflight.examine import examine
found = examine(Path(sys.argv[1]), cache=Path(sys.argv[2]))
seconds = time.perf_counter() - start
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
peak = [line.split()[1] for line in lines if line.startswith("VmHWM")]
print(seconds, time.process_time(), int(peak[0]) / 1024 if peak else 0)
"""


def library(number: int) -> bytes:
    """One library of 50 MiB: a fifth is text to be searched, the rest device code in hundreds of modules.

    It is packed as nvcc packs it, in one library by LZ4 and in the next by zstd, in entries as large as those
    of ctranslate2 4.5.0 on average. Every other module has no PTX: the kernels of these are counted.
    """
    noise = random.Random(number).randbytes(1 << 16)  # noqa: S311 - bytes to read, no secret
    text = b"".join(b"lib%d.dll\0" % n for n in range(50)) + noise * (LIBRARY // 5 // len(noise))
    way = ("lz4", "zstd")[number % 2]
    code = cubin(90, [f"_Z6kernel{n}Pf" for n in range(20)]) + noise[:ENTRY]
    machine = [entry(SASS, sm, code, way=way) for sm in (70, 75, 80, 86, 89, 90)]
    modules = container(ptx(way=way), *machine) + container(*machine)
    device = modules * (LIBRARY * 4 // 5 // len(modules))
    imports = {"cudart64_12.dll": [f"cudaCall{n}" for n in range(60)], f"part{number + 1}.dll": ["next"]}
    return pe(imports=imports, sections={".data": text, ".nv_fatb": device})


def write_program(folder: Path, gib: float) -> Path:
    """Write a program of so many bytes; each library asks for the next."""
    (folder / "app.exe").write_bytes(pe(imports={"part0.dll": ["next"]}, dll=False))
    for number in range(round(gib * 1024 * MIB / LIBRARY)):
        (folder / f"part{number}.dll").write_bytes(library(number))
    return folder / "app.exe"


def forget(folder: Path) -> None:
    """Ask the system to drop the files from memory."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def read(app: Path, cache: Path, seen: dict[str, list[float]], *, cold: bool) -> float:
    """Read in a process of its own; return what a person waits for."""
    if cold:
        shutil.rmtree(cache, ignore_errors=True)
        forget(app.parent)
    words = [sys.executable, "-c", ONE, str(app), str(cache)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, processor, memory = map(float, done.stdout.split())
    seen.setdefault("cold" if cold else "warm", []).append(processor)
    seen.setdefault("memory", []).append(memory)
    return seconds


def hashed(folder: Path) -> None:
    """Read every byte once and hash it: what reading it all costs at least."""
    forget(folder)
    for path in folder.glob("*.dll"):
        with path.open("rb") as file:
            hashlib.file_digest(file, "sha256")


def figures(gib: float = 2.0, rounds: int = 5) -> list[Row]:
    """Measure in turns."""
    seen: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as text:
        folder, cache = Path(text) / "app", Path(text) / "cache"
        folder.mkdir()
        app = write_program(folder, gib)
        contenders: dict[str, Callable[[], object]] = {
            "cold": partial(read, app, cache, seen, cold=True),
            "warm": partial(read, app, cache, seen, cold=False),
            "sha256 of it all": partial(hashed, folder),
        }
        times = race(contenders, rounds)
    what = f"examine {gib:g} GiB of libraries"
    rows = [Row(what=f"{what}, {k}", who="preflight", values=times[k], bar=BARS[k]) for k in BARS]
    rows += [
        Row(what=f"{what}, {k}", who="preflight, processor", values=tuple(seen[k]), bar=BARS[k]) for k in BARS
    ]
    rows.append(Row(what="memory", who="preflight", values=tuple(seen["memory"]), unit="MiB", bar=MEMORY_BAR))
    peer = times["sha256 of it all"]
    return [*rows, Row(what=what, who="sha256 of it all", values=peer)]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gib", type=float, default=2.0)
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    show(figures(asked.gib, asked.rounds))


if __name__ == "__main__":
    main()
