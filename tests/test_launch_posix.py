"""``wrap`` on a real terminal: Ctrl-C, signals, orphans, closed streams, exit codes, arguments."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.python_programs import write_python_program

pytestmark = [pytest.mark.proof, pytest.mark.posix_only]

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 30


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    folder = tmp_path / "runtime"
    folder.mkdir()
    (folder / "libcuda.so.1").write_bytes(b"")
    return folder


def program(tmp_path: Path, text: str, name: str = "program") -> Path:
    return write_python_program(tmp_path / name, text, "-I")


def command(runtime: Path, exe: Path, *words: str, args: tuple[str, ...] = ()) -> list[str]:
    line = [sys.executable, "-m", "tests.wrapping", str(runtime), "reference", "wrap", f"--exe={exe}", *words]
    return [*line, "--", *args] if args else line


def run(line: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
    defaults: dict[str, object] = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": PATIENCE}
    return subprocess.run(line, cwd=ROOT, check=False, **{**defaults, **options})  # type: ignore[call-overload] # options of one test


class Terminal:
    """A command in the foreground of a new pseudo-terminal, as a shell would start it."""

    def __init__(self, line: list[str]) -> None:
        import pty  # noqa: PLC0415 - POSIX only

        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execv(line[0], line)  # noqa: S606 - the point of it
        self.seen = b""

    def expect(self, text: bytes) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} never came: {self.seen!r}"
            try:
                data = os.read(self.fd, 4096)
            except OSError:
                data = b""
            assert data, f"ended before {text!r}: {self.seen!r}"
            self.seen += data

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def end(self) -> int:
        while True:
            try:
                data = os.read(self.fd, 4096)
            except OSError:
                break
            if not data:
                break
            self.seen += data
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_program_reads_and_writes_the_terminal_itself(tmp_path: Path, runtime: Path) -> None:
    exe = program(
        tmp_path,
        """
        import os, sys
        print(sorted({os.isatty(fd) for fd in (0, 1, 2)}), flush=True)
        print('heard ' + input('name? '), flush=True)
        """,
    )
    terminal = Terminal(command(runtime, exe))
    terminal.expect(b"name? ")
    terminal.type(b"Ada\r")
    assert terminal.end() == 0
    assert b"[True]" in terminal.seen
    assert b"heard Ada" in terminal.seen


def test_ctrl_c_is_the_programs_to_handle_and_we_wait_for_it(tmp_path: Path, runtime: Path) -> None:
    exe = program(
        tmp_path,
        """
        import time
        try:
            print('ready', flush=True); time.sleep(60)
        except KeyboardInterrupt:
            time.sleep(0.3); print('tidied up', flush=True); raise SystemExit(7)
        """,
    )
    terminal = Terminal(command(runtime, exe))
    terminal.expect(b"ready")
    terminal.type(b"\x03")
    assert terminal.end() == 7
    assert terminal.seen.count(b"tidied up") == 1
    assert b"Traceback" not in terminal.seen


def test_a_program_killed_by_ctrl_c_ends_us_by_the_same_signal(tmp_path: Path, runtime: Path) -> None:
    exe = program(
        tmp_path,
        """
        import signal, time
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        print('ready', flush=True); time.sleep(60)
        """,
    )
    terminal = Terminal(command(runtime, exe))
    terminal.expect(b"ready")
    terminal.type(b"\x03")
    assert terminal.end() == -signal.SIGINT


def test_ctrl_c_ends_a_daemon_that_its_launcher_left_behind(tmp_path: Path, runtime: Path) -> None:
    exe = program(
        tmp_path,
        """
        import os, time
        if os.fork() == 0:
            os.setsid(); print('daemon runs', flush=True); time.sleep(60); os._exit(0)
        """,
    )
    terminal = Terminal(command(runtime, exe))
    terminal.expect(b"daemon runs")
    time.sleep(0.3)
    terminal.type(b"\x03")
    assert terminal.end() == 0


def test_a_closed_terminal_reaches_the_program(tmp_path: Path, runtime: Path) -> None:
    mark = tmp_path / "told"
    exe = program(
        tmp_path,
        f"""
        import signal, sys, time
        def told(*_):
            open({str(mark)!r}, 'w').close(); sys.exit(0)
        signal.signal(signal.SIGHUP, told)
        print('ready', flush=True); time.sleep(60)
        """,
    )
    terminal = Terminal(command(runtime, exe))
    terminal.expect(b"ready")
    os.close(terminal.fd)
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 0
    assert mark.exists()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"])
def test_a_signal_sent_to_us_alone_is_handed_on(name: str, tmp_path: Path, runtime: Path) -> None:
    number = getattr(signal, name)
    exe = program(
        tmp_path,
        f"""
        import signal, sys, time
        signal.signal({int(number)}, lambda *_: sys.exit(9))
        print('ready', flush=True); time.sleep(60)
        """,
    )
    with subprocess.Popen(
        command(runtime, exe),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        running.send_signal(number)
        assert running.wait(PATIENCE) == 9


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSEGV"])
def test_a_program_ended_by_a_signal_ends_us_by_it(name: str, tmp_path: Path, runtime: Path) -> None:
    number = int(getattr(signal, name))
    exe = program(tmp_path, f"import os; os.kill(os.getpid(), {number})")
    assert run(command(runtime, exe)).returncode == -number


def test_an_ignored_hangup_stays_ignored_for_both(tmp_path: Path, runtime: Path) -> None:
    exe = program(tmp_path, "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)")
    done = run(command(runtime, exe), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert done.stdout == b"True\n"


def test_an_exit_code_survives_an_inherited_disinterest_in_children(tmp_path: Path, runtime: Path) -> None:
    exe = program(tmp_path, "raise SystemExit(5)")
    done = run(command(runtime, exe), preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert done.returncode == 5


def test_signals_are_at_their_default_in_the_program(tmp_path: Path, runtime: Path) -> None:
    exe = tmp_path / "status"
    # The shell's own words: while it starts another program it blocks every signal for a moment.
    script = 'while read -r line; do case "$line" in SigIgn*|SigBlk*) echo "$line";; esac; done'
    exe.write_text(f"#!/bin/sh\n{script} < /proc/$$/status\n", encoding="utf-8")
    exe.chmod(0o755)
    lines = run(command(runtime, exe)).stdout.decode().splitlines()
    assert len(lines) == 2
    for line in lines:
        kind, mask = line.split()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP, signal.SIGQUIT):
            assert not int(mask, 16) >> (number - 1) & 1, f"{kind} holds {number.name}"


def test_a_tree_that_ignores_sigterm_is_killed_after_the_timeout(tmp_path: Path, runtime: Path) -> None:
    exe = program(
        tmp_path,
        f"""
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
        open({str(tmp_path)!r} + f'/pid-{{os.getpid()}}', 'w').close()
        time.sleep(600)
        """,
    )
    done = run(command(runtime, exe, "--timeout=2s"))
    assert done.returncode == 124
    pids = [int(p.name.removeprefix("pid-")) for p in tmp_path.glob("pid-*")]
    assert len(pids) == 2, "the daemon had not begun: the test shows nothing"
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


ARGUMENTS = (
    "a b",
    "",
    '"',
    "'",
    "--",
    "-x",
    "--exe=no",
    "$HOME",
    "new\nline",
    "größe 😀",
    "*",
    "\\",
    "\udcff",
)


def test_arguments_arrive_as_they_were_given(tmp_path: Path, runtime: Path) -> None:
    exe = program(
        tmp_path, "import os, sys; print([os.fsencode(a) for a in sys.argv[1:]])", name="with space ü"
    )
    done = run(command(runtime, exe, args=ARGUMENTS))
    assert done.stdout.decode().strip() == str([os.fsencode(a) for a in ARGUMENTS])


def test_arguments_from_a_file_arrive_as_they_were_given(tmp_path: Path, runtime: Path) -> None:
    exe = program(tmp_path, "import sys; print(sys.argv[1:])")
    (tmp_path / "args.json").write_text(json.dumps(ARGUMENTS[:-1]), encoding="utf-8")
    done = run(command(runtime, exe, f"--args-file={tmp_path / 'args.json'}"))
    assert done.stdout.decode().strip() == str(list(ARGUMENTS[:-1]))


@pytest.mark.parametrize("closed", [(0,), (1, 2), (0, 1, 2)], ids=str)
def test_closed_streams_stay_closed_and_harm_nothing(
    closed: tuple[int, ...], tmp_path: Path, runtime: Path
) -> None:
    mark = tmp_path / "open"
    exe = tmp_path / "looks"
    exe.write_text(
        f"#!/bin/sh\nfor fd in 0 1 2; do [ -e /proc/$$/fd/$fd ] && printf $fd >> '{mark}'; done\nexit 6\n"
    )
    exe.chmod(0o755)

    def close() -> None:
        for fd in closed:
            os.close(fd)

    done = subprocess.run(command(runtime, exe), cwd=ROOT, check=False, preexec_fn=close, timeout=PATIENCE)
    assert done.returncode == 6
    open_ones = mark.read_text() if mark.exists() else ""
    assert open_ones == "".join(str(fd) for fd in (0, 1, 2) if fd not in closed)


def test_a_descriptor_meant_for_the_program_reaches_it(tmp_path: Path, runtime: Path) -> None:
    exe = program(tmp_path, "import os; os.write(int(os.environ['FD']), b'through')")
    ours, theirs = os.pipe()
    run(command(runtime, exe), pass_fds=(theirs,), env={**os.environ, "FD": str(theirs)})
    os.close(theirs)
    assert os.read(ours, 100) == b"through"
    os.close(ours)


def test_a_reader_that_goes_away_ends_a_logged_program_as_without_us(tmp_path: Path, runtime: Path) -> None:
    log = tmp_path / "log"
    line = command(runtime, Path("/usr/bin/yes"), f"--log={log}")
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        assert running.stdout.read(2) == b"y\n"
        running.stdout.close()
        assert running.wait(PATIENCE) in {-signal.SIGPIPE, 1}
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.read_bytes().startswith(b"y\ny\n")


def test_a_program_that_is_not_there_is_named_with_its_own_code(tmp_path: Path, runtime: Path) -> None:
    done = run(command(runtime, tmp_path / "no"))
    assert (done.returncode, done.stderr.decode().split(":")[0]) == (126, "program-not-found")
