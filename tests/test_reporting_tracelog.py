"""What a layer's trace comes to: all lines counted, the first failure found, refusals and bad modules named.

The lines have the shape that vosen/ZLUDA@87531d3 writes (``zluda_trace``, ``docs/src/troubleshooting.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.cli.views.wrap import trace_lines
from scripts.evidence import tracelog
from scripts.evidence.tracelog import TraceReader, TraceSummary, is_failure, library_of
from tests.bombs import steps_of

LOG = """\
cuInit(Flags: 0) -> CUDA_SUCCESS
    Created trace directory C:\\runs\\app.exe \n\
cuGetProcAddress_v2(symbol: "cuMemPrefetchAsync", pfn: 0x1, flags: 0) -> CUDA_ERROR_NOT_FOUND
{CONTEXT_LOCAL_STORAGE_INTERFACE_V0301}::context_local_storage_get(value: 0x5, cu_ctx: 0x0) -> CUDA_SUCCESS
{CUDART_INTERFACE}::get_module_from_cubin(module: 0x7, fatbinc_wrapper: 0x8) -> CUDA_SUCCESS
    Saved module to module_0001_01.elf
    Saved module to module_0001_02.ptx
    Error parsing module, log has been written to module_0001_02.log
cuModuleGetFunction(hfunc: 0x55ee, hmod: 0x7, name: "_Z3addiiPi") -> CUDA_SUCCESS
cublasCreate_v2(handle: 0x55e502373120) -> CUBLAS_STATUS_SUCCESS
    cuMemAllocAsync(dptr: 0x1, bytesize: 64, hStream: 0x0) -> CUDA_ERROR_NOT_SUPPORTED
cublasDgemm_v2(handle: 0x55e5, n: 8) -> 6
cuLaunchKernel(f: 0x55ee, gridDimX: 1, kernelParams: 0x7fff, extra: NULL) -> CUDA_ERROR_LAUNCH_FAILED
    cuModuleLoadData(module: 0x9, image: 0xa) -> CUDA_ERROR_INVALID_PTX
        Saved module to module_0002.ptx
        Zstd decompression failure: 7
cuMemAllocAsync(dptr: 0x1, bytesize: 64, hStream: 0x0) -> CUDA_ERROR_NOT_SUPPORTED
cuMemAllocManaged(...) -> UNKNOWN
    No function cuMemAllocManaged in the underlying library
