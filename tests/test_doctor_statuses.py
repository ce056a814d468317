"""Status codes are read in every spelling, and never where a number is only a number."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts import statuses
from scripts.doctor.diagnose import diagnose
from scripts.doctor.event import read_event
from scripts.doctor.log_sampling import sample_log
from scripts.doctor.object_reader import owner_of, owners, read_objects
from scripts.doctor.status_reader import read_statuses
from scripts.statuses import StatusCode, explain, tables, windows_status
from tests.bounds import in_proportion
from tests.doctor_cases import DATA

TABLES = {name: tuple(table.values()) for name, table in tables().values.items()}
CODES = [code for codes in TABLES.values() for code in codes]
LINES = [json.loads(line) for line in (DATA / "status_lines.jsonl").read_text(encoding="utf-8").splitlines()]
HIPRAND = ("libhiprand.so", "hip-math")
ONNXRUNTIME = (
    "Failed to load library libonnxruntime_providers_cuda.so with error: libcublasLt.so.11: cannot open"
    " shared object file: No such file or directory"
)
PROVIDER = [("libcublaslt.so.11", "cuda-math"), ("libonnxruntime_providers_cuda.so", "onnxruntime")]
CUDA = Path("/usr/local/cuda-13.0/include")


def names(text: str, *, windows: bool | None = None) -> list[str]:
    return [seen.code.name for seen in read_statuses(sample_log(text.encode()), windows=windows)]


def is_meant(code: StatusCode, wanted: str) -> bool:
    """Whether a status line's label names a code: by its name, by the end of it, or by its number."""
    name = code.name.lower()
    return (
        name in {wanted, f"miopenstatus{wanted}"}
        or name.endswith(f"_{wanted}")
        or (code.number.lower() == wanted.split(maxsplit=1)[0])
    )


@pytest.mark.parametrize("group", sorted({row["group"] for row in LINES}))
def test_every_status_line_is_decoded(group: str) -> None:
    for row in LINES:
        if row["group"] == group:
            found = [seen.code for seen in read_statuses(sample_log(row["text"].encode()))]
            assert any(is_meant(code, row["name"].lower()) for code in found), (row, found)


@pytest.mark.parametrize("table", TABLES)
def test_every_code_has_a_meaning_and_is_found_by_its_name(table: str) -> None:
    for code in TABLES[table]:
        assert len(code.meaning) > 5, code.name
        assert not code.meaning.endswith("."), code.name
        assert explain(code.name) == (code,), code.name


def test_codes_that_look_alike_in_two_tables_stay_apart() -> None:
    assert statuses.named("CUDA_ERROR_INVALID_VALUE") != statuses.named("cudaErrorInvalidValue")
    assert statuses.named("HIP_ERROR_NoDevice") == statuses.named("hipErrorNoDevice")
    assert statuses.named("EXCEPTION_ACCESS_VIOLATION") == statuses.named("STATUS_ACCESS_VIOLATION")
    assert statuses.named("no such code") is None


@pytest.mark.skipif(not CUDA.is_dir(), reason="NVIDIA's headers are not installed here")
@pytest.mark.parametrize(("table", "header"), [("cuda-driver", "cuda.h"), ("cuda-runtime", "driver_types.h")])
def test_the_tables_hold_what_nvidias_headers_hold(table: str, header: str) -> None:
    text = (CUDA / header).read_text(encoding="utf-8", errors="replace")
    pattern = r"\b((?:CUDA_ERROR_|cudaError|CUDA_SUCCESS|cudaSuccess)\w*)\s*=\s*(\d+)"
    theirs = {name: int(value) for name, value in re.findall(pattern, text)}
    theirs.pop("cudaErrorApiFailureBase", None)  # deprecated, no code of its own
    assert {code.name: code.value for code in tables().values[table].values()} == theirs


