"""On Windows arguments arrive through the real thing, the tree is a job, and boxes are closed."""

from __future__ import annotations

import ctypes
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PureWindowsPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scripts.app.wrap import WrapResult, wrap
from scripts.errors import LaunchError, StagedFileError, UsageError
from scripts.launch.argv import child_line, launcher_line
from scripts.launch.injection import Via
from scripts.model import EnvPolicy, Runtime, StackKind
from scripts.osal.process import run_captured, run_inherited
from scripts.osal.processes import Command
from scripts.osal.signals import ForwardedSignals
from tests.command_lines import by_shell32
from tests.test_launch_argv import IDS, TABLE
from tests.wrapping import runtime_in, staged_over, workspace

pytestmark = pytest.mark.windows_only

CUDA = ("nvcuda.dll", "cublas64_12.dll", "cufft64_11.dll")
LAYER = ("zluda.exe", "nvcuda.dll", "cublas64_12.dll", "zluda_redirect.dll", "trace/nvcuda.dll")
ROOT = Path(__file__).resolve().parents[1]
Show = Callable[[Path, str], tuple[str, list[str], dict[str, str]]]


@pytest.fixture(scope="module")
def programs() -> Path:
    folder = os.environ.get("CUDA_AMD_TEST_BIN")
    if folder is None:
        pytest.skip("CUDA_AMD_TEST_BIN does not name the folder of cross-built programs")
    return Path(folder)


def copied(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())
    return target


