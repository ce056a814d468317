"""The first failure goes before what followed from it, a program's last words before its earlier warnings."""

from __future__ import annotations

from itertools import permutations

import pytest

from scripts.doctor.diagnose import diagnose

HEAD = "AMD Radeon RX 6600, torch 2.6.0+rocm6.2\n"
#: Failures that mostly end a program, each surest by itself.
ENDING = {
    "out-of-memory": "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.25 GiB",
    "gpu-fault": "Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x1000. "
    "Reason: Page not present",
    "arch-libraries": "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such "
    "file or directory for GPU arch : gfx1032",
    "device-permission": "Unable to open /dev/kfd read-write: Permission denied",
    "cudnn-miopen": "MIOpen Error: /MIOpen/src/hipoc/hipoc_program.cpp:286: Code object build failed.",
    "blocked-by-policy": "OSError: [WinError 4551] An Application Control policy has blocked this file.",
    "runtime-or-bitness": "OSError: [WinError 193] %1 is not a valid Win32 application",
}
#: Failures that may as well follow from another.
SPECIFIC = {
    "arch-libraries": "RuntimeError: HIP error: invalid device function",
    "missing-dll": "ImportError: libamdhip64.so.6: cannot open shared object file: No such file or directory",
    "unsupported-call": "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx`",
}
#: What follows from nearly every failure.
CONSEQUENCES = (
    "Aborted (core dumped)",
    "Segmentation fault (core dumped)",
    "RuntimeError: No HIP GPUs are available",
    "During handling of the above exception, another exception occurred:\nRuntimeError: engine not ready",
    "failed (exitcode: -6) local_rank: 0",
    "Process finished with exit code 1",
)
#: What a program says and goes on.
WARNINGS = (
    "RuntimeWarning: invalid value encountered in cast",
    "UserWarning: HIP: Unexpected error from hipGetDeviceCount(). Error 101: hipErrorInvalidDevice",
    "WARNING: libamdhip64.so.6: cannot open shared object file: No such file or directory",
    "WARNING rocBLAS error: Cannot read TensileLibrary.dat: Illegal seek",
    "W tensorflow/stream_executor: Warning: HIP error: invalid device function",
)


def first(*lines: str) -> str:
    found = diagnose(HEAD + "\n".join(lines) + "\n")
    return found[0].reference if found else ""


@pytest.mark.parametrize(("earlier", "later"), list(permutations(ENDING, 2)))
def test_of_two_failures_the_first_one_is_named(earlier: str, later: str) -> None:
    assert first(ENDING[earlier], "loading …", ENDING[later]) == earlier


@pytest.mark.parametrize(("earlier", "later"), list(permutations(SPECIFIC, 2)))
def test_so_it_is_with_less_grave_ones(earlier: str, later: str) -> None:
    assert first(SPECIFIC[earlier], SPECIFIC[later]) == earlier


@pytest.mark.parametrize("consequence", CONSEQUENCES, ids=range(len(CONSEQUENCES)))
@pytest.mark.parametrize("failure", ENDING)
def test_what_followed_changes_nothing_wherever_it_stands(failure: str, consequence: str) -> None:
    assert first(ENDING[failure], consequence) == failure
    assert first(consequence, ENDING[failure]) == failure


@pytest.mark.parametrize("warning", WARNINGS, ids=range(len(WARNINGS)))
@pytest.mark.parametrize("failure", ENDING)
def test_last_words_go_before_earlier_warnings(failure: str, warning: str) -> None:
    assert first(warning, "working on …", ENDING[failure]) == failure


@pytest.mark.parametrize("words", ["Further up in the log:", "Earlier:", "> Before that, in the console:"])
def test_a_person_may_quote_the_end_first(words: str) -> None:
    kinds = list(ENDING)
    for late, early in permutations(kinds[:4], 2):
        assert first(ENDING[late], words, ENDING[early]) == early


def test_a_warning_alone_still_is_something() -> None:
    assert [first(warning) for warning in WARNINGS] == [
        *("wrong-results", "wrong-device", "missing-dll", "arch-libraries", "arch-libraries")
    ]
