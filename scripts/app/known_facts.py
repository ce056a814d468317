"""What is known before a program starts: of the program, of the stack, and what is set for both."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.app.context import Staged, Workspace
from scripts.errors import LaunchError
from scripts.host.hip import fitting_root
from scripts.host.hip_libraries import RUNTIME, backends_in_files, backends_in_root, kernels_for
from scripts.launch.argv import PythonLine, keeps_out, read_python_line, through
from scripts.launch.environ import EnvChange
from scripts.launch.injection import LAUNCHER
from scripts.model import HipSource, Host, Lock, Runtime, Stack, StackKind
from scripts.osal.fs import long_path, read_bounded
from scripts.preflight.coverage import Provider, ReportedVersions, StackFacts
from scripts.preflight.libraries import api_table
from scripts.preflight.packaging import environments, installed, is_python
from scripts.serialize import data_table

if TYPE_CHECKING:
    from scripts.launch.profiles import AppFacts

#: Holds the files by which PyTorch gets its settings.
TORCH_FOLDER: Final = ("scripts", "inside", "torch_safe")
START: Final = "cuda_amd_start.py"
MAX_NAMES: Final = 5000
#: Bytes of a script that is looked through for its imports; of a larger one nothing is known.
MAX_SCRIPT: Final = 4 << 20
_VERSION: Final = re.compile(r"\d{1,2}\.\d")
CONTROL_NOTE: Final = "--policy=auto sets nothing with the control, which translates nothing"


class Profiled(Struct, frozen=True, kw_only=True):
    """What known programs get.

    Attributes:
        notes: the sentences that announce everything.
        args: the arguments to start with; ``None``: as they are.
        policies: what is held in PyTorch.
    """

    changes: tuple[EnvChange, ...] = ()
    notes: tuple[str, ...] = ()
    args: tuple[str, ...] | None = None
    policies: tuple[str, ...] = ()


def profile_of(
    ws: Workspace,
    staged: Staged,
    program: Path,
    args: Sequence[str],
    *,
    kinds: Sequence[str] = (),
    without: Collection[str] = (),
    cwd: Path | None = None,
    own: bool = True,
    measured: bool = False,
) -> Profiled:
    """Return what is known to be safe for a program under a translation layer.

    The reference stack gets only what names it, the control nothing. ``own`` are the settings of the table
    of programs, ``measured`` those that documents of failed probes ask for.

    Raises:
        UsageError: ``unknown-setting``: ``without`` names one that no profile has.
        LaunchError: ``static-runtime``: its script imports what cannot run on this stack.
    """
    if not own and not measured:
        return Profiled()
    if staged.stack.kind is StackKind.CONTROL:
        return Profiled(notes=(CONTROL_NOTE,) if measured else ())
    from scripts.launch.profiles import (  # noqa: PLC0415 - the control has no profiles
        changes,
        matching,
        policies_of,
        refused_imports,
    )

    gpu = staged.host.selected_gpu
    line = read_python_line(args) if is_python(program) else None
    facts = replace(
        program_facts(program, args, cwd=cwd),
        kinds=tuple(kinds),
        gfx=(gpu.gfx or "") if gpu is not None else "",
        stack=staged.stack.id,
        named_only=staged.stack.kind is StackKind.REFERENCE,
        backends=stack_facts(staged.lock, staged.stack, staged.host, staged.runtime).backends,
    )
    if own and line is not None:
        _refuse_imports(line, refused_imports(facts), cwd or Path.cwd())
    applied = matching(facts, without=without) if own else ()
    if measured:
        from scripts.app.probe_findings import measured_profile  # noqa: PLC0415 - only where it was asked for

        taken = {*policies_of(applied), *without}
        asked = measured_profile(ws, staged, taken=taken, torch="torch" in facts.packages)
        applied = (*applied, asked)
    policies = policies_of(applied)
    folder = ws.root.joinpath(*TORCH_FOLDER)
    begun, how = _begun(program, line, folder) if policies and line is not None else (None, ())
    return Profiled(
        changes=changes(applied, folder),
        notes=(*(text for profile in applied for text in profile.sentences), *how),
        args=begun,
        policies=policies,
    )


def _refuse_imports(line: PythonLine, refused: dict[str, str], cwd: Path) -> None:
    """Refuse a script, or the code of ``-c``, that imports what cannot run on the stack."""
    if not refused:
        return
    text = line.target[1] if line.target[:1] == ("-c",) else ""
    if line.script:
        with suppress(OSError):
            if long_path(
                cwd / line.script
            ).is_file():  # opening a pipe would take the script away from the program
                text = read_bounded(cwd / line.script, MAX_SCRIPT).decode("utf-8-sig", errors="replace")
    found = _imported(text, refused)
    if found:
        msg = f"{line.script or 'the code of -c'} imports {found}: {refused[found]}"
        hint = "use a translation stack, or --no-profile for a build with the shared runtime"
        raise LaunchError("static-runtime", msg, hint=hint)


def _imported(text: str, names: Collection[str]) -> str:
    """Return which of some modules a text imports; by its lines where this Python cannot read it."""
    choice = "|".join(map(re.escape, names))
    if not re.search(rf"\b(?:{choice})\b", text):
        return ""
    try:
        modules = [module.partition(".")[0] for module in _imports(text)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        line = rf"(?:^|;)[ \t]*(?:from[ \t]+|import[ \t](?:[\w. \t]+,)*[ \t]*)({choice})\b"
        modules = re.findall(line, text, re.MULTILINE)
    return next((module for module in modules if module in names), "")


def _imports(text: str) -> Iterator[str]:
    """Yield the modules that statements of a text import; a text for another Python is a ``SyntaxError``."""
    import ast  # noqa: PLC0415 - few scripts name what is refused
    import warnings  # noqa: PLC0415 - as above

    with warnings.catch_warnings(action="ignore"):
        tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def program_facts(program: Path, args: Sequence[str] = (), *, cwd: Path | None = None) -> AppFacts:
    """Return what is known of a program by itself, without a stack or a GPU."""
    from scripts.launch.profiles import AppFacts  # noqa: PLC0415 - as above

    line = read_python_line(args) if is_python(program) else None
    packages = installed(environments(program)) if line is not None else ()
    return AppFacts(
        name=program.name,
        files=tuple(_beside(program, line, cwd=cwd)),
        packages={package.name: package.version for package in packages},
        args=tuple(args),
    )


def _begun(program: Path, line: PythonLine, folder: Path) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the arguments by which our settings get in where PYTHONPATH does not, and say so."""
    why = keeps_out(line, _names(program.resolve().parent))
    if not why:
        return None, ()
    if not line.target:
        return None, (f"{why} keeps the settings for PyTorch out of what Python reads from its input",)
    note = f"{why} keeps PYTHONPATH out: the program begins in {START}, which runs it with the settings"
    reach = "Pythons that it starts itself without multiprocessing are not reached"
    return through(line, str(folder / START)), (note, reach)


