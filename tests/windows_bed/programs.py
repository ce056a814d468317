"""Windows programs for the tests, cross-built on the host before pytest runs."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock

from tests.windows_bed.bed import ROOT, Bed
from tests.windows_bed.tools import BedError

HERE = Path(__file__).parent
STRICT: Final = ("-Wall", "-Wextra", "-Werror")

#: Stand-ins of ``native/testing`` that tests start, and what else their compiler needs.
STAND_INS: Final[dict[str, tuple[str, ...]]] = {
    "joining_launcher": ("-municode", *STRICT),
    "show_argv": ("-municode", *STRICT),
    "asks": ("-municode", "-mwindows", *STRICT),
}


@dataclass(frozen=True, kw_only=True)
class Program:
    """One file to build: its name in the folder of programs, its C sources, further compiler arguments."""

    name: str
    sources: tuple[Path, ...]
    options: tuple[str, ...] = ()


def listed() -> tuple[Program, ...]:
    """Return every program: the bed's own and the stand-ins of ``native/testing``."""
    return (
        Program(name="exits.exe", sources=(HERE / "exits.c",), options=("-municode",)),
        *(
            Program(name=f"{name}.exe", sources=(ROOT / "native" / "testing" / f"{name}.c",), options=options)
            for name, options in STAND_INS.items()
        ),
    )


def build_programs(bed: Bed) -> Path:
    """Build what is listed, once for each state of the sources, and return the folder.

    Raises:
        BedError: the compiler refused a source.
    """
    programs = listed()
    folder = bed.folder / "programs" / _digest(programs)
    folder.parent.mkdir(exist_ok=True)
    with FileLock(bed.folder / "programs.lock"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as making:
                for program in programs:
                    _compile(bed, program, Path(making) / "bin" / program.name)
                (Path(making) / "bin").rename(folder)
    return folder


def _digest(programs: tuple[Program, ...]) -> str:
    digest = hashlib.sha256()
    for program in programs:
        digest.update(repr((program.name, program.options)).encode())
        for source in program.sources:
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _compile(bed: Bed, program: Program, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    sources = [str(source) for source in program.sources]
    command = [str(bed.tools.compiler), "-O2", "-s", *sources, "-o", str(output), *program.options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        msg = f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr[-3000:]}"
        raise BedError(msg)
