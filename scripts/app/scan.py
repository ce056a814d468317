"""``scan``: the machine, as far as it can be known without starting a CUDA program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from scripts.app.context import Workspace
from scripts.errors import ExitCode, UsageError
from scripts.host.facts import host_from_hipinfo, scan_host
from scripts.host.support import driver_notes, releases, support
from scripts.model import Host
from scripts.serialize import JsonRecord

#: No hipInfo output is longer; a file that is holds something else.
CAP: Final = 4 * 1024 * 1024


class ScanResult(JsonRecord, frozen=True, kw_only=True):
    """What a look at the machine showed.

    Attributes:
        host: the facts, with the reason for each that is unknown.
        remarks: what AMD and users say about the selected GPU and the HIP versions found.
        from_hipinfo: the facts come from the output of another machine.
    """

    host: Host
    remarks: tuple[str, ...] = ()
    from_hipinfo: bool = False
    exit_code: int = ExitCode.OK

    JSON = (
        "os=host.os machine=host.machine gpus=host.gpus selected=host.selected hip_roots=host.hip_roots "
        "driver_files=host.driver_files disagreements=host.disagreements remarks notes=host.notes "
        "from_hipinfo"
    )


def scan(ws: Workspace, *, gpu: str = "", hip_root: str = "", from_hipinfo: str = "") -> ScanResult:
    """Look at this machine, or read what ``hipInfo`` printed on another.

    Args:
        ws: where we are.
        gpu: the number of the GPU to use, as the scan lists it.
        hip_root: a HIP runtime's folder that is listed before all others.
        from_hipinfo: a file with hipInfo's output, ``-`` for standard input.

    Raises:
        UsageError: there is no such GPU, no HIP runtime, or no hipInfo output there.
    """
    if not from_hipinfo:
        host = scan_host(ws.environ, platform=ws.platform, gpu=gpu, hip_root=hip_root)
        return ScanResult(host=host, remarks=_remarks(host))
    host, recognised = host_from_hipinfo(read_hipinfo(from_hipinfo), platform=ws.platform, gpu=gpu)
    if not recognised:
        msg = f"{_called(from_hipinfo)} holds no hipInfo output"
        raise UsageError(
            "hipinfo-unrecognised", msg, hint="give it everything that hipInfo printed, as it is"
        )
    return ScanResult(host=host, remarks=_remarks(host), from_hipinfo=True)


def read_hipinfo(name: str) -> bytes:
    """Read the file or standard input, whatever its encoding."""
    try:
        if name != "-":
            with Path(name).open("rb") as stream:
                data = stream.read(CAP + 1)
        else:
            data = sys.stdin.buffer.read(CAP + 1) if sys.stdin else b""
    except OSError as error:
        msg = f"{_called(name)} cannot be read"
        hint = "run `hipInfo > hipinfo.txt` and name that file"
        raise UsageError("hipinfo-unreadable", msg, context=(str(error),), hint=hint) from error
    if len(data) > CAP:
        msg = f"{_called(name)} is larger than any hipInfo output"
        raise UsageError("hipinfo-unrecognised", msg, hint="name the file that holds hipInfo's output")
    return data


def _called(name: str) -> str:
    return "standard input" if name == "-" else name


def _remarks(host: Host) -> tuple[str, ...]:
    """Say what AMD supports on the selected GPU, for each HIP version here, and what users reported.

    The statements are about Windows. Without a HIP runtime the newest release is spoken of.
    """
    gpu = host.selected_gpu
    if gpu is None or gpu.gfx is None or host.os != "windows":
        return ()
    versions = dict.fromkeys(root.version for root in host.hip_roots if root.version)
    stated = [support(gpu.gfx, version) for version in versions or [releases()[-1].version]]
    sentences = [f"{one.sentence} ({one.source})" if one.source else one.sentence for one in stated]
    return (*sentences, *driver_notes(gpu.gfx))
