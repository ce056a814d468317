"""One look at this machine for the doctor: everything ``doctor.examine`` judges, gathered here."""

from __future__ import annotations

import fnmatch
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from scripts.app.compiling import compile_cache
from scripts.app.context import Workspace, cache_of, host_of, lock_of
from scripts.app.verify import verify_active
from scripts.binary.pe_version import file_version
from scripts.doctor.facts import Facts
from scripts.doctor.machine import AMD, Machine, StageFact
from scripts.doctor.variables import WORTH_A_LOOK
from scripts.errors import WorkspaceError
from scripts.host.hip_libraries import RUNTIME, kernels_for
from scripts.host.windows import system32, threat_events
from scripts.host.windows_build import windows_build
from scripts.host.windows_scan import WinRegistry
from scripts.launch.backends import asked_of_hip, offered_by
from scripts.model import Host, StackKind
from scripts.osal.fs import free_space
from scripts.osal.user_path import home_folder
from scripts.staging.generations import read_history
from scripts.staging.runtimes import load_runtime

VC_RUNTIME: Final = ("vcruntime140_1.dll", "msvcp140.dll")
#: What programs find on PATH before what is meant.
_OFFERED: Final = re.compile(r"(?:amdhip64\w*|rocblas|nvcuda|cublas64_\d+|cudnn64_\d+)\.dll", re.IGNORECASE)


def look_around(ws: Workspace, host: Host | None = None) -> Machine:
    """Look at everything: reads the active stack in full, starts what ``scan`` starts, asks the event log."""
    seen = host if host is not None else host_of(ws)
    windows = ws.platform == "win32"
    gpu = seen.selected_gpu
    gfx = gpu.gfx if gpu is not None and gpu.vendor == AMD else None
    stage = _stage(ws)
    translation = stage is not None and stage.translation
    cache = compile_cache(ws)
    return Machine(
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


def with_machine(facts: Facts, machine: Machine) -> Facts:
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
