"""The environment a program runs in: what changes, and why. Pure; only the child ever gets it.

Order: what would mislead the stack is removed, the stack's own policy is applied, then what this machine
adds, then the search path, and last what the user asked for, which wins. Facts about ZLUDA's
variables: vosen/ZLUDA@87531d3; about device selection: AMD's HIP documentation.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Final, Literal

from msgspec import Struct

from scripts.errors import HostError, UsageError
from scripts.host.hip_libraries import RUNTIME
from scripts.model import HipRoot, HipSource, Runtime, Stack, StackKind

Action = Literal["set", "unset", "prepend"]
Purpose = Literal["program", "check"]

#: What a translation stack would read although it was meant for something else.
MISLEADING: Final[tuple[tuple[str, str], ...]] = (
    ("ROCBLAS_TENSILE_LIBPATH", "rocBLAS finds its kernels from its own folder"),
    ("HIPBLASLT_TENSILE_LIBPATH", "hipBLASLt finds its kernels from its own folder"),
    ("HIPBLASLT_EXT_OP_LIBRARY_PATH", "hipBLASLt finds its kernels from its own folder"),
    ("ZLUDA_*_LIB", "it would send calls to other libraries than the pinned ones"),
    ("ZLUDA_LOG_DIR", "it belongs to the tracing libraries, which are not used"),
)
#: Removed for checks only, whatever a stack's policy says: programs that build extensions need it.
CHECK_ONLY: Final[dict[str, str]] = {"CUDA_PATH": "cuda_check would load NVIDIA's DLLs from it"}
#: Variables by which a person has chosen devices already.
DEVICE_CHOICES: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
COMPUTE_CAPABILITY: Final = "ZLUDA_CC"
#: What NVRTC is asked to compile for under the launcher; the layer's own default differs between previews.
DEFAULT_CAPABILITY: Final = "8.6"


class EnvChange(Struct, frozen=True, kw_only=True):
    """One difference to the environment we were started with."""

    name: str
    action: Action
    value: str = ""
    why: str


class EnvPlan(Struct, frozen=True, kw_only=True):
    """Every difference in the order it was decided, and the whole environment that results."""

    changes: tuple[EnvChange, ...]
    environ: Mapping[str, str]


class GpuChoice(Struct, frozen=True, kw_only=True):
    """The GPU to use: its position among the devices HIP sees, and how many those are."""

    index: int
    count: int
    name: str = ""


def plan_environment(
    base: Mapping[str, str],
    *,
    platform: str,
    stack: Stack,
    runtime: Runtime,
    hip_root: HipRoot | None = None,
    gpu: GpuChoice | None = None,
    purpose: Purpose = "program",
    profile: Iterable[EnvChange] = (),
    user_set: Mapping[str, str] | None = None,
) -> EnvPlan:
    """Plan a child's environment.

    Args:
        base: the environment we were started with; it is not changed.
        platform: ``sys.platform``.
        stack: its policy is applied.
        runtime: its folders come first in the search path.
        hip_root: the installed HIP runtime, where the stack uses one.
        gpu: the chosen device; named to the program only where there is more than one.
        purpose: ``check`` for cuda_check and probes of ours, ``program`` for anything else.
        profile: what is known to be safe for this program; a variable that is set already stays.
        user_set: variables the user set for this run; they win over everything, but the stack's folders stay
            in front of a search path.

    Raises:
        HostError: ``hip-missing``: the stack needs an installed HIP runtime and there is none.
        UsageError: ``bad-compute-capability``: a value the layer would silently not understand.
    """
    plan = _Planned(base, ignore_case=platform == "win32")
    user = dict(user_set or {})
    if stack.kind is StackKind.TRANSLATION:
        _remove_misleading(plan)
    for name, why in CHECK_ONLY.items() if purpose == "check" else ():
        plan.unset(name, why)
    _apply_policy(plan, stack, purpose)
    if stack.kind is StackKind.TRANSLATION:
        _add_host_facts(plan, stack, runtime, hip_root, platform)
        _select_device(plan, gpu, user)
    path_variable = plan.spelled("PATH" if platform == "win32" else "LD_LIBRARY_PATH")
    for name in [name for name in user if plan.same(name, path_variable)]:
        plan.set(path_variable, user.pop(name), "you set it for this run; the stack's folders come first")
    _extend_search_path(plan, runtime, hip_root, platform)
    for change in profile:
        if change.action == "prepend":
            plan.prepend(
                change.name, [(_pure(PurePath(change.value), platform), change.why)], separator(platform)
            )
        elif plan.get(change.name) is None:
            plan.set(change.name, change.value, change.why)
    for name, value in user.items():
        plan.set(name, value, "you set it for this run")
    _check_capability(plan.get(COMPUTE_CAPABILITY))
    return EnvPlan(changes=tuple(plan.changes), environ=plan.environ)


class _Planned:
    """An environment being planned; names are compared as the platform does."""

    def __init__(self, base: Mapping[str, str], *, ignore_case: bool) -> None:
        self.environ = dict(base)
        self.changes: list[EnvChange] = []
        self._fold: Callable[[str], str] = str.upper if ignore_case else str

    def spelled(self, name: str) -> str:
        """Return the spelling that is there already, or ``name``."""
        return next((n for n in self.environ if self._fold(n) == self._fold(name)), name)

    def same(self, name: str, other: str) -> bool:
        return self._fold(name) == self._fold(other)

    def get(self, name: str) -> str | None:
        return self.environ.get(self.spelled(name))

    def matching(self, pattern: str) -> list[str]:
        fold = self._fold
        return sorted(n for n in self.environ if fnmatch.fnmatchcase(fold(n), fold(pattern)))

    def set(self, name: str, value: str, why: str) -> None:
        name = self.spelled(name)
        if self.environ.get(name) != value:
            self._note(name, "set", value, why)
        self.environ[name] = value

    def unset(self, name: str, why: str) -> None:
        name = self.spelled(name)
        if self.environ.pop(name, None) is not None:
            self._note(name, "unset", "", why)

    def prepend(self, name: str, folders: Iterable[tuple[PurePath, str]], separator: str) -> None:
        """Put folders in front; parts that are empty would mean the current folder and are dropped."""
        name = self.spelled(name)
        ours = list(folders)
        inherited = [part for part in self.environ.get(name, "").split(separator) if part]
        for folder, why in ours:
            self._note(name, "prepend", str(folder), why)
        value = separator.join([*(str(folder) for folder, _ in ours), *inherited])
        if value:
            self.environ[name] = value

    def _note(self, name: str, action: Action, value: str, why: str) -> None:
        self.changes.append(EnvChange(name=name, action=action, value=value, why=why))


def _remove_misleading(plan: _Planned) -> None:
    for pattern, why in MISLEADING:
        for name in plan.matching(pattern):
            plan.unset(name, why)


def _apply_policy(plan: _Planned, stack: Stack, purpose: Purpose) -> None:
    """Apply what the lock says about this stack for this purpose."""
    for policy in stack.env:
        if policy.only not in {"", purpose}:
            continue
        if policy.value is not None:
            plan.set(policy.name, policy.value, policy.why)
        elif purpose == "check" or policy.name.upper() not in CHECK_ONLY:
            plan.unset(policy.name, policy.why)


def _add_host_facts(
    plan: _Planned, stack: Stack, runtime: Runtime, hip_root: HipRoot | None, platform: str
) -> None:
    if stack.hip.source is HipSource.SDK and hip_root is None:
        msg = (
            f"{stack.id} needs an installed HIP SDK ({stack.hip.range or 'any version'}), and none was found"
        )
        raise HostError("hip-missing", msg, hint="install AMD's HIP SDK in that version, then `invoke scan`")
    if not any(policy.name == COMPUTE_CAPABILITY and policy.value for policy in stack.env):
        plan.set(
            COMPUTE_CAPABILITY, DEFAULT_CAPABILITY, "the layer's own default differs between its versions"
        )
    home = hip_home(runtime, hip_root, platform)
    if platform == "win32" and home is not None:
        plan.set("HIP_PATH", str(home), "the layer looks for its back-ends in bin below it")


def hip_home(runtime: Runtime, hip_root: HipRoot | None, platform: str) -> PurePath | None:
    """Return the HIP runtime's folder: the one that came as parts, else the installed one."""
    for folder in search_folders(runtime):
        if folder.kind == "hip":
            path = _pure(folder.path, platform)
            return path.parent if path.name.lower() in {"bin", "lib"} else path
    return None if hip_root is None else _pure(hip_root.path, platform)


