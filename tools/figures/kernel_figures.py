"""How long checking every kernel of a folder's libraries takes, beside ``cuobjdump -ptx`` piped into ``wc``.

python -m tools.figures.kernel_figures [--folder=DIR] [--rounds=3]

Without a folder 1 GiB of libraries is made, with 300 MB of PTX text. The peer, which does not read Windows
libraries, is given their device sections as files of their own. Cold is an empty cache of ours; each reading
is a process of its own.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from scripts.binary.image import Image, read_image
from tests.fatbins import PTX, container, entry, sass
from tests.pe_files import pe
from tests.wheels import unpacked
from tools.figures.rows import Row, race, show

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES, SIZE, TEXT = 20, 50 << 20, 15_000_000
#: Seconds, and MiB resident.
BARS = {"cold": 20.0, "warm": 0.3}
MEMORY_BAR = 300.0
ONE = """
import sys, time
from pathlib import Path
start = time.perf_counter()
from scripts.preflight.examine import examine
from scripts.preflight.kernels import KernelStore, tally
cache = Path(sys.argv[2])
store = KernelStore(cache / "kernels")
found = examine(Path(sys.argv[1]), cache=cache / "files", kernels=store)
reports = [store.get(v.facts.device) for v in found.closure.visited if v.facts.device]
kernels = sum(tally("", report, "zluda-v7-preview.9").total for report in reports if report)
seconds = time.perf_counter() - start
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
peak = [line.split()[1] for line in lines if line.startswith("VmHWM")]
print(seconds, time.process_time(), int(peak[0]) / 1024 if peak else 0, kernels)
"""
_LINES = (
    "\tld.global.nc.f32 \t%f{a}, [%rd{b}+{c}];",
    "\tfma.rn.f32 \t%f{a}, %f{b}, %f{c}, %f{a};",
    "\tadd.s32 \t%r{a}, %r{b}, {c};",
    "\tmad.lo.s32 \t%r{a}, %r{b}, %r{c}, %r{a};",
    "\tsetp.lt.s32 \t%p{a}, %r{b}, %r{c};",
    "\t@%p{a} bra \t$L__BB0_{b};",
    "\tmul.wide.s32 \t%rd{a}, %r{b}, 4;",
    "\tst.global.f32 \t[%rd{a}], %f{b};",
    "\tshfl.sync.down.b32 \t%r{a}|%p{b}, %r{c}, 16, 31, -1;",
)


def text(chance: random.Random, size: int) -> bytes:
    """Return PTX as a compiler writes it, in kernels of some thousand lines."""
    lines = [".version 8.2\n.target sm_86\n.address_size 64\n"]
    left, number = size, 0
    while left > 0:
        lines.append(
            f".visible .entry _Z6kernel{number}Pf(\n\t.param .u64 _Z6kernel{number}Pf_param_0\n)\n{{"
        )
        for _ in range(3_000):
            a, b, c = (chance.randrange(1, 4_000) for _ in range(3))
            lines.append(chance.choice(_LINES).format(a=a, b=b, c=c))
            left -= len(lines[-1]) + 1
        lines.append("\tret;\n\n}")
        number += 1
    return "\n".join(lines).encode()


def write_program(folder: Path) -> Path:
    """Write a program whose libraries hold PTX and machine code; each library asks for the next."""
    chance = random.Random(1)  # noqa: S311 - numbers of registers, no secret
    noise = chance.randbytes(1 << 20)
    (folder / "app.exe").write_bytes(pe(imports={"part0.dll": ["next"]}, dll=False))
    for number in range(LIBRARIES):
        images = [entry(PTX, 86, text(chance, TEXT // 5), way=("lz4", "zstd")[number % 2]) for _ in range(5)]
        code = b"".join(container(image, sass(86)) for image in images)
        rest = noise * ((SIZE - len(code)) // len(noise))
        sections = {".data": rest, ".nv_fatb": code}
        library = pe(imports={f"part{number + 1}.dll": ["next"]}, sections=sections)
        (folder / f"part{number}.dll").write_bytes(library)
    return folder / "app.exe"


def carve(folder: Path, to: Path) -> list[Path]:
    """Write the device sections of a folder's libraries as files of their own."""
    found = []
    for path in sorted(folder.rglob("*")):
        image = read_image(path) if path.suffix in {".dll", ".pyd", ".so"} else None
        for section in image.sections if isinstance(image, Image) else ():
            if section.name.startswith(".nv_fatb") and section.size > 512:
                data = path.read_bytes()[section.offset : section.offset + section.size]
                carved = to / f"{len(found)}.fatbin"
                carved.write_bytes(data)
                found.append(carved)
    return found


def read(app: Path, cache: Path, seen: dict[str, list[float]], *, cold: bool) -> float:
    """Read in a process of its own; return what a person waits for."""
    if cold:
        shutil.rmtree(cache, ignore_errors=True)
    words = [sys.executable, "-c", ONE, str(app), str(cache)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, processor, memory, kernels = map(float, done.stdout.split())
    seen.setdefault("cold" if cold else "warm", []).append(processor)
    seen.setdefault("memory", []).append(memory)
    seen["kernels"] = [kernels]
    return seconds


def fetched(folder: Path) -> str:
    """Return NVIDIA's ``cuobjdump`` from its package on PyPI; empty where that cannot be had."""
    if sys.platform != "linux":
        return ""
    try:
        unpacked("nvidia-cuda-cuobjdump", "13.5.37", folder, platform="manylinux_2_17_x86_64")
    except (OSError, subprocess.SubprocessError, StopIteration):
        return ""
    tool = next((path for path in folder.rglob("cuobjdump") if path.is_file()), None)
    if tool is None:
        return ""
    tool.chmod(0o755)
    return str(tool)


def peer(tool: str, files: list[Path]) -> None:
    """Print all PTX and count its bytes."""
    for file in files:
        printing = subprocess.Popen(
            [tool, "-ptx", str(file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        subprocess.run(["wc", "-c"], stdin=printing.stdout, stdout=subprocess.DEVNULL, check=True)
        printing.wait()


def figures(folder: Path | None = None, rounds: int = 3) -> list[Row]:
    """Measure in turns."""
    seen: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        tool = shutil.which("cuobjdump") or fetched(here / "tool")
        if folder is None:
            (here / "app").mkdir()
            app = write_program(here / "app")
        else:
            app = folder / "app.exe"
            app.write_bytes(pe(dll=False))
        files = carve(app.parent, here) if tool else []
        contenders: dict[str, Callable[[], object]] = {
            "cold": partial(read, app, here / "cache", seen, cold=True),
            "warm": partial(read, app, here / "cache", seen, cold=False),
        }
        if tool:
            contenders["cuobjdump -ptx | wc"] = partial(peer, tool, files)
        times = race(contenders, rounds)
    what = f"check {seen['kernels'][0]:,.0f} kernels"
    rows = [Row(what=f"{what}, {k}", who="preflight", values=times[k], bar=BARS[k]) for k in BARS]
    rows += [Row(what=f"{what}, {k}", who="preflight, processor", values=tuple(seen[k])) for k in BARS]
    rows.append(Row(what="memory", who="preflight", values=tuple(seen["memory"]), unit="MiB", bar=MEMORY_BAR))
    other = times.get("cuobjdump -ptx | wc", ())
    note = "" if tool else "no cuobjdump here"
    return [*rows, Row(what="print all PTX", who="cuobjdump -ptx | wc", values=other, note=note)]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", type=Path)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    show(figures(asked.folder, asked.rounds))


if __name__ == "__main__":
    main()
