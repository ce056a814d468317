"""Environment variables that interfere with CUDA programs on AMD GPUs. Pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

#: The variables this module has something to say about, as name patterns.
WORTH_A_LOOK: Final = (
    *("*_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HSA_OVERRIDE_GFX_VERSION", "*_TENSILE_LIBPATH"),
    *("ZLUDA_*", "AMD_LOG_LEVEL", "CUDA_PATH", "LD_PRELOAD", "HIP_PATH*", "ROCM_PATH"),
)


class Around(Struct, frozen=True, kw_only=True):
    """What a variable is held against: the system, how many AMD GPUs there are, and the HIP folders."""

    windows: bool
    amd_gpus: int
    roots: Sequence[str]


class _Rule(Struct, frozen=True, kw_only=True):
    """Which variables it is about, whether it applies, and what it says."""

    names: tuple[str, ...]
    status: str
    text: str
    applies: Callable[[str, Around], bool]


_FILTERS: Final = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


def _hides_all(value: str, around: Around) -> bool:
    numbers = [int(number) for number in re.findall(r"\d+", value)]
    return bool(numbers) and min(numbers) >= around.amd_gpus


def _stale(value: str, around: Around) -> bool:
    return _plain(value) not in {_plain(root) for root in around.roots}


def same_folder(one: str, other: str) -> bool:
    """Whether two paths are written for the same folder, as Windows compares them."""
    return _plain(one) == _plain(other)


def _plain(path: str) -> str:
    return path.strip().strip('"').replace("\\", "/").rstrip("/").casefold()


def _always(_value: str, _around: Around) -> bool:
    return True


#: The first rule that applies to a variable speaks.
_RULES: Final = (
    _Rule(
        names=_FILTERS,
        status="fail",
        text="names a device that is not there, and hides those that are",
        applies=_hides_all,
    ),
    _Rule(names=_FILTERS, status="warn", text="hides GPUs from programs", applies=_always),
    _Rule(
        names=("HSA_OVERRIDE_GFX_VERSION",),
        status="warn",
        text="does nothing on Windows",
        applies=lambda _value, around: around.windows,
    ),
    _Rule(
        names=("HSA_OVERRIDE_GFX_VERSION",),
        status="warn",
        text="makes ROCm take the GPU for another one",
        applies=_always,
    ),
    _Rule(
        names=("*_TENSILE_LIBPATH",),
        status="warn",
        text="sends a library to other kernels than its own",
        applies=_always,
    ),
    _Rule(
        names=("ZLUDA_*_LIB", "ZLUDA_LOG_DIR"),
        status="warn",
        text="redirects the translation layer",
        applies=_always,
    ),
    _Rule(
        names=("AMD_LOG_LEVEL",),
        status="warn",
        text="mixes log lines into what programs print",
        applies=lambda value, _around: value.strip() not in {"", "0"},
    ),
    _Rule(
        names=("CUDA_PATH",),
        status="warn",
        text="may lead programs to NVIDIA's libraries",
        applies=lambda _value, around: around.amd_gpus > 0,
    ),
    _Rule(names=("LD_PRELOAD",), status="warn", text="loads libraries into every program", applies=_always),
    _Rule(
        names=("HIP_PATH*", "ROCM_PATH"),
        status="warn",
        text="names no HIP runtime that was found: a stale setting",
        applies=_stale,
    ),
)


def interfering(variables: Mapping[str, str], around: Around) -> Iterator[tuple[str, str]]:
    """Yield a status and a sentence for each variable that interferes, by name."""
    for name, value in sorted(variables.items()):
        for rule in _RULES:
            named = any(fnmatch.fnmatchcase(name.upper(), pattern) for pattern in rule.names)
            if value and named and rule.applies(value, around):
                yield rule.status, f"{name}={value} {rule.text}"
                break
