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
from scripts.staging.build import Compiler, ask_compiler, build, command_line, key_of
from tests.native_ptx import engine
from tools.windows_bed.bed import ROOT, Bed
from tools.windows_bed.tools import BedError, say

HERE = Path(__file__).parent
#: The stand-ins of the product's sources, and further compiler arguments where one needs them.
TESTING = ROOT / "native" / "testing"
OPTIONS = {"asks": ("-mwindows",)}
#: Sources that make a library instead of a program, and its file name.
LIBRARIES = {
    "redirect": "zluda_redirect.dll",
    "empty": "empty.dll",
    "says_nvcuda": "says/nvcuda.dll",
    "traces_nvcuda": "trace/nvcuda.dll",
}
#: Two stand-in SDKs: the runtime's file name in each, and the library that is linked to it.
SDKS = {"hip6": "amdhip64_6.dll", "hip7": "amdhip64_7.dll"}
#: Programs that import a library of the CPU reference, linked last.
IMPORTING = {"imports_cuda": "cpu-reference/nvcuda.dll"}
#: A program of the same source that asks for that library at the first call, and the import library for it.
DELAYED = ("imports_cuda", "delays_cuda", "nvcuda")
#: A runtime newer than the SDKs', and a layer's library that cannot do without it.
NEWER = ("newer/amdhip64_6.dll", "newer/nvcuda.dll")


@dataclass(frozen=True, kw_only=True)
class Program:
    """One program to build.

    Attributes:
        name: its path in the folder of programs.
        source: its C source.
        options: further arguments of the compiler.
        links: what it is linked to: paths in the folder of programs, built before.
    """

    name: str
    source: Path
    options: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


def listed() -> tuple[Program, ...]:
    """Return every program of one C file: the bed's own and the stand-ins of ``native/testing``."""
    linked = {"hip_runtime", "hip_library", "newer_driver", "ptx_fuzz", "ptx_host", *IMPORTING}
    sources = [HERE / "exits.c", *(s for s in sorted(TESTING.glob("*.c")) if s.stem not in linked)]
    return tuple(
        Program(name=LIBRARIES[source.stem], source=source, options=("-shared",))
        if source.stem in LIBRARIES
        else Program(
            name=f"{source.stem}.exe", source=source, options=("-municode", *OPTIONS.get(source.stem, ()))
        )
        for source in sources
    )


def linked() -> tuple[Program, ...]:
    """Return what is linked to other programs of ours, in the order in which it can be built."""
    shared = ("-shared",)
    source, delayed, library = DELAYED
    runtime, driver = NEWER
    return (
        *(
            Program(name=f"{sdk}/{name}", source=TESTING / "hip_runtime.c", options=shared)
            for sdk, name in SDKS.items()
        ),
        *(
            Program(
                name=f"{sdk}/rocblas.dll",
                source=TESTING / "hip_library.c",
                options=shared,
                links=(f"{sdk}/{name}",),
            )
            for sdk, name in SDKS.items()
        ),
        *(
            Program(
                name=f"{stem}.exe", source=TESTING / f"{stem}.c", options=("-municode",), links=(library,)
            )
            for stem, library in IMPORTING.items()
        ),
        Program(name=f"lib{library}.a", source=TESTING / f"{library}.def"),
        Program(
            name=f"{delayed}.exe",
            source=TESTING / f"{source}.c",
            options=("-municode", "-ldelayimp"),
            links=(f"lib{library}.a",),
        ),
        Program(name=runtime, source=TESTING / "hip_runtime.c", options=(*shared, "-DNEWER")),
        Program(name=driver, source=TESTING / "newer_driver.c", options=shared, links=(runtime,)),
    )


def build_programs(bed: Bed) -> Path:
    """Build the programs and the CPU reference once for each state of the sources; return the folder.

    The CPU reference (``nvcuda.dll``, ``cuda_check.exe``, …) lies in its sub-folder ``cpu-reference``, the
    PTX engine for tests beside it.

    Raises:
        BedError: the compiler refused a source.
    """
    try:
        compiler = ask_compiler((str(bed.tools.compiler),))
        key = key_of(ROOT / "native", compiler, cpu="any")
        folder = bed.folder / "programs" / _digest(key, (*listed(), *linked()))
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
        _compile(bed, program, output)
    build(ROOT / "native", output / "cpu-reference", compiler, progress=NoProgress())
    for program in linked():
        _compile(bed, program, output)
    line = command_line(compiler, engine(windows=True), output, ("-Werror",))
    _run(line, ROOT / "native")


def _digest(key: str, programs: tuple[Program, ...]) -> str:
    digest = hashlib.sha256(f"{key} {engine(windows=True)}".encode())
    for program in programs:
        digest.update(repr((program.name, program.options, program.links)).encode())
        digest.update(program.source.read_bytes())
    for header in sorted(TESTING.glob("*.h")):
        digest.update(header.read_bytes())
    return digest.hexdigest()[:16]


def _compile(bed: Bed, program: Program, folder: Path) -> None:
    """Build one program into the folder of programs."""
    output = folder / program.name
    output.parent.mkdir(parents=True, exist_ok=True)
    warnings = ("-std=c11", "-O2", "-s", "-Wall", "-Wextra")
    links = [str(folder / name) for name in program.links]
    command = [str(bed.tools.compiler), *warnings, str(program.source), "-o", str(output)]
    command += [*links, *program.options]
    if program.source.suffix == ".def":  # the compiler's companion makes import libraries
        tool = str(bed.tools.compiler).removesuffix("gcc") + "dlltool"
        command = [tool, "--input-def", str(program.source), "--output-delaylib", str(output)]
    _run(command, ROOT)


def _run(command: list[str], folder: Path) -> None:
    """Call the compiler or its companion; what it says about a refusal is the error."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        msg = f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr[-3000:]}"
        raise BedError(msg)
