"""Programs are run with their tree and told apart by how they end; checks are captured and never hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.errors import LaunchError
from scripts.osal.output_log import LogTo
from scripts.osal.process import name_exit, run_captured, run_inherited, signed
from scripts.osal.processes import Captured, Command, ProcessResult
from scripts.osal.signals import ForwardedSignals

PYTHON = Path(sys.executable)
ROOT = Path(__file__).resolve().parents[1]
ENV = dict(os.environ)


def code(text: str) -> tuple[str, ...]:
    return ("-I", "-c", textwrap.dedent(text))


def inherited(
    *args: str, log: LogTo | None = None, timeout: float | None = None, cwd: Path | None = None
) -> ProcessResult:
    command = Command(program=PYTHON, args=args, env=ENV, cwd=cwd)
    with ForwardedSignals() as interruptions:
        return run_inherited(command, interruptions=interruptions, log=log, timeout=timeout, grace=0.3)


@pytest.mark.parametrize("number", [0, 1, 3, 120, 255])
def test_the_exit_code_is_the_programs_own(number: int) -> None:
    assert inherited(*code(f"raise SystemExit({number})")).code == number


def test_output_goes_where_ours_goes(capfd: pytest.CaptureFixture[str]) -> None:
    inherited(*code("import sys; print('out'); print('err', file=sys.stderr)"))
    assert [text.strip() for text in capfd.readouterr()] == ["out", "err"]


def test_a_log_gets_both_streams_and_the_streams_stay_apart(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.log"
    done = inherited(
        *code("import sys; print('out', flush=True); print('err', file=sys.stderr)"), log=LogTo(path=log)
    )
    assert [text.strip() for text in capfd.readouterr()] == ["out", "err"]
    assert sorted(log.read_text().split()) == ["err", "out"]
    assert done.log_note == ""


def test_a_log_stops_at_its_cap_and_the_program_runs_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.log"
    done = inherited(*code("print('x' * 5000); raise SystemExit(4)"), log=LogTo(path=log, cap=1000))
    assert (done.code, log.stat().st_size) == (4, 1000)
    assert len(capfd.readouterr().out.strip()) == 5000
    assert "cap of 1000 bytes" in done.log_note


def test_a_log_that_cannot_be_written_starts_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    with pytest.raises(LaunchError) as caught:
        inherited(*code(f"open({str(mark)!r}, 'w')"), log=LogTo(path=tmp_path / "no" / "run.log"))
    assert caught.value.reference == "log-not-writable"
    assert not mark.exists()


def test_a_launcher_that_starts_the_program_and_exits_is_waited_for(tmp_path: Path) -> None:
    mark = tmp_path / "done"
    real = f"import time; time.sleep(0.6); open({str(mark)!r}, 'w').close()"
    launcher = f"import subprocess, sys; subprocess.Popen([sys.executable, '-I', '-c', {real!r}])"
    done = inherited(*code(f"{launcher}; raise SystemExit(9)"))
    assert mark.exists(), "we came back before the real program had finished"
    assert done.code == 9


@pytest.mark.slow
def test_a_timeout_ends_the_whole_tree(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    child = f"import time\nwhile True:\n    open({str(beat)!r}, 'a').write('.'); time.sleep(0.02)"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-I', '-c', {child!r}]).wait()"
    done = inherited(*code(parent), timeout=3)
    assert done.timed_out
    size = beat.stat().st_size
    assert size > 0, "the child had not begun: the test shows nothing"
    inherited(*code("import time; time.sleep(0.3)"))
    assert beat.stat().st_size == size, "a grandchild outlived the timeout"


def test_the_folder_to_start_in_is_the_childs_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    here = Path.cwd()
    inherited(*code("import os; print(os.getcwd())"), cwd=tmp_path)
    assert Path(capfd.readouterr().out.strip()).samefile(tmp_path)
    assert Path.cwd() == here


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with ForwardedSignals() as interruptions, pytest.raises(LaunchError) as caught:
        run_inherited(Command(program=tmp_path / "no.exe", env=ENV), interruptions=interruptions)
    assert caught.value.reference == "program-not-found"
    assert "no.exe" in caught.value.message


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        inherited("-V", cwd=tmp_path / "no")
    assert caught.value.reference == "folder-not-found"


def captured(*args: str, timeout: float = 60, stdin: bytes | None = None) -> Captured:
    return run_captured([PYTHON, *args], env=ENV, timeout=timeout, stdin=stdin, grace=0.3)


def test_a_check_gives_its_bytes_apart() -> None:
    done = captured(
        *code("import os; os.write(1, b'out\\x00\\xff'); os.write(2, b'err'); raise SystemExit(5)")
    )
    assert (done.returncode, done.stdout, done.stderr) == (5, b"out\x00\xff", b"err")
    assert not done.timed_out


def test_a_check_has_nothing_to_read() -> None:
    assert captured(*code("import sys; print(len(sys.stdin.read()))")).stdout.strip() == b"0"


def test_a_check_reads_what_it_is_given() -> None:
    big = b"abc" * 200_000
    done = captured(*code("import sys; print(len(sys.stdin.buffer.read()))"), stdin=big)
    assert done.stdout.strip() == b"600000"


def test_a_check_that_ignores_its_input_does_not_stop_us() -> None:
    assert captured(*code("pass"), stdin=b"x" * 1_000_000).returncode == 0


@pytest.mark.slow
def test_a_check_that_hangs_is_killed_and_its_output_kept() -> None:
    done = captured(*code("import time; print('partial', flush=True); time.sleep(600)"), timeout=3)
    assert done.timed_out
    assert done.stdout.strip() == b"partial"


def test_a_forgotten_helper_that_holds_the_pipes_delays_nobody() -> None:
    sleeper = "[sys.executable, '-I', '-c', 'import time; time.sleep(600)']"
    helper = f"import subprocess, sys; subprocess.Popen({sleeper})"
    done = captured(*code(f"{helper}; print('done')"))
    assert (done.stdout.strip(), done.timed_out) == (b"done", False)
    assert done.leftovers >= 1


@pytest.mark.slow
@pytest.mark.posix_only
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_what_ends_us_ends_the_check_too(tmp_path: Path, name: str) -> None:
    told = tmp_path / "pid"
    check = (
        f"import os, pathlib, time; pathlib.Path({str(told)!r}).write_text(str(os.getpid())); time.sleep(600)"
    )
    ours = f"""
        import os, signal, sys
        sys.path.insert(0, {str(ROOT)!r})
        from scripts.osal.process import run_captured
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run_captured([sys.executable, "-I", "-c", {check!r}], env=dict(os.environ), timeout=600)
    """
    process = subprocess.Popen([PYTHON, *code(ours)], stderr=subprocess.DEVNULL)
    wait_until(lambda: told.exists() and told.read_text() != "")
    process.send_signal(getattr(signal, name))
    assert process.wait(60) != 0
    wait_until(lambda: not alive(int(told.read_text())))


def alive(pid: int) -> bool:
    """Whether a process runs still; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that must happen; a minute is long enough for any machine."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_much_output_on_both_streams_does_not_block() -> None:
    done = captured(
        *code("import os\nfor _ in range(20): os.write(2, b'e' * 65536); os.write(1, b'o' * 65536)")
    )
    assert (len(done.stdout), len(done.stderr)) == (20 * 65536, 20 * 65536)