cuStreamQuery(hStream: 0x0) -> CUDA_ERROR_NOT_READY
cudnnGetVersion() -> 91000
cublasLtGetVersion() -> 13
cuDevicePrimaryCtxRelease(dev: 0) -> CUDA_ERROR_DEINITIALIZED
"""
ERRORS: dict[str, tuple[str, ...]] = {
    "app.exe/module_0001_02.log": ('Unrecognized statement "nanosleep.u32 %r101;"', "and another")
}


def read(text: str, *, errors: dict[str, tuple[str, ...]] | None = None) -> TraceSummary:
    reader = TraceReader()
    reader.read("app.exe", text.splitlines())
    return reader.summary(folder="/runs", logs=["/runs/app.exe/log.txt"], errors=errors or {})


def test_a_run_is_shown_on_one_screen() -> None:
    assert list(trace_lines(read(LOG, errors=ERRORS))) == [
        "trace: 16 CUDA calls of 1 process, in /runs",
        "  calls    nvcuda 12, cublas 2, cudnn 1, cublaslt 1",
        "  failed   first cublasDgemm_v2 -> 6 (line 12 of app.exe, 1 in all)",
        "           cublasDgemm_v2(handle: 0x55e5, n: 8) -> 6",
        (
            "  then     cuMemAllocAsync (CUDA_ERROR_NOT_SUPPORTED) 2, "
            "cuLaunchKernel (CUDA_ERROR_LAUNCH_FAILED) 1, cuModuleLoadData (CUDA_ERROR_INVALID_PTX) 1"
        ),
        "  refused  cuMemAllocAsync 2, cuMemAllocManaged 1",
        "  modules  2 pieces of device code, 2 of them refused or not understood in full",
        (
            "           module_0001_01.elf, module_0001_02.ptx: {CUDART_INTERFACE}::get_module_from_cubin -> "
            'CUDA_SUCCESS; Unrecognized statement "nanosleep.u32 %r101;" and 1 more'
        ),
        (
            "           module_0002.ptx: cuModuleLoadData -> CUDA_ERROR_INVALID_PTX; "
            "Zstd decompression failure: 7"
        ),
        (
            "  last     cuDevicePrimaryCtxRelease(dev: 0) -> CUDA_ERROR_DEINITIALIZED "
            "(a call that never came back is not in the log)"
        ),
    ]


def test_a_failed_start_names_its_kernel_and_what_failed_inside() -> None:
    found = {failure.function: failure for failure in read(LOG).failures}
    start = found["cuLaunchKernel"]
    assert (start.kernel, start.line) == ("_Z3addiiPi", 13)
    assert start.inside == "cuModuleLoadData(module: 0x9, image: 0xa) -> CUDA_ERROR_INVALID_PTX"
    assert found["cuModuleLoadData"].nested is True
    assert found["cuMemAllocAsync"].nested is False, "the program itself asked for it, too"


def test_what_failed_only_inside_another_call_comes_first_where_nothing_else_failed() -> None:
    text = (
        "cublasCreate_v2(h: 0x1) -> CUBLAS_STATUS_SUCCESS\n    cuCtxGetId(a: 0) -> CUDA_ERROR_NOT_SUPPORTED\n"
    )
    first = read(text).first_failure
    assert first is not None
    assert (first.function, first.nested) == ("cuCtxGetId", True)


def test_a_later_failure_says_nothing_about_the_first_one() -> None:
    fails = "cuLaunchKernel(f: 0x1) -> CUDA_ERROR_LAUNCH_FAILED\n"
    [first] = read(f"{fails}{fails}    cuCtxGetId(a: 0) -> CUDA_SUCCESS\n").failures
    assert (first.count, first.inside) == (2, "")
    text = f"{fails}{fails}    cuCtxGetId(a: 0) -> CUDA_ERROR_NOT_SUPPORTED\n"
    assert read(text).failures[0].inside == ""


@pytest.mark.parametrize(
    ("function", "status", "failure"),
    [
        ("cuInit", "CUDA_SUCCESS", False),
        ("cuInit", "CUDA_ERROR_NO_DEVICE", True),
        ("cuStreamQuery", "CUDA_ERROR_NOT_READY", False),
        ("cuGetProcAddress_v2", "CUDA_ERROR_NOT_FOUND", False),
        ("cuModuleGetFunction", "CUDA_ERROR_NOT_FOUND", True),
        ("cublasSgemm_v2", "CUBLAS_STATUS_NOT_SUPPORTED", True),
        ("cublasCreate_v2", "6", True),
        ("cublasCreate_v2", "0", False),
        ("cublasLtGetVersion", "13", False),
        ("cudnnGetVersion", "91000", False),
        ("cufftPlan1d", "CUFFT_NOT_IMPLEMENTED", True),
        ("nvmlInit_v2", "NVML_SUCCESS", False),
        ("{nvapi:0x0150e828}", "NVAPI_NO_IMPLEMENTATION", True),
        ("{nvapi:0x0150e828}", "NVAPI_OK", False),
        ("cublasGetStatusString", '"CUBLAS_STATUS_SUCCESS"', False),
        ("cuMemFree_v2", "UNKNOWN", False),
        ("get_unknown_buffer1", "()", False),
    ],
)
def test_only_a_status_that_says_so_is_a_failure(function: str, status: str, *, failure: bool) -> None:
    assert is_failure(function, status) is failure


@pytest.mark.parametrize(
    ("function", "library"),
    [
        ("cublasLtMatmul", "cublaslt"),
        ("cublasSgemm_v2", "cublas"),
        ("cusparseCreate", "cusparse"),
        ("cudnnCreate", "cudnn"),
        ("cufftExecC2C", "cufft"),
        ("nvmlInit_v2", "nvml"),
        ("{nvapi:0x0150e828}", "nvapi"),
        ("{CUDART_INTERFACE}::3", "nvcuda"),
        ("cuInit", "nvcuda"),
    ],
)
def test_every_function_belongs_to_its_library(function: str, library: str) -> None:
    assert library_of(function) == library


def test_a_thousand_kinds_of_failure_still_fit_one_screen() -> None:
    text = "".join(
        f"cuModuleLoadData{i}(a: {'x' * 500}) -> CUDA_ERROR_NOT_SUPPORTED\n"
        f"    Unsupported ELF module {i} loaded from module image 0x1\n"
        for i in range(1000)
    )
    lines = list(trace_lines(read(text)))
    assert len(lines) <= 20
    assert "and 995 more" in lines[-2]
    assert all(len(line) < 260 for line in lines)


def test_nothing_written_is_said_so() -> None:
    empty = TraceReader().summary(folder="/runs", logs=(), errors={})
    first, second = trace_lines(empty)
    assert first.startswith("trace: nothing was written")
    assert "below /runs" in second
    assert empty.to_json()["first_failure"] is None


LINES = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.sampled_from(LOG.splitlines()),
        st.tuples(st.integers(0, 9), st.sampled_from(LOG.splitlines())).map(lambda p: " " * p[0] + p[1]),
    ),
    max_size=20,
)


@pytest.mark.slow
@given(LINES)
def test_whatever_a_log_holds_every_call_is_counted_and_nothing_breaks(lines: list[str]) -> None:
    reader = TraceReader()
    reader.read("a", lines)
    summary = reader.summary(folder="/runs", logs=["a"], errors={})
    calls = [line for line in lines if ") -> " in line and "(" in line]
    assert sum(summary.calls.values()) <= len(lines)
    assert sum(summary.calls.values()) >= len([c for c in calls if c.strip() in LOG])
    assert len(list(trace_lines(summary))) <= 20
    assert summary.to_json()["folder"] == "/runs"


BIG = 300


def bomb(name: str, size: int) -> Iterator[str]:
    """Yield the lines of a log that makes one thing grow."""
    for n in range(size):
        if name == "failures":
            yield f"cuX{n}() -> CUDA_ERROR_UNKNOWN"
        elif name == "refused":
            yield f"cuX{n}() -> CUDA_ERROR_NOT_SUPPORTED"
        elif name == "loads":
            yield f"cuModuleLoadData(image: {n}) -> CUDA_SUCCESS"
        elif name == "kernels":
            yield f'cuModuleGetFunction(hfunc: 0x{n:x}, name: "k{n}") -> CUDA_SUCCESS'
        elif name == "remarks":
            yield f"    Unsupported {n}" if n else "cuModuleLoadData(image: 1) -> CUDA_SUCCESS"
        else:
            yield "    " * (n % 50) + "cuX() -> CUDA_SUCCESS"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["failures", "refused", "loads", "kernels", "remarks", "depth"])
def test_what_a_log_makes_grow_is_capped_and_read_in_linear_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps are counted, not seconds: twice the lines take about twice the steps."""
    for cap in ("MAX_FAILURES", "MAX_REFUSED", "MAX_LOADS", "MAX_KERNELS", "MAX_REMARKS"):
        monkeypatch.setattr(tracelog, cap, BIG)
    steps = []
    for size in (10 * BIG, 20 * BIG):
        reader, lines = TraceReader(), list(bomb(name, size))
        steps.append(steps_of(partial(reader.read, "log", lines)))
        summary = reader.summary(folder="", logs=(), errors={})
        assert summary.modules == {"loads": size, "remarks": 1}.get(name, 0)
        listed = (summary.failures, summary.refused, reader.loads, *(load.remarks for load in reader.loads))
        assert max(map(len, listed)) <= BIG
        assert sum(summary.calls.values()) == (1 if name == "remarks" else size)
    assert steps[1] < 2.2 * steps[0]
