"""The verdict: what is known to fail, what nobody can see, and never a false all-clear."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.host.hip_libraries import backends_in_files, backends_in_root, kernels_for
from scripts.model import StackKind
from scripts.preflight.coverage import StackFacts, Verdict, cover, grouped
from scripts.preflight.libraries import CallSupport, api_table
from scripts.preflight.verdict import Judged
from tests.elf_files import elf
from tests.fatbins import SASS, container, cubin, entry, ptx, sass
from tests.pe_files import pe
from tests.preflight_programs import counts, dll, examined, exe, judged, ship, zluda

GEMM = {"nvcuda.dll": ["cuInit", "cuMemAlloc_v2"], "cublas64_12.dll": ["cublasCreate_v2", "cublasSgemm_v2"]}
#: With the CUDA runtime beside it, as nvcc's programs have.
KERNELS = {**GEMM, "cudart64_12.dll": ["cudaMalloc", "cudaLaunchKernel", "__cudaRegisterFatBinary"]}
RUNTIME = {"cudart64_12.dll": dll(sections={".data": b"nvcuda.dll\0"})}


def verdict(tmp_path: Path, files: dict[str, bytes], stack: StackFacts | None = None) -> Judged:
    return judged(ship(tmp_path / "p", files), tmp_path, stack)


def first(judgement: Judged) -> str:
    return judgement.reasons[0].text


@pytest.mark.parametrize("table", ["zluda-v6-preview.69", "zluda-v7-preview.10"])
def test_the_committed_tables_have_the_published_counts(table: str) -> None:
    api = api_table(table)
    assert api is not None
    works = {
        "nvcuda": 134,
        "cublas": 17,
        "cublasLt": 15,
        "cusparse": 16,
        "cufft": 0,
        "nvml": 4,
        "cudnn8": 31,
        "cudnn9": 31,
    }
    exports = {
        "nvcuda": 672,
        "cublas": 530,
        "cublasLt": 45,
        "cusparse": 448,
        "cufft": 60,
        "nvml": 398,
        "cudnn8": 264,
        "cudnn9": 220,
    }
    if table == "zluda-v7-preview.10":
        works["nvcuda"] = 139
        assert "cublas" in api.assumed
    assert {name: counts(api, name) for name in works} == {
        name: (works[name], exports[name]) for name in works
    }


@pytest.mark.parametrize(
    ("library", "function", "call"),
    [
        ("nvcuda", "cuLaunchKernelEx", CallSupport.IMPLEMENTED),
        ("nvcuda", "cuStreamQuery", CallSupport.NOT_SUPPORTED),
        ("cublas", "cublasDgemm_v2", CallSupport.NOT_SUPPORTED),
        ("cublas", "cublasXerbla", CallSupport.ABORTS),
        ("cublas", "cublasMadeUp", CallSupport.NOT_EXPORTED),
        ("cublas", "#12", CallSupport.UNKNOWN),
        ("cutensor", "cutensorInit", CallSupport.UNKNOWN),
    ],
    ids=str,
)
def test_calls_are_looked_up(library: str, function: str, call: CallSupport) -> None:
    api = api_table("zluda-v6-preview.69")
    assert api is not None
    assert api.lookup(library, function) is call


def test_a_table_is_never_borrowed() -> None:
    assert api_table("zluda-v7-preview.12") is None


def test_a_program_of_which_all_is_there_should_run(tmp_path: Path) -> None:
    files = {"app.exe": exe(KERNELS, sections={".nv_fatb": container(ptx(), sass())}), **RUNTIME}
    found = verdict(tmp_path, files)
    assert (found.verdict, found.reasons) == (Verdict.RUNS, ())


def test_a_program_without_cuda_is_unknown_and_never_fine(tmp_path: Path) -> None:
    found = verdict(tmp_path, {"app.exe": exe()})
    assert found.verdict is Verdict.UNKNOWN
    assert "names a CUDA library" in first(found)


@pytest.mark.parametrize(
    ("imports", "word", "words", "functions"),
    [
        (
            {"cublas64_12.dll": ["cublasDgemm_v2", "cublasSgemm_v2"]},
            "partial",
            "for 1 of them would always get",
            ("cublasDgemm_v2",),
        ),
        (
            {"cufft64_11.dll": ["cufftPlan1d", "cufftExecC2C"]},
            "partial",
            "would always get",
            ("cufftPlan1d", "cufftExecC2C"),
        ),
        ({"cublas64_12.dll": ["cublasXerbla"]}, "partial", "end the process", ("cublasXerbla",)),
        ({"cublas64_12.dll": ["cublasNone"]}, "refuses", "does not load (0xC0000139)", ("cublasNone",)),
        ({"nvcuda.dll": ["#1"]}, "unknown", "not in its call table", ("#1",)),
        ({"cublas64_10.dll": ["cublasSgemm_v2"]}, "refuses", "does not start without cublas64_10.dll", ()),
        ({"nvoptix.dll": ["optixQueryFunctionTable"]}, "refuses", "OptiX has no provider", ()),
        (
            {"cudart64_12.dll": ["cudaMallocAsync"]},
            "partial",
            "by way of cudart64_12.dll",
            ("cuMemAllocAsync",),
        ),
        (
            {"cudart64_12.dll": ["cudaBrandNew"]},
            "unknown",
            "asks of the driver for cudaBrandNew",
            ("cudaBrandNew",),
        ),
        ({"nvrtc64_120_0.dll": ["nvrtcCompileProgram"]}, "unknown", "compiles source by NVRTC 12", ()),
    ],
    ids=[
        "missing",
        "all-missing",
        "aborts",
        "not-exported",
        "ordinal",
        "older-major",
        "optix",
        "runtime",
        "new-runtime",
        "nvrtc",
    ],
)
def test_each_lack_has_its_word_and_names_file_and_functions(
    tmp_path: Path, imports: dict[str, list[str]], word: str, words: str, functions: tuple[str, ...]
) -> None:
    found = verdict(tmp_path, {"app.exe": exe(imports)})
    reason = next(r for r in found.reasons if words in r.text)
    assert found.verdict == word
    assert (reason.file, reason.functions) == ("app.exe", functions)


def test_a_plugin_that_cannot_load_does_not_stop_the_program(tmp_path: Path) -> None:
    files = {"app.exe": exe(GEMM), "extra/plugin.dll": dll({"cublas64_12.dll": ["cublasNone"]})}
    assert verdict(tmp_path, files).verdict is Verdict.PARTIAL


def test_an_own_copy_of_an_unprovided_library_runs_on_the_driver(tmp_path: Path) -> None:
    solver = dll({"cublas64_12.dll": ["cublasSgemm_v2"]}, sections={".nv_fatb": container(sass(90))})
    files = {"app.exe": exe({**GEMM, "cusolver64_12.dll": ["cusolverDnCreate"]}), "cusolver64_12.dll": solver}
    found = verdict(tmp_path, files)
    texts = [r.text for r in found.reasons]
    assert any("own cusolver64_12.dll runs on the driver" in t for t in texts)
    assert any("cusolver64_12.dll" in t and "NO_BINARY_FOR_GPU" in t for t in texts)


@pytest.mark.parametrize(
    ("code", "word", "words"),
    [
        (
            {".nv_fatb": container(sass(86, ["a", "b"]))},
            "refuses",
            "1 of 1 modules in app.exe (at most 2 kernels)",
        ),
        ({".nv_fatb": container(sass(86)) + container(ptx())}, "partial", "1 of 2 modules"),
        ({".nv_fatb": container(sass(86, ["a", "b", "c"], way="lz4"))}, "refuses", "(at most 3 kernels)"),
        (
            {".nv_fatb": container(sass(86)), "__nv_rel": container(ptx(89), sass())},
            "refuses",
            "1 of 1 modules",
        ),
        ({".nv_fatb": container(ptx(52), sass(90))}, "partial", "stubs with wrong results"),
        ({".nv_fatb": container(ptx(75), sass(86))}, "runs", ""),
        ({".nv_fatb": container(ptx(86)) + container(sass(86, []))}, "runs", ""),
        ({".nv_fatb": container()}, "runs", ""),
        ({".nv_fatb": container(ptx()) + container(sass())[:-80]}, "partial", "1 of 2 modules"),
        ({".nv_fatb": container(sass(90, ["a"], way="zstd"))}, "refuses", "(at most 1 kernel)"),
        ({".nv_fatb": container(ptx(90, letter="a", way="lz4"))}, "runs", ""),
        ({".nv_fatb": container(ptx(90, letter="a"), ptx(80))}, "runs", ""),
        ({".nv_fatb": container(sass(90, letter="a"))}, "refuses", "(sm_90a)"),
        ({".nv_fatb": container(entry(SASS, 90, b"?" * 99, way="lz4"))}, "unknown", "than machine code"),
        ({".nv_fatb": container(entry(SASS, 90, cubin(90), way="lz4", claims=9))}, "unknown", "is damaged"),
        (
            {".nv_fatb": container(entry(SASS, 90, cubin(90), way="lz4", claims=1 << 30))},
            "refuses",
            "(kernels not counted: it is larger than 64 MiB)",
        ),
        ({".nv_fatb": container(entry(8, 90, b"?" * 99))}, "unknown", "meant for linking"),
        ({".nv_fatb": container(entry(99, 90, b"?" * 99))}, "unknown", "of a kind that is not known"),
        ({".nv_fatb": container(entry(99, 90, cubin(90), way="zstd"))}, "refuses", "1 of 1 modules"),
        ({".data": b"\0" * 8 + container(sass(86))}, "refuses", "1 of 1 modules"),
        ({".data": b".version 7.8\n.target sm_50\n.entry k"}, "runs", ""),
    ],
    ids=[
        "sass",
        "mixed",
        "packed",
        "only-for-linking",
        "stub",
        "near",
        "link-stub",
        "empty",
        "cut",
        "packed-by-zstd",
        "ptx-for-one-gpu",
        "ptx-for-all-as-well",
        "sass-for-one-gpu",
        "packed-text",
        "packed-and-damaged",
        "packed-and-huge",
        "for-linking",
        "unknown-kind",
        "unknown-kind-told",
        "stray",
        "text",
    ],
)
def test_device_code_decides_what_can_be_translated(
    tmp_path: Path, code: dict[str, bytes], word: str, words: str
) -> None:
    found = verdict(tmp_path, {"app.exe": exe(KERNELS, sections=code), **RUNTIME})
    assert found.verdict == word
    assert words in " ".join(r.text for r in found.reasons)


def test_device_code_beside_the_program_counts_as_reached_by_nothing(tmp_path: Path) -> None:
    files = {"app.exe": exe(GEMM), "k.cubin": cubin(86), "k.ptx": b".version 8.0\n.target sm_80\n"}
    found = verdict(tmp_path, files)
    assert found.verdict is Verdict.PARTIAL
    assert first(found).startswith("1 of 1 modules in k.cubin")


@pytest.mark.parametrize(
    "sections",
    [
        {".nv_fatb": container(ptx()), ".data": b"nvcuda.dll\0"},
        {".data": b"nvcuda.dll\0cudaErrorMissingConfiguration\0cudart64_110.dll\0"},
    ],
    ids=["device-code", "table-of-errors"],
)
def test_a_runtime_linked_in_hides_its_calls(tmp_path: Path, sections: dict[str, bytes]) -> None:
    found = verdict(tmp_path, {"app.exe": exe(sections=sections)})
    assert found.verdict is Verdict.UNKNOWN
    assert "runtime linked in" in first(found)


def test_the_shared_runtime_itself_is_not_taken_for_a_linked_one(tmp_path: Path) -> None:
    runtime = dll(sections={".data": b"nvcuda.dll\0cudaErrorMissingConfiguration\0"})
    found = verdict(tmp_path, {"app.exe": exe(KERNELS), "cudart64_12.dll": runtime})
    assert found.verdict is Verdict.RUNS


def test_a_name_of_nvapi_alone_says_nothing_bad(tmp_path: Path) -> None:
    found = verdict(tmp_path, {"app.exe": exe(GEMM, sections={".data": b"nvapi64.dll\0"})})
    assert found.verdict is Verdict.RUNS


@pytest.mark.parametrize(
    ("stack", "word", "words"),
    [
        (zluda(os="linux"), "refuses", "is a program for Windows"),
        (zluda(backends={"amdhip64": False}), "refuses", "CUDA driver: amdhip64"),
        (zluda(backends={**zluda().backends, "rocblas": False}), "partial", "cuBLAS 12: rocblas"),
        (zluda(backends={}), "unknown", "is unknown here"),
        (zluda(kernels={"rocblas": False}), "partial", "has no kernels for gfx1200"),
        (zluda(api=None), "unknown", "its calls were not read"),
        (zluda(kind=StackKind.CONTROL, providers={}, api=None, os=""), "runs", ""),
    ],
    ids=["other-system", "no-driver", "no-rocblas", "nobody-knows", "no-kernels", "no-table", "control"],
)
def test_the_stack_and_what_is_behind_it_decide(
    tmp_path: Path, stack: StackFacts, word: str, words: str
) -> None:
    found = verdict(tmp_path, {"app.exe": exe(GEMM)}, stack)
    assert found.verdict == word
    assert words in " ".join(r.text for r in found.reasons)


def test_without_a_table_the_staged_files_exports_say_what_is_not_there(tmp_path: Path) -> None:
    stack = zluda(api=None, exports={"nvcuda": frozenset({"cuInit", "cuMemAlloc_v2"})})
    found = verdict(tmp_path, {"app.exe": exe({"nvcuda.dll": ["cuInit", "cuGone"]})}, stack)
    assert found.verdict is Verdict.REFUSES
    assert found.reasons[0].functions == ("cuGone",)


@pytest.mark.parametrize(
    ("entry", "word"), [(ptx(), "unknown"), (sass(90, ["a"]), "refuses")], ids=["ptx", "machine-code"]
)
def test_the_reference_runs_ptx_and_no_machine_code(tmp_path: Path, entry: bytes, word: str) -> None:
    stack = replace(zluda(), kind=StackKind.REFERENCE)
    program = exe({"cudart64_12.dll": ["cudaMalloc"]}, sections={".nv_fatb": container(entry)})
    assert verdict(tmp_path, {"app.exe": program}, stack).verdict == word


def test_the_reference_refuses_nvidias_runtime_inside_a_program(tmp_path: Path) -> None:
    stack = replace(zluda(), kind=StackKind.REFERENCE)
    program = exe(GEMM, sections={".nv_fatb": container(ptx())})
    found = verdict(tmp_path, {"app.exe": program}, stack)
    assert found.verdict == "refuses"
    assert found.reasons[0].text == (
        "app.exe has NVIDIA's CUDA runtime linked in, which runs on NVIDIA's driver only"
    )
    assert found.reasons[0].then == "build it with `nvcc -cudart shared`"


def test_a_library_with_nvidias_runtime_inside_is_a_loss_on_the_reference(tmp_path: Path) -> None:
    stack = replace(zluda(), kind=StackKind.REFERENCE)
    plugin = dll(GEMM, sections={".nv_fatb": container(ptx())})
    found = verdict(tmp_path, {"app.exe": exe({"plug.dll": ["f"]}), "plug.dll": plugin}, stack)
    assert found.verdict == "partial"
    assert "plug.dll has NVIDIA's CUDA runtime linked in" in found.reasons[0].text


@pytest.mark.parametrize(("machine", "word"), [(0x14C, "refuses"), (0xAA64, "refuses"), (0x8664, "runs")])
def test_the_program_must_be_for_a_processor_the_stack_serves(
    tmp_path: Path, machine: int, word: str
) -> None:
    assert verdict(tmp_path, {"app.exe": exe(GEMM, machine=machine)}).verdict == word


def test_people_read_reasons_that_are_alike_once(tmp_path: Path) -> None:
    plugins = {
        f"p{n}.dll": dll(sections={".nv_fatb": container(sass(80 + n, ["a"] * (n + 1)))}) for n in range(4)
    }
    found = verdict(tmp_path, {"app.exe": exe({"cufft64_11.dll": ["cufftPlan1d"]}), **plugins})
    assert len(found.reasons) == 5
    texts = [said.text for said in grouped(found.reasons)]
    assert len(texts) == 2
    assert any(t.startswith("1 of 1 modules in p0.dll") and t.endswith("(and 3 files alike)") for t in texts)


def test_the_heaviest_reason_comes_first(tmp_path: Path) -> None:
    imports = {"cufft64_11.dll": ["cufftPlan1d"], "nvoptix.dll": ["x"], "nvcuda.dll": ["#1", "cuStreamQuery"]}
    effects = [r.effect for r in verdict(tmp_path, {"app.exe": exe(imports)}).reasons]
    assert effects == sorted(effects, key=["refuses", "partial", "unknown", "runs"].index)
    assert len(set(effects)) == 3


@pytest.mark.parametrize(
    ("files", "kind", "word"),
    [
        (
            {"app.exe": exe(GEMM, overlay=b"x" * 90 + bytes.fromhex("4d45490c0b0a0b0e") + b"x" * 80)},
            "pyinstaller",
            "unknown",
        ),
        (
            {
                "app.exe": exe(overlay=bytes.fromhex("4d45490c0b0a0b0e") + b"x" * 80),
                "_internal/cudart64_12.dll": dll(),
                "_internal/x.pyd": dll(GEMM),
            },
            "pyinstaller-folder",
            "runs",
        ),
        ({"app.exe": exe(GEMM, sections={"UPX0": b"x"})}, "packed", "unknown"),
        ({"app.exe": exe(GEMM, sections={".vmp1": b"x"})}, "packed", "unknown"),
        ({"app.exe": exe(GEMM), "resources/app.asar": b"x"}, "electron", "unknown"),
        ({"app.exe": exe(GEMM), "UnityPlayer.dll": dll()}, "unity", "unknown"),
        ({"app.exe": exe(GEMM), "EasyAntiCheat/x": b""}, "anti-cheat", "refuses"),
        ({"app.exe": exe(GEMM), "PhysXDevice64.dll": dll()}, "physx", "runs"),
        ({"app.exe": exe(GEMM, sections={".data": b"NUITKA_ONEFILE_PARENT"})}, "nuitka", "unknown"),
    ],
    ids=["one-file", "one-folder", "upx", "vmprotect", "electron", "unity", "anti-cheat", "physx", "nuitka"],
)
def test_programs_that_hide_their_cuda_are_recognised_by_a_sign(
    tmp_path: Path, files: dict[str, bytes], kind: str, word: str
) -> None:
    program = ship(tmp_path / "p", files)
    found = examined(program, tmp_path)
    assert [k.kind.id for k in found.kinds] == [kind]
    assert found.kinds[0].sign
    assert judged(program, tmp_path).verdict == word


def test_a_single_file_of_dotnet_is_recognised_by_its_bundle_mark(tmp_path: Path) -> None:
    mark = bytes.fromhex("8b1202b96a612038727b930214d7a03213f5b9e6efae3318ee3b2dce24b36aae")
    program = ship(tmp_path / "p", {"app.exe": exe(sections={".data": mark})})
    assert [k.kind.id for k in examined(program, tmp_path).kinds] == ["dotnet-bundle"]


def test_rights_and_signatures_are_said(tmp_path: Path) -> None:
    manifest = '<requestedExecutionLevel  level="requireAdministrator" uiAccess="false"/>'
    texts = " ".join(
        r.text for r in verdict(tmp_path, {"app.exe": exe(GEMM, manifest=manifest, flags=0x80)}).reasons
    )
    assert "administrator rights" in texts
    assert "signed libraries" in texts


def test_a_linux_program_only_fails_when_it_calls_what_is_not_there(tmp_path: Path) -> None:
    program = ship(
        tmp_path / "p", {"app": elf(needed=["libcublas.so.12"], undefined=["cublasNone"], program=True)}
    )
    assert judged(program, tmp_path, zluda(os="linux")).verdict is Verdict.PARTIAL


@pytest.mark.slow
def test_what_is_no_program_is_unknown(tmp_path: Path) -> None:
    assert verdict(tmp_path, {"app.exe": b"MZ nothing"}).verdict is Verdict.UNKNOWN


def test_a_damaged_library_is_said_and_the_rest_stands(tmp_path: Path) -> None:
    broken = pe(imports=GEMM, sections={".more": b"x" * 0x400})[:-0x200]
    found = verdict(tmp_path, {"app.exe": exe({"core.dll": ["x"], **GEMM}), "core.dll": broken})
    assert found.verdict is Verdict.UNKNOWN
    assert "core.dll was not read in full" in first(found)


def test_hip_roots_tell_their_libraries_and_kernels(tmp_path: Path) -> None:
    assert backends_in_root(["amdhip64", "amdhip64_7", "rocblas"])["miopen"] is False
    found = backends_in_files(
        ["hip/bin/amdhip64_7.dll", "hip/bin/libhipblaslt.dll", "hip/bin/MIOpen.dll", "hip/bin/rocblas.txt"]
    )
    assert [name for name, there in found.items() if there] == ["amdhip64", "hipblaslt", "miopen"]
    library = tmp_path / "bin" / "rocblas" / "library"
    library.mkdir(parents=True)
    (library / "TensileLibrary_lazy_gfx1100.dat").touch()
    assert kernels_for(tmp_path, "gfx1100") == {"rocblas": True, "hipblaslt": None}
    assert kernels_for(tmp_path, "gfx1200") == {"rocblas": False, "hipblaslt": None}
    assert kernels_for(tmp_path, "")["rocblas"] is None


def test_the_status_of_a_need_is_unknown_where_its_calls_are(tmp_path: Path) -> None:
    program = ship(tmp_path / "p", {"app.exe": exe(sections={".data": b"cublas64_12.dll\0"})})
    covered = cover(examined(program, tmp_path).closure.needs, zluda())
    assert [c.status for c in covered] == ["unknown"]
