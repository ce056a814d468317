"""What was looked at on a machine, and the lines that say how it stands."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from scripts.host.windows_build import WindowsBuild
from scripts.model import Gpu, Host
from scripts.serialize import JsonRecord

AMD: Final = "amd"


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


class Machine(Struct, frozen=True, kw_only=True):
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
