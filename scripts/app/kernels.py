"""Whether the HIP libraries behind a stack hold kernels for the GPU: without them, every product fails."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from scripts.model import HipSource, Host, Stack
from scripts.preflight.backends import kernels
from scripts.staging.select import fitting_root, selected_gpu

#: HIP library to its own name and the CUDA libraries that stand on it.
STANDS_ON: Final = {"rocblas": ("rocBLAS", "cuBLAS"), "hipblaslt": ("hipBLASLt", "cuBLASLt")}


def kernel_notes(stack: Stack, host: Host, home: Path | None = None) -> tuple[str, ...]:
    """Say which libraries have kernels for other GPUs only; nothing where it cannot be seen.

    Args:
        stack: its HIP is looked at.
        host: its selected GPU is meant.
        home: the HIP runtime that came with the stack; else the installed one.
    """
    gpu = selected_gpu(host)
    root = fitting_root(stack, host) if stack.hip.source is HipSource.SDK else None
    folder = home if home is not None else root.path if root is not None else None
    if gpu is None or not gpu.gfx or folder is None:
        return ()
    return tuple(
        f"{STANDS_ON[library][0]} in {folder} has kernels for other GPUs, none for {gpu.gfx}: "
        f"{STANDS_ON[library][1]} will fail"
        for library, there in kernels(folder, gpu.gfx).items()
        if there is False
    )