#: Which row answers to a code of the CUDA driver, given by its name and by its number; empty: what the code
#: means is all that can be said, and any advice would be a guess.
ANSWERS = {
    1: ("cuda-error-other", ""),
    2: ("gpu-memory", "gpu-memory-code"),
    3: ("code-not-started", "code-not-started"),
    100: ("no-device", "code-no-device"),
    101: ("device-order", "code-no-device"),
    200: ("driver-call", "code-driver-call"),
    201: ("code-context", "code-context"),
    209: ("no-binary", "no-binary"),
    218: ("driver-call", "code-driver-call"),
    300: ("driver-call", "code-driver-call"),
    **dict.fromkeys((301, 302, 303, 304), ("", "")),
    400: ("code-handle", "code-handle"),
    500: ("driver-call", "code-driver-call"),
    600: ("", ""),
    700: ("code-gpu-fault", "code-gpu-fault"),
    702: ("code-gpu-fault", "code-gpu-fault"),
    709: ("code-context", "code-context"),
    715: ("driver-call", "code-gpu-fault"),
    **dict.fromkeys((716, 717, 719), ("code-gpu-fault", "code-gpu-fault")),
    801: ("driver-call", "driver-call"),
    802: ("code-not-started", "code-not-started"),
    803: ("runtime-from-driver", "code-driver-version"),
    804: ("code-driver-version", "code-driver-version"),
    999: ("driver-call", ""),
}


@pytest.mark.parametrize("number", ANSWERS)
def test_a_code_of_the_driver_has_advice_that_belongs_to_it(number: int) -> None:
    [name] = [code.name for code in TABLES["cuda-driver"] if code.value == number]
    by_name, by_number = ANSWERS[number]
    for text, rule in (
        (f"error: {name}", by_name),
        (f"CUDA driver error: {name}", by_name),
        (f"cuLaunchKernel failed with error {number}", by_number),
        (f"CUDA driver error {number}", by_number),
    ):
        found = diagnose(f"[ZLUDA] on AMD Radeon RX 7900 XT\n{text}\n".encode())
        assert (found[0].rule if found else "") == rule, text


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("RuntimeError: CUDA error: initialization error", "code-not-started"),
        ("error: cudaErrorInitializationError", "code-not-started"),
        ("RuntimeError: CUDA error: system not yet initialized", "code-not-started"),
        ("error: cudaErrorSystemNotReady", "code-not-started"),
        ("RuntimeError: CUDA error: device not ready", ""),
        ("CUDA error 600: device not ready", ""),
    ],
)
def test_the_words_of_the_runtime_get_the_advice_of_its_code(text: str, rule: str) -> None:
    found = diagnose(f"[ZLUDA] on AMD Radeon RX 7900 XT\n{text}\n".encode())
    assert (found[0].rule if found else "") == rule


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cuModuleLoadDataEx failed with error 218", "CUDA_ERROR_INVALID_PTX"),
        ('"cuInit", 100', "CUDA_ERROR_NO_DEVICE"),
        ("cuInit: 100", "CUDA_ERROR_NO_DEVICE"),
        ("cuInit(0) = 999", "CUDA_ERROR_UNKNOWN"),
        ("CUDA error: cuModuleLoad failed: 201", "CUDA_ERROR_INVALID_CONTEXT"),
        ("CUDA error: cudaMalloc failed: 2", "cudaErrorMemoryAllocation"),
        ("CUDA failure 35: driver", "cudaErrorInsufficientDriver"),
        ("[ZLUDA] HIP Runtime failed: 2", "hipErrorOutOfMemory"),
        ("[ZLUDA] HIPRTC failed: 11", "HIPRTC_ERROR_INTERNAL_ERROR"),
        ("hipMalloc() returned 2 for 512 bytes", "hipErrorOutOfMemory"),
        ("HIP API error = 0100", "hipErrorNoDevice"),
        ("miopen error: 7", "miopenStatusUnknownError"),
        ("cudnnCreate failed with status 1", "CUDNN_STATUS_NOT_INITIALIZED"),
        ("rocblas_sgemm returned rocblas_status_memory_error", "rocblas_status_memory_error"),
        ("Last error: [WinError 1455] zu klein", "ERROR_COMMITMENT_LIMIT"),
        ("LoadLibraryExW failed (0x7e) for amdhip64_7.dll", "ERROR_MOD_NOT_FOUND"),
        ("loading x.dll: error code 1114", "ERROR_DLL_INIT_FAILED"),
        ("HRESULT 0x8007007e from x.dll", "ERROR_MOD_NOT_FOUND"),
        ("DXGI: 0x887A0005", "DXGI_ERROR_DEVICE_REMOVED"),
        ("exit status 0xc0000005", "STATUS_ACCESS_VIOLATION"),
        ("ended with 0xFFFFFFFFC0000135", "STATUS_DLL_NOT_FOUND"),
        ("process exited with code -1073741515", "STATUS_DLL_NOT_FOUND"),
        ("exitCode=3221225781, signal", "STATUS_DLL_NOT_FOUND"),
        ("exit code 1073741845", "STATUS_FATAL_APP_EXIT"),
        ("Windows Error 0xc000001d", "STATUS_ILLEGAL_INSTRUCTION"),
        ("the container exited with code 137", "SIGKILL"),
        ("exitcode: -11 (pid: 42)", "SIGSEGV"),
        ("Command terminated by signal 6", "SIGABRT"),
        ("signal: illegal instruction (core dumped)", "SIGILL"),
        ("Segmentation fault (core dumped)", "SIGSEGV"),
        ("vk::Queue::submit: ErrorDeviceLost", "VK_ERROR_DEVICE_LOST"),
        ("clEnqueueNDRangeKernel(): CL_OUT_OF_RESOURCES", "CL_OUT_OF_RESOURCES"),
        ("HSA_STATUS_ERROR_OUT_OF_RESOURCES: more", "HSA_STATUS_ERROR_OUT_OF_RESOURCES"),
        ("ncclUnhandledCudaError: Call to CUDA function failed", "ncclUnhandledCudaError"),
        ("bugcheck 0x00000119", "VIDEO_SCHEDULER_INTERNAL_ERROR"),
        ("LiveKernelEvent 141", "VIDEO_ENGINE_TIMEOUT_DETECTED"),
        ("HIP error: the operation cannot be performed in the present state", "hipErrorIllegalState"),
        ('ZLUDA stops there ("named symbol not found")', "cudaErrorSymbolNotFound"),
        ("OSError: [Errno 28] No space left on device", "ENOSPC"),
    ],
)  # fmt: skip
def test_spellings(text: str, expected: str) -> None:
    assert any(name.startswith(expected) for name in names(text)), names(text)


