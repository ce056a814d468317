"""What is built from ``native/``, and building it with whatever compiler is here."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform as platform_module
import shlex
import shutil
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.errors import HostError, LaunchError
from scripts.model import Progress, RuntimeFile, Stack, StackKind
from scripts.osal.fs import hash_file, make_read_only
from scripts.osal.parallel import stoppable_map
from scripts.osal.process import run_captured
from scripts.osal.processes import Captured
from scripts.staging.assemble import PlannedFile
from scripts.store.cache import Cache, publish, read_manifest, write_manifest

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
            **{key: entry[key] for key in ("provides", "forwards", "soname", "symbols") if key in entry},
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
    filters = output.forwards and not compiler.zig  # which hands no --filter over
    if filters:
        line += ["-DFILTER", f"-Wl,--filter,$ORIGIN/{output.forwards}"]
    elif output.forwards:
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
        f"-Wl,-soname,{output.soname or (filters and output.forwards) or output.name}",
        "-Wl,-Bsymbolic",
        "-lpthread",
        "-lm",
        "-ldl",
    ]


#: Compilers by the names they have in PATH, best first.
NAMES: Final = ("cc", "gcc", "clang")
#: Seconds: for a compiler to say who it is, and to build one file (Zig's first run builds its C library).
ASK_TIMEOUT: Final = 60
BUILD_TIMEOUT: Final = 600
WORKERS: Final = 4
CONTEXT_LINES: Final = 12

GET_A_COMPILER: Final = {
    "linux": "install gcc or clang (Debian, Ubuntu: `apt install gcc libc6-dev`; Fedora: `dnf install gcc`), "
    "or run `pip install ziglang`",
    "win32": "run `pip install ziglang`, or put gcc or clang into PATH, or name one in CC",
}


class BuiltFile(Struct, frozen=True, kw_only=True):
    """One file that was built; ``provides`` is the CUDA library it answers for, if it is one."""

    name: str
    path: Path
    provides: str | None


def find_compiler(
    environ: Mapping[str, str],
    *,
    platform: str,
    has_zig: bool | None = None,
) -> Compiler:
    """Find a C compiler that answers: ``CC``, then PATH, then the ``ziglang`` package of this Python.

    Args:
        environ: where ``CC`` and ``PATH`` are read; a ``CC`` that does not answer is an error.
        platform: ``linux`` or ``win32``; decides how ``CC`` is split and what the hint names.
        has_zig: whether ``python -m ziglang`` exists; ``None`` asks.

    Raises:
        HostError: none answers; the hint says what to install.
    """
    hint = GET_A_COMPILER.get(platform, GET_A_COMPILER["linux"])
    if environ.get("CC"):
        words = shlex.split(environ["CC"], posix=platform != "win32")
        command = tuple(word.strip('"') for word in words)  # outside POSIX shlex leaves quotes on
        return ask_compiler(command, hint="correct or unset CC")
    tried = []
    for command in _candidates(environ, has_zig=has_zig):
        try:
            return ask_compiler(command, hint=hint)
        except HostError as error:
            tried.append(f"{shlex.join(command)}: {error.message}")
    msg = "there is no C compiler to build the CPU reference with"
    raise HostError("no-compiler", msg, context=tuple(tried), hint=hint)


def _candidates(environ: Mapping[str, str], *, has_zig: bool | None) -> Iterator[tuple[str, ...]]:
    for name in NAMES:
        found = shutil.which(name, path=environ.get("PATH"))
        if found:
            yield (found,)
    if has_zig if has_zig is not None else importlib.util.find_spec("ziglang") is not None:
        yield (sys.executable, "-m", "ziglang", "cc")


def ask_compiler(command: tuple[str, ...], *, hint: str = "") -> Compiler:
    """Ask a compiler for its version and target.

    Raises:
        HostError: it does not start, does not end or does not answer.
    """
    version = _ask((*command, "--version"), hint).splitlines()[0].strip()
    target = _ask((*command, "-dumpmachine"), hint).split()[-1]
    return Compiler(command=command, version=version, target=target)


def _ask(line: tuple[str, ...], hint: str) -> str:
    """Run a command that answers on stdout at once."""
    said = f"{shlex.join(line)} does not answer"
    try:
        done = _run(line, seconds=ASK_TIMEOUT)
    except LaunchError as error:
        raise HostError("compiler-unusable", said, context=(error.message,), hint=hint) from error
    text = done.stdout.decode("utf-8", "replace")
    if done.timed_out or done.returncode != 0 or not text.strip():
        raise HostError("compiler-unusable", said, context=_facts(done, ASK_TIMEOUT), hint=hint)
    return text


def _run(
    line: tuple[str, ...] | list[str],
    *,
    seconds: float,
    cwd: Path | None = None,
    stop: threading.Event | None = None,
) -> Captured:
    """Run a compiler; whatever ends us ends all that it has started.

    Raises:
        LaunchError: it did not start, or ``stop`` was set.
    """
    program = shutil.which(line[0]) or line[0]
    return run_captured((program, *line[1:]), timeout=seconds, cwd=cwd, stop=stop)


def _facts(done: Captured, seconds: float) -> tuple[str, ...]:
    """Say how a compiler ended, and its last words."""
    ended = f"no end after {seconds:.0f} s" if done.timed_out else f"exit code {done.returncode}"
    text = (done.stderr or done.stdout).decode("utf-8", "replace")
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return (ended, *lines[-CONTEXT_LINES:])


def host_cpu(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Name this processor's kind and features; builds for another one are not reused."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    features = next((line.partition(":")[2] for line in lines if line.startswith(("flags", "Features"))), "")
    words = " ".join(sorted(features.split())) or platform_module.processor()
    return f"{platform_module.machine()} {words}".strip()


def key_of(source_root: Path, compiler: Compiler, *, cpu: str) -> str:
    """Return the name under which a build of these sources can be kept and found again."""
    recipe = read_recipe(source_root, windows=compiler.windows)
    return build_key(compiler, read_sources(source_root, recipe), compiler.flags, cpu)


def build(
    source_root: Path,
    out: Path,
    compiler: Compiler,
    *,
    progress: Progress,
    extra: tuple[str, ...] = (),
) -> tuple[BuiltFile, ...]:
    """Build everything that ``native/outputs.toml`` lists for the compiler's target into ``out``.

    The same sources, compiler and flags give the same bytes. ``out`` is made if it is not there; what a
    failed build leaves in it is unusable, so give it a folder of its own.

    Args:
        source_root: the folder ``native``.
        out: where the files go.
        compiler: from ``find_compiler`` or ``ask_compiler``.
        progress: advanced once per file.
        extra: more flags, for tests.

    Raises:
        HostError: a file did not compile; the context is the compiler's last words.
    """
    recipe = read_recipe(source_root, windows=compiler.windows)
    out = out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    first = [output for output in recipe.outputs if not output.forwards]
    then = [output for output in recipe.outputs if output.forwards]
    names = ", ".join(output.name for output in recipe.outputs)
    progress.note(f"Compiling the CPU reference with {compiler.version}, once: {names}")
    stop = threading.Event()  # no compiler outlives a signal or a failure
    with progress.task("Compiling the CPU reference", len(recipe.outputs), unit="outputs") as advance:

        def compile_one(output: Output) -> None:
            _compile(source_root, command_line(compiler, output, out, extra), output, compiler, stop)
            advance(1)

        for batch in (first, then):  # what forwards to a library is linked against it
            stoppable_map(compile_one, batch, threads=WORKERS, stop=stop)
    return tuple(
        BuiltFile(name=output.name, path=out / output.name, provides=output.provides)
        for output in recipe.outputs
    )


def _compile(
    source_root: Path, line: list[str], output: Output, compiler: Compiler, stop: threading.Event
) -> None:
    try:
        done = _run(line, seconds=BUILD_TIMEOUT, cwd=source_root, stop=stop)
    except LaunchError as error:
        msg = f"{compiler.version} did not finish building {output.name}"
        raise HostError("compile-failed", msg, context=(error.message,), hint=_advice(compiler)) from error
    if done.timed_out or done.returncode != 0:
        msg = f"{compiler.version} could not build {output.name}"
        facts = _facts(done, BUILD_TIMEOUT)
        raise HostError("compile-failed", msg, context=facts, hint=_advice(compiler))


def _advice(compiler: Compiler) -> str:
    """Say what to do about a compiler that fails."""
    others = GET_A_COMPILER["win32" if compiler.windows else "linux"]
    return f"check that {shlex.join(compiler.command)} compiles a small C program; otherwise {others}"


PREFIX: Final = "native:"
CHECK_PROGRAM: Final = "cuda_check"


def build_key_of(origin: str) -> str | None:
    """Return the store key in a file's origin, ``None`` for files that were downloaded."""
    return origin.removeprefix(PREFIX) if origin.startswith(PREFIX) else None


