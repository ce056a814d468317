"""What is known of a machine: facts, what was looked at, and environment variables that interfere. Pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from scripts.doctor.context import architectures, hip_versions, lists_both_kinds
from scripts.host.gpu import AMD
from scripts.host.support import support
from scripts.host.windows_registry import WindowsBuild
from scripts.model import Gpu, Host
from scripts.serialize import JsonRecord


class Facts(Struct, frozen=True, kw_only=True):
    """What a doctor on the machine knows.

    Attributes:
        os: ``windows`` or ``linux``.
        amd: whether AMD's software is what this is about.
        gfx: the AMD GPUs' architectures, the one in use first.
        mixed: whether an integrated and a discrete AMD GPU are both there.
        hip: versions of the HIP runtimes, the one in use first.
        libraries: HIP libraries that were found (``rocblas``, ``miopen`` …); ``None`` if not looked at.
        variables: names of the environment variables that are set.
        non_ascii: whether the user's or the temporary folder has letters outside ASCII.
        overwritten: whether files beside the program are others than those that were put there.
        vc_runtime: whether the Visual C++ runtime is there.
        driver_lacks: whether the driver's HIP runtime lacks functions that the layer asks for.
        vanished: whether files of ours are gone, or an antivirus program says that it took some.
    """

    os: str = ""
    amd: bool | None = None
    gfx: tuple[str, ...] = ()
    mixed: bool | None = None
    hip: tuple[str, ...] = ()
    libraries: frozenset[str] | None = None
    variables: frozenset[str] | None = None
    non_ascii: bool | None = None
    overwritten: bool | None = None
    vc_runtime: bool | None = None
    driver_lacks: bool | None = None
    vanished: bool | None = None

    @property
    def support(self) -> str | None:
        """What AMD says of the GPU and the HIP version in use: ``RL``, ``R`` or ``none``."""
        if not self.gfx or not self.hip:
            return None
        word = support(self.gfx[0], self.hip[0]).verdict.value.replace(" ", "")
        return None if word == "unknown" else word


def holds(when: Mapping[str, object], facts: Facts) -> bool | None:
    """Say whether all conditions hold; ``None`` where one is unknown and none is false."""
    answers = [
        _equal(getattr(facts, name), wanted) if name in _PLAIN else _CONDITIONS[name](wanted, facts)
        for name, wanted in when.items()
    ]
    if False in answers:
        return False
    return None if None in answers else True


def with_text(facts: Facts, lines: Iterable[str]) -> Facts:
    """Add what the text tells of the GPU and of HIP; ``lines`` are as ``log_sampling.plain`` makes them.

    Where the text speaks of other GPUs only, it is another machine's, and is believed of GPUs and HIP alone.
    """
    told = list(lines)
    gfx, hip = architectures(told), hip_versions(told)
    if facts.gfx and (not gfx or set(gfx) & set(facts.gfx)):
        return replace(facts, hip=facts.hip or hip)
    mixed = lists_both_kinds(told)
    if facts.gfx:
        return replace(facts, gfx=gfx[:4], hip=hip or facts.hip, mixed=mixed, libraries=None)
    return replace(
        facts, gfx=gfx[:4], hip=hip or facts.hip, mixed=mixed if facts.mixed is None else facts.mixed
    )


def _gfx(wanted: object, facts: Facts) -> bool | None:
    patterns = wanted if isinstance(wanted, list) else [wanted]
    if not facts.gfx:
        return None
    return any(fnmatch.fnmatchcase(gfx, str(pattern)) for gfx in facts.gfx for pattern in patterns)


def _hip(wanted: object, facts: Facts) -> bool | None:
    try:
        return SpecifierSet(str(wanted)).contains(Version(facts.hip[0]), prereleases=True)
    except (IndexError, InvalidVersion):
        return None


def _support(wanted: object, facts: Facts) -> bool | None:
    return None if facts.support is None else facts.support in (wanted if isinstance(wanted, list) else [])


def _equal(known: object, wanted: object) -> bool | None:
    return None if known is None or known == "" else known == wanted


def _names(wanted: object, known: frozenset[str] | None, *, there: bool) -> bool | None:
    return None if known is None else (wanted in known) is there


_CONDITIONS: Final[Mapping[str, Callable[[object, Facts], bool | None]]] = {
    "gfx": _gfx,
    "hip": _hip,
    "support": _support,
    "absent": lambda wanted, facts: _names(wanted, facts.libraries, there=False),
    "set": lambda wanted, facts: _names(wanted, facts.variables, there=True),
}
#: Conditions that are facts by themselves.
_PLAIN: Final = ("os", "mixed", "non_ascii", "overwritten", "vc_runtime", "driver_lacks", "vanished")
#: What a rule may ask of the machine.
CONDITIONS: Final = frozenset((*_CONDITIONS, *_PLAIN))


class Status(StrEnum):
    """How one thing stands."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Line(JsonRecord, frozen=True, kw_only=True):
    """One thing: how it stands, in a sentence, and what was looked at."""

    status: Status
    topic: str
    text: str
    looked_at: str


