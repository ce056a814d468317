"""What the doctor looks at: this machine, the libraries in a program's folder, kernels its log misses."""

from __future__ import annotations

import base64
import csv
import fnmatch
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from scripts.app.compile_cache import compile_cache
from scripts.app.context import Workspace, cache_of, host_of, lock_of, newest
from scripts.app.known_facts import stack_facts
from scripts.app.loader_look import missing_at_start
from scripts.app.preflight import CACHE_FOLDER, kernel_store
from scripts.app.verify import verify_active
from scripts.binary.properties import company, file_version
from scripts.doctor.machine import WORTH_A_LOOK, Facts, Line, MachineState, StageFact, Status
from scripts.doctor.program_libraries import NVIDIA_NAME, ZLUDA_MARK, FoundLibrary, Missing
from scripts.errors import WorkspaceError
from scripts.host.gpu import AMD
from scripts.host.hip_libraries import RUNTIME, kernels_for
from scripts.host.windows_registry import WinRegistry, system32, threat_events, windows_build
from scripts.launch.backends import asked_of_hip, offered_by
from scripts.lock.reader import find_stack
from scripts.model import Host, StackKind
from scripts.osal.fs import free_space, hash_file, long_path, read_bounded
from scripts.osal.paths import home_folder
from scripts.placement.journal import Journal, JournalStep
from scripts.placement.layout import Layout
from scripts.placement.rollback import REAL
from scripts.placement.state import load
from scripts.preflight.coverage import StackFacts
from scripts.preflight.examine import examine
from scripts.preflight.kernels import KernelReport
from scripts.preflight.loading import MissingCudaLibrary, missing_cuda_library
from scripts.preflight.packaging import environments, list_folder
from scripts.preflight.unusable import BASIS, kernel_fate, kernels_of, missing_sentence
from scripts.staging.runtimes import load_runtime, read_history

VC_RUNTIME: Final = ("vcruntime140_1.dll", "msvcp140.dll")
#: What programs find on PATH before what is meant.
_OFFERED: Final = re.compile(r"(?:amdhip64\w*|rocblas|nvcuda|cublas64_\d+|cudnn64_\d+)\.dll", re.IGNORECASE)


def look_around(ws: Workspace, host: Host | None = None) -> MachineState:
    """Look at everything: reads the active stack in full, starts what ``scan`` starts, asks the event log."""
    seen = host if host is not None else host_of(ws)
    windows = ws.platform == "win32"
    gpu = seen.selected_gpu
    gfx = gpu.gfx if gpu is not None and gpu.vendor == AMD else None
    stage = _stage(ws)
    translation = stage is not None and stage.translation
    cache = compile_cache(ws)
    return MachineState(
        host=seen,
        kernels={str(root.path): kernels_for(root.path, gfx or "") for root in seen.hip_roots},
        stage=stage,
        variables=variables_of(ws.environ),
        on_path=on_path(ws.environ) if windows else {},
        folders=folders_of(ws),
        free={"store": _free(ws.cache_root), "stage": _free(ws.stage)},
        vc_runtime=_vc_runtime(system32(ws.environ)) if windows else None,
        missing_functions=_missing_functions(ws, seen) if windows and translation else None,
        cache=(str(cache.folder), cache.bytes) if cache is not None and cache.files else None,
        threats=threat_events(ws.environ) if windows else None,
        windows_build=windows_build(WinRegistry()) if windows else None,
    )


def facts_of(ws: Workspace, host: Host, *, amd: bool | None = None) -> Facts:
    """Return what is known of this machine, for texts that may come from it.

    A machine without an AMD GPU tells nothing: the text is from another one.
    """
    gpus = [gpu for gpu in host.gpus if gpu.vendor == AMD]
    if not gpus:
        return Facts(amd=amd)
    ordered = sorted(gpus, key=lambda gpu: gpu.index != host.selected)
    kinds = {gpu.integrated for gpu in gpus}
    return Facts(
        os=host.os,
        amd=amd,
        gfx=tuple(gpu.gfx for gpu in ordered if gpu.gfx),
        mixed=None if None in kinds else len(kinds) > 1,
        hip=tuple(root.version for root in host.hip_roots if root.version),
        libraries=frozenset(name for root in host.hip_roots for name in root.libraries),
        variables=frozenset(name.upper() for name, value in ws.environ.items() if value),
        non_ascii=not all(path.isascii() for path in folders_of(ws).values()),
    )