def _select_device(plan: _Planned, gpu: GpuChoice | None, user: Mapping[str, str]) -> None:
    """Name the chosen GPU where there is a choice that was not made."""
    if gpu is None or gpu.count < 2:  # noqa: PLR2004 - one is no choice
        return
    if any(plan.get(name) is not None or name in user for name in DEVICE_CHOICES):
        return
    why = f"{gpu.count} GPUs are here; this one was chosen" + (f" ({gpu.name})" if gpu.name else "")
    plan.set("HIP_VISIBLE_DEVICES", str(gpu.index), why)


def _extend_search_path(plan: _Planned, runtime: Runtime, hip_root: HipRoot | None, platform: str) -> None:
    """Layer, HIP, optional parts, inherited."""
    windows = platform == "win32"
    found = search_folders(runtime)
    folders = [(_pure(f.path, platform), f.why) for f in found]
    if hip_root is not None and folders and not any(f.kind == "hip" for f in found):
        libraries = _pure(hip_root.path, platform) / ("bin" if windows else "lib")
        folders.insert(1, (libraries, f"the HIP runtime ({hip_root.version or 'version unknown'})"))
    if folders:
        plan.prepend("PATH" if windows else "LD_LIBRARY_PATH", folders, separator(platform))


def separator(platform: str) -> str:
    """Return what stands between the folders of a search path."""
    return ";" if platform == "win32" else ":"


