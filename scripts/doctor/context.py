"""What a log tells of its surroundings: system, container, PyTorch's flavour, layer, GPUs, versions. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from scripts.doctor.log_sampling import LogSample
from scripts.serialize import data_table

_GFX: Final = re.compile(r"\bgfx(?:[0-9]{3,4}|90[ac])\b")
_HIP: Final = re.compile(r"(?:rocm/|\bhip(?: sdk)? ?v?|\brocm ?)([5-9]\.\d|10\.\d)(?!\d)")
#: Lines that list the devices of a machine; others may list what a library was built for.
_LISTED: Final = re.compile(
    r"\b(?:dev|device|gpu)\b ?#?\d|agents?[=:]|\barch: |hip device|gcnarchname|marketing name"
    r"|\b(?:gpu|cpu|processor|graphics) ?[:=]"
)
#: How Windows names the GPU inside a processor.
_INSIDE: Final = re.compile(r"radeon\(tm\) graphics|with radeon (?:vega )?graphics")
#: Words of lines that may name a GPU or a HIP version.
NAMING: Final = ("gfx", "radeon", "rx ", "rocm", "hip")
_FLAVOUR: Final = re.compile(
    r"(?:torch\w{0,10}|pytorch)\b[^\n+]{0,40}?\d+\.\d+[\w.]{0,30}\+(cu\d{2,3}|rocm[\d.]*|cpu)"
    r"|(?:index-url|whl)\W{1,3}\S{0,60}?/(cu\d{2,3}|rocm[\d.]+|cpu)\b|(?:pytorch|torch)-triton-(rocm)|torch_(hip)\b"
    r"|c10_(hip)\b"
)
#: Packages that only a PyTorch for CUDA brings.
_WHEELS: Final = re.compile(r"\bnvidia-(?:cublas|cudnn|cuda-\w+|nccl|cusparse|cufft|curand|nvtx)-cu1\d")
_WINDOWS: Final = re.compile(
    r"(?<![\w/])[a-z]:/|winerror|\.dll\b|\.exe\b|windows 1[01]\b|win32|adrenalin|powershell"
)
_LINUX: Final = re.compile(r"/home/|/usr/|/opt/|\.so\b|ubuntu|\blinux\b|debian|fedora|\barch linux|posixpath")
_WSL: Final = re.compile(r"\bwsl2?\b|microsoft-standard|/dev/dxg|rocr4wsl")
_CONTAINER: Final = re.compile(
    r"\bdocker|podman|\bcontainers?\b|docker-?compose|compose\.|kubernetes|\bpods?\b"
)
_LAYER: Final = re.compile(r"zluda|\bscale(?:-lang| sdk| compiler)")
_AMD: Final = re.compile(
    r"radeon|\bamd\b|rocm|\bhip (?:error|out of|sdk)|amdgpu|\brx ?[4-9]\d{2,3}\b|\bgfx\d"
    r"|\b[67][0-9]{3} ?xtx?\b|ryzen"
)
_NVIDIA: Final = re.compile(
    r"geforce|\btesla [a-z]\d|\brtx ?(?:a\d{4}|\d{4})|quadro|nvidia-smi \d|nvidia [ahl]\d{2,3}\b"
    r"|gpu here is an nvidia"
)
#: The ROCm that PyTorch was built for, and the one that a person or tool says the machine has.
_TORCH_ROCM: Final = re.compile(r"torch\D{0,30}\d+\.\d+\S{0,20}\+rocm(\d+)\.(\d+)")
_MACHINE_ROCM: Final = re.compile(
    r"(?:rocm|hip sdk)(?: on this machine| version| installed)?(?: is|:|=| version)? ?v?(\d+)\.(\d+)"
    r"(?:\.\d+)?\b(?! ?wheel)"
    r"|/rocm-(\d+)\.(\d+)"
)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What stands around a failure; empty or false where the log does not tell.

    Attributes:
        system: ``windows`` or ``linux``.
        wsl: whether Linux runs inside Windows.
        container: whether a container is spoken of.
        torch: PyTorch's flavours that are named: ``cu``, ``rocm``, ``cpu``.
        torch_builds: the same with their versions (``cu118``, ``rocm6.4``).
        layer: whether a translation layer is named.
        amd: whether AMD's hardware or software is named.
        nvidia: whether a GPU of NVIDIA's is named.
        gfx: architectures, by name or by a product's.
        hip: versions of HIP or ROCm.
        versions_differ: PyTorch was built for another ROCm than the machine has.
    """

    system: str = ""
    wsl: bool = False
    container: bool = False
    torch: frozenset[str] = frozenset()
    torch_builds: tuple[str, ...] = ()
    layer: bool = False
    amd: bool = False
    nvidia: bool = False
    gfx: tuple[str, ...] = ()
    hip: tuple[str, ...] = ()
    versions_differ: bool = False


