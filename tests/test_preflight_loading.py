"""How a program loads its driver decides how the stack gets in; copies that do not serve are never placed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.errors import LaunchError
from scripts.launch.injection import Via, ViaFacts, choose_via
from scripts.model import StackKind
from scripts.preflight.loading import Loading, loading_of
from tests.elf_files import elf
from tests.fatbins import container, ptx
from tests.pe_files import pe
from tests.preflight_programs import NEEDS, dll, examined, exe, ship

CUDART = {"cudart64_12.dll": dll(sections={".data": b"nvcuda.dll\0"})}
RUNTIME = exe({"cudart64_12.dll": ["cudaMalloc"]})


def loading(tmp_path: Path, files: dict[str, bytes], *, hidden: bool = False) -> Loading:
    program = ship(tmp_path / "p", files)
    return loading_of(examined(program, tmp_path).closure, NEEDS, hidden=hidden)


def way(seen: Loading, *, platform: str = "win32", launcher: bool = False) -> Via | str:
    facts = ViaFacts(platform=platform, kind=StackKind.TRANSLATION, launcher=launcher)
    values = {name: getattr(seen, name) for name in Loading.__struct_fields__}
    try:
        return choose_via(replace(facts, **values)).via
    except LaunchError as error:
        return error.reference


LOADERS = {"KERNEL32.dll": ["LoadLibraryA", "GetProcAddress"]}
WINDOWS = {
    "static-import": ({"app.exe": exe({"nvcuda.dll": ["cuInit"]})}, Via.BESIDE),
    "import-by-its-library": (
        {"app.exe": exe({"core.dll": ["x"]}), "core.dll": dll({"nvcuda.dll": ["cuInit"]})},
        Via.BESIDE,
    ),
    "delay-load": ({"app.exe": exe(delayed={"nvcuda.dll": ["cuInit"]})}, Via.BESIDE),
    "plain-load": (
        {"app.exe": pe(imports=LOADERS, sections={".data": b"nvcuda.dll\0"}, dll=False)},
        Via.BESIDE,
    ),
    "load-with-flags": (
        {
            "app.exe": pe(
                imports={"KERNEL32.dll": ["LoadLibraryA", "LoadLibraryExA"]},
                sections={".data": b"nvcuda.dll\0"},
                dll=False,
            )
        },
        "no-way-in",
    ),
    "runtime": ({"app.exe": RUNTIME, **CUDART}, "no-way-in"),
    "runtime-not-shipped": ({"app.exe": RUNTIME}, "no-way-in"),
    "runtime-of-a-plugin": (
        {"app.exe": exe(), "plugins/p.dll": dll({"cudart64_12.dll": ["cudaMalloc"]})},
        "no-way-in",
    ),
    "runtime-linked-in": (
        {"app.exe": exe(sections={".nv_fatb": container(ptx()), ".data": b"nvcuda.dll\0"})},
        "no-way-in",
    ),
    "runtime-after-a-static-import": (
        {"app.exe": exe({"cudart64_12.dll": ["cudaMalloc"], "nvcuda.dll": ["cuInit"]}), **CUDART},
        Via.BESIDE,
    ),
    "system-folder-only": ({"app.exe": exe({"nvcuda.dll": ["cuInit"]}, load_flags=0x800)}, "no-way-in"),
    "nvrtc": (
        {"app.exe": exe({"nvcuda.dll": ["cuInit"], "nvrtc64_120_0.dll": ["nvrtcCompileProgram"]})},
        "no-way-in",
    ),
    "own-copies-and-runtime": (
        {
            "app.exe": exe({"cublas64_12.dll": ["x"], "cudart64_12.dll": ["x"]}),
            "cublas64_12.dll": dll(),
            **CUDART,
        },
        "no-way-in",
    ),
    "nothing-of-cuda": ({"app.exe": exe()}, "no-way-in"),
}


@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_copies_are_placed_only_where_they_are_found(tmp_path: Path, case: str) -> None:
    files, expected = WINDOWS[case]
    assert way(loading(tmp_path, files)) == expected


@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_a_launcher_serves_them_all(tmp_path: Path, case: str) -> None:
    assert way(loading(tmp_path, WINDOWS[case][0]), launcher=True) is Via.LAUNCHER


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ({"rpath": "$ORIGIN/lib"}, Via.BESIDE),
        ({"runpath": "$ORIGIN/lib"}, Via.ENV),
        ({"rpath": "$ORIGIN/lib", "runpath": "/other"}, Via.ENV),
        ({"rpath": "/nowhere"}, Via.ENV),
        ({}, Via.ENV),
    ],
    ids=["rpath", "runpath", "both", "elsewhere", "none"],
)
def test_on_linux_only_an_rpath_beats_the_search_path(
    tmp_path: Path, links: dict[str, str], expected: Via
) -> None:
    files = {"app": elf(needed=["libcublas.so.12"], program=True, **links), "lib/libcublas.so.12": elf()}
    program = ship(tmp_path / "p", files)
    seen = loading_of(examined(program, tmp_path).closure, ["cublas12"], hidden=False)
    assert way(seen, platform="linux") is expected


@pytest.mark.posix_only
def test_a_programs_rpath_counts_for_its_libraries_too(tmp_path: Path) -> None:
    files = {
        "app": elf(needed=["libcore.so"], rpath="$ORIGIN/lib", program=True),
        "lib/libcore.so": elf(needed=["libcublas.so.12"], soname="libcore.so"),
        "lib/libcublas.so.12": elf(),
    }
    program = ship(tmp_path / "p", files)
    assert loading_of(examined(program, tmp_path).closure, ["cublas12"], hidden=False).own_copies == (
        "libcublas.so.12",
    )


def test_what_hides_its_cuda_proves_nothing_by_silence(tmp_path: Path) -> None:
    seen = loading(tmp_path, {"app.exe": RUNTIME, **CUDART}, hidden=True)
    assert (seen.at_start, seen.bare_load, seen.nvrtc) == (None, None, None)
    assert seen.system_only == ("cudart64_12.dll",)


def test_a_program_without_cuda_leaves_every_fact_open(tmp_path: Path) -> None:
    assert loading(tmp_path, {"app.exe": exe()}) == Loading()


def test_a_reference_stack_serves_by_search_path_what_shows_nothing() -> None:
    facts = ViaFacts(platform="win32", kind=StackKind.REFERENCE)
    assert choose_via(facts).via is Via.ENV
    with pytest.raises(LaunchError, match="system folder only"):
        choose_via(replace(facts, system_only=("cudart64_12.dll",)))