def _check_capability(value: str | None) -> None:
    """Refuse what the layer would read as something else without a word."""
    if value is not None and not re.fullmatch(r"\d{1,2}\.\d", value):
        msg = f"{COMPUTE_CAPABILITY}={value} is not of the form 8.6; the layer would silently use another one"
        raise UsageError(
            "bad-compute-capability", msg, hint=f"write it with a point: --set={COMPUTE_CAPABILITY}=8.6"
        )


def _pure(path: PurePath, platform: str) -> PurePath:
    """Return a path in the flavour of the platform that is planned for."""
    return PureWindowsPath(str(path)) if platform == "win32" else PurePosixPath(path.as_posix())


Kind = Literal["layer", "hip", "libtorch"]

#: How the file names (lower case) begin that mark a folder, in search order.
MARKS: Final[dict[Kind, tuple[str, ...]]] = {
    "hip": (RUNTIME, f"lib{RUNTIME}.so"),
    "libtorch": ("torch_cpu.dll", "torch.dll", "libtorch.so", "libtorch_cpu.so"),
}
#: What AMD's packages for Linux bring beside HIP's own libraries, each in a folder of its own: libraries of
#: the system they were built with, and the compiler's (ROCm/TheRock).
BESIDE_HIP: Final = ("rocm_sysdeps/lib", "llvm/lib")
#: Parts of the layer that must never be on a search path: they write traces, or serve 32-bit programs.
ASIDE: Final = frozenset({"trace", "trace_nvidia", "32"})
WHY: Final[dict[Kind, str]] = {
    "layer": "the stack's CUDA libraries",
    "hip": "the HIP runtime that came with the stack",
    "libtorch": "LibTorch, an optional part of the stack",
}


class Folder(Struct, frozen=True, kw_only=True):
    """One folder to search, and why."""

    kind: Kind
    path: PurePath
    why: str


def search_folders(runtime: Runtime) -> tuple[Folder, ...]:
    """Return the runtime's folders in search order: the layer, HIP, LibTorch; empty without files."""
    if runtime.path is None:
        return ()
    layer = PurePosixPath()
    found: list[tuple[Kind, PurePosixPath]] = [("layer", layer)]
    for kind, marks in MARKS.items():
        for file in runtime.files:
            path = PurePosixPath(file.name)
            folder = path.parent
            if path.name.lower().startswith(marks) and not ASIDE & set(folder.parts) and folder != layer:
                found.append((kind, folder))
                if kind == "hip" and folder.name == "lib":
                    found += ((kind, folder / name) for name in BESIDE_HIP if _holds(runtime, folder / name))
                break
    return tuple(Folder(kind=kind, path=runtime.path / folder, why=WHY[kind]) for kind, folder in found)


def _holds(runtime: Runtime, folder: PurePosixPath) -> bool:
    return any(PurePosixPath(file.name).parent == folder for file in runtime.files)