def read_context(sample: LogSample) -> Context:
    """Read what a log tells of its surroundings."""
    text = sample.text
    builds = tuple(dict.fromkeys(next(g for g in m.groups() if g) for m in _FLAVOUR.finditer(text)))
    flavours = {re.match(r"cu|rocm|cpu|hip", build)[0] for build in builds}  # type: ignore[index]  # they begin so
    flavours |= {"cu"} if _WHEELS.search(text) else set()
    naming = naming_lines(sample)
    return Context(
        system=_system(text),
        wsl=bool(_WSL.search(text)),
        container=bool(_CONTAINER.search(text)),
        torch=frozenset("rocm" if name == "hip" else name for name in flavours),
        torch_builds=builds,
        layer=bool(_LAYER.search(text)),
        amd=bool(_AMD.search(text)),
        nvidia=bool(_NVIDIA.search(text)),
        gfx=architectures(naming)[:4],
        hip=hip_versions(naming),
        versions_differ=_differ(text),
    )


def naming_lines(sample: LogSample) -> list[str]:
    """Return the lines that may name a GPU or a HIP version."""
    return [sample.plain[i] for i in sorted({i for word in NAMING for i in sample.holding(word)})]


def hip_versions(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the versions of HIP or ROCm that lines name."""
    return tuple(dict.fromkeys(_HIP.findall("\n".join(lines))))[:4]


def architectures(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the architectures that lines name, by name or by a product's."""
    joined = "\n".join(lines)
    named = _GFX.findall(joined) or [_models()[name] for name in _model_names().findall(joined)]
    return tuple(dict.fromkeys(named))


def lists_both_kinds(lines: Sequence[str]) -> bool | None:
    """Whether a text lists an integrated and a discrete GPU of one machine; it never denies it."""
    listed = [line for line in lines if _LISTED.search(line)]
    kinds = {_inside().get(gfx) for gfx in architectures(listed)}
    kinds |= {True for line in listed if _INSIDE.search(line)}
    return True if {True, False} <= kinds else None


def _system(text: str) -> str:
    """Tell the system by paths and names; empty where both or neither are there."""
    windows, linux = len(_WINDOWS.findall(text)), len(_LINUX.findall(text))
    if _WSL.search(text) or linux > 2 * windows:
        return "linux" if linux else ""
    return "windows" if windows > 2 * linux else ""


def _differ(text: str) -> bool:
    """Whether PyTorch's ROCm is of another generation than the one that the machine is reported to have."""
    built = {int(major) for major, _ in _TORCH_ROCM.findall(text)}
    elsewhere = _TORCH_ROCM.sub(" ", text)
    said = {int(a or b) for a, _, b, _ in _MACHINE_ROCM.findall(elsewhere)}
    return bool(built) and bool(said) and not built & said


@cache
def _model_names() -> re.Pattern[str]:
    """Match any product name that stands for one architecture, the longest first."""
    names = sorted(_models(), key=len, reverse=True)
    return re.compile(r"\b(" + "|".join(re.escape(name) for name in names) + r")\b")


@cache
def _inside() -> Mapping[str, bool]:
    """Return by architecture whether it is a processor's; those that are both are left out."""
    found: dict[str, set[bool]] = {}
    for row in data_table("gpus.toml")["model"]:
        if "gfx" in row:
            found.setdefault(str(row["gfx"]), set()).add(bool(row["integrated"]))
    return {gfx: kinds.pop() for gfx, kinds in found.items() if len(kinds) == 1}


@cache
def _models() -> Mapping[str, str]:
    """Return architectures by short product name (``rx 6600``), where a name means one only."""
    found: dict[str, str | None] = {}
    for row in data_table("gpus.toml")["model"]:
        name = re.sub(r"\(tm\)|amd|radeon|graphics", "", str(row["name"]).lower())
        short, gfx = " ".join(name.split()), str(row["gfx"]) if "gfx" in row else None
        found[short] = gfx if found.get(short, gfx) == gfx else None
    return {name: gfx for name, gfx in found.items() if gfx and any(c.isdigit() for c in name)}
