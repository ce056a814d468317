"""What is built from ``native/``: the outputs, their sources and the compiler's arguments."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

#: Every compiler we accept knows these. Contraction lets a * b + c be one instruction; -s keeps debug data,
#: and with it paths and times, out of the files.
FLAGS: Final = ("-std=c11", "-O3", "-ffp-contract=fast", "-fvisibility=hidden", "-Wall", "-Wextra", "-s")

#: What GNU's Windows linker is given so that one source gives one hash: no time, no address from the path.
SAME_BYTES: Final = ("-Wl,--no-insert-timestamp", "-Wl,--disable-auto-image-base")

RECIPE_FILE: Final = "outputs.toml"


class Compiler(Struct, frozen=True, kw_only=True):
    """A C compiler that answered: how it is called, what it calls itself, what it compiles for."""

    command: tuple[str, ...]
    version: str
    target: str

    @property
    def windows(self) -> bool:
        """Whether its output runs on Windows."""
        return any(word in self.target for word in ("mingw", "windows", "cygwin"))

    @property
    def zig(self) -> bool:
        """Whether this is Zig's compiler, which adds checks that trap unless a flag forbids them."""
        return any("zig" in Path(part).name.casefold() for part in self.command)

    @property
    def flags(self) -> tuple[str, ...]:
        """What every compilation gets."""
        if self.zig:
            return (*FLAGS, "-fno-sanitize=all")
        return (*FLAGS, "-static-libgcc" if self.windows else "-fPIC")


class Output(Struct, frozen=True, kw_only=True):
    """One file to build: a library, a program, or a library that only leads to another (``forwards``).

    On Linux a library is loaded by its ``soname``, which is its file's name unless the recipe gives another,
    and its symbols may bear a version (``symbols``, a linker script).
    """

    name: str
    sources: tuple[str, ...]
    provides: str | None = None
    forwards: str | None = None
    soname: str | None = None
    symbols: str | None = None
    program: bool = False


class Recipe(Struct, frozen=True, kw_only=True):
    """Everything ``native/outputs.toml`` says for one operating system; paths are below ``native/``."""

    outputs: tuple[Output, ...]
    headers: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that the result depends on, each once, sorted."""
        names = {name for output in self.outputs for name in output.sources}
        scripts = {output.symbols for output in self.outputs if output.symbols}
        return tuple(sorted(names | scripts | set(self.headers) | {RECIPE_FILE}))


def read_recipe(source_root: Path, *, windows: bool) -> Recipe:
    """Read what is built for Windows or for Linux; outputs that the system has no name for are left out."""
    data = tomllib.loads((source_root / RECIPE_FILE).read_text(encoding="utf-8"))
    system = "windows" if windows else "linux"
    libraries = [
        Output(
            name=entry[system],
            sources=(*entry["sources"], *([] if "forwards" in entry else data["common"])),
            provides=entry.get("provides"),
            forwards=entry.get("forwards"),
            soname=entry.get("soname"),
            symbols=entry.get("symbols"),
        )
        for entry in data["library"]
        if system in entry
    ]
    programs = [
        Output(name=entry[system], sources=tuple(entry["sources"]), program=True)
        for entry in data["program"]
        if system in entry
    ]
    return Recipe(outputs=(*libraries, *programs), headers=tuple(data["headers"]))


def read_sources(source_root: Path, recipe: Recipe) -> dict[str, bytes]:
    """Return the content of every file that the result depends on."""
    return {name: (source_root / name).read_bytes() for name in recipe.files}


def build_key(compiler: Compiler, sources: Mapping[str, bytes], flags: tuple[str, ...], cpu: str) -> str:
    """Name a build by all that goes into it: 64 hex digits, the same wherever the sources lie."""
    parts = {
        "compiler": [compiler.version, compiler.target],
        "sources": {name: hashlib.sha256(body).hexdigest() for name, body in sources.items()},
        "flags": flags,
        "cpu": cpu,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def command_line(compiler: Compiler, output: Output, out: Path, extra: tuple[str, ...] = ()) -> list[str]:
    """Return the one call that compiles and links an output; it runs in the source folder."""
    line = [*compiler.command, *compiler.flags, *extra, *output.sources, "-o", str(out / output.name)]
    if output.forwards:
        line += ["-Wl,--no-as-needed", str(out / output.forwards), "-Wl,-rpath,$ORIGIN"]
    shared = () if output.program else ("-shared",)
    if compiler.windows:
        return [*line, *shared, *(() if compiler.zig else SAME_BYTES)]
    if output.program:
        return [*line, "-ldl"]
    if output.symbols:
        line.append(f"-Wl,--version-script={output.symbols}")
    return [
        *line,
        *shared,
        f"-Wl,-soname,{output.soname or output.name}",
        "-Wl,-Bsymbolic",
        "-lpthread",
        "-lm",
        "-ldl",
    ]
