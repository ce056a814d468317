"""What a person sees of ``scan``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.cli.console import Out

if TYPE_CHECKING:
    from scripts.app.scan import ScanResult
    from scripts.model import Gpu, HipRoot


_GIB = 1024**3
#: The unknowns a person is told about, with their words.
_ASKED = {"gfx": "gfx", "integrated": "kind", "memory_bytes": "memory", "driver": "driver"}
_KINDS = {True: "integrated", False: "discrete", None: "?"}


def show_scan(result: ScanResult, out: Out) -> None:
    """Show the GPUs, the HIP runtimes, what does not agree, and why something is unknown."""
    host = result.host
    _show_gpus(result, out)
    _show_hip(result, out)
    for sentence in host.disagreements:
        out.mark("warn", sentence)
    for gpu in host.gpus:
        for field, what in _ASKED.items():
            obvious = (field == "gfx" and gpu.vendor != "amd") or (field == "driver" and result.from_hipinfo)
            if field in gpu.why_unknown and not obvious:
                out.mark("unknown", f"GPU {gpu.index}, {what}: {gpu.why_unknown[field]}.")
    for sentence in result.remarks:
        out.line(sentence)
    for note in host.notes:
        out.note(note)
    out.now(_now(result))


def _show_gpus(result: ScanResult, out: Out) -> None:
    """Show the GPUs, or that there are none."""
    host = result.host
    rows = [_gpu_row(gpu, chosen=gpu.index == host.selected) for gpu in host.gpus]
    if rows:
        out.table(("#", "GPU", "gfx", "kind", "memory", "driver"), rows)
    else:
        out.mark("unknown" if result.from_hipinfo else "warn", "No GPU that a stack could use was found.")


def _show_hip(result: ScanResult, out: Out) -> None:
    """Show the HIP runtimes, those of the driver apart."""
    host = result.host
    if host.hip_roots:
        out.table(("HIP runtime", "version", "found by", "libraries"), map(_root_row, host.hip_roots))
    elif not result.from_hipinfo and any(gpu.vendor == "amd" for gpu in host.gpus):
        out.mark("warn", "No HIP runtime was found.")
    for name, version in host.driver_files.items():
        out.mark("ok", f"The display driver brought {name}, file version {version or '?'}.")


def _gpu_row(gpu: Gpu, *, chosen: bool) -> tuple[str, ...]:
    """Return the cells of one GPU; ``*`` marks the one that would be used."""
    memory = f"{gpu.memory_bytes / _GIB:.1f} GiB" if gpu.memory_bytes else "?"
    gfx = gpu.gfx or ("?" if gpu.vendor == "amd" else "")
    number = f"{gpu.index}{' *' if chosen else ''}"
    return (number, gpu.name, gfx, _KINDS[gpu.integrated], memory, gpu.driver or "?")


def _root_row(root: HipRoot) -> tuple[str, ...]:
    """Return the cells of one HIP runtime."""
    return (str(root.path), root.version or "?", root.source, ", ".join(root.libraries))


def _now(result: ScanResult) -> str:
    """Say what a person would do next."""
    gpu = result.host.selected_gpu
    if not result.from_hipinfo:
        if gpu is None:
            return "try the pipeline on the CPU reference: invoke setup"
        return f"use GPU {gpu.index}, {gpu.name}: invoke setup"
    if gpu is not None and gpu.gfx:
        return f"see which stacks are for it: invoke stacks --for-gpu={gpu.gfx}"
    return "ask for everything that hipInfo printed, and for the PCI id of the GPU"
