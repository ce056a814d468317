"""Command lines on Windows: paths in every spelling, deep folders, devices, no home, loaded libraries."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.osal.fs import hash_file, long_path

if sys.platform == "win32":
    from scripts.osal.ascii_alias_windows import short_name
    from scripts.osal.process_windows import start_error
    from scripts.osal.processes import Command

pytestmark = pytest.mark.windows_only
ROOT = Path(__file__).resolve().parents[1]


def programs() -> Path:
    return Path(os.environ["CUDA_AMD_TEST_BIN"])


def runtime(tmp_path: Path) -> Path:
    """A stack of one library, the CPU reference's driver."""
    made = tmp_path / "runtime"
    made.mkdir()
    shutil.copyfile(programs() / "cpu-reference" / "nvcuda.dll", made / "nvcuda.dll")
    return made


def wrap(folder: Path, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "tests.wrapping", str(folder), "reference", "wrap", *words]
    return subprocess.run(
        line, cwd=ROOT, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=env
    )


def program_in(folder: Path) -> Path:
    long_path(folder).mkdir(parents=True)
    shutil.copyfile(programs() / "exits.exe", long_path(folder / "exits.exe"))
    return folder / "exits.exe"


def test_a_program_is_found_in_every_spelling_of_its_path(tmp_path: Path) -> None:
    program, stack = program_in(tmp_path / "My Folder"), runtime(tmp_path)
    plain = str(program)
    for spelled in (
        *(f"\\\\?\\{plain}", f"\\\\.\\{plain}", plain.replace("\\", "/"), plain.upper(), f'"{plain}"'),
        *(plain.removesuffix(".exe"), f"{program.parent}\\..\\My Folder\\.\\exits.exe"),
    ):
        done = wrap(stack, "--via=env", f"--exe={spelled}", "--", "7")
        assert done.returncode == 7, (spelled, done.stderr)


def test_a_program_whose_path_has_319_characters_starts(tmp_path: Path) -> None:
    room = 319 - len(str(tmp_path)) - len("\\exits.exe")
    parts = [f"\\{'d' * 59}"] * (room // 60)
    folder = Path(f"{tmp_path}{''.join(parts)}\\{'e' * (room - 60 * len(parts) - 1)}")
    program = program_in(folder)
    assert len(str(program)) == 319
    done = wrap(runtime(tmp_path), "--via=env", f"--exe={program}", "--", "7")
    short = short_name(program)
    if short is None:
        assert "no short (8.3) form" in done.stderr
        pytest.skip("this volume keeps no 8.3 names")
    try:
        subprocess.run([short, "7"], check=False)
    except OSError:
        assert done.returncode == 126
        assert "could not be started" in done.stderr
        assert "does not exist" not in done.stderr
        pytest.skip("Wine 8 starts no program whose long path has more than 259 characters, by any name")
    assert done.returncode == 7, done.stderr


@pytest.mark.parametrize("number", [2, 3])
def test_a_program_that_is_there_is_never_called_absent(tmp_path: Path, number: int) -> None:
    if sys.platform == "win32":
        folder = Path(f"{tmp_path}\\{'d' * 200}")
        deep = program_in(folder)
        assert len(str(deep)) > 240
        found = start_error(Command(program=deep, env={}), OSError(None, "not found", str(deep), number))
        assert "could not be started, although it is there" in found.message
        absent = start_error(
            Command(program=folder / "x.exe", env={}), OSError(None, "not found", "x", number)
        )
        assert absent.message.endswith("does not exist")


@pytest.mark.parametrize("named", ["C:\\", "\\\\srv\\share\\", "NUL", "COM1", "\\\\.\\PhysicalDrive0"])
def test_a_drive_a_share_or_a_device_is_a_sentence_and_nothing_is_opened(tmp_path: Path, named: str) -> None:
    stack = runtime(tmp_path)
    done = wrap(stack, f"--exe={named}")
    assert done.returncode == 126, done.stderr
    assert "names" in done.stderr
    program = program_in(tmp_path / "app")
    for option in ("report", "log"):
        done = wrap(stack, "--via=env", f"--exe={program}", f"--{option}={named}", "--", "7")
        assert done.returncode == (7 if named == "NUL" else 121), done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("option", "victim", "spelled"),
    [
        ("report", "program", "{}"),
        ("log", "program", "\\\\?\\{}"),
        ("report", "argument", "\\\\.\\{}"),
        ("log", "argument", '"{}"'),
        ("report", "library", "\\\\?\\{}"),
        ("log", "journal", "\\\\.\\{}"),
    ],
)
def test_an_output_that_is_something_else_is_refused_in_every_spelling(
    tmp_path: Path, option: str, victim: str, spelled: str
) -> None:
    program = program_in(tmp_path / "app")
    files = {
        "program": program,
        "argument": tmp_path / "train.py",
        "library": tmp_path / "app" / "nvcuda.dll",
        "journal": tmp_path / "app" / ".cuda-amd" / "journal",
    }
    if victim == "argument":
        files[victim].write_bytes(b"print()")
    before = files[victim].read_bytes() if files[victim].exists() else None
    named = f"--{option}={spelled.format(files[victim])}"
    done = wrap(runtime(tmp_path), "--via=env", f"--exe={program}", named, "--", str(files["argument"]))
    assert done.returncode == 121, done.stderr
    assert "bad-output" in done.stderr
    assert (files[victim].read_bytes() if files[victim].exists() else None) == before


def test_a_console_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    program, stack = program_in(tmp_path / "app"), runtime(tmp_path)
    for options in (["--report=CON"], ["--report=CON", "--log=NUL"], ["--report=NUL", "--log=CON"]):
        done = wrap(stack, "--via=env", f"--exe={program}", *options, "--", "7")
        assert done.returncode in {7, 126}, done.stderr
        assert "Traceback" not in done.stderr


def test_without_a_home_a_program_runs(tmp_path: Path) -> None:
    gone = {"USERPROFILE", "HOMEPATH", "HOMEDRIVE", "HOME", "APPDATA", "LOCALAPPDATA"}
    environ = {name: value for name, value in os.environ.items() if name.upper() not in gone}
    program = program_in(tmp_path / "app")
    done = wrap(runtime(tmp_path), "--via=env", f"--exe={program}", "--", "7", env=environ)
    assert done.returncode == 7, done.stderr


def test_wrap_says_which_libraries_were_loaded_and_their_hashes(tmp_path: Path) -> None:
    stack, own = runtime(tmp_path), tmp_path / "own" / "cublas64_12.dll"
    own.parent.mkdir()
    shutil.copyfile(programs() / "empty.dll", own)
    code = (
        "import ctypes, sys, time; ctypes.WinDLL('nvcuda.dll', winmode=0); "
        "ctypes.WinDLL(sys.argv[1]); time.sleep(6)"
    )
    report = tmp_path / "report.json"
    done = wrap(
        stack, "--via=env", f"--exe={sys.executable}", f"--report={report}", "--", "-c", code, str(own)
    )
    assert done.returncode == 0, done.stderr
    assert "from the stack nvcuda.dll" in done.stderr
    assert str(own) in done.stderr
    loaded = json.loads(report.read_text(encoding="utf-8"))["loaded"]
    assert [(one["library"], one["sha256"]) for one in loaded["from_stack"]] == [
        ("nvcuda", hash_file(stack / "nvcuda.dll"))
    ]
    assert [(one["path"].lower(), one["sha256"]) for one in loaded["from_elsewhere"]] == [
        (str(own).lower(), hash_file(own))
    ]
