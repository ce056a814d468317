"""Every line says how one thing stands and what was looked at; unknown is never ok."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.doctor.examine import examine
from scripts.doctor.machine import Line, MachineState, StageFact, Status
from scripts.doctor.program_libraries import FoundLibrary, judge_folder, missing_libraries, missing_lines
from scripts.host.windows_registry import WindowsBuild, parse_events
from scripts.model import Gpu, HipRoot, Host

GPU = Gpu(
    index=0, name="RX 7900 XTX", vendor="amd", gfx="gfx1100", integrated=False, driver="32.0.31021.5001"
)
IGPU = Gpu(
    index=1, name="AMD Radeon(TM) Graphics", vendor="amd", gfx="gfx1036", integrated=True, driver="32.0"
)
ROOT = HipRoot(
    path=Path("/ROCm/6.4"),
    version="6.4.2",
    source="HIP_PATH",
    libraries=("amdhip64", "amdhip64_6", "hipblaslt", "miopen", "rocblas", "rocsparse"),
)
HOST = Host(
    os="windows",
    machine="AMD64",
    gpus=(GPU,),
    selected=0,
    hip_roots=(ROOT,),
    driver_files={"amdhip64_6.dll": "6.4"},
)
GOOD = MachineState(
    windows_build=WindowsBuild(build=26200, revision=1),
    host=HOST,
    kernels={str(ROOT.path): {"rocblas": True, "hipblaslt": True}},
    stage=StageFact(state="intact", stack="zluda", translation=True),
    variables={},
    folders={"checkout": "C:\\work"},
    free={"store": 50 * 1024**3},
    vc_runtime="14.44.35211.0",
    missing_functions=(),
    cache=("C:\\cache", 5 * 1024**2),
    threats=(),
)


def lines(machine: MachineState, topic: str) -> list[tuple[str, str]]:
    return [(line.status.value, line.text) for line in examine(machine) if line.topic == topic]


def worst(found: Iterable[Line]) -> set[str]:
    return {line.status.value for line in found}


def test_a_machine_in_order_has_only_ok_lines() -> None:
    assert [line for line in examine(GOOD) if line.status is not Status.OK] == []
    assert all(line.looked_at for line in examine(GOOD))


@pytest.mark.parametrize(
    ("change", "topic", "status", "says"),
    [
        ({"host": replace(HOST, gpus=(), selected=None)}, "gpu", "warn", "no GPU"),
        ({"host": replace(HOST, gpus=(), selected=None)}, "gpu", "warn", "Device Manager"),
        ({"host": replace(HOST, os="linux", gpus=(), selected=None)}, "gpu", "warn", "lspci -nn"),
        ({"host": replace(HOST, gpus=(replace(GPU, gfx=None),))}, "gpu", "unknown", "architecture unknown"),
        ({"host": replace(HOST, gpus=(replace(GPU, driver="none"),))}, "driver", "fail", "no driver"),
        ({"host": replace(HOST, gpus=(replace(GPU, driver=None),))}, "driver", "unknown", "not stated"),
        ({"host": replace(HOST, disagreements=("two names",))}, "gpu", "warn", "two names"),
        ({"host": replace(HOST, hip_roots=(), driver_files={})}, "hip", "fail", "no HIP runtime"),
        ({"host": replace(HOST, hip_roots=())}, "hip", "warn", "only the display driver's"),
        ({"host": replace(HOST, hip_roots=(replace(ROOT, version=None),))}, "hip", "unknown", "unknown"),
        ({"host": replace(HOST, gpus=(replace(GPU, gfx="gfx1032"),))}, "hip", "warn", "only the runtime"),
        (
            {"host": replace(HOST, hip_roots=(ROOT, replace(ROOT, path=Path("/ROCm/5.7"), version="5.7.1")))},
            "hip", "warn", "several versions",
        ),
        ({"kernels": {str(ROOT.path): {"rocblas": False}}}, "libraries", "fail", "rocblas has no kernels"),
        ({"kernels": {str(ROOT.path): {"hipblaslt": None}}}, "libraries", "unknown", "hipblaslt"),
        (
            {"host": replace(HOST, hip_roots=(replace(ROOT, libraries=("amdhip64", "rocblas")),))},
            "libraries", "warn", "no MIOpen",
        ),
        ({"stage": None}, "stage", "unknown", "cannot be read"),
        ({"stage": StageFact(state="none")}, "stage", "warn", "no stack is active"),
        ({"stage": StageFact(state="missing", stack="z")}, "stage", "fail", "protection history"),
        ({"stage": StageFact(state="missing", stack="z")}, "stage", "fail", "z: files are missing; "),
        ({"stage": StageFact(state="changed", stack="z", details=("a.dll",))}, "stage", "fail", "a.dll"),
        ({"stage": StageFact(state="changed", stack="z")}, "stage", "fail", "invoke stage --stack=z"),
        ({"variables": {"HIP_VISIBLE_DEVICES": "1"}}, "environment", "fail", "not there"),
        ({"variables": {"HIP_VISIBLE_DEVICES": "0"}}, "environment", "warn", "hides GPUs"),
        ({"variables": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}}, "environment", "warn", "does nothing"),
        ({"variables": {"CUDA_PATH": "C:\\CUDA"}}, "environment", "warn", "NVIDIA's"),
        ({"variables": {"HIP_PATH_57": "C:\\old"}}, "environment", "warn", "stale"),
        ({"variables": {"ROCBLAS_TENSILE_LIBPATH": "x"}}, "environment", "warn", "other kernels"),
        ({"variables": {"ZLUDA_BLAS_LIB": "x"}}, "environment", "warn", "redirects"),
        ({"variables": {"AMD_LOG_LEVEL": "4"}}, "environment", "warn", "log lines"),
        ({"variables": {"AMD_LOG_LEVEL": "0"}}, "environment", "ok", "no variable"),
        ({"variables": {"HIP_PATH": "/ROCm/6.4/"}}, "environment", "ok", "no variable"),
        ({"on_path": {"C:\\old\\bin": ("amdhip64.dll",)}}, "path", "warn", "amdhip64.dll in C:\\old\\bin"),
        ({"on_path": {"/ROCm/6.4/bin/": ("rocblas.dll",)}}, "path", "ok", "the HIP runtime in use"),
        ({"folders": {"home": "C:\\Users\\Jürgen"}}, "folders", "warn", "outside ASCII"),
        ({"free": {"store": 1024**2}}, "space", "warn", "0.0 GiB"),
        ({"free": {"store": None}}, "space", "unknown", "store"),
        ({"vc_runtime": ""}, "vc-runtime", "fail", "not installed"),
        ({"vc_runtime": None}, "vc-runtime", "unknown", "could not be read"),
        ({"missing_functions": ("hipFoo",)}, "driver", "fail", "hipFoo"),
        ({"missing_functions": None}, "driver", "unknown", "whether"),
        ({"threats": None}, "antivirus", "unknown", "could not be read"),
        ({"threats": ("taken: zluda.exe",)}, "antivirus", "warn", "zluda.exe"),
        ({"windows_build": None}, "windows", "unknown", "could not be read"),
        ({"windows_build": WindowsBuild(build=26200, revision=9445)}, "windows", "warn", "KB5124008"),
        ({"cache": None}, "compile-cache", "ok", "empty"),
    ],
)  # fmt: skip
def test_every_fault_has_its_line(change: dict[str, object], topic: str, status: str, says: str) -> None:
    found = lines(replace(GOOD, **change), topic)  # type: ignore[arg-type]  # one field at a time
    assert [text for word, text in found if word == status and says in text], found


def test_two_folders_of_one_volume_are_one_line_about_space() -> None:
    both = replace(GOOD, free={"store": 50 * 1024**3 + 1, "stage": 50 * 1024**3})
    assert lines(both, "space") == [("ok", "50.0 GiB free for the store and the stage")]
    apart = replace(GOOD, free={"store": 50 * 1024**3, "stage": 1024**2})
    assert [status for status, _ in lines(apart, "space")] == ["ok", "warn"]


def test_letters_that_do_no_harm_on_linux_are_no_warning_with_a_good_mark() -> None:
    odd = {"home": "/home/jürgen"}
    there = replace(GOOD, folders=odd, host=replace(HOST, os="linux"), vc_runtime=None, threats=None)
    assert lines(there, "folders") == [("ok", "home: /home/jürgen: Linux opens characters outside ASCII")]
    [(status, text)] = lines(replace(GOOD, folders=odd), "folders")
    assert (status, "cannot open" in text) == ("warn", True)


def test_two_gpus_make_the_second_number_valid() -> None:
    machine = replace(GOOD, host=replace(HOST, gpus=(GPU, IGPU)), variables={"HIP_VISIBLE_DEVICES": "1"})
    assert lines(machine, "environment")[0][0] == "warn"


def test_linux_is_asked_nothing_that_exists_on_windows_alone() -> None:
    machine = replace(GOOD, host=replace(HOST, os="linux"), vc_runtime=None, threats=None)
    topics = {line.topic for line in examine(machine)}
    assert not topics & {"vc-runtime", "antivirus"}
    assert lines(replace(machine, variables={"HSA_OVERRIDE_GFX_VERSION": "1"}), "environment")[0][1].endswith(
        "another one"
    )


def test_a_machine_without_a_radeon_is_not_asked_for_hip() -> None:
    host = Host(os="linux", machine="x86_64")
    found = examine(MachineState(host=host, stage=StageFact(state="none"), free={"store": 9 * 1024**3}))
    assert worst(found) == {"ok", "warn"}


OURS = "a" * 64
PINNED = {OURS: "zluda-v6"}


def library(path: str, sha256: str = "b" * 64, **more: object) -> FoundLibrary:
    return FoundLibrary(path=path, sha256=sha256, **more)  # type: ignore[arg-type]  # attributes by name


NVIDIA = {"company": "NVIDIA Corporation", "version": "12.4.5.8"}


@pytest.mark.parametrize(
    ("libraries", "placed", "says", "overwritten"),
    [
        ([], {}, "ok: no CUDA library", None),
        ([library("nvcuda.dll", OURS)], {}, "ok: nvcuda.dll: pinned, from zluda-v6", False),
        ([library("cublas64_12.dll", **NVIDIA)], {}, "ok: cublas64_12.dll: NVIDIA's 12.4.5.8", False),
        ([library("nvcuda.dll", mentions_zluda=True)], {}, "warn: nvcuda.dll: ZLUDA's", False),
        ([library("nvcuda.dll")], {}, "unknown: nvcuda.dll: unknown origin", False),
        (
            [library("nvcuda.dll", OURS), library("cublas64_12.dll", **NVIDIA)], {},
            "fail: the folder is a mixture", True,
        ),
        (
            [library("cublas64_12.dll", **NVIDIA)], {"cublas64_12.dll": OURS},
            "fail: cublas64_12.dll was placed", True,
        ),
        ([], {"nvcuda.dll": OURS}, "fail: nvcuda.dll was placed by us and is gone", None),
        (
            [library("lib/nvrtc_cuda.dll", "c" * 64), library("lib/nvrtc64_112_0.dll", "c" * 64)], {},
            "fail: lib/nvrtc_cuda.dll should be NVIDIA's", True,
        ),
        (
            [library("torch/lib/cublas64_11.dll", mentions_zluda=True, recorded="d" * 64)], {},
            "warn: torch/lib/cublas64_11.dll is not what its package installed, but ZLUDA's", False,
        ),
    ],
)  # fmt: skip
def test_whose_libraries_lie_beside_a_program(
    libraries: list[FoundLibrary], placed: dict[str, str], says: str, overwritten: bool | None
) -> None:
    judged = judge_folder(libraries, PINNED, placed)
    shown = [f"{line.status.value}: {line.text}" for line in judged.lines]
    assert [text for text in shown if text.startswith(says)], shown
    assert judged.overwritten is overwritten


def test_the_chain_names_the_file_that_is_really_missing() -> None:
    needs = {
        "app.exe": ["cublas64_12.dll", "KERNEL32.dll", "api-ms-win-crt-heap-l1-1-0.dll"],
        "cublas64_12.dll": ["rocblas.dll", "nvcuda.dll"],
        "rocblas.dll": ["amdhip64_6.dll"],
        "nvcuda.dll": ["amdhip64_6.dll"],
    }
    there = {"cublas64_12.dll", "KERNEL32.dll", "rocblas.dll", "nvcuda.dll"}
    found = list(
        missing_libraries(
            [Path("app.exe")],
            lambda path: needs.get(path.name, []),
            lambda _asker, name: Path(name) if name in there else None,
        )
    )
    assert [(item.name, item.chain) for item in found] == [
        ("amdhip64_6.dll", ("app.exe", "cublas64_12.dll", "rocblas.dll"))
    ]
    (line,) = missing_lines(found)
    assert (line.status, "amdhip64_6.dll is nowhere" in line.text) == (Status.FAIL, True)


def test_imports_that_go_round_end() -> None:
    found = missing_libraries([Path("a")], lambda _path: ["a", "b"], lambda _asker, name: Path(name))
    assert list(found) == []


EVENT = """<Event xmlns='x'><System><TimeCreated SystemTime='2026-05-17T10:11:12.123Z'/></System><EventData>
<Data Name='Threat Name'>Trojan:Win32/Poma!rfn</Data><Data Name='Path'>file:_C:\\dl\\ZLUDA&amp;co.zip</Data>
</EventData></Event>"""


def test_defender_events_are_read_by_their_fields_not_their_language() -> None:
    other = EVENT.replace("ZLUDA&amp;co", "something")
    assert parse_events(EVENT + other) == (
        "2026-05-17T10:11:12: Defender took file:_C:\\dl\\ZLUDA&co.zip for Trojan:Win32/Poma!rfn",
    )
    assert parse_events("") == ()