@pytest.mark.parametrize("text", ["CUDA error: cuModuleLoad failed: 201", "cuModuleLoad returned 201"])
def test_a_call_keeps_its_capitals_and_chooses_its_own_codes(text: str) -> None:
    (seen,) = read_statuses(sample_log(text.encode()))
    assert (seen.call, seen.code.name) == ("cuModuleLoad", "CUDA_ERROR_INVALID_CONTEXT")


@pytest.mark.parametrize(
    "text",
    [
        "step 700 of 999, loss 0.209, error rate 2.7 %",
        "torch/cuda/__init__.py:641: UserWarning: something with Error code: n/a",
        "current device: 0, in function ggml_cuda_compute_forward at ggml-cuda.cu:106",
        "access at 0x000000C3FF1F0000",
        "port 32212257812, id 18446744073709551615 elements",
        "total VRAM 20464 MB, exit after 5 s",
        "hipSuccess, CUDA_SUCCESS, cudaErrorNotReady",
        "0 errors, 0 failed, status: ok",
        "GPU 0 has a capacity of 15.92 GiB",
        "calls: cuInit: 1, cudaMalloc: 700",
    ],
)
def test_a_number_is_only_a_number(text: str) -> None:
    assert names(text) == []


def test_a_status_that_came_through_a_floating_point_number_is_not_its_low_bits() -> None:
    found = windows_status(18446744072635812000)
    assert found[0].name == "STATUS_STACK_BUFFER_OVERRUN"
    assert len(found) > 1
    assert 18446744072635812000 & 0xFFFFFFFF not in {code.value for code in found}
    (seen,) = read_statuses(sample_log(b"(Exit code: 18446744072635812000). Unknown error."))
    assert (seen.code.name, bool(seen.others)) == ("STATUS_STACK_BUFFER_OVERRUN", True)


@given(st.sampled_from([code for code in CODES if code.enumeration == "ntstatus" and code.value >> 31]))
def test_a_windows_status_is_the_same_signed_unsigned_and_in_64_bits(code: StatusCode) -> None:
    signed = code.value - (1 << 32)
    exact = (1 << 64) + signed
    assert windows_status(code.value) == windows_status(signed) == (code,)
    rounded = windows_status(int(float(exact)))
    assert code in windows_status(exact) or len(windows_status(exact)) == len(rounded)
    assert names(f"process exited with code {signed}") == [code.name]


@given(st.integers(min_value=-(2**70), max_value=2**70))
def test_no_number_is_too_odd_to_be_explained(number: int) -> None:
    for word in (str(number), hex(abs(number)), f"hip {number}"):
        assert all(isinstance(code, StatusCode) for code in explain(word))