def test_only_the_given_environment_arrives() -> None:
    env = {
        **{k: v for k, v in ENV.items() if k.upper() in {"SYSTEMROOT", "PATH"}},
        "ÄÖ": "größe 😀",
        "EMPTY": "",
    }
    script = """
        import os, sys
        seen = os.environ.get('ÄÖ'), os.environ.get('EMPTY'), 'HOME' in os.environ
        sys.stdout.buffer.write(repr(seen).encode())
        """
    done = run_captured([PYTHON, *code(script)], env=env, timeout=60)
    assert done.stdout.decode() == repr(("größe 😀", "", False))


@pytest.mark.parametrize(
    ("number", "platform", "words"),
    [
        (-1073741515, "win32", "STATUS_DLL_NOT_FOUND: a DLL was not found"),
        (0xC0000135, "win32", "STATUS_DLL_NOT_FOUND: a DLL was not found"),
        (-1073741510, "win32", "STATUS_CONTROL_C_EXIT"),
        (1, "win32", ""),
        pytest.param(-9, "linux", "SIGKILL", marks=pytest.mark.posix_only),
        pytest.param(-11, "linux", "SIGSEGV", marks=pytest.mark.posix_only),
        pytest.param(0, "linux", "", marks=pytest.mark.posix_only),
        pytest.param(135, "linux", "", marks=pytest.mark.posix_only),
    ],
)
def test_exit_codes_have_names(number: int, platform: str, words: str) -> None:
    named = name_exit(number, platform=platform)
    assert named.startswith(words)
    assert bool(named) == bool(words)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, 0), (1, 1), (0xC0000135, -1073741515), (0xFFFFFFFF, -1), (-5, -5), (0x7FFFFFFF, 2**31 - 1)],
)
def test_windows_codes_become_signed(number: int, expected: int) -> None:
    assert signed(number) == expected