def with_machine(facts: Facts, machine: MachineState) -> Facts:
    """Add what only a look at everything tells."""
    taken = bool(machine.threats) or (machine.stage is not None and machine.stage.state == "missing")
    known = machine.threats is not None or machine.stage is not None
    return replace(
        facts,
        vc_runtime=None if machine.vc_runtime is None else bool(machine.vc_runtime),
        driver_lacks=None if machine.missing_functions is None else bool(machine.missing_functions),
        vanished=taken if known else None,
    )


def variables_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that bear on CUDA, HIP and loading."""
    return {
        name: value
        for name, value in environ.items()
        if value and any(fnmatch.fnmatchcase(name.upper(), pattern) for pattern in WORTH_A_LOOK)
    }


def folders_of(ws: Workspace) -> dict[str, str]:
    """Name the folders whose characters matter."""
    return {
        "checkout": str(ws.root),
        "store": str(ws.cache_root),
        **({"home": str(home)} if (home := home_folder()) is not None else {}),
        "temporary files": tempfile.gettempdir(),
    }


def on_path(environ: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the folders in PATH that hold HIP or CUDA libraries; the system folder has the driver's own."""
    path = next((value for name, value in environ.items() if name.upper() == "PATH"), "")
    found: dict[str, tuple[str, ...]] = {}
    for part in dict.fromkeys(part.strip().strip('"') for part in path.split(";")):
        folder = Path(part)
        if not part or folder.name.lower() == "system32":
            continue
        with suppress(OSError):
            names = sorted(entry.name for entry in folder.iterdir() if _OFFERED.fullmatch(entry.name))
            found |= {part: tuple(names)} if names else {}
    return found


def _stage(ws: Workspace) -> StageFact | None:
    """Verify the active stack in full; ``None`` where lock or history cannot be read."""
    try:
        active, verified = read_history(ws.stage).active, verify_active(ws)
        if active is None or verified is None:
            return StageFact(state="none")
        stack = lock_of(ws).stacks.get(active.stack)
    except WorkspaceError:
        return None
    return StageFact(
        state=verified.status,
        stack=active.stack,
        translation=stack is not None and stack.kind is StackKind.TRANSLATION,
        details=verified.details,
    )


def _free(place: Path) -> int | None:
    """Return the free space where a folder is or will be."""
    for folder in (place, *place.parents):
        if folder.is_dir():
            with suppress(OSError):
                return free_space(folder)
    return None


def _vc_runtime(folder: Path) -> str:
    """Return the older version of its two DLLs; empty where one is missing."""
    versions = [file_version(folder / name) for name in VC_RUNTIME]
    known = [version for version in versions if version]
    return min(known, key=_numbers) if len(known) == len(VC_RUNTIME) else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _missing_functions(ws: Workspace, host: Host) -> tuple[str, ...] | None:
    """Return what the layer's nvcuda imports from amdhip64 that no runtime here exports."""
    active = read_history(ws.stage).active
    runtime = load_runtime(cache_of(ws), active.digest, stack=active.stack) if active else None
    if runtime is None or runtime.path is None:
        return None
    wanted = asked_of_hip(runtime.path / "nvcuda.dll")
    places = [system32(ws.environ), *(root.path / "bin" for root in host.hip_roots)]
    files = [path for place in places for path in sorted(place.glob(f"{RUNTIME}*.dll"))]
    exports = [names for path in files if (names := offered_by(path))]
    if not wanted or not exports:
        return None
    return min((tuple(sorted(wanted - names)) for names in exports), key=len)