def _beside(program: Path, line: PythonLine | None, *, cwd: Path | None) -> Iterator[str]:
    """Yield names beside the program, or beside what an interpreter runs."""
    if line is None:
        yield from _names(program.parent)
    elif line.script:
        script = (cwd or Path.cwd()) / line.script
        yield from _names(script if _is_folder(script) else script.parent)
        yield from _own_names(script)
    elif line.module and re.fullmatch(r"[\w.]+", line.module):
        yield line.module.partition(".")[0]
        yield from _names(cwd or Path.cwd())


def _is_folder(path: Path) -> bool:
    try:
        return long_path(path).is_dir()
    except OSError:  # a name that no file can have
        return False


def _own_names(script: Path) -> Iterator[str]:
    """Yield the script's name, and what a profile may ask for one folder below it."""
    yield script.name
    yield from (f"modules/{inner}" for inner in _names(script.parent / "modules"))


def _names(folder: Path) -> Iterator[str]:
    """Yield the names in a folder; none where it cannot be listed."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in itertools.islice(entries, MAX_NAMES):
            yield entry.name


def stack_facts(
    lock: Lock, stack: Stack, host: Host, runtime: Runtime | None, environ: Mapping[str, str] | None = None
) -> StackFacts:
    """Put together what a stack has for programs; what is unknown stays ``None``.

    ``environ`` is what a program started now would inherit.
    """
    gpu = host.selected_gpu
    gfx = (gpu.gfx or "") if gpu is not None else ""
    names = _file_names(lock, stack, runtime)
    backends, places, hip = _hip(stack, host, runtime)
    return StackFacts(
        id=stack.id,
        kind=stack.kind,
        os=stack.requires.os or (host.os if stack.kind is StackKind.REFERENCE else ""),
        providers=_providers(lock, stack, runtime),
        api=api_table(stack.api) if stack.api else None,
        ptx=stack.ptx or "",
        ptx_assumed=bool(stack.ptx) and not any(_is_release(part, stack.ptx) for part in stack.parts),
        exports=_Exports(runtime) if not stack.api else {},
        backends=backends,
        kernels=kernels_for(places, gfx) if places is not None else {},
        machines=_machines(stack, names),
        gfx=gfx,
        hip=hip,
        launcher=LAUNCHER in names,
        reported=_reported(stack, environ or {}),
    )


def _reported(stack: Stack, environ: Mapping[str, str]) -> ReportedVersions | None:
    """Say which CUDA version and capability a stack's driver reports; what the lock sets comes first."""
    own = {policy.name: policy.value for policy in stack.env if policy.value is not None and not policy.only}
    return reported_versions(stack.id, (stack.ptx or "", stack.api or ""), {**environ, **own})


