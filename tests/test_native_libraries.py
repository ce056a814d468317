"""Every library of the CPU reference: what it exports, what it refuses, and each failure on demand."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.native_cpu import NATIVE, ROOT, WINDOWS, environment, folder, host_compiler, library, outputs

pytestmark = pytest.mark.proof

#: What each API returns for a call that it does not offer, and one such call.
REFUSALS = {
    "nvcuda": 801,
    "cublas12": 15,
    "cublaslt12": 15,
    "cusparse12": 10,
    "cufft11": 16,
    "nvml": 3,
}
RUNTIMES = {"cudart12": 801, "cudart13": 801}
CHECK = "cuda_check.exe" if WINDOWS else "cuda_check"
GEMM = ROOT / "scripts" / "inside" / "gemm.py"
ALL = [f"--{name}" for name in REFUSALS]


def names_without_code(provides: str) -> list[str]:
    name = provides if provides in RUNTIMES else re.sub(r"\d+$", "", provides)
    shared = ("cudart",) if provides in RUNTIMES else ()
    files = [NATIVE / "cpu" / "exports" / f"{each}.h" for each in (name, *shared)]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    return re.findall(r"^STUB\((\w+)\)$", text, re.MULTILINE)


@pytest.mark.parametrize("provides", [*REFUSALS, *RUNTIMES])
def test_every_listed_call_is_exported_and_says_not_supported(provides: str) -> None:
    loaded, names = library(provides), names_without_code(provides)
    assert len(names) > 30
    assert {getattr(loaded, name)() for name in names} == {{**REFUSALS, **RUNTIMES}[provides]}


def test_every_output_was_built() -> None:
    assert [output.name for output in outputs() if not (folder() / output.name).is_file()] == []
    assert {output.provides for output in outputs() if output.provides} == {*REFUSALS, *RUNTIMES}


@pytest.mark.parametrize(
    ("provides", "create", "destroy"),
    [
        ("cublaslt12", "cublasLtCreate", "cublasLtDestroy"),
        ("cusparse12", "cusparseCreate", "cusparseDestroy"),
    ],
)
def test_handles_are_made_and_destroyed_once(provides: str, create: str, destroy: str) -> None:
    loaded, handle = library(provides), ctypes.c_void_p()
    assert getattr(loaded, create)(None) != 0
    assert getattr(loaded, create)(ctypes.byref(handle)) == 0
    assert getattr(loaded, destroy)(handle) == 0
    assert getattr(loaded, destroy)(handle) == 1


def test_fft_plans_are_numbers() -> None:
    fft, one, two = library("cufft11"), ctypes.c_int(), ctypes.c_int()
    assert fft.cufftCreate(ctypes.byref(one)) == fft.cufftCreate(ctypes.byref(two)) == 0
    assert one.value != two.value
    assert fft.cufftSetStream(one, None) == 0
    assert fft.cufftDestroy(one) == fft.cufftDestroy(two) == 0
    assert fft.cufftDestroy(one) == 1
    assert fft.cufftCreate(None) == 4


def test_nvml_counts_its_users_and_names_the_device() -> None:
    nvml, count, device = library("nvml"), ctypes.c_uint(), ctypes.c_void_p()
    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 1
    assert nvml.nvmlInit_v2() == nvml.nvmlInit_v2() == nvml.nvmlShutdown() == 0
    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    assert count.value == 1
    assert nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)) == 2
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
    text = ctypes.create_string_buffer(96)
    assert nvml.nvmlDeviceGetName(device, text, 96) == 0
    assert text.value == b"CPU reference (simulated, not a GPU)"
    assert nvml.nvmlDeviceGetName(device, text, 5) == 7
    assert nvml.nvmlSystemGetDriverVersion(text, 96) == 0
    assert text.value == b"0.1-cpu-reference"
    assert nvml.nvmlDeviceGetUUID(device, text, 96) == 0
    assert text.value == b"GPU-63756461-2d61-6d64-2d63-70752d726566"
    assert nvml.nvmlDeviceGetUUID(device, text, 40) == 7
    driver, uuid = library("nvcuda"), (ctypes.c_ubyte * 16)()
    assert driver.cuInit(0) == driver.cuDeviceGetUuid_v2(uuid, 0) == 0
    assert text.value == f"GPU-{UUID(bytes=bytes(uuid))}".encode()
    assert nvml.nvmlShutdown() == 0
    assert nvml.nvmlShutdown() == 1


@pytest.mark.parametrize(
    ("provides", "call", "value"),
    [
        ("cusparse12", "cusparseGetProperty", 12),
        ("cufft11", "cufftGetProperty", 11),
        ("cublas12", "cublasGetProperty", 12),
    ],
)
def test_versions_are_those_of_the_file_names(provides: str, call: str, value: int) -> None:
    major = ctypes.c_int()
    assert getattr(library(provides), call)(0, ctypes.byref(major)) == 0
    assert major.value == value


# ---- cuda_check ----


def check(*arguments: str, fault: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
    line = [str(folder() / CHECK), *arguments]
    return subprocess.run(
        line, env=environment(fault), capture_output=True, text=True, encoding="utf-8", timeout=timeout,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def lines(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w+) *: (OK|ERROR: .*?)(?: \(.*\))?\r?$", text, re.MULTILINE))


def test_the_check_prints_one_line_a_library_with_its_path() -> None:
    done = check("--driver-first", *ALL)
    assert done.returncode == 0
    assert [line[:12] for line in done.stdout.splitlines()] == [
        "nvcuda    : ",
        "nvml      : ",
        "cublas12  : ",
        "cublaslt12: ",
        "cusparse12: ",
        "cufft11   : ",
    ]
    paths = re.findall(r"OK \((.*)\)", done.stdout)
    assert [Path(p).parent.resolve() for p in paths] == [folder().resolve()] * 6


def test_the_check_says_what_is_not_there_and_goes_on() -> None:
    done = check()
    found = lines(done.stdout)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 16
    assert {name for name, text in found.items() if text == "OK"} >= set(REFUSALS)
    assert re.fullmatch(r"ERROR: Loading\(.*13.*\)?", found["cublas13"])


def test_the_check_refuses_unknown_arguments() -> None:
    done = check("--cublas99")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown argument --cublas99" in done.stderr


@pytest.mark.parametrize(
    ("missing", "name", "line"),
    [
        ("nvcuda", "nvcuda", 'ERROR: Initialization("cuInit", 100)'),
        ("cublas", "cublas12", 'ERROR: Initialization("cublasCreate_v2", 1)'),
        ("CUBLAS12", "cublas12", 'ERROR: Initialization("cublasCreate_v2", 1)'),
        ("cublaslt", "cublaslt12", 'ERROR: Initialization("cublasLtCreate", 1)'),
        ("cusparse", "cusparse12", 'ERROR: Initialization("cusparseCreate", 1)'),
        ("cufft", "cufft11", 'ERROR: Initialization("cufftCreate", 7)'),
        ("nvml", "nvml", 'ERROR: Initialization("nvmlInit_v2", 9)'),
    ],
)
def test_missing_fails_one_library_only(missing: str, name: str, line: str) -> None:
    found = lines(check(*ALL, fault=f"missing:{missing}").stdout)
    assert found == dict.fromkeys(REFUSALS, "OK") | {name: line}


def hangs_after(fault: str, arguments: list[str], marker: bytes, stream: str) -> bytes:
    """Start a program, wait for its marker, see that it stays; return what it printed until then."""
    process = subprocess.Popen(
        arguments,
        env=environment(fault),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    try:
        pipe = getattr(process, stream)
        text = b""
        while marker not in text:
            line = pipe.readline()
            assert line, "it ended instead of hanging"
            text += line
        time.sleep(0.5)
        assert process.poll() is None
        return text
    finally:
        process.kill()
        process.communicate()


def test_hang_leaves_the_first_lines_of_a_check() -> None:
    text = hangs_after("hang", [str(folder() / CHECK), *ALL], b"nvml", "stdout")
    assert list(lines(text.decode())) == ["nvcuda", "nvml"]


def test_hang_at_exit_comes_after_the_last_line() -> None:
    text = hangs_after("hang:exit", [str(folder() / CHECK), *ALL], b"cufft11", "stdout")
    assert set(lines(text.decode()).values()) == {"OK"}


def test_a_crash_at_exit_comes_after_the_last_line() -> None:
    done = check(*ALL, fault="crash-at-exit")
    assert set(lines(done.stdout).values()) == {"OK"}
    assert done.returncode == (0xC0000409 if WINDOWS else -11)


@pytest.mark.parametrize("fault", ["", "nonsense", "missing:cudnn", "missing:"])
def test_other_values_are_no_fault(fault: str) -> None:
    assert set(lines(check(*ALL, fault=fault).stdout).values()) == {"OK"}


@pytest.mark.posix_only
def test_the_short_name_leads_to_the_same_driver() -> None:
    """State made through one name is seen through the other."""
    program = (
        "import ctypes; a = ctypes.CDLL('libcuda.so'); assert a.cuInit(0) == 0; "
        "assert ctypes.CDLL('libcuda.so.1').cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == 0"
    )
    subprocess.run([sys.executable, "-c", program], env=environment(), check=True, timeout=60)


@pytest.mark.posix_only
def test_what_is_linked_with_the_short_name_asks_for_the_versioned_one(tmp_path: Path) -> None:
    """As with the driver's own link of that name, also where a linker drops what no symbol is taken from."""
    if host_compiler().zig or shutil.which("readelf") is None:
        pytest.skip("the compiler hands no --filter to its linker, or readelf is not installed")
    (tmp_path / "a.c").write_text("int cuInit(unsigned); int main(void) { return cuInit(0); }\n")
    line = [*host_compiler().command, "a.c", "-o", "a", "-Wl,--as-needed", f"-L{folder()}", "-lcuda"]
    subprocess.run(line, cwd=tmp_path, check=True, timeout=60)
    text: Any = subprocess.run(
        ["readelf", "-d", "a"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert re.findall(r"NEEDED.*\[(libcuda.*)\]", text.stdout) == ["libcuda.so.1"]
    assert subprocess.run([str(tmp_path / "a")], env=environment(), check=False, timeout=60).returncode == 0


def test_hang_in_a_product_needs_no_hanging_check() -> None:
    assert set(lines(check(*ALL, fault="hang:gemm").stdout).values()) == {"OK"}


@pytest.mark.posix_only
def test_the_libraries_need_nothing_but_the_c_library() -> None:
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("readelf is not installed")
    for output in outputs():
        text: Any = subprocess.run(
            [readelf, "-d", str(folder() / output.name)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", text))
        leads_to = re.findall(r"(?:FILTER|Filter library).*\[(.*)\]", text)
        zig = host_compiler().zig  # hands no --filter to its linker
        assert leads_to == ([f"$ORIGIN/{output.forwards}"] if output.forwards and not zig else [])
        ours = {"libcuda.so.1"} if output.forwards and zig else set()
        assert {
            n for n in needed if not n.startswith(("libc.", "libm.", "libpthread.", "libdl.", "ld-linux"))
        } == ours
