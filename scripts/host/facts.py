"""One look at this machine: its GPUs, the one to use, its HIP runtimes, and what does not agree.

The only room besides ``app`` that is handed an environment. Every source is a parameter, so that a
recorded machine can be looked at on any other.
"""

from __future__ import annotations

import platform as this_platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scripts.host import linux, nvidia
from scripts.host.gpu import chosen
from scripts.model import Gpu, Host


def scan_host(
    environ: Mapping[str, str],
    *,
    platform: str,
    hip_root: str = "",
    gpu: str = "",
    reader: linux.Reader | None = None,
    runner: nvidia.Run = nvidia.run,
) -> Host:
    """Look at this machine. Starts a process only where a vendor's own tool is installed.

    Args:
        environ: the environment of the person's session.
        platform: ``sys.platform``.
        hip_root: a HIP runtime's folder that goes before all others.
        gpu: the number of the GPU to use, as a scan lists it; empty for the preferred one.
        reader: the file tree of a recorded Linux machine instead of ``/``.
        runner: starts programs; tests replace it.

    Raises:
        UsageError: ``gpu`` names none, or ``hip_root`` cannot be one.
    """
    del hip_root
    tree = reader or linux.FileReader(Path("/"))
    answer = nvidia.ask(environ, platform, runner)
    gpus = numbered([*linux.amd_gpus(tree), *linux.nvidia_gpus(tree, answer.gpus)])
    notes = tuple(note for note in (answer.note, *linux.others(tree)) if note)
    return Host(
        os="windows" if platform == "win32" else "linux",
        machine=this_platform.machine(),
        gpus=gpus,
        selected=chosen(gpus, gpu),
        notes=notes,
    )


def numbered(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Number GPUs in the order given."""
    return tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus))
