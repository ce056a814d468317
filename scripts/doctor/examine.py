"""Whether a machine is in order: line by line, from what others have looked at. Pure.

``unknown`` is never ``ok``: what could not be looked at is called so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from scripts.doctor.machine import Line, MachineState, Status, interfering, same_folder
from scripts.host.gpu import AMD, NO_DRIVER, without_gpu
from scripts.host.hip_libraries import layer_libraries
from scripts.host.support import SupportLevel, driver_notes, driver_too_old, needs_windows_11, support
from scripts.host.windows_registry import WINDOWS_11, WindowsBuild, build_reports
from scripts.model import Gpu, HipRoot, Host

#: Below this much free space downloads and compile caches fail.
LITTLE_SPACE: Final = 2 * 1024**3
_VERSION: Final = re.compile(r"(\d+\.\d+)")
_MIB: Final = 1024**2
#: What AMD says of a GPU with a HIP version, as a line; everything else is a warning.
_SUPPORT: Final = {SupportLevel.RUNTIME_AND_LIBRARIES: "ok", SupportLevel.UNKNOWN: "unknown"}


def examine(machine: MachineState) -> tuple[Line, ...]:
    """Say how everything stands, in the order in which it is needed."""
    return (
        *_gpus(machine),
        *_roots(machine),
        *_libraries(machine),
        *_stage(machine),
        *_variables(machine),
        *_path(machine),
        *_folders(machine),
        *_space(machine),
        *(_windows_only(machine) if machine.windows else ()),
        *_cache(machine),
    )


def _gpus(machine: MachineState) -> Iterator[Line]:
    where = "the registry and hipInfo" if machine.windows else "the kernel's lists of devices"
    if not machine.host.gpus:
        text = f"no GPU that a stack could use was found; {without_gpu(machine.host.os)}"
        yield _line("warn", "gpu", text, where)
    for gpu in machine.host.gpus:
        kind = {True: "integrated", False: "discrete", None: "integrated or discrete"}[gpu.integrated]
        gfx = gpu.gfx or "architecture unknown"
        used = ", in use" if gpu.index == machine.host.selected else ""
        known = gpu.vendor != AMD or gpu.gfx
        yield _line("ok" if known else "unknown", "gpu", f"{gpu.name}: {gfx}, {kind}{used}", where)
        yield from _driver(gpu, machine)
    for sentence in machine.host.disagreements:
        yield _line("warn", "gpu", sentence, where)


def _driver(gpu: Gpu, machine: MachineState) -> Iterator[Line]:
    if gpu.driver == NO_DRIVER:
        why = gpu.why_unknown.get("driver", "")
        yield _line(
            "fail", "driver", f"{gpu.name} has no driver that can compute ({why})", "its device's key"
        )
    elif gpu.driver is None:
        why = gpu.why_unknown.get("driver", "it is not stated")
        yield _line("unknown", "driver", f"driver of {gpu.name}: {why}", "the driver's own statement")
    else:
        yield _line("ok", "driver", f"driver of {gpu.name}: {gpu.driver}", "the driver's own statement")
        if machine.windows and gpu.vendor == AMD:
            yield from _minimum(gpu, machine)
    if gpu.index == machine.host.selected and gpu.gfx:
        for note in driver_notes(gpu.gfx):
            yield _line("warn", "driver", note, "reports about this architecture")


def _minimum(gpu: Gpu, machine: MachineState) -> Iterator[Line]:
    """Hold a Windows driver against what the newest HIP here is reported to need."""
    found = (driver_too_old(gpu.driver or "", root.version or "") for root in machine.host.hip_roots)
    if too_old := next(filter(None, found), ""):
        yield _line("warn", "driver", f"{gpu.name}: {too_old}", "the driver's number and AMD's prerequisites")


def _roots(machine: MachineState) -> Iterator[Line]:
    """Look at HIP runtimes, and at what AMD says of this GPU with them."""
    if not machine.concerns_hip:
        return
    where = "HIP_PATH, HIP_PATH_nn, the usual folders, pip's packages"
    gpu = machine.gpu
    if not machine.host.hip_roots and not machine.host.driver_files:
        yield _line("fail", "hip", "no HIP runtime was found", where)
    elif not machine.host.hip_roots:
        yield _line("warn", "hip", "no HIP SDK was found, only the display driver's runtime", where)
    for root in machine.host.hip_roots:
        name = f"{root.path}, version {root.version or 'unknown'}, found by {root.source}"
        yield _line("ok" if root.version else "unknown", "hip", name, str(root.path))
        if machine.windows and gpu is not None and gpu.gfx and root.version:
            build = machine.windows_build.build if machine.windows_build is not None else None
            if build is not None and build < WINDOWS_11 and needs_windows_11(root.version):
                text = f"HIP {root.version} is for Windows 11, and this is an older Windows (build {build})"
                yield _line("warn", "hip", text, "AMD's list of releases")
            said = support(gpu.gfx, root.version)
            yield _line(
                _SUPPORT.get(said.verdict, "warn"),
                "hip",
                said.sentence,
                said.source or "AMD's tables of support",
            )
    for name, version in machine.host.driver_files.items():
        text = f"the display driver brought {name}, file version {version or 'unknown'}"
        yield _line("ok" if version else "unknown", "hip", text, "System32")
    yield from _majors(machine.host)


def _majors(host: Host) -> Iterator[Line]:
    """Warn where runtimes of several versions lie side by side."""
    versions = {match[1]: root for root in host.hip_roots if (match := _VERSION.match(root.version or ""))}
    if len(versions) > 1:
        listed = ", ".join(f"{version} ({root.source})" for version, root in versions.items())
        yield _line(
            "warn", "hip", f"HIP of several versions: {listed}; the first is used", "the folders above"
        )


def _libraries(machine: MachineState) -> Iterator[Line]:
    """Look at what each HIP runtime has, and for which GPUs."""
    gpu = machine.gpu
    gfx = gpu.gfx if gpu is not None and gpu.vendor == AMD else None
    for root in machine.host.hip_roots if machine.concerns_hip else ():
        yield from _presence(root)
        for library, there in machine.kernels.get(str(root.path), {}).items():
            if library not in root.libraries:
                continue
            where = f"{root.path}, {library}/library"
            if there is None or gfx is None:
                yield _line("unknown", "libraries", f"{library}: whether it has kernels for this GPU", where)
            elif there:
                yield _line("ok", "libraries", f"{library} has kernels for {gfx}", where)
            else:
                yield _line("fail", "libraries", f"{library} has no kernels for {gfx}", where)


def _presence(root: HipRoot) -> Iterator[Line]:
    for library in layer_libraries():
        if not library.essential and not library.newer and library.name not in root.libraries:
            text = f"{root.path} has no {library.label}: {library.cuda} cannot work"
            yield _line("warn", "libraries", text, str(root.path))


def _stage(machine: MachineState) -> Iterator[Line]:
    stage = machine.stage
    if stage is None:
        yield _line("unknown", "stage", "which stack is active cannot be read", "stage and pins.lock")
    elif stage.state == "none":
        yield _line("warn", "stage", "no stack is active: invoke setup", "stage")
    elif stage.state == "intact":
        yield _line("ok", "stage", f"{stage.stack}: every file is what was assembled", "every byte")
    else:
        which = f" ({'; '.join(stage.details[:3])})" if stage.details else ""
        text = f"{stage.stack}: files are {stage.state}{which}"
        if stage.state == "missing" and machine.windows:
            text += "; look at the antivirus program's protection history"
        text += f"; to put them back: invoke stage --stack={stage.stack}"
        yield _line("fail", "stage", text, "every byte")


def _variables(machine: MachineState) -> Iterator[Line]:
    said = list(interfering(machine))
    if not said:
        yield _line("ok", "environment", "no variable interferes", "the environment")
    for status, text in said:
        yield _line(status, "environment", text, "the environment")


def _path(machine: MachineState) -> Iterator[Line]:
    """Look at libraries that PATH offers before, or instead of, the HIP runtime in use."""
    used = machine.host.hip_roots[0] if machine.host.hip_roots else None
    for folder, names in machine.on_path.items():
        listed = f"{', '.join(names[:3])} in {folder}"
        if used is not None and same_folder(folder, str(used.path / "bin")):
            yield _line("ok", "path", f"{listed}: the HIP runtime in use", "PATH")
        else:
            yield _line("warn", "path", f"{listed}: programs may load it instead of what is meant", "PATH")


def _folders(machine: MachineState) -> Iterator[Line]:
    odd = [f"{what}: {path}" for what, path in machine.folders.items() if not path.isascii()]
    if not odd:
        yield _line("ok", "folders", "all names are plain ASCII", ", ".join(machine.folders))
    for text in odd:
        said = f"{text}: Linux opens characters outside ASCII"
        if machine.windows:
            said = f"{text} has characters outside ASCII, which some libraries cannot open"
        yield _line("warn" if machine.windows else "ok", "folders", said, "the paths' letters")


def _space(machine: MachineState) -> Iterator[Line]:
    found: dict[tuple[str, str], list[str]] = {}
    for what, free in machine.free.items():
        status = "unknown" if free is None else "warn" if free < LITTLE_SPACE else "ok"
        amount = "free space" if free is None else f"{free / 1024**3:.1f} GiB free"
        found.setdefault((status, amount), []).append(what)
    for (status, amount), places in found.items():  # what lies on one volume is one line
        yield _line(status, "space", f"{amount} for the {' and the '.join(places)}", ", ".join(places))


def _windows_only(machine: MachineState) -> Iterator[Line]:
    yield from _windows_build(machine.windows_build)
    version = machine.vc_runtime
    where = "System32, vcruntime140_1.dll and msvcp140.dll"
    if version is None:
        yield _line("unknown", "vc-runtime", "the Visual C++ runtime could not be read", where)
    elif not version:
        yield _line("fail", "vc-runtime", "the Visual C++ runtime (x64) is not installed", where)
    else:
        yield _line("ok", "vc-runtime", f"Visual C++ runtime {version}", where)
    if machine.stage is not None and machine.stage.translation:
        yield _exports(machine.missing_functions)
    if machine.threats is None:
        yield _line("unknown", "antivirus", "the Defender's events could not be read", "its event log")
    elif not machine.threats:
        yield _line("ok", "antivirus", "no event names a file of ours or of ZLUDA", "Defender's event log")
    for threat in machine.threats or ():
        yield _line("warn", "antivirus", threat, "Defender's event log, events 1116 and 1117")


def _windows_build(found: WindowsBuild | None) -> Iterator[Line]:
    """Say which Windows this is, and what was reported about that update."""
    where = "the registry, CurrentBuild and UBR"
    if found is None or not found.name:
        yield _line("unknown", "windows", "which update of Windows is installed could not be read", where)
        return
    reports = build_reports(found)
    if not reports:
        yield _line("ok", "windows", f"Windows build {found.name}: nothing is known against it", where)
    for report in reports:
        yield _line("warn", "windows", f"Windows build {found.name}: {report}", where)
    if found.amd_release or found.amd_edition:
        yield _package(found)
    if found.gpu_scheduling is not None:
        state = "on" if found.gpu_scheduling else "off"
        text = f"hardware-accelerated GPU scheduling is {state}"
        yield _line("ok", "windows", text, "the registry, HwSchMode")


def _package(found: WindowsBuild) -> Line:
    """Name AMD's driver package; the PRO edition is what the HIP SDK's installer brings."""
    where = "the registry, RadeonSoftwareEdition and RadeonSoftwareVersion"
    named = " ".join(filter(None, (found.amd_edition, found.amd_release)))
    if not found.is_pro:
        return _line("ok", "driver", f"AMD's driver package: {named}", where)
    text = (
        f"AMD's driver package is a PRO edition ({named}): the HIP SDK's installer brings one, and was "
        "reported to replace a newer Adrenalin driver by it; Adrenalin can be installed over it again"
    )
    return _line("warn", "driver", text, where)


def _exports(missing: tuple[str, ...] | None) -> Line:
    """Say whether the driver's HIP runtime has every function the layer asks for."""
    where = "the layer's imports against the exports of amdhip64"
    if missing is None:
        return _line("unknown", "driver", "whether the HIP runtime has what the layer imports", where)
    if missing:
        text = f"the HIP runtime lacks {len(missing)} functions the layer imports: {', '.join(missing[:5])}"
        return _line("fail", "driver", text, where)
    return _line("ok", "driver", "the HIP runtime has every function the layer imports", where)


def _cache(machine: MachineState) -> Iterator[Line]:
    """Look at the compile cache, which grows while kernels are compiled."""
    if machine.stage is None or not machine.stage.translation:
        return
    if machine.cache is None:
        text = "empty: the first run of a program compiles for minutes"
        yield _line("ok", "compile-cache", text, "the cache folder")
        return
    path, size = machine.cache
    text = f"{size / _MIB:.1f} MiB; while it grows, a program is compiling, not hanging"
    yield _line("ok", "compile-cache", text, path)


def _line(status: str, topic: str, text: str, looked_at: str) -> Line:
    return Line(status=Status(status), topic=topic, text=text, looked_at=looked_at)