def native_files(
    root: Path, stack: Stack, cache: Cache, environ: Mapping[str, str], platform: str, *, progress: Progress
) -> tuple[tuple[PlannedFile, ...], str]:
    """Return what of ours belongs to a stack, and ``done``, ``kept`` or ``skipped``.

    The reference stack is all ours; the control brings no cuda_check, so it gets our own. A translation
    layer ships its own.

    Raises:
        HostError: there is no C compiler, or it fails.
    """
    if stack.kind is StackKind.TRANSLATION:
        return (), "skipped"
    compiler = find_compiler(environ, platform=platform)
    key = key_of(root / "native", compiler, cpu=host_cpu())
    found = _load(cache, key)
    files = found if found is not None else _build(root, cache, key, compiler, progress)
    if stack.kind is not StackKind.REFERENCE:
        files = [f for f in files if Path(f.file.name).stem == CHECK_PROGRAM]
    return tuple(files), "done" if found is None else "kept"


def _load(cache: Cache, key: str) -> list[PlannedFile] | None:
    """Return an earlier build if every byte is still what was built; else it is to be built again.

    A runtime's files are further names of these, so what changed the one has changed the other.
    """
    folder = cache.tree_path(key)
    try:
        rows = read_manifest(folder)["built"]
        files = [RuntimeFile(**row, origin=PREFIX + key) for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    planned = [PlannedFile(file=f, source=folder / f.name) for f in files]
    intact = all(p.source.is_file() and hash_file(p.source) == p.file.sha256 for p in planned)
    return planned if intact else None


def _build(root: Path, cache: Cache, key: str, compiler: Compiler, progress: Progress) -> list[PlannedFile]:
    """Compile beside the final folder, then rename; another process may have been faster."""
    cache.ensure()
    final = cache.tree_path(key)
    with cache.making(final):
        found = _load(cache, key)
        if found is not None:
            return found

        def fill(work: Path) -> list[dict[str, object]]:
            built = build(root / "native", work, compiler, progress=progress)
            make_read_only(work)
            return [
                {
                    "name": f.name,
                    "sha256": hash_file(f.path),
                    "size": f.path.stat().st_size,
                    "provides": f.provides,
                }
                for f in built
            ]

        write_manifest(final, {"built": publish(final, fill)})
    loaded = _load(cache, key)
    return loaded if loaded is not None else []
