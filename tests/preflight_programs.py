"""Programs and stacks for tests of preflight: small files that ask for what a test wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.model import StackKind
from scripts.preflight.coverage import Provider, StackFacts, cover
from scripts.preflight.examine import Examined, examine
from scripts.preflight.kernels import KernelStore
from scripts.preflight.libraries import ApiTable, CallSupport, api_table
from scripts.preflight.unusable import kernels_of
from scripts.preflight.verdict import Judged, judge
from tests.pe_files import pe

HIP = ("amdhip64", "rocblas", "hipblaslt", "rocsparse", "miopen")
NEEDS = {
    "nvcuda": ("nvcuda.dll", ("amdhip64",)),
    "cublas12": ("cublas64_12.dll", ("rocblas", "hipblaslt")),
    "cublaslt12": ("cublasLt64_12.dll", ("hipblaslt",)),
    "cudnn9": ("cudnn64_9.dll", ("miopen", "amdhip64")),
    "cufft11": ("cufft64_11.dll", ()),
    "cusparse12": ("cusparse64_12.dll", ("rocsparse",)),
    "nvml": ("nvml.dll", ()),
}


def counts(api: ApiTable, library: str) -> tuple[int, int]:
    """How many functions of a library work, and how many there are."""
    known = list(api.calls.get(library, {}).values())
    return known.count(CallSupport.IMPLEMENTED), len(known)


def zluda(**changes: object) -> StackFacts:
    """A stack like ZLUDA v6-preview.69 with everything of HIP behind it."""
    values: dict[str, object] = {
        "id": "zluda-test",
        "kind": StackKind.TRANSLATION,
        "os": "windows",
        "providers": {key: Provider(file=file, needs=needs) for key, (file, needs) in NEEDS.items()},
        "api": api_table("zluda-v6-preview.69"),
        "ptx": "zluda-v6-preview.69",
        "backends": dict.fromkeys(HIP, True),
        "gfx": "gfx1200",
        "hip": "HIP 6.4.2",
        "launcher": True,
    }
    return StackFacts(**(values | changes))  # type: ignore[arg-type]  # fields by name


def ship(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write a program's files; return the first."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / next(iter(files))


def exe(imports: Mapping[str, Sequence[str]] | None = None, **more: object) -> bytes:
    """A program; it imports what every program does, too."""
    return pe(imports={**(imports or {}), "KERNEL32.dll": ["ExitProcess"]}, dll=False, **more)  # type: ignore[arg-type]  # options by name


def dll(imports: Mapping[str, Sequence[str]] | None = None, **more: object) -> bytes:
    """A library."""
    return pe(imports=imports or {"KERNEL32.dll": ["Sleep"]}, **more)  # type: ignore[arg-type]  # options by name


def examined(program: Path, tmp_path: Path) -> Examined:
    """Read a program with a cache of the test's own."""
    return examine(program, cache=tmp_path / "cache", kernels=KernelStore(tmp_path / "kernels"))


def judged(program: Path, tmp_path: Path, stack: StackFacts | None = None) -> Judged:
    """Judge a program under a stack."""
    found, stack = examined(program, tmp_path), stack or zluda()
    kernels = kernels_of(found.closure, KernelStore(tmp_path / "kernels"), stack)
    return judge(found.closure, cover(found.closure.needs, stack), found.kinds, stack, kernels)
