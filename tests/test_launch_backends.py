"""What is missing behind a CUDA library is named down to the leaf, by the layer's own rules of search."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts.app.stack_process import refuse_foreign_driver
from scripts.errors import HostError, LaunchError
from scripts.launch.backends import (
    BackendPlaces,
    missing_backends,
    notes_of,
    outdated_runtime,
    refuse_or_note,
    shadowing,
)
from scripts.launch.injection import Via
from scripts.model import Runtime, RuntimeFile, StackKind
from tests.pe_files import pe
from tests.wrapping import runtime_in, staged_over, workspace


def file(name: str, provides: str, *needs: str) -> RuntimeFile:
    return RuntimeFile(name=name, sha256="0" * 64, size=1, provides=provides, needs=needs)


RUNTIME = Runtime(
    stack="zluda",
    digest="d" * 64,
    path=Path("layer"),
    files=(
        file("nvcuda.dll", "nvcuda", "amdhip64"),
        file("cublas64_11.dll", "cublas11", "rocblas", "hipblaslt"),
        file("cublas64_12.dll", "cublas12", "rocblas", "hipblaslt"),
        file("cufft64_11.dll", "cufft11"),
        file("trace/cublas64_11.dll", "", "miopen"),
    ),
)
Files = Mapping[str, tuple[str, ...]]
HIP6: Files = {"amdhip64_6.dll": ("kernel32.dll",)}
BLAS: Files = {"rocblas.dll": ("amdhip64_6.dll", "kernel32.dll"), "libhipblaslt.dll": ("amdhip64_6.dll",)}


@pytest.fixture
def places(tmp_path: Path) -> BackendPlaces:
    for name in ("layer", "hip", "program", "system", "more"):
        (tmp_path / name).mkdir()
    put(tmp_path / "system", {"kernel32.dll": ()})
    return BackendPlaces(
        layer=tmp_path / "layer",
        hip=tmp_path / "hip",
        program=tmp_path / "program",
        system=tmp_path / "system",
        path=(tmp_path / "more",),
    )


def put(folder: Path | None, files: Files, *, delayed: tuple[str, ...] = ()) -> None:
    assert folder is not None
    for name, imports in files.items():
        later = {i: ["f"] for i in imports if i in delayed}
        now = {i: ["f"] for i in imports if i not in delayed}
        (folder / name).write_bytes(pe(imports=now, delayed=later))


def sentences(places: BackendPlaces) -> list[str]:
    return [missing.sentence for missing in missing_backends(RUNTIME, places)]


def test_nothing_is_missing_where_all_is_there(places: BackendPlaces) -> None:
    put(places.hip, {**HIP6, **BLAS})
    assert sentences(places) == []


def test_the_wrong_generation_is_named_down_to_the_leaf(places: BackendPlaces) -> None:
    put(places.hip, BLAS)
    put(places.system, {"amdhip64_7.dll": ()})
    where = r"not in HIP\bin; not in the program's folder; System32 has only amdhip64_7.dll"
    assert sentences(places) == [
        f"cublas64_11.dll → libhipblaslt.dll → amdhip64_6.dll: {where}",
        f"cublas64_11.dll → rocblas.dll → amdhip64_6.dll: {where}",
    ]


def test_all_that_fail_are_named_once_and_the_program_is_not_refused(places: BackendPlaces) -> None:
    put(places.hip, {**HIP6, "rocblas.dll": ("amdhip64_6.dll",)})
    lacking = r"hipblaslt.dll or libhipblaslt.dll: not in the layer's folder; not in HIP\bin"
    assert refuse_or_note(missing_backends(RUNTIME, places)) == (
        f"cublas11, cublas12 will fail, and may show a box: cublas64_11.dll → {lacking}",
    )


@pytest.mark.parametrize("folder", ["layer", "hip", "program", "system", "more"])
def test_the_runtime_itself_is_found_wherever_its_bare_name_leads(places: BackendPlaces, folder: str) -> None:
    put(places.layer.parent / folder, {"amdhip64_7.dll": ()})
    assert not [m for m in missing_backends(RUNTIME, places) if m.library == "amdhip64"]


@pytest.mark.parametrize("folder", ["program", "system", "more"])
def test_a_back_end_is_looked_for_in_two_folders_only(places: BackendPlaces, folder: str) -> None:
    put(places.hip, HIP6)
    put(places.layer.parent / folder, BLAS)
    assert {m.library for m in missing_backends(RUNTIME, places)} == {"rocblas", "hipblaslt"}


def test_without_the_runtime_nothing_is_started(places: BackendPlaces) -> None:
    put(places.system, {"amdhip64.dll": ()})
    with pytest.raises(HostError) as caught:
        refuse_or_note(missing_backends(RUNTIME, places))
    assert caught.value.reference == "hip-library-missing"
    [line] = caught.value.context
    assert line.startswith("nvcuda.dll → amdhip64_7.dll or amdhip64_6.dll: not in the layer's folder")
    assert line.endswith("System32 has only amdhip64.dll")


def test_a_runtime_that_cannot_start_is_refused_as_well(places: BackendPlaces) -> None:
    put(places.hip, {"amdhip64_7.dll": ("amd_comgr.dll", "rocm_kpack.dll"), "amd_comgr.dll": ()})
    with pytest.raises(HostError) as caught:
        refuse_or_note(missing_backends(RUNTIME, places))
    assert caught.value.message.startswith("the HIP runtime lacks rocm_kpack.dll")


def test_what_the_runtime_imports_may_lie_in_path(places: BackendPlaces) -> None:
    put(places.hip, {"amdhip64_7.dll": ("amd_comgr.dll",)})
    put(places.path[0], {"amd_comgr.dll": ()})
    assert not [m for m in missing_backends(RUNTIME, places) if m.library == "amdhip64"]


def test_what_is_loaded_later_is_said_to_be_missed_later(places: BackendPlaces) -> None:
    put(places.hip, {**HIP6, "libhipblaslt.dll": ("amdhip64_6.dll",)})
    put(places.hip, {"rocblas.dll": ("hipsolver.dll", "amdhip64_6.dll")}, delayed=("hipsolver.dll",))
    [note] = refuse_or_note(missing_backends(RUNTIME, places))
    assert note.startswith("cublas11, cublas12 will fail when it is used: cublas64_11.dll → rocblas.dll")


def test_libraries_that_import_each_other_end_the_walk(places: BackendPlaces) -> None:
    put(places.hip, {**HIP6, "rocblas.dll": ("libhipblaslt.dll",), "libhipblaslt.dll": ("rocblas.dll",)})
    assert sentences(places) == []


def test_names_the_system_answers_for_are_no_files(places: BackendPlaces) -> None:
    put(places.hip, {**HIP6, **BLAS, "rocblas.dll": ("api-ms-win-crt-heap-l1-1-0.dll", "KERNEL32.dll")})
    assert sentences(places) == []


def test_a_library_nobody_can_read_is_not_judged(places: BackendPlaces) -> None:
    put(places.hip, {**HIP6, **BLAS})
    assert places.hip is not None
    (places.hip / "rocblas.dll").write_bytes(b"MZ damaged")
    assert sentences(places) == []


def test_hip_libraries_of_the_programs_own_are_seen(places: BackendPlaces) -> None:
    put(places.program, {"AMDHIP64_6.dll": (), "MIOpen.dll": (), "amd_comgr.dll": ()})
    assert places.program is not None
    assert shadowing(places.program) == ("AMDHIP64_6.dll", "MIOpen.dll")
    assert shadowing(places.program / "nowhere") == ()


@pytest.mark.parametrize("kind", list(StackKind))
@pytest.mark.parametrize("via", list(Via))
def test_an_nvidia_driver_is_never_mixed_with_a_layer(tmp_path: Path, via: Via, kind: StackKind) -> None:
    (tmp_path / "System32").mkdir()
    (tmp_path / "System32" / "nvcuda.dll").write_bytes(b"NVIDIA's")
    ws = workspace(tmp_path, platform="win32", environ={"SYSTEMROOT": str(tmp_path)})
    staged = staged_over(runtime_in(tmp_path / "layer", "nvcuda.dll"), kind=kind)
    if (kind, via) == (StackKind.TRANSLATION, Via.ENV):
        with pytest.raises(LaunchError) as caught:
            refuse_foreign_driver(ws, staged, via)
        assert "--via=launcher" in caught.value.hint
    else:
        refuse_foreign_driver(ws, staged, via)


def test_without_an_nvidia_driver_the_search_path_may_be_used(tmp_path: Path) -> None:
    ws = workspace(tmp_path, platform="win32", environ={"SYSTEMROOT": str(tmp_path)})
    staged = staged_over(runtime_in(tmp_path / "layer"), kind=StackKind.TRANSLATION)
    refuse_foreign_driver(ws, staged, Via.ENV)


def test_what_would_be_refused_can_also_just_be_said(places: BackendPlaces) -> None:
    [first, *_rest] = notes_of(missing_backends(RUNTIME, places))
    assert first.startswith(
        "the HIP runtime lacks amdhip64_7.dll or amdhip64_6.dll: no CUDA program can start"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("offered", "said"),
    [
        (("hipInit", "hipMemAdvise_v2", "hipMore"), ""),
        (("hipInit",), "nvcuda.dll asks it for hipMemAdvise_v2, which it lacks"),
        ((), ""),
    ],
    ids=["has all", "too old", "cannot be read"],
)
@pytest.mark.parametrize("delayed", [True, False], ids=["delayed", "at start"])
def test_a_runtime_without_what_the_layer_asks_for_is_too_old(
    places: BackendPlaces, tmp_path: Path, offered: tuple[str, ...], said: str, *, delayed: bool
) -> None:
    asked = {"amdhip64_7.dll": ["hipInit", "hipMemAdvise_v2"], "kernel32.dll": ["Sleep"]}
    driver = tmp_path / "layer" / "nvcuda.dll"
    driver.write_bytes(pe(delayed=asked) if delayed else pe(imports=asked))
    runtime = tmp_path / "hip" / "amdhip64_6.dll"
    runtime.write_bytes(pe(exports=dict.fromkeys(offered, "")) if offered else b"MZ")
    sentence = outdated_runtime(driver, places)
    assert (said in sentence) if said else sentence == ""
    assert sentence == "" or sentence.startswith(f"{runtime} may be too old")


def test_without_a_runtime_nothing_is_said_about_its_age(places: BackendPlaces, tmp_path: Path) -> None:
    (tmp_path / "layer" / "nvcuda.dll").write_bytes(pe(imports={"amdhip64_7.dll": ["hipInit"]}))
    assert outdated_runtime(tmp_path / "layer" / "nvcuda.dll", places) == ""