_CUDA: Final = re.compile(
    r"(?:nvcuda|cu(?:blas|blaslt|sparse|dnn|fft|dart|solver|rand)\w*|nv(?:rtc|ml|api|toolsext)\w*|caffe2_nvrtc)\.dll|"
    r"lib(?:cuda|cublas|cublaslt|cusparse|cudnn|cufft|cudart|nvrtc|nvidia-ml)\S*\.so(?:\.\d+)*",
    re.IGNORECASE,
)
#: Of a larger library only this much is searched for a name.
SEARCHED: Final = 96 * 1024 * 1024
#: Packages' lists of files; larger ones are no such lists.
MAX_RECORD: Final = 8 * 1024 * 1024


def libraries_of(program: Path) -> tuple[FoundLibrary, ...]:
    """Read every CUDA library the program ships or, for an interpreter, its PyTorch brings."""
    folder = program.parent
    found = dict.fromkeys(_named(folder), folder)
    for site in environments(program):
        found |= dict.fromkeys(_named(site / "torch" / "lib"), site)
    records = _records({site for site in found.values() if site != folder})
    return tuple(_library(path, base, records) for path, base in sorted(found.items()))


def pinned_hashes(ws: Workspace) -> dict[str, str]:
    """Return the hashes of every pinned file and of every assembled one, with where they belong."""
    found: dict[str, str] = {}
    with suppress(WorkspaceError):
        for artifact in lock_of(ws).artifacts.values():
            found |= {member.sha256: artifact.id for member in artifact.members if member.sha256}
        for generation in read_history(ws.stage).generations:
            runtime = load_runtime(cache_of(ws), generation.digest, stack=generation.stack)
            found |= {file.sha256: generation.stack for file in (runtime.files if runtime else ())}
    return found


def placed_files(folder: Path) -> dict[str, str]:
    """Return what we placed beside the program, with the hash it had; empty where nothing is placed."""
    journal: Journal | None = None
    with suppress(WorkspaceError, OSError):
        journal = load(Layout(folder), REAL)
    if journal is None or journal.step is not JournalStep.COMMITTED:
        return {}
    return {action.path: action.sha256 for action in journal.actions}


def missing_imports(
    ws: Workspace, program: Path, libraries: Sequence[FoundLibrary], host: Host
) -> list[Missing]:
    """Name what the program and its CUDA libraries import and is nowhere.

    HIP's folders count as well, since `wrap` puts them on the search path.
    """
    later = [program.parent / library.path for library in libraries]
    later = [path for path in later if long_path(path).is_file()]
    hip = [root.path / "bin" for root in host.hip_roots]
    return missing_at_start(program, ws.environ, ws.platform, more=hip, later=later)


def _named(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in list_folder(folder, deep=True).files if _CUDA.fullmatch(path.name))


def _library(path: Path, base: Path, records: dict[str, str]) -> FoundLibrary:
    name = path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()
    maker = company(path)
    return FoundLibrary(
        path=name,
        sha256=hash_file(path),
        company=maker,
        version=file_version(path) or "",
        mentions_zluda=NVIDIA_NAME not in maker.lower() and _mentions(path, ZLUDA_MARK),
        recorded=records.get(name.casefold(), ""),
    )


def _mentions(path: Path, mark: bytes) -> bool:
    with path.open("rb") as stream:
        return mark in stream.read(SEARCHED).lower()


def _records(sites: set[Path]) -> dict[str, str]:
    """Return the hashes that PyTorch's package was installed with, by path below the packages' folder."""
    found: dict[str, str] = {}
    for record in (path for site in sites for path in site.glob("torch-*.dist-info/RECORD")):
        with suppress(OSError, ValueError, csv.Error):
            text = read_bounded(record, MAX_RECORD).decode()
            for row in csv.reader(text.splitlines()):
                if len(row) > 1 and row[1].startswith("sha256="):
                    found[row[0].casefold()] = _hex(row[1].removeprefix("sha256="))
    return found


def _hex(digest: str) -> str:
    """Turn the digests of RECORD (base64 for URLs, unpadded) into hex."""
    return base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex()