@pytest.mark.slow
@given(st.text(max_size=300))
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    event = read_event(text)
    assert event.to_json()["statuses"] == event.to_json()["statuses"]
    assert len(list(event.sentences())) <= 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("libroctx64.so.4: cannot open shared object file", [("libroctx64.so.4", "hip-runtime")]),
        ("libcudart.so.13 => not found", [("libcudart.so.13", "cudart")]),
        ("Could not find module 'C:\\z\\nvcuda.dll' (or one of its dependencies)", [("nvcuda.dll", "layer")]),
        ('Error loading "C:\\t\\c10_cuda.dll" or one of its dependencies', [("c10_cuda.dll", "torch-cuda")]),
        ("amdhip64_6.dll was not found", [("amdhip64_6.dll", "hip-runtime")]),
        ("dlopen 'b'libhiprand.so'': b'libhiprand.so: cannot open shared object file", [HIPRAND]),
        (ONNXRUNTIME, PROVIDER),
        ("/usr/bin/ld: cannot find -lamdhip64", [("-lamdhip64", "build")]),
        ("LINK : fatal error LNK1104: cannot open file 'python311.lib'", [("python311.lib", "build")]),
        ("undefined hidden symbol: __ockl_get_group_id", [("__ockl_get_group_id", "device-library")]),
        ("hipGetErrorName is missing from HIP shared library.", [("hipgeterrorname", "hip-runtime")]),
        ("Unable to open /dev/kfd read-write: Permission denied", [("/dev/kfd", "device")]),
        ("all libraries were loaded: libamdhip64.so.6 => /opt/rocm/lib/libamdhip64.so.6", []),
    ],
)  # fmt: skip
def test_what_is_missing_is_named_with_its_owner(text: str, expected: list[tuple[str, str]]) -> None:
    found = read_objects(sample_log(text.encode()))
    assert [(thing.name, thing.owner.group) for thing in found] == expected


def test_every_owner_says_whose_it_is_and_what_its_absence_means() -> None:
    for owner in owners():
        assert owner.owner, owner.group
        assert owner.meaning, owner.group
    assert owner_of("libnothing-of-ours.so.3").group == "unknown"


def test_refused_is_not_missing() -> None:
    (refused,) = read_objects(sample_log(b"/dev/kfd: Permission denied"))
    (missing,) = read_objects(sample_log(b'adding custom device "/dev/kfd": no such file or directory'))
    assert (refused.state, missing.state) == ("refused", "missing")


@pytest.mark.parametrize(
    "line",
    [
        'cuGetProcAddress(symbol: "cuD3D9GetDevice", flags: 0) -> CUDA_ERROR_NOT_FOUND',
        "get_rocm_bin_path: note: amdclang++ not found on $PATH",
        "/opt/rocm-5.5.0/bin/hipconfig.bin not found, but that is OK",
        "UserWarning: Can't initialize amdsmi - Error code: 34",
        "Failed to load image Python extension: libjpeg.so.9 is missing; this can be ignored",
        "- [x] CUDA error: out of memory",
    ],
)
def test_what_calls_itself_harmless_is_no_evidence(line: str) -> None:
    event = read_event(f"{line}\ndone\n")
    assert event.empty


def test_a_note_takes_back_the_line_above_it_where_both_speak_of_the_same() -> None:
    failed = (
        "comfy-aimdo failed to load: Could not find module 'D:\\x\\aimdo.dll' (or one of its dependencies)."
    )
    note = "NOTE: comfy-aimdo is currently only support for Nvidia GPUs"
    assert read_event(f"{failed}\n{note}\n").empty
    assert not read_event(f"{failed}\nNOTE: something-else is optional\n").empty


def test_names_in_the_addresses_of_pages_are_no_evidence() -> None:
    event = read_event("see https://github.com/someone/ROCmLibs-for-gfx1103-AMD780M-APU/releases for it")
    assert event.context.gfx == ()
    assert "rocm" not in event.sample.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise",
    [
        "cudaMalloc" * 300,
        "error code " * 250,
        "no a" + ".a" * 900 + ".dll",
        "failed to load " * 150 + "x.dll",
        "loadlibrary " * 200,
        "0xc0000005 " * 200,
        "exit with code " * 150,
        "/dev/kfd" * 250,
        "cannot open file '" * 120,
        "torch 1.1" * 220,
        "note: only " * 200,
        "a" * 2000,
        "(((((" * 400,
    ],
    ids=lambda text: text[:16],
)
def test_no_line_takes_long(noise: str, record_property: Any) -> None:
    read_event("warm up")
    with in_proportion():
        read_event("\n".join(f"{noise} {'x' * number}" for number in range(40)))
