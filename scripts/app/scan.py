"""``scan`` and ``native``: the machine, without starting a CUDA program, and ways without translation."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from scripts.app.context import Workspace, host_of
from scripts.app.known_facts import program_facts
from scripts.app.wrap_plan import named_program
from scripts.errors import ExitCode, UsageError
from scripts.host.facts import host_from_hipinfo, scan_host
from scripts.host.support import (
    USUAL,
    NativeWay,
    driver_notes,
    native_ways,
    no_stack_possible,
    releases,
    support,
)
from scripts.launch.profiles import recognised
from scripts.model import Host
from scripts.osal.paths import user_path
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

    ``gpu`` is the number of the GPU to use, as the scan lists it; the HIP runtime in ``hip_root`` is listed
    before all others; ``from_hipinfo`` names a file with hipInfo's output, ``-`` standard input.

    Raises:
        UsageError: there is no such GPU, no HIP runtime, or no hipInfo output there.
    """
    if not from_hipinfo:
        root = str(user_path(hip_root, "--hip-root")) if hip_root else ""
        host = scan_host(ws.environ, platform=ws.platform, gpu=gpu, hip_root=root)
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
            with user_path(name, "--from-hipinfo").open("rb") as stream:
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


ARCHITECTURE: Final = re.compile(r"gfx[0-9a-f]{3,4}")


class NativeResult(JsonRecord, frozen=True, kw_only=True):
    """The ways for one GPU, system and program.

    Attributes:
        gfx: the GPU's architecture, empty where it is not known.
        programs: what it was recognised as: ids of ``apps.toml``; without a program the usual ones.
        ways: the ways, the program's own first.
        refusal: why no stack can ever serve this GPU, empty where one can.
        found: whether a GPU was named or found.
    """

    gfx: str
    os: str
    program: Path | None = None
    programs: tuple[str, ...] = ()
    ways: tuple[NativeWay, ...] = ()
    refusal: str = ""
    found: bool = True
    exit_code: int = ExitCode.OK

    JSON = "gfx os program programs ways refusal better"

    @property
    def better(self) -> str:
        """Why translation is the better way; empty where the program has its own, or no stack can serve."""
        if self.program is None or self.refusal or any(way.own for way in self.ways):
            return ""
        return "no way of its own is known here for this program: without its source, translation is the way"


def native(ws: Workspace, *, exe: str = "", gpu: str = "") -> NativeResult:
    """Name the ways without translation. Nothing is started or installed.

    Without ``exe`` what serves the usual programs is named. ``gpu`` is a GPU's number in ``scan``, or a
    product or architecture that need not be in this machine.

    Raises:
        UsageError: there is no such GPU.
        LaunchError: there is no such program.
    """
    program = named_program(ws, exe) if exe else None
    programs = USUAL if program is None else recognised(program_facts(program))
    if gpu and not gpu.isdecimal():
        gpu = _architecture(gpu)
    named = ARCHITECTURE.fullmatch(gpu) is not None
    host = host_of(ws, gpu="" if named else gpu)
    selected = host.selected_gpu
    gfx = gpu if named else (selected.gfx or "") if selected is not None else ""
    return NativeResult(
        gfx=gfx,
        os=host.os,
        program=program,
        programs=programs,
        ways=native_ways(gfx=gfx, os=host.os, programs=programs),
        refusal=no_stack_possible(gfx),
        found=bool(gfx) or selected is not None,
    )


def _architecture(name: str) -> str:
    """Return the one architecture that a name stands for."""
    if ARCHITECTURE.fullmatch(name):
        return name
    from scripts.app.advice import find_gpu  # noqa: PLC0415 - that module asks this one

    found = find_gpu(name).gfx
    if len(found) != 1:
        msg = f"--gpu={name} is no number in `invoke scan`, and names {len(found) or 'no'} known GPUs"
        raise UsageError("bad-gpu", msg, context=found[:8], hint="write for example --gpu=0 or --gpu=gfx1031")
    return found[0]