class StageFact(Struct, frozen=True, kw_only=True):
    """The active stack: ``state`` is ``intact``, ``missing``, ``changed`` or ``none`` (no stack)."""

    state: str
    stack: str = ""
    translation: bool = False
    details: tuple[str, ...] = ()


class MachineState(Struct, frozen=True, kw_only=True):
    """What was looked at. ``None`` means that it could not be looked at, or does not exist here.

    Attributes:
        host: GPUs, drivers, HIP runtimes.
        kernels: by HIP root and library, whether it has kernels for the GPU in use.
        stage: the active stack.
        variables: the environment variables that bear on CUDA, HIP and loading.
        on_path: folders in PATH that hold HIP or CUDA libraries, and which, in the order they are searched.
        folders: what for, and the path.
        free: bytes free, by what for.
        vc_runtime: version of the Visual C++ runtime; empty where it is not installed.
        missing_functions: what the layer imports from the driver's HIP runtime that is not in it.
        cache: where kernels are compiled to, and its size in bytes.
        threats: what the antivirus program says about files of ours and of ZLUDA.
        windows_build: which Windows this is, to the update.
    """

    host: Host
    kernels: Mapping[str, Mapping[str, bool | None]] = field(default_factory=dict)
    stage: StageFact | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    on_path: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    free: Mapping[str, int | None] = field(default_factory=dict)
    vc_runtime: str | None = None
    missing_functions: tuple[str, ...] | None = None
    cache: tuple[str, int] | None = None
    threats: tuple[str, ...] | None = None
    windows_build: WindowsBuild | None = None

    @property
    def gpu(self) -> Gpu | None:
        """The GPU in use."""
        return self.host.selected_gpu

    @property
    def windows(self) -> bool:
        """Whether this is Windows."""
        return self.host.os == "windows"

    @property
    def concerns_hip(self) -> bool:
        """Whether HIP matters here at all."""
        return any(gpu.vendor == AMD for gpu in self.host.gpus)


#: The variables this module has something to say about, as name patterns.
WORTH_A_LOOK: Final = (
    *("*_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HSA_OVERRIDE_GFX_VERSION", "*_TENSILE_LIBPATH"),
    *("ZLUDA_*", "AMD_LOG_LEVEL", "CUDA_PATH", "LD_PRELOAD", "HIP_PATH*", "ROCM_PATH"),
)


class _Rule(NamedTuple):
    """Which variables it is about, how they stand, what it says, and whether it applies."""

    names: tuple[str, ...]
    status: str
    text: str
    applies: Callable[[str, MachineState], bool] = lambda _value, _machine: True


_FILTERS: Final = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


def _hides_all(value: str, machine: MachineState) -> bool:
    numbers = [int(number) for number in re.findall(r"\d+", value)]
    return bool(numbers) and min(numbers) >= sum(gpu.vendor == AMD for gpu in machine.host.gpus)


def _is_on(value: str, _machine: MachineState) -> bool:
    return value.strip() not in {"", "0"}


def _stale(value: str, machine: MachineState) -> bool:
    return not any(same_folder(value, str(root.path)) for root in machine.host.hip_roots)


def same_folder(one: str, other: str) -> bool:
    """Whether two paths are written for the same folder, as Windows compares them."""
    return _plain(one) == _plain(other)


def _plain(path: str) -> str:
    return path.strip().strip('"').replace("\\", "/").rstrip("/").casefold()


#: The first rule that applies to a variable speaks.
_RULES: Final = (
    _Rule(_FILTERS, "fail", "names a device that is not there, and hides those that are", _hides_all),
    _Rule(_FILTERS, "warn", "hides GPUs from programs"),
    _Rule(
        ("HSA_OVERRIDE_GFX_VERSION",),
        "warn",
        "does nothing on Windows",
        lambda _value, machine: machine.windows,
    ),
    _Rule(("HSA_OVERRIDE_GFX_VERSION",), "warn", "makes ROCm take the GPU for another one"),
    _Rule(("*_TENSILE_LIBPATH",), "warn", "sends a library to other kernels than its own"),
    _Rule(("ZLUDA_*_LIB", "ZLUDA_LOG_DIR"), "warn", "redirects the translation layer"),
    _Rule(("AMD_LOG_LEVEL",), "warn", "mixes log lines into what programs print", _is_on),
    _Rule(
        ("CUDA_PATH",),
        "warn",
        "may lead programs to NVIDIA's libraries",
        lambda _, machine: machine.concerns_hip,
    ),
    _Rule(("LD_PRELOAD",), "warn", "loads libraries into every program"),
    _Rule(("HIP_PATH*", "ROCM_PATH"), "warn", "names no HIP runtime that was found: a stale setting", _stale),
)


def interfering(machine: MachineState) -> Iterator[tuple[str, str]]:
    """Yield a status and a sentence for each variable that interferes, by name."""
    for name, value in sorted(machine.variables.items()):
        for rule in _RULES:
            named = any(fnmatch.fnmatchcase(name.upper(), pattern) for pattern in rule.names)
            if value and named and rule.applies(value, machine):
                yield rule.status, f"{name}={value} {rule.text}"
                break
