"""A HIP runtime in parts becomes one folder with one bin, wherever its files lie in their packages."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from scripts.app.setup_steps import kernel_notes
from scripts.errors import IntegrityError
from scripts.launch.environ import hip_home, search_folders
from scripts.model import (
    Artifact,
    ArtifactFormat,
    Gpu,
    HipNeed,
    HipRoot,
    HipSource,
    Host,
    Member,
    NoProgress,
    Runtime,
    Stack,
    StackKind,
    Trust,
)
from scripts.staging.assemble import assemble, hip_roots, lay_out, plan_runtime
from scripts.store.cache import Cache
from scripts.store.trees import TreeFile, UnpackedTree

STACK = Stack(
    id="zluda-parts", kind=StackKind.TRANSLATION, hip=HipNeed(source=HipSource.PARTS), parts=("layer", "core")
)
CORE = {
    "_rocm_sdk_core/__init__.py": b"# core",
    "_rocm_sdk_core/.info/version": b"10.1.0\n",
    "_rocm_sdk_core/bin/amdhip64_7.dll": b"hip",
    "_rocm_sdk_core/bin/hipInfo.exe": b"info",
    "rocm_sdk_core/_dist_info.py": b"# package",
    "rocm_sdk_core-10.1.0.dist-info/METADATA": b"Version: 10.1.0",
}
LIBRARIES = {
    "_rocm_sdk_libraries/__init__.py": b"# libraries",
    "_rocm_sdk_libraries/bin/rocblas.dll": b"rocblas",
    "_rocm_sdk_libraries/bin/libhipblaslt.dll": b"lt",
    "_rocm_sdk_libraries/bin/MIOpen.dll": b"miopen",
}
DEVICE = {
    "_rocm_sdk_device_gfx1200/bin/rocblas/library/TensileLibrary_lazy_gfx1200.dat": b"t",
    "_rocm_sdk_device_gfx1200/bin/hipblaslt/library/gfx1200/kernels.co": b"k",
    "rocm_sdk_device_gfx1200-10.1.0.dist-info/RECORD": b"",
}
MERGED = [
    "hip/.info/version",
    "hip/bin/MIOpen.dll",
    "hip/bin/amdhip64_7.dll",
    "hip/bin/hipInfo.exe",
    "hip/bin/hipblaslt/library/gfx1200/kernels.co",
    "hip/bin/libhipblaslt.dll",
    "hip/bin/rocblas.dll",
    "hip/bin/rocblas/library/TensileLibrary_lazy_gfx1200.dat",
]


def artifact(name: str, *members: Member, form: ArtifactFormat = ArtifactFormat.WHEEL) -> Artifact:
    return Artifact(
        id=name,
        urls=(),
        sha256=None,
        size=None,
        format=form,
        root="",
        license="MIT",
        source="test",
        trust=Trust.INDEPENDENT,
        members=members,
    )


def tree(folder: Path, files: dict[str, bytes]) -> UnpackedTree:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    listed = (
        TreeFile(path=name, sha256=hashlib.sha256(data).hexdigest(), size=len(data))
        for name, data in files.items()
    )
    return UnpackedTree(path=folder, root="", files=tuple(listed))


def assembled(tmp_path: Path, *packages: dict[str, bytes]) -> Runtime:
    layer = artifact("layer", Member(path="nvcuda.dll", name="nvcuda.dll", provides="nvcuda"))
    parts = lay_out(STACK, layer, tree(tmp_path / "layer", {"nvcuda.dll": b"driver"}))
    for number, files in enumerate(packages):
        parts += lay_out(STACK, artifact(f"part{number}"), tree(tmp_path / f"part {number}", files))
    return assemble(plan_runtime(STACK.id, parts), Cache(tmp_path / "store"), progress=NoProgress())[0]


def tarball(top: str) -> dict[str, bytes]:
    """The same files as one archive has them, below any folder."""
    flat = {}
    for files in (CORE, LIBRARIES, DEVICE):
        for name, data in files.items():
            package, _, below = name.partition("/")
            if package.startswith("_rocm_sdk") and not name.endswith(".py"):
                flat[f"{top}{below}"] = data
    return flat


def test_packages_become_one_folder_with_one_bin(tmp_path: Path) -> None:
    runtime = assembled(tmp_path, CORE, LIBRARIES, DEVICE)
    assert [f.name for f in runtime.files if f.name != "nvcuda.dll"] == MERGED
    assert runtime.path is not None
    assert (runtime.path / "hip" / "bin" / "rocblas.dll").read_bytes() == b"rocblas"


@pytest.mark.parametrize("top", ["", "build/", "therock-dist/dist/rocm/"], ids=["none", "one", "deep"])
def test_an_archive_is_found_at_any_depth(tmp_path: Path, top: str) -> None:
    runtime = assembled(tmp_path, tarball(top))
    assert [f.name for f in runtime.files if f.name != "nvcuda.dll"] == MERGED


def test_the_layer_is_told_the_merged_folder_and_finds_it_first(tmp_path: Path) -> None:
    runtime = assembled(tmp_path, CORE, LIBRARIES)
    home = PureWindowsPath(str(runtime.path)) / "hip"
    assert hip_home(runtime, None, "win32") == home
    assert [PureWindowsPath(str(f.path)) for f in search_folders(runtime)] == [home.parent, home / "bin"]


def test_kernels_packed_apart_are_taken_along() -> None:
    paths = ["_rocm_sdk_libraries/.kpack/blas_gfx1200.kpack", "rocm_sdk_device_gfx1200/__init__.py"]
    assert hip_roots(paths) == ("_rocm_sdk_libraries",)


def test_a_runtime_inside_a_runtime_is_part_of_it() -> None:
    assert hip_roots(["bin/amdhip64_7.dll", "lib/old/bin/rocblas.dll"]) == ("",)


def test_a_part_without_hip_is_refused_by_what_it_holds(tmp_path: Path) -> None:
    strange = tree(tmp_path, {"docs/readme.txt": b"", "include/hip.h": b""})
    with pytest.raises(IntegrityError) as caught:
        lay_out(STACK, artifact("part"), strange)
    assert caught.value.reference == "hip-part-unrecognised"
    assert caught.value.context == ("docs", "include")


def test_two_packages_with_different_files_of_one_name_are_refused(tmp_path: Path) -> None:
    other = {"_rocm_sdk_libraries/bin/amdhip64_7.dll": b"another hip"}
    with pytest.raises(IntegrityError, match="different files"):
        assembled(tmp_path, CORE, other)


@pytest.mark.parametrize(
    ("files", "notes"),
    [
        (["bin/rocblas/library/TensileLibrary_gfx1200.dat"], 0),
        (["bin/rocblas/library/TensileLibrary_gfx1100.dat"], 1),
        (["bin/rocblas/library/a_gfx1100.dat", "bin/hipblaslt/library/gfx1100/b.co"], 2),
        (["bin/rocblas.dll"], 0),
    ],
    ids=["there", "other-gpu", "both-other", "not-to-be-seen"],
)
def test_kernels_for_other_gpus_alone_are_said(tmp_path: Path, files: list[str], notes: int) -> None:
    tree(tmp_path / "rocm", dict.fromkeys(files, b"x"))
    gpu = Gpu(index=0, name="RX 9060 XT", vendor="amd", gfx="gfx1200")
    root = HipRoot(path=tmp_path / "rocm", version="6.4.2", source="test")
    stack = Stack(id="sdk", kind=StackKind.TRANSLATION, hip=HipNeed(source=HipSource.SDK, range=">=6.4,<6.5"))
    host = Host(os="windows", machine="AMD64", gpus=(gpu,), selected=0, hip_roots=(root,))
    said = kernel_notes(stack, host)
    assert len(said) == notes
    assert all("none for gfx1200" in note for note in said)


def test_what_a_supplied_file_replaces_stays_beside_it(tmp_path: Path) -> None:
    names = [f"{base}_{n}.dll" for base in ("cublas64", "cublasLt64") for n in (11, 12, 13)]
    layer = artifact("layer", *(Member(path=n, name=n, provides=n, needs=("rocblas",)) for n in names))
    overlay = artifact(
        "overlay",
        *(Member(path=n, name=n, provides=n) for n in names),
        Member(path="amdhip64.dll", name="amdhip64.dll"),
        form=ArtifactFormat.SUPPLIED,
    )
    brought = {**{n: f"theirs {n}".encode() for n in names}, "amdhip64.dll": b"hip"}
    parts = [
        (layer, tree(tmp_path / "layer", {n: f"ours {n}".encode() for n in names}), ""),
        (overlay, tree(tmp_path / "brought", brought), ""),
    ]
    runtime, _ = assemble(plan_runtime("overlay", parts), Cache(tmp_path / "store"), progress=NoProgress())
    assert runtime.path is not None
    for name in names:
        kept = name.replace(".dll", "_zluda.dll")
        assert (runtime.path / name).read_bytes() == f"theirs {name}".encode()
        assert (runtime.path / kept).read_bytes() == f"ours {name}".encode()
    assert {f.name for f in runtime.files if f.provides} == set(names), "what is kept answers for nothing"
    assert len(runtime.files) == 2 * len(names) + 1


def test_files_a_person_brings_stay_their_own(tmp_path: Path) -> None:
    overlay = artifact(
        "overlay", Member(path="amdhip64.dll", name="amdhip64.dll"), form=ArtifactFormat.SUPPLIED
    )
    brought = tree(tmp_path / "brought", {"amdhip64.dll": b"hip"})
    assemble(plan_runtime("s", [(overlay, brought, "")]), Cache(tmp_path / "store"), progress=NoProgress())
    own = tmp_path / "brought" / "amdhip64.dll"
    assert own.stat().st_nlink == 1
    own.write_bytes(b"still writable, and nobody else's")


LINUX_CORE = {
    "_rocm_sdk_core/.info/version": b"10.0.0\n",
    "_rocm_sdk_core/lib/libamdhip64.so.7": b"hip",
    "_rocm_sdk_core/lib/libhsa-runtime64.so.1": b"hsa",
    "_rocm_sdk_core/lib/rocm_sysdeps/lib/librocm_sysdeps_elf.so.1": b"elf",
    "_rocm_sdk_core/lib/llvm/lib/libclang-cpp.so": b"clang",
    "rocm_sdk_core/_dist_info.py": b"# package",
}
LINUX_LIBRARIES = {
    "_rocm_sdk_libraries/lib/librocblas.so.5": b"rocblas",
    "_rocm_sdk_libraries/lib/libMIOpen.so.1": b"miopen",
    "_rocm_sdk_libraries/lib/libhipfft.so.0": b"fft",
}
LINUX_DEVICE = {
    "_rocm_sdk_libraries/.kpack/blas_lib_gfx1151.kpack": b"k",
    "_rocm_sdk_libraries/lib/hipblaslt/library/gfx1151/kernels.co": b"k",
}


def test_linux_packages_become_one_folder_and_libraries_get_the_name_that_layers_ask_for(
    tmp_path: Path,
) -> None:
    runtime = assembled(tmp_path, LINUX_CORE, LINUX_LIBRARIES, LINUX_DEVICE)
    names = {f.name for f in runtime.files}
    assert names >= {
        "hip/.info/version",
        "hip/.kpack/blas_lib_gfx1151.kpack",
        "hip/lib/hipblaslt/library/gfx1151/kernels.co",
        "hip/lib/libhsa-runtime64.so.1",
    }
    for asked, there in (("amdhip64", "7"), ("rocblas", "5"), ("MIOpen", "1"), ("hipfft", "0")):
        assert names >= {f"hip/lib/lib{asked}.so", f"hip/lib/lib{asked}.so.{there}"}
    assert "hip/lib/libhsa-runtime64.so" not in names, "no layer asks for it"
    assert runtime.path is not None
    assert (runtime.path / "hip/lib/libamdhip64.so").read_bytes() == b"hip"


def test_linux_packages_are_found_with_the_folders_beside_hip(tmp_path: Path) -> None:
    runtime = assembled(tmp_path, LINUX_CORE, LINUX_LIBRARIES)
    assert runtime.path is not None
    lib = runtime.path / "hip" / "lib"
    assert [f.path for f in search_folders(runtime)] == [
        *(runtime.path, lib, lib / "rocm_sysdeps" / "lib", lib / "llvm" / "lib")
    ]
    assert PurePosixPath(str(hip_home(runtime, None, "linux"))).name == "hip"


def test_a_name_that_a_package_has_already_stays_its_own(tmp_path: Path) -> None:
    both = {**LINUX_CORE, "_rocm_sdk_core/lib/libamdhip64.so": b"a script for the linker"}
    runtime = assembled(tmp_path, both)
    assert runtime.path is not None
    assert (runtime.path / "hip/lib/libamdhip64.so").read_bytes() == b"a script for the linker"
