"""What a program asks for is found wherever it lies, with the way that leads there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.preflight.coverage import cover
from scripts.preflight.libraries import (
    CallSupport,
    alternatives,
    api_table,
    libraries,
    library_of,
    named,
    runtime_calls,
)
from scripts.preflight.needs import Need
from scripts.preflight.packaging import environments, installed, is_python
from scripts.serialize import data_table
from tests.elf_files import elf
from tests.fatbins import container, ptx, sass
from tests.preflight_programs import dll, examined, exe, ship, zluda


def needs(program: Path, tmp_path: Path) -> dict[tuple[str, ...], dict[str, Need]]:
    found: dict[tuple[str, ...], dict[str, Need]] = {}
    for need in examined(program, tmp_path).closure.needs:
        found.setdefault(need.chain, {})[need.named.key] = need
    return found


@pytest.mark.parametrize(
    ("file", "key", "cuda"),
    [
        ("nvcuda.dll", "nvcuda", ""),
        ("NVCUDA.DLL", "nvcuda", ""),
        ("nvcuda", "nvcuda", ""),
        ("libcuda.so.1", "nvcuda", ""),
        ("cublas64_11.dll", "cublas11", "11"),
        ("cublasLt64_12.dll", "cublaslt12", "12"),
        ("libcublasLt.so.13", "cublaslt13", "13"),
        ("cudart64_110.dll", "cudart110", "11"),
        ("cudart64_12.dll", "cudart12", "12"),
        ("libcudart.so.11.0", "cudart11", "11"),
        ("nvrtc64_112_0.dll", "nvrtc112", "11"),
        ("cufft64_10.dll", "cufft10", "11"),
        ("cudnn64_8.dll", "cudnn8", ""),
        ("cudnn_ops64_9.dll", "cudnn-part9", ""),
        ("cusolver64_11.dll", "cusolver11", "11"),
        ("curand64_10.dll", "curand10", ""),
        ("nvinfer_10.dll", "tensorrt10", ""),
        ("libnvidia-ml.so.1", "nvml", ""),
        ("nppial64_12.dll", "npp12", "12"),
    ],
    ids=str,
)
def test_file_names_tell_library_and_cuda_version(file: str, key: str, cuda: str) -> None:
    meant = named(file)
    assert meant is not None
    assert (meant.key, meant.cuda) == (key, cuda)


@pytest.mark.parametrize(
    "file", ["kernel32.dll", "cuda.dll", "mycublas64_12.dll", "nvcuda.dll.bak", "libcudart.a"], ids=str
)
def test_other_names_are_nobodys(file: str) -> None:
    assert named(file) is None


@pytest.mark.parametrize(
    ("function", "library"),
    [
        ("cuInit", "nvcuda"),
        ("cudaMalloc", "cudart"),
        ("__cudaRegisterFatBinary", "cudart"),
        ("cublasSgemm_v2", "cublas"),
        ("cublasLtMatmul", "cublaslt"),
        ("cudnnCreate", "cudnn"),
        ("cusparseSpMM", "cusparse"),
        ("cufftExecC2C", "cufft"),
        ("nvmlInit_v2", "nvml"),
        ("curandCreateGenerator", "curand"),
        ("ncclAllReduce", "nccl"),
    ],
    ids=str,
)
def test_functions_tell_their_library(function: str, library: str) -> None:
    found = library_of(function)
    assert found is not None
    assert found.id == library


def test_the_tables_are_whole() -> None:
    ids = [library.id for library in libraries()]
    assert len(ids) == len(set(ids))
    assert all(library.gap for library in libraries() if library.part in {"client", "absent", "compiler"})
    assert all(choice.source for choice in alternatives())


def test_runtime_functions_become_the_drivers() -> None:
    calls = runtime_calls(
        ("cudaMalloc", "cudaGetLastError", "cudaMallocAsync", "cudaLaunchKernel_ptsz", "cudaNew")
    )
    assert calls.driver == ("cuMemAlloc_v2", "cuMemAllocAsync", "cuLaunchKernel_ptsz")
    assert calls.unknown == ("cudaNew",)


@pytest.mark.parametrize("table", ["zluda-v6-preview.69", "zluda-v7-preview.10"])
def test_every_driver_function_of_the_runtimes_table_exists(table: str) -> None:
    rows = data_table("cudart.toml")
    api = api_table(table)
    assert api is not None
    named_there = {call for calls in rows["calls"].values() for call in calls}
    assert not {call for call in named_there if api.lookup("nvcuda", call) is CallSupport.NOT_EXPORTED}
    assert not set(rows["own"]) & set(rows["calls"])


def traced() -> dict[str, set[str]]:
    """Which driver functions the real runtime called, by runtime function, without their versions."""
    found: dict[str, set[str]] = {}
    for line in (
        (Path(__file__).parent / "data" / "cudart" / "trace-13.0.txt")
        .read_text(encoding="utf-8")
        .splitlines()
    ):
        if match := re.match(r"(\w+)\(.*\) rc=\d+:(.*)", line):
            found.setdefault(match[1], set()).update(re.sub(r"_v\d$", "", call) for call in match[2].split())
    return found


def test_the_runtimes_table_is_what_was_traced() -> None:
    calls = data_table("cudart.toml")["calls"]
    compared = traced().keys() & calls.keys()
    assert len(compared) > 80
    for function in sorted(compared):
        claimed = {re.sub(r"_v\d$", "", call) for call in calls[function]}
        assert claimed <= traced()[function], f"{function}: the runtime did not ask for that"


def test_a_chain_over_plugins_is_found_and_named(tmp_path: Path) -> None:
    program = ship(
        tmp_path / "Ein Programm ü",
        {
            "app.exe": exe({"core.dll": ["run"]}),
            "core.dll": dll(delayed={"Plugin.dll": ["go"]}),
            "sub/plugin.dll": dll({"cudnn64_9.dll": ["cudnnCreate"]}),
        },
    )
    found = needs(program, tmp_path)
    need = found["app.exe", "core.dll", "plugin.dll"]["cudnn9"]
    assert (need.how, need.functions, need.at_start) == ("import", ("cudnnCreate",), False)
    assert need.asker == program.parent / "sub" / "plugin.dll"


@pytest.mark.parametrize(
    ("program", "how", "known", "at_start"),
    [
        (exe({"nvcuda.dll": ["cuInit"]}), "import", True, True),
        (exe(delayed={"nvcuda.dll": ["cuInit"]}), "delay", True, False),
        (exe(sections={".data": b"nvcuda.dll\0"}), "string", False, False),
        (exe(sections={".data": "C:\\x\\nvcuda.dll".encode("utf-16-le")}), "string", False, False),
        (exe(managed=["NvCuda", "Main"]), "string", False, False),
        (exe({"core.dll": ["x"]}, exports={"f": "nvcuda.cuInit"}), "import", True, True),
    ],
    ids=["import", "delay", "text", "wide-text", "dotnet", "forwarded"],
)
def test_every_way_of_asking_is_told_apart(
    tmp_path: Path, program: bytes, how: str, known: bool, at_start: bool
) -> None:
    need = needs(ship(tmp_path / "p", {"app.exe": program}), tmp_path)["app.exe",]["nvcuda"]
    assert (need.how, need.calls_known, need.at_start) == (how, known, at_start)


def test_what_nothing_names_is_read_as_well_and_said_to_be_so(tmp_path: Path) -> None:
    files = {
        "app.exe": exe(),
        "plugins/fast.dll": dll({"nvcuda.dll": ["cuInit"]}),
        "other.exe": exe({"nvml.dll": ["x"]}),
    }
    found = needs(ship(tmp_path / "p", files), tmp_path)
    assert found["fast.dll",]["nvcuda"].how == "package"
    assert ("other.exe",) not in found, "another program beside it is not part of it"


def test_own_copies_are_named_and_not_followed_where_the_stack_answers(tmp_path: Path) -> None:
    files = {
        "app.exe": exe({"cublas64_12.dll": ["cublasSgemm_v2"], "cusolver64_11.dll": ["cusolverDnCreate"]}),
        "cublas64_12.dll": dll({"cufft64_11.dll": ["x"]}),
        "cusolver64_11.dll": dll({"cusparse64_12.dll": ["cusparseCreate"]}),
        "cudnn_ops64_9.dll": dll({"nvml.dll": ["x"]}),
    }
    program = ship(tmp_path / "p", files)
    found = needs(program, tmp_path)
    assert found["app.exe",]["cublas12"].own == program.parent / "cublas64_12.dll"
    assert set(found) == {("app.exe",), ("app.exe", "cusolver64_11.dll")}


def test_the_runtimes_own_questions_are_replaced_by_what_the_program_calls(tmp_path: Path) -> None:
    files = {
        "app.exe": exe({"cudart64_12.dll": ["cudaMalloc", "cudaMallocManaged"]}),
        "cudart64_12.dll": dll(sections={".data": b"nvcuda.dll\0"}),
    }
    found = needs(ship(tmp_path / "p", files), tmp_path)
    driver = found["app.exe", "cudart64_12.dll"]["nvcuda"]
    assert driver.functions == ("cuMemAlloc_v2", "cuMemAllocManaged")
    covered = cover([driver], zluda())[0]
    assert covered.missing == ("cuMemAllocManaged",)


def test_linux_programs_are_followed_along_rpath(tmp_path: Path) -> None:
    files = {
        "bin/app": elf(
            needed=["libcore.so", "libcudart.so.12"],
            undefined=["cudaFree"],
            runpath="$ORIGIN/../lib",
            program=True,
        ),
        "lib/libcore.so": elf(
            needed=["libcublas.so.12"], undefined=["cublasSgemm_v2", "puts"], soname="libcore.so"
        ),
    }
    found = needs(ship(tmp_path / "app", files), tmp_path)
    assert found["app", "libcore.so"]["cublas12"].functions == ("cublasSgemm_v2",)
    assert found["app", "libcudart.so.12"]["nvcuda"].functions == ("cuMemFree_v2",)


@pytest.mark.posix_only
def test_one_library_under_two_names_is_read_once(tmp_path: Path) -> None:
    code = container(ptx(), sass())
    program = ship(
        tmp_path / "p", {"app": elf(program=True), "libk.so.1": elf(sections={".nv_fatbin": code})}
    )
    (program.parent / "libk.so").symlink_to("libk.so.1")
    found = examined(program, tmp_path)
    assert [v.path.name for v in found.closure.visited] == ["app", "libk.so.1"]


def test_a_folder_that_many_programs_share_is_not_swept(tmp_path: Path) -> None:
    program = ship(tmp_path / "bin", {"app.exe": exe(), "other.dll": dll({"nvcuda.dll": ["cuInit"]})})
    assert not examined(program, tmp_path).closure.needs


def test_two_libraries_that_ask_for_each_other_end(tmp_path: Path) -> None:
    files = {
        "app.exe": exe({"a.dll": ["x"]}),
        "a.dll": dll({"b.dll": ["x"]}),
        "b.dll": dll({"a.dll": ["x"], "APP.EXE": ["y"]}),
    }
    assert len(examined(ship(tmp_path / "p", files), tmp_path).closure.visited) == 3


def environment(root: Path, packages: dict[str, dict[str, bytes]]) -> Path:
    site = root / "Lib" / "site-packages"
    for title, files in packages.items():
        info = site / f"{title}.dist-info"
        info.mkdir(parents=True)
        lines = [f"{name},sha256=x,1" for name in files] + [
            "../../outside.dll,,",
            f"{title}.dist-info/RECORD,,",
        ]
        (info / "RECORD").write_text("\n".join(lines), encoding="utf-8")
        for name, data in files.items():
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_bytes(data)
    (root / "Scripts").mkdir()
    (root / "pyvenv.cfg").write_text("home = C:\\Python311\n", encoding="utf-8")
    return ship(root / "Scripts", {"python.exe": exe()})


def test_for_python_the_packages_are_read_and_not_the_interpreter(tmp_path: Path) -> None:
    packages = {
        "ctranslate2-4.5.0": {"ctranslate2/ctranslate2.dll": dll({"cudnn64_9.dll": ["cudnnCreate"]})},
        "Some_Game-1.0": {"game/game.dll": dll({"nvcuda.dll": ["cuInit"]})},
        "torch-2.3.0+cu118": {"torch/lib/torch_cuda.dll": dll({"cufft64_10.dll": ["cufftPlan1d"]})},
    }
    python = environment(tmp_path / "venv", packages)
    assert is_python(python)
    assert [p.name for p in installed(environments(python))] == ["ctranslate2", "torch"]
    found = examined(python, tmp_path)
    assert [k.kind.id for k in found.kinds] == ["python"]
    chains = {need.chain: need for need in found.closure.needs}
    assert set(chains) == {("ctranslate2", "ctranslate2.dll"), ("torch", "torch_cuda.dll")}
    assert {need.how for need in chains.values()} == {"package"}


@pytest.mark.parametrize(
    "name", ["python.exe", "pythonw.exe", "python3.11", "python3", "python3.13t"], ids=str
)
def test_interpreters_are_known_by_name(name: str) -> None:
    assert is_python(Path(name))
    assert not is_python(Path("pythonic.exe"))


@pytest.mark.posix_only
def test_a_folder_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    program = ship(tmp_path / "p", {"app.exe": exe(), "closed/x.dll": dll({"nvcuda.dll": ["cuInit"]})})
    closed = program.parent / "closed"
    closed.chmod(0)
    try:
        if os.access(closed, os.R_OK):
            pytest.skip("this user may read everything")
        assert not examined(program, tmp_path).closure.needs
    finally:
        closed.chmod(0o755)


@pytest.mark.posix_only
@pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf here")
def test_this_interpreter_is_read_as_readelf_reads_it(tmp_path: Path) -> None:
    shown = subprocess.run(
        ["readelf", "-d", sys.executable], capture_output=True, text=True, check=False
    ).stdout
    facts = examined(Path(sys.executable).resolve(), tmp_path).closure.program.facts
    imported = {ask.library for ask in facts.asks if ask.how == "import"}
    assert imported == set(re.findall(r"\(NEEDED\).*\[(.*)\]", shown))
