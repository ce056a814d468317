"""Windows programs for the tests, cross-built on the host before pytest runs."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from scripts.errors import WorkspaceError
from scripts.model import NoProgress
from scripts.staging.build import ask_compiler, build, key_of
from scripts.staging.recipe import Compiler
from tests.windows_bed.bed import ROOT, Bed
from tests.windows_bed.tools import BedError, say

HERE = Path(__file__).parent
#: The stand-ins of the product's sources, and further compiler arguments where one needs them.
TESTING = ROOT / "native" / "testing"
OPTIONS = {"asks": ("-mwindows",)}
#: Sources that make a library instead of a program, and its file name.
LIBRARIES = {"redirect": "zluda_redirect.dll", "empty": "empty.dll"}


@dataclass(frozen=True, kw_only=True)
class Program:
    """One program to build: its name in the folder of programs, its C source, further arguments."""

    name: str
    source: Path
    options: tuple[str, ...] = ()


def listed() -> tuple[Program, ...]:
    """Return every program of one C file: the bed's own and the stand-ins of ``native/testing``."""
    sources = [HERE / "exits.c", *sorted(TESTING.glob("*.c"))]
    return tuple(
        Program(name=LIBRARIES[source.stem], source=source, options=("-shared",))
        if source.stem in LIBRARIES
        else Program(
            name=f"{source.stem}.exe", source=source, options=("-municode", *OPTIONS.get(source.stem, ()))
        )
        for source in sources
    )


def build_programs(bed: Bed) -> Path:
    """Build the programs and the CPU reference once for each state of the sources; return the folder.

    The CPU reference (``nvcuda.dll``, ``cuda_check.exe``, …) lies in its sub-folder ``cpu-reference``.

    Raises:
        BedError: the compiler refused a source.
    """
    try:
        compiler = ask_compiler((str(bed.tools.compiler),))
        key = key_of(ROOT / "native", compiler, cpu="any")
        folder = bed.folder / "programs" / _digest(key, listed())
        folder.parent.mkdir(exist_ok=True)
        with FileLock(bed.folder / "programs.lock"):
            if not folder.exists():
                say("building the test programs")
                with tempfile.TemporaryDirectory(dir=folder.parent) as making:
                    _build(bed, compiler, Path(making) / "bin")
                    (Path(making) / "bin").rename(folder)
    except WorkspaceError as error:
        raise BedError("\n".join((error.message, *error.context))) from error
    return folder


def _build(bed: Bed, compiler: Compiler, output: Path) -> None:
    output.mkdir()
    for program in listed():
        _compile(bed, program, output / program.name)
    build(ROOT / "native", output / "cpu-reference", compiler, progress=NoProgress())


def _digest(key: str, programs: tuple[Program, ...]) -> str:
    digest = hashlib.sha256(key.encode())
    for program in programs:
        digest.update(repr((program.name, program.options)).encode() + program.source.read_bytes())
    for header in sorted(TESTING.glob("*.h")):
        digest.update(header.read_bytes())
    return digest.hexdigest()[:16]


def _compile(bed: Bed, program: Program, output: Path) -> None:
    warnings = ("-std=c11", "-O2", "-s", "-Wall", "-Wextra")
    command = [str(bed.tools.compiler), *warnings, str(program.source), "-o", str(output), *program.options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        msg = f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr[-3000:]}"
        raise BedError(msg)