#: What a layer answers when a kernel or its module is not there: 500, 999 and 209.
_SIGNS: Final = re.compile(
    rb"named symbol not found|CUDA_ERROR_NOT_FOUND|cudaErrorSymbolNotFound|CUDA_ERROR_UNKNOWN"
    rb"|cudaErrorUnknown|NO_BINARY_FOR_GPU|NoKernelImageForDevice|(?:error|code|result|status)\W{0,12}(?:500|999|209)\b",
    re.IGNORECASE,
)
_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_$]{2,4000}")
#: So many kernels are explained, and so many different words of a log are looked up.
SHOWN: Final = 3
MAX_NAMES: Final = 20_000
_STACK_LOOKED_AT: Final = "the active stack"
_LOOKED_AT: Final = "the PTX in the program's files against the table of the stack's release"


def kernel_lines(ws: Workspace, program: Path, text: bytes) -> tuple[Line, ...]:
    """Say of the kernels that a log names whether the active stack drops them.

    Empty where the log has no sign of a missing kernel, or no stack with a PTX table is active.
    """
    text = text.replace(b"\0", b"")  # text in two bytes a character is read as well
    now = read_history(ws.stage).active
    if now is None or not _SIGNS.search(text):
        return ()
    lock = lock_of(ws)
    stack = stack_facts(lock, find_stack(lock, now.stack), host_of(ws), newest(ws, now.stack))
    if not stack.ptx:
        return ()
    store = kernel_store(ws)
    closure = examine(program, cache=ws.state_root / CACHE_FOLDER, kernels=store).closure
    reports = ((v.path.name, store.get(v.facts.device)) for v in closure.visited if v.facts.device)
    files = [(name, report) for name, report in reports if report is not None]
    lines = tuple(_named_kernels(text, files, stack))[:SHOWN]
    lost = [file.tally for file in kernels_of(closure, store, stack) if file.tally.missing]
    if lines or not lost:
        return lines
    worst = max(lost, key=lambda tally: len(tally.missing))
    shown = f"the output names no kernel, but {missing_sentence(worst)}, {BASIS}"
    return (Line(status=Status.WARN, topic="kernels", text=shown, looked_at=_LOOKED_AT),)


def _named_kernels(text: bytes, files: list[tuple[str, KernelReport]], stack: StackFacts) -> Iterator[Line]:
    """Yield what became of each kernel that a log names by its mangled or plain name, losses first."""
    known = {n for _, report in files for c in report.containers for image in c.images for n in image.kernels}
    words = list(dict.fromkeys(_NAME.findall(text)))[:MAX_NAMES]
    found = [kernel_fate(word, files, stack) for word in map(bytes.decode, words) if word in known]
    for fate in sorted((one for one in found if one is not None), key=lambda one: not one.fate.missing):
        status = Status.FAIL if fate.fate.missing else Status.OK
        yield Line(status=status, topic="kernels", text=fate.sentence, looked_at=_LOOKED_AT)


def library_lines(ws: Workspace, names: Iterable[str], host: Host) -> tuple[Line, ...]:
    """Say of each library of NVIDIA's that was not found what brings it; nothing about others."""
    return tuple(
        Line(status=Status.FAIL, topic="program", text=one.outside, looked_at=_STACK_LOOKED_AT)
        for one in _libraries_not_found(ws, names, host)
    )


def is_lacking(ws: Workspace, names: Iterable[str], host: Host) -> bool:
    """Whether the active stack has none of these libraries of NVIDIA's, so that it does not help."""
    found = _libraries_not_found(ws, names, host)
    return bool(found) and all(one.stack and not one.served for one in found)


def _libraries_not_found(ws: Workspace, names: Iterable[str], host: Host) -> tuple[MissingCudaLibrary, ...]:
    """Compare libraries of NVIDIA's with what the active stack has; others are left out."""
    names = [name for name in dict.fromkeys(names) if missing_cuda_library(name, stack="", provided=())]
    if not names:
        return ()
    now = read_history(ws.stage).active
    stack, provided = "", frozenset[str]()
    if now is not None:
        lock = lock_of(ws)
        facts = stack_facts(lock, find_stack(lock, now.stack), host, newest(ws, now.stack))
        stack, provided = now.stack, frozenset(facts.providers)
    found = (missing_cuda_library(name, stack=stack, provided=provided) for name in names)
    return tuple(one for one in found if one is not None)
