"""``native``: how a program runs on this GPU without translation, with the commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from scripts.app.context import Workspace, host_of
from scripts.app.wrap.plan import named_program
from scripts.app.wrap.profile import program_facts
from scripts.errors import ExitCode, UsageError
from scripts.host.facts import scan_host
from scripts.host.native import USUAL, NativeWay, native_ways, no_stack_possible
from scripts.launch.profiles import recognised
from scripts.model import Host
from scripts.serialize import JsonRecord

ARCHITECTURE: Final = re.compile(r"gfx[0-9a-f]{3,4}")


class NativeResult(JsonRecord, frozen=True, kw_only=True):
    """The ways for one GPU, system and program.

    Attributes:
        gfx: the GPU's architecture, empty where it is not known.
        os: the system.
        program: the program that was named.
        programs: what it was recognised as: ids of ``apps.toml``; without a program the usual ones.
        ways: the ways, the program's own first.
        refusal: why no stack can ever serve this GPU, empty where one can.
    """

    gfx: str
    os: str
    program: Path | None = None
    programs: tuple[str, ...] = ()
    ways: tuple[NativeWay, ...] = ()
    refusal: str = ""
    exit_code: int = ExitCode.OK

    JSON = "gfx os program programs ways refusal"


def native(ws: Workspace, *, exe: str = "", gpu: str = "") -> NativeResult:
    """Name the ways without translation. Nothing is started or installed.

    Args:
        ws: where we are.
        exe: the program; without it what serves the usual ones is named.
        gpu: a GPU's number in ``scan``, or an architecture that need not be in this machine.

    Raises:
        UsageError: there is no such GPU.
        LaunchError: there is no such program.
    """
    program = named_program(ws, exe) if exe else None
    programs = USUAL if program is None else recognised(program_facts(program))
    host = _host(ws, gpu)
    if ARCHITECTURE.fullmatch(gpu):
        gfx = gpu
    else:
        selected = host.selected_gpu
        gfx = (selected.gfx or "") if selected is not None else ""
    return NativeResult(
        gfx=gfx,
        os=host.os,
        program=program,
        programs=programs,
        ways=native_ways(gfx=gfx, os=host.os, programs=programs),
        refusal=no_stack_possible(gfx),
    )


def _host(ws: Workspace, gpu: str) -> Host:
    """Look at this machine, with the GPU that was named by its number."""
    if not gpu or ARCHITECTURE.fullmatch(gpu):
        return host_of(ws)
    if not gpu.isdecimal():
        msg = f"--gpu={gpu} is neither a number nor the name of an architecture"
        raise UsageError("bad-gpu", msg, hint="write for example --gpu=0 or --gpu=gfx1031")
    return scan_host(ws.environ, platform=ws.platform, gpu=gpu, hip_root="")