def reported_versions(
    stack: str, releases: Sequence[str], environ: Mapping[str, str]
) -> ReportedVersions | None:
    """Return what a stack reports in an environment; ``None`` where that is not known.

    ``releases`` are those whose tables describe it, the nearest first; ``environ`` is what its driver will
    see.
    """
    rows = data_table("reported.toml")["reported"]
    keys = [("release", release) for release in releases] + [("stack", stack)]
    row = next((row for kind, name in keys for row in rows if name and row.get(kind) == name), None)
    if row is None:
        return None

    def value(name: str) -> str:
        given = environ.get(row.get(f"{name}_from", ""), "")
        return given if _VERSION.fullmatch(given) else str(row[name])

    return ReportedVersions(cuda=value("cuda"), capability=value("capability"), source=row["source"])


def _is_release(part: str, table: str | None) -> bool:
    """Whether an artifact (``zluda-windows-v6``) is the release that a table (``zluda-v6``) was read from."""
    name, _, release = (table or "").partition("-")
    return part.startswith(f"{name}-") and part.endswith(f"-{release}") and part.count("-v") == 1


def _providers(lock: Lock, stack: Stack, runtime: Runtime | None) -> dict[str, Provider]:
    """Say which file serves which library: the staged files, else what the lock promises."""
    if runtime is not None:
        return {f.provides: Provider(file=f.name, needs=f.needs) for f in runtime.files if f.provides}
    return {
        member.provides: Provider(file=member.name, needs=member.needs)
        for part in stack.parts
        for member in lock.artifacts[part].members
        if member.provides
    }


def _file_names(lock: Lock, stack: Stack, runtime: Runtime | None) -> set[str]:
    if runtime is not None:
        return {file.name.lower() for file in runtime.files}
    return {member.name.lower() for part in stack.parts for member in lock.artifacts[part].members}


def _hip(
    stack: Stack, host: Host, runtime: Runtime | None
) -> tuple[dict[str, bool | None], Path | None, str]:
    """Say which HIP libraries are there, in which root, and how a person calls it."""
    if stack.hip.source is HipSource.PARTS:
        if runtime is None or runtime.path is None:
            return {}, None, "the stack's own HIP, which is not staged"
        return backends_in_files(f.name for f in runtime.files), runtime.path / "hip", "the stack's own HIP"
    root = fitting_root(stack, host) if stack.hip.source is not HipSource.NONE else None
    if root is None:
        return {}, None, f"HIP {stack.hip.range}".strip()
    found = backends_in_root(root.libraries)
    if any(name.lower().startswith(RUNTIME) for name in host.driver_files):
        found[RUNTIME] = True  # the display driver brings it
    return found, root.path, f"HIP {root.version or ''} in {root.path}"


def _machines(stack: Stack, names: Iterable[str]) -> frozenset[str]:
    """Say which processors' programs a stack can serve."""
    if stack.kind is StackKind.CONTROL:
        return frozenset({"x86_64", "x86", "aarch64"})
    return frozenset({"x86_64", *({"x86"} if f"32/{LAUNCHER}" in set(names) else ())})


class _Exports(Mapping[str, frozenset[str]]):
    """What the staged files really export, for stacks without a call table; read file by file when asked.

    Most programs need few of a stack's libraries and many need none, and reading takes time.
    """

    def __init__(self, runtime: Runtime | None) -> None:
        path = runtime.path if runtime is not None else None
        files = runtime.files if runtime is not None else ()
        self._files = {f.provides: path / f.name for f in files if f.provides and path is not None}
        self._read: dict[str, frozenset[str]] = {}

    def __getitem__(self, library: str) -> frozenset[str]:
        """Read one library's exports, once. A file that is no image exports nothing."""
        if library not in self._read:
            from scripts.binary.image import Unreadable, read_image  # noqa: PLC0415 - see above

            image = read_image(self._files[library], exports=True)
            if isinstance(image, Unreadable):
                raise KeyError(library)
            self._read[library] = frozenset(image.exports)
        return self._read[library]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)