@pytest.fixture(scope="module")
def exe(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, in a folder with blanks and letters outside ASCII."""
    return copied(programs / "show_argv.exe", tmp_path_factory.mktemp("Program Files Ä 中") / "show argv.exe")


@pytest.fixture(scope="module")
def launcher(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(programs / "joining_launcher.exe", tmp_path_factory.mktemp("layer dir") / "zluda.exe")


@pytest.fixture(scope="module")
def injector(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer whose launcher really injects its redirecting library."""
    folder = tmp_path_factory.mktemp("injecting layer")
    copied(programs / "zluda_redirect.dll", folder / "zluda_redirect.dll")
    for name in CUDA:
        copied(programs / "empty.dll", folder / name)
    return copied(programs / "injecting_launcher.exe", folder / "zluda.exe")


@pytest.fixture
def runtime(programs: Path, tmp_path: Path) -> Runtime:
    folder = tmp_path / "layer dir"
    copied(programs / "joining_launcher.exe", folder / "zluda.exe")
    return runtime_in(folder, *LAYER)


def text_of(hexadecimal: str) -> str:
    data = b"".join(
        int(hexadecimal[i : i + 4], 16).to_bytes(2, "little") for i in range(0, len(hexadecimal), 4)
    )
    return data.decode("utf-16-le", "surrogatepass")


def parse(output: str) -> tuple[str, list[str], dict[str, str]]:
    line, args, env = "", [], {}
    for row in output.splitlines():
        kind, *values = row.split(" ")
        if kind == "line":
            line = text_of(values[0])
        elif kind == "arg":
            args.append(text_of(values[0]))
        elif kind == "env":
            env[text_of(values[0])] = text_of(values[1])
    return line, args, env


@pytest.fixture
def show(capfd: pytest.CaptureFixture[str]) -> Show:
    """Start a program with an exact command line, and return what it says it was given."""

    def start(program: Path, line: str) -> tuple[str, list[str], dict[str, str]]:
        with ForwardedSignals() as interruptions:
            run_inherited(
                Command(program=program, env=dict(os.environ), line=line), interruptions=interruptions
            )
        return parse(capfd.readouterr().out)

    return start


@pytest.mark.parametrize("args", [row[0] for row in TABLE], ids=IDS)
def test_the_table_arrives_directly_and_through_both_launchers(
    args: tuple[str, ...], launcher: Path, injector: Path, exe: Path, show: Show
) -> None:
    expected = (child_line(PureWindowsPath(exe), args), [str(exe), *args])
    assert show(exe, expected[0])[:2] == expected
    for start in (launcher, injector):
        outer, inner = launcher_line(PureWindowsPath(start), PureWindowsPath(exe), args)
        assert inner == expected[0]
        assert show(start, outer)[:2] == expected


def test_random_arguments_arrive_through_an_injecting_launcher(injector: Path, exe: Path, show: Show) -> None:
    rng = random.Random(7)  # noqa: S311 - the same cases every time
    for _ in range(30):
        args = [
            "".join(rng.choices('ab\\" \t\n%^&=*é中😀\ud800', k=rng.randrange(9)))
            for _ in range(rng.randrange(5))
        ]
        args = [a.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass") for a in args]
        outer, inner = launcher_line(PureWindowsPath(injector), PureWindowsPath(exe), args)
        assert show(injector, outer)[:2] == (inner, [str(exe), *args]), ascii(args)


def test_a_long_line_arrives_whole(launcher: Path, exe: Path, show: Show) -> None:
    args = ['"' * 4_000, "x" * 10_000]
    outer, inner = launcher_line(PureWindowsPath(launcher), PureWindowsPath(exe), args)
    assert show(launcher, outer)[:2] == (inner, [str(exe), *args])


def shell32(line: str) -> list[str]:
    count = ctypes.c_int()
    split = ctypes.WinDLL("shell32").CommandLineToArgvW
    split.restype = ctypes.POINTER(ctypes.c_wchar_p)
    split.argtypes = (ctypes.c_wchar_p, ctypes.POINTER(ctypes.c_int))
    words = split(line, ctypes.byref(count))
    found = [words[i] or "" for i in range(count.value)]
    ctypes.WinDLL("kernel32").LocalFree(ctypes.cast(words, ctypes.c_void_p))
    return found


@settings(max_examples=200)
@given(st.lists(st.text(st.sampled_from('ab\\" \té中'), max_size=8), max_size=5))
def test_windows_own_splitter_agrees_with_us_and_with_the_tests_own(args: list[str]) -> None:
    line = child_line(PureWindowsPath(r"C:\a b\c.exe"), args)
    assert shell32(line) == by_shell32(line) == [r"C:\a b\c.exe", *args]


def wrapped(runtime: Runtime, tmp_path: Path, exe: Path, **options: object) -> WrapResult:
    policy = EnvPolicy(name="ZLUDA_CC", value="8.6", why="explicit")
    staged = staged_over(runtime, kind=StackKind.TRANSLATION, env=(policy,))
    return wrap(
        workspace(tmp_path),
        exe=str(exe),
        staged=lambda _ws, _stack: staged,
        **options,  # type: ignore[arg-type]  # options by name
    )


def test_a_translation_stack_goes_through_its_launcher(
    runtime: Runtime, tmp_path: Path, exe: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    args = ["a b", "", '"', "--help", "größe"]
    shown = "SHOW_ENV=ZLUDA_CC,PATH"
    result = wrapped(runtime, tmp_path, exe, program_args=args, set_=[shown, "SHOW_EXIT=3221225781"])
    assert (result.via, result.exit_code, result.outcome) == (Via.LAUNCHER, -1073741515, "exit")
    assert "STATUS_DLL_NOT_FOUND" in result.ending[0]
    _, seen, env = parse(capfd.readouterr().out)
    assert seen == [str(exe), *args]
    assert env["ZLUDA_CC"] == "8.6"
    assert env["PATH"].split(";")[0] == str(runtime.path)
    assert any("Ctrl-C" in note for note in result.notes)


def loaded(output: str) -> dict[tuple[str, str], str]:
    rows = (row.split(" ", 2) for row in output.splitlines())
    return {(who, how): where for who, how, where in rows}


def test_injected_libraries_reach_a_program_that_asks_the_system_folder_only_and_its_children(
    programs: Path, injector: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    layer = runtime_in(injector.parent, "zluda.exe", "zluda_redirect.dll", *CUDA)
    program = copied(programs / "loads.exe", tmp_path / "a b" / "loads.exe")
    result = wrapped(layer, tmp_path, program)
    assert (result.via, result.exit_code) == (Via.LAUNCHER, 0)
    found = loaded(capfd.readouterr().out)
    expected = dict(zip(("system", "name", "path"), CUDA, strict=True))
    assert found == {
        (who, how): str(injector.parent / name)
        for who in ("parent", "child")
        for how, name in expected.items()
    }


def test_the_search_path_alone_does_not_reach_such_a_program(
    programs: Path, injector: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    layer = runtime_in(injector.parent, "zluda.exe", "zluda_redirect.dll", *CUDA)
    program = copied(programs / "loads.exe", tmp_path / "loads.exe")
    wrapped(layer, tmp_path, program, via="env")
    found = loaded(capfd.readouterr().out)
    assert found["parent", "system"] == "error 126"
    assert found["parent", "name"] == str(injector.parent / "cublas64_12.dll")


def test_a_launcher_that_cannot_start_the_program_is_no_exit_code_of_it(
    runtime: Runtime, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.exe"
    broken.write_bytes(b"MZ" + bytes(100))
    with pytest.raises(LaunchError) as caught:
        wrapped(runtime, tmp_path, broken)
    assert caught.value.reference == "launcher-failed"


def test_a_program_that_ends_with_1_keeps_its_code(runtime: Runtime, tmp_path: Path, exe: Path) -> None:
    assert wrapped(runtime, tmp_path, exe, set_=["SHOW_EXIT=1"]).exit_code == 1


def test_a_vanished_library_is_named_before_the_start(runtime: Runtime, tmp_path: Path, exe: Path) -> None:
    assert runtime.path is not None
    (runtime.path / "cublas64_12.dll").unlink()
    with pytest.raises(StagedFileError) as caught:
        wrapped(runtime, tmp_path, exe)
    assert (caught.value.reference, caught.value.context) == ("staged-file-missing", ("cublas64_12.dll",))
    assert "off" not in caught.value.hint.split()


def pe(machine: int, magic: int) -> bytes:
    head = b"MZ" + bytes(58) + struct.pack("<I", 64)
    return head + b"PE\0\0" + struct.pack("<H", machine) + bytes(18) + struct.pack("<H", magic) + bytes(400)


def test_a_32_bit_program_needs_a_32_bit_launcher(runtime: Runtime, tmp_path: Path) -> None:
    program = tmp_path / "old.exe"
    program.write_bytes(pe(0x014C, 0x10B))
    with pytest.raises(LaunchError) as caught:
        wrapped(runtime, tmp_path, program, via="launcher")
    assert caught.value.reference == "program-32-bit"
    assert runtime.path is not None
    runtime = runtime_in(runtime.path, *LAYER, "32/zluda.exe", "32/nvcuda.dll", "32/zluda_redirect.dll")
    line = wrapped(runtime, tmp_path, program, via="launcher", explain=True).line
    assert line.startswith(f'"{runtime.path}\\32\\zluda.exe" -- ')


def test_arguments_that_do_not_fit_are_refused_before_the_start(
    runtime: Runtime, tmp_path: Path, exe: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        wrapped(runtime, tmp_path, exe, program_args=['"' * 9_000])
    assert caught.value.reference == "arguments-too-long"


def test_a_program_gets_what_we_can_read(
    runtime: Runtime, tmp_path: Path, exe: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = run_captured([exe], env={**os.environ, "SHOW_STDIN": "1"}, timeout=60, stdin=b"through")
    assert done.stdout.endswith(b"through")


@pytest.fixture
def asks(programs: Path) -> Path:
    """A program that shows a box."""
    return programs / "asks.exe"


def test_an_unattended_box_is_closed_and_written_down(asks: Path) -> None:
    with ForwardedSignals() as interruptions:
        done = run_inherited(
            Command(program=asks, env=dict(os.environ)),
            interruptions=interruptions,
            unattended=True,
            timeout=60,
        )
    assert (done.code, done.timed_out) == (7, False)
    assert [(d.title, d.text) for d in done.dialogs] == [
        ("Missing library", "rocblas.dll could not be found")
    ]


def test_a_check_that_shows_a_box_does_not_hang(asks: Path) -> None:
    done = run_captured([asks], env=dict(os.environ), timeout=60)
    assert (done.returncode, done.timed_out, [d.title for d in done.dialogs]) == (
        7,
        False,
        ["Missing library"],
    )


def test_a_box_is_left_alone_while_somebody_is_there(asks: Path) -> None:
    with ForwardedSignals() as interruptions:
        done = run_inherited(
            Command(program=asks, env=dict(os.environ)),
            interruptions=interruptions,
            timeout=3,
        )
    assert (done.timed_out, done.dialogs) == (True, ())


def test_a_program_counts_every_process_of_its_tree() -> None:
    inner = "import subprocess, sys; subprocess.run([sys.executable, '-I', '-c', 'pass'])"
    with ForwardedSignals() as interruptions:
        command = Command(program=Path(sys.executable), args=("-I", "-c", inner), env=dict(os.environ))
        done = run_inherited(command, interruptions=interruptions)
    assert done.processes is not None
    assert done.processes >= 2


def test_the_environment_of_a_check_keeps_cuda_path_out_for_checks_only(
    runtime: Runtime, tmp_path: Path, exe: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ws_env = {**os.environ, "CUDA_PATH": "C:\\CUDA", "SHOW_ENV": "CUDA_PATH"}
    staged = staged_over(runtime, kind=StackKind.TRANSLATION)
    wrap(replace(workspace(tmp_path), environ=ws_env), exe=str(exe), staged=lambda _ws, _stack: staged)
    assert parse(capfd.readouterr().out)[2] == {"CUDA_PATH": "C:\\CUDA"}


CONSOLE_DRIVER = """
import ctypes, os, sys, threading, time
from pathlib import Path
from scripts.osal.processes import Command
from scripts.osal.signals import ForwardedSignals
from scripts.osal.process import run_inherited

folder = Path(sys.argv[1])

def press():
    while not (folder / 'ready').exists():
        time.sleep(0.05)
    ctypes.WinDLL('kernel32').GenerateConsoleCtrlEvent(0, 0)

threading.Thread(target=press, daemon=True).start()
with ForwardedSignals() as interruptions:
    args = ('-I', str(folder / 'program.py'), str(folder))
    done = run_inherited(
        Command(program=Path(sys.executable), args=args, env=dict(os.environ)), interruptions=interruptions
    )
(folder / 'result').write_text(f'{done.code} {list(done.received)}')
"""
CONSOLE_PROGRAM = """
import signal, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
def told(*_):
    (folder / 'told').touch()
    sys.exit(7)
signal.signal(signal.SIGINT, told)
(folder / 'ready').touch()
for _ in range(600):
    time.sleep(0.05)
"""


def test_ctrl_c_reaches_the_program_through_the_console_and_we_wait_for_its_end(tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text(CONSOLE_DRIVER, encoding="utf-8")
    (tmp_path / "program.py").write_text(CONSOLE_PROGRAM, encoding="utf-8")
    # A console of its own, without a window, so that the keys reach nobody else.
    subprocess.run(
        [sys.executable, str(tmp_path / "driver.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=60,
        creationflags=subprocess.CREATE_NO_WINDOW,  # type: ignore[attr-defined,unused-ignore]  # Windows only
    )
    assert (tmp_path / "told").exists()
    assert (tmp_path / "result").read_text() == "7 [2]"
