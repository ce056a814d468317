"""The front door: a fresh clone makes its own environment, repairs it, and hands over."""

from __future__ import annotations

import ast
import base64
import hashlib
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import scripts.__main__ as front_door
from scripts import own_venv

CHECKOUT = Path(__file__).resolve().parents[1]
#: Stands in for the tasks: says who runs it, from where, with what.
PERFORMED = """
import json, os, sys
def perform(arguments):
    import pinned_thing
    said = {"prefix": sys.prefix, "cwd": os.getcwd(), "arguments": arguments, "value": pinned_thing.VALUE}
    print(json.dumps(said))
    return 7 if arguments[:1] == ["fail"] else 0
"""
#: Reads every line as it is, but for one that is answered before there is an environment.
READ = """
FORM = []
def set_form(text):
    FORM[:] = [text]
def form():
    return FORM[0]
def read_or_answer(words):
    return 9 if words == ["answered"] else words
"""
METADATA = "Metadata-Version: 2.1\nName: pinned-thing\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
#: An interpreter that sees none of our packages: `-S` hides what the system's Python may have installed.
#: On the Windows bed another one, which lacks ``venv`` and has ``virtualenv`` instead.
BARE = (
    [os.environ["CUDA_AMD_TEST_PYTHON"]]
    if "CUDA_AMD_TEST_PYTHON" in os.environ
    else [sys._base_executable, "-S"]
)


def make_wheel(folder: Path, value: str) -> str:
    """Build a wheel with one module and return its hash."""
    path = folder / "pinned_thing-1.0-py3-none-any.whl"
    record, files = (
        [],
        {
            "pinned_thing.py": f"VALUE = {value!r}\n",
            "pinned_thing-1.0.dist-info/METADATA": METADATA,
            "pinned_thing-1.0.dist-info/WHEEL": WHEEL,
        },
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(text)}")
        archive.writestr(
            "pinned_thing-1.0.dist-info/RECORD", "\n".join([*record, "pinned_thing-1.0.dist-info/RECORD,,"])
        )
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Clone:
    """A small clone with the real front door, a stand-in for the tasks, and a lock of one local wheel."""

    def __init__(self, root: Path) -> None:
        self.root = root / "ein Klon mit Ü"
        self.wheels = root / "wheels"
        self.wheels.mkdir()
        (self.root / "scripts").mkdir(parents=True)
        for name in ("__init__.py", "__main__.py", "own_venv.py"):
            shutil.copy(CHECKOUT / "scripts" / name, self.root / "scripts" / name)
        (self.root / "scripts" / "cli").mkdir()
        (self.root / "scripts" / "cli" / "parse.py").write_text(READ, encoding="utf-8")
        (self.root / "scripts" / "cli" / "present.py").write_text(PERFORMED, encoding="utf-8")
        for name in ("verbs.py", "options.py"):
            shutil.copy(CHECKOUT / "scripts" / "cli" / name, self.root / "scripts" / "cli" / name)
        (self.root / "tasks.py").write_text("", encoding="utf-8")
        self.lock("first")

    def lock(self, value: str, *, sha256: str = "") -> None:
        """Pin a wheel that holds ``value``."""
        digest = make_wheel(self.wheels, value)
        text = f"pinned-thing==1.0 --hash=sha256:{sha256 or digest}\n"
        (self.root / "requirements.lock").write_text(text, encoding="utf-8")

    @property
    def venv(self) -> Path:
        return self.root / ".venv"

    def environ(self, path: Path | None = None) -> dict[str, str]:
        """Return an environment in which pip finds our one wheel, and uv is what ``path`` holds."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "VIRTUAL_ENV"))}
        folders = [folder for folder in env["PATH"].split(os.pathsep) if not shutil.which("uv", path=folder)]
        return env | {
            "PATH": os.pathsep.join([*([str(path)] if path else []), *folders]),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_CACHE_DIR": "1",
        }

    def run(
        self, *arguments: str, cwd: Path | None = None, path: Path | None = None, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Open the front door as a person would."""
        return subprocess.run(
            [*BARE, str(self.root / "scripts"), *arguments],
            cwd=cwd or self.root,
            env=self.environ(path) | environ,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",  # a redirected Windows Python writes its code page
            stdin=subprocess.DEVNULL,
            timeout=240,
            check=False,
        )


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """Read what the stand-in said; its exit code is in ``returncode``."""
    assert done.stdout.startswith("{"), done.stderr
    return dict(ast.literal_eval(done.stdout))


@pytest.mark.slow
def test_a_first_run_makes_the_environment_and_hands_over(clone: Clone, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    done = clone.run("wrap", "--exe=a b.exe", "--", "", "ü", '"', "--", cwd=elsewhere)
    said = answer(done)
    assert Path(str(said["prefix"])).resolve() == clone.venv.resolve()
    assert Path(str(said["cwd"])).resolve() == elsewhere.resolve()
    assert said["arguments"] == ["wrap", "--exe=a b.exe", "--", "", "ü", '"', "--"]
    assert "Preparing .venv" in done.stderr
    assert list((clone.root / "scripts" / "__pycache__").glob("__main__.*.pyc")), (
        "compiled once, for all starts"
    )

    again = clone.run("fail")
    assert again.returncode == 7
    assert "Preparing" not in again.stderr


#: On Windows one kind of damage is enough: making an environment takes a minute under Wine, and what
#: tells them apart is the same code on both systems.
DAMAGES = [
    "other lock",
    *(
        pytest.param(d, marks=pytest.mark.posix_only)
        for d in ("unfinished", "no text", "no interpreter", "other python")
    ),
]


@pytest.mark.proof
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_half_made_or_outdated_environment_is_repaired(clone: Clone, damage: str) -> None:
    assert answer(clone.run())["value"] == "first"
    stamp = clone.venv / ".made-from"
    if damage == "unfinished":
        stamp.write_text("unfinished\n", encoding="utf-8")
    elif damage == "no text":
        stamp.write_bytes(b"\xff\xfe\x00")
    elif damage == "no interpreter":
        next(p for p in (clone.venv / "bin/python", clone.venv / "Scripts/python.exe") if p.exists()).unlink()
    elif damage == "other lock":
        clone.lock("second")
    else:
        stamp.write_text(stamp.read_text(encoding="utf-8").replace("python-3", "python-2"), encoding="utf-8")
    done = clone.run()
    assert answer(done)["value"] == ("second" if damage == "other lock" else "first")
    assert "Preparing .venv" in done.stderr


@pytest.mark.proof
def test_a_package_with_another_hash_is_not_run(clone: Clone) -> None:
    clone.lock("trojan", sha256="0" * 64)
    done = clone.run()
    assert done.returncode == 20
    assert done.stdout == ""
    assert "Nothing was run" in done.stderr
    assert "Traceback" not in done.stderr
    clone.lock("honest")
    assert answer(clone.run())["value"] == "honest"


def test_a_folder_that_is_no_environment_is_left_alone(clone: Clone) -> None:
    clone.venv.mkdir()
    (clone.venv / "thesis.txt").write_text("years of work", encoding="utf-8")
    done = clone.run()
    assert done.returncode == 2
    assert "left alone" in done.stderr
    assert (clone.venv / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_an_environment_of_the_users_own_is_left_alone(clone: Clone) -> None:
    clone.venv.mkdir()
    (clone.venv / "pyvenv.cfg").write_text("home = elsewhere\n", encoding="utf-8")
    (clone.venv / "work.py").write_text("unsaved anywhere else", encoding="utf-8")
    done = clone.run()
    assert done.returncode == 2
    assert "not made by this workspace" in done.stderr
    assert (clone.venv / "work.py").read_text(encoding="utf-8") == "unsaved anywhere else"


@pytest.mark.posix_only
def test_a_link_in_place_of_the_environment_is_left_alone(clone: Clone, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "pyvenv.cfg").write_text("", encoding="utf-8")
    clone.venv.symlink_to(elsewhere)
    assert clone.run().returncode == 2
    assert (elsewhere / "pyvenv.cfg").exists()


def test_a_place_that_is_no_folder_of_its_own_gets_a_sentence(clone: Clone) -> None:
    done = clone.run("status", CUDA_AMD_VENV=os.path.abspath(os.sep))  # noqa: PTH100 - the root as it is typed
    assert (done.returncode, done.stdout) == (2, "")
    assert "let CUDA_AMD_VENV name a folder of its own" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.posix_only
@pytest.mark.parametrize("fault", ["not executable", "a folder", "no program"])
def test_an_interpreter_that_cannot_be_started_gets_a_sentence(clone: Clone, fault: str) -> None:
    python = clone.venv / "bin" / "python"
    python.parent.mkdir(parents=True)
    if fault == "a folder":
        python.mkdir()
    else:
        python.write_bytes(b"\x00\x01\x02")
        python.chmod(0o755 if fault == "no program" else 0o644)
    lock = hashlib.sha256((clone.root / "requirements.lock").read_bytes()).hexdigest()
    stamp = f"{lock} python-{sys.version_info[0]}.{sys.version_info[1]} {clone.venv}\n"
    (clone.venv / ".made-from").write_text(stamp, encoding="utf-8")
    done = clone.run("status")
    assert (done.returncode, done.stdout) == (50, "")
    assert f"{python} cannot be started" in done.stderr
    assert f"delete {clone.venv} and run the command again" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.posix_only
def test_a_link_loop_on_the_path_is_passed_over(clone: Clone, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    done = clone.run("answered", PYTHONPATH=str(loop))
    assert (done.returncode, done.stderr) == (9, "")


def test_a_checkout_that_cannot_be_written_gets_a_sentence(clone: Clone) -> None:
    (clone.root / ".venv.lock").mkdir()  # opening it fails for root as well, and on Windows
    done = clone.run("status")
    assert (done.returncode, done.stdout) == (50, "")
    assert "could not be made" in done.stderr
    assert "a checkout of your own" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.proof
def test_two_first_runs_at_once_make_one_environment(clone: Clone) -> None:
    command = [*BARE, str(clone.root / "scripts")]
    runs = [
        subprocess.Popen(
            command,
            env=clone.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    outputs = [run.communicate(timeout=240) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert sum(b"Preparing" in err for _, err in outputs) == 1


def test_the_front_door_parses_on_python_3_8() -> None:
    for name in ("__main__.py", "own_venv.py", "__init__.py"):
        source = (CHECKOUT / "scripts" / name).read_text(encoding="utf-8")
        ast.parse(source, feature_version=(3, 8))


def test_an_old_python_gets_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    door = SimpleNamespace(**runpy.run_path(str(CHECKOUT / "scripts" / "__main__.py"), run_name="door"))
    monkeypatch.setattr(sys, "version_info", (3, 8, 18, "final", 0))
    with pytest.raises(SystemExit) as left:
        door.main(["setup"])
    assert left.value.code == 50
    said = capsys.readouterr().err
    assert "needs Python 3.11 or newer; this is Python 3.8.18" in said
    assert "What to do:" in said


@pytest.mark.parametrize(
    ("platform", "way"), [("win32", "winget install"), ("linux", "apt install python3-venv")]
)
def test_without_pip_and_uv_a_way_is_named_that_this_system_has(
    platform: str, way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(own_venv.importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr(own_venv.shutil, "which", lambda _name: None)
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(SystemExit) as left:
        own_venv.create_empty()
    assert left.value.code == 50
    assert way in capsys.readouterr().err


def fake_uv(folder: Path, script: str) -> Path:
    """Put a program named ``uv`` into a folder of its own."""
    folder.mkdir()
    program = folder / "uv"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return folder


@pytest.mark.posix_only
def test_uv_installs_where_it_is_present(clone: Clone, tmp_path: Path) -> None:
    """The stand-in unpacks our wheel into the environment that it is given."""
    unpack = f'cd "$(dirname "$4")"/../lib/python3.*/site-packages && unzip -q {clone.wheels}/*.whl'
    done = clone.run(path=fake_uv(tmp_path / "bin", f'echo "$@" > "{tmp_path}/asked"; {unpack}'))
    assert answer(done)["value"] == "first"
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert asked.startswith("pip install --python")
    assert "--require-hashes" in asked
    assert not list(clone.venv.glob("lib/python3*/site-packages/pip"))


@pytest.mark.proof
@pytest.mark.posix_only
def test_where_uv_fails_pip_installs(clone: Clone, tmp_path: Path) -> None:
    done = clone.run(path=fake_uv(tmp_path / "bin", "echo 'error: no such index' >&2; exit 2"))
    assert answer(done)["value"] == "first"
    assert "uv could not install them, so pip is asked: error: no such index\n" in done.stderr


@pytest.mark.proof
@pytest.mark.posix_only
@pytest.mark.parametrize("elsewhere", [False, True], ids=[".venv", "CUDA_AMD_VENV"])
def test_ctrl_c_while_installing_ends_in_one_sentence(clone: Clone, tmp_path: Path, elsewhere: bool) -> None:
    venv = tmp_path / "an environment" if elsewhere else clone.venv
    named = {"CUDA_AMD_VENV": str(venv)} if elsewhere else {}
    begun = tmp_path / "begun"
    path = fake_uv(tmp_path / "bin", f"touch '{begun}'; sleep 60")
    command = [*BARE, str(clone.root / "scripts"), "status"]
    with subprocess.Popen(
        command, env=clone.environ(path) | named, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        while not begun.exists():
            time.sleep(0.05)
        os.killpg(run.pid, signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    ending = "is not finished, and the next run starts it over."
    assert said.splitlines()[-1] == f"Interrupted: {venv} {ending}"
    assert "Traceback" not in said
    assert answer(clone.run(**named))["value"] == "first"


@pytest.mark.posix_only
def test_a_signal_while_an_installer_is_started_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[subprocess.Popen[bytes]] = []

    def begin(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        made.append(subprocess.Popen(*words, **options))
        signal.raise_signal(signal.SIGTERM)
        return made[0]

    stand_in = SimpleNamespace(Popen=begin, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(own_venv, "subprocess", stand_in)
    try:
        with pytest.raises(front_door.Stopped), front_door.stoppable():
            own_venv.call(["sleep", "60"])
        assert [process.returncode for process in made] == [-signal.SIGKILL]
    finally:
        made[0].kill()
        made[0].wait()


@pytest.mark.parametrize(("platform", "passed"), [("linux", [signal.SIGTERM]), ("win32", [])])
def test_a_signal_is_passed_on_unless_a_console_gives_it_to_both(
    platform: str, passed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[int] = []

    def wait() -> int:
        signal.raise_signal(signal.SIGTERM)
        return 1

    process = SimpleNamespace(send_signal=got.append, wait=wait)
    monkeypatch.setattr(front_door, "subprocess", SimpleNamespace(Popen=lambda *_words, **_options: process))
    monkeypatch.setattr(sys, "platform", platform)
    assert front_door.passing_signals_on(["pytest"]) == 128 + signal.SIGTERM
    assert got == passed


@pytest.mark.posix_only
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGALRM"])
def test_a_signal_ends_the_tests_and_what_they_started(name: str) -> None:
    number = signal.Signals[name]
    tests = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    words = ["import sys; from scripts.__main__ import passing_signals_on as run", f"a = {tests!r}"]
    code = "; ".join([*words, "sys.exit(run([sys.executable, '-c', a]))"])
    with subprocess.Popen([sys.executable, "-c", code], cwd=front_door.ROOT, stdout=subprocess.PIPE) as front:
        assert front.stdout is not None
        child = int(front.stdout.readline())
        try:
            front.send_signal(number)
            front.communicate(timeout=60)  # until the other process has closed it as well
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    assert front.returncode == 128 + number


def test_on_windows_the_next_interpreter_decides_what_ctrl_break_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    number = getattr(signal, "SIGBREAK", None) or signal.SIGUSR1
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, number)}
    during: list[object] = []

    def call(*_words: object, **_options: object) -> int:
        during.extend(signal.getsignal(each) for each in before)
        return 5

    monkeypatch.setattr(signal, "SIGBREAK", number, raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(front_door, "subprocess", SimpleNamespace(call=call))
    try:
        assert front_door.hand_over(["status"]) == 5
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert during == [signal.SIG_IGN, signal.SIG_IGN]


def test_the_progress_counts_what_this_system_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(own_venv, "show_progress", lambda text, **_: said.append(text))
    printed = "print('Ignoring colorama: markers'); print('Collecting attrs==1')"
    own_venv.watched([sys.executable, "-I", "-c", printed], SimpleNamespace(count=lambda: 3))  # type: ignore[arg-type]  # all it asks
    assert said == ["1 of 2 for this system: attrs"]


@pytest.mark.proof
def test_tests_bring_their_own_packages(clone: Clone) -> None:
    """The lock of the tests holds the tasks' packages as well; a first test run makes both at once."""
    text = (clone.root / "requirements.lock").read_text(encoding="utf-8")
    (clone.root / "requirements-test.lock").write_text(text, encoding="utf-8")
    assert "Preparing" in clone.run("status").stderr
    done = clone.run("test", "--version")
    assert "1 test packages from requirements-test.lock" in done.stderr
    assert "No module named pytest" in done.stderr, "this lock names none; the right interpreter was asked"
    assert "Preparing" not in clone.run("test", "--version").stderr
    assert "Preparing" not in clone.run("status").stderr


@pytest.mark.parametrize(
    ("line", "code"),
    [("--list", 0), ("--help wrap", 0), ("statu", 2), ("wrap --exe=a -f x --json", 121)],
)
def test_what_needs_no_environment_needs_no_package(line: str, code: int, tmp_path: Path) -> None:
    """The real command line, in an interpreter that has the standard library alone."""
    done = subprocess.run(
        [*BARE, str(CHECKOUT / "scripts"), *line.split()],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": ""},
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "Preparing" not in done.stderr
    assert done.stdout.startswith("{") is ("--json" in line)


def test_a_line_that_needs_no_environment_makes_none(clone: Clone) -> None:
    done = clone.run("answered")
    assert (done.returncode, done.stdout, done.stderr) == (9, "", "")
    assert not clone.venv.exists()


def test_an_environment_that_has_everything_needs_no_hand_over(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(CHECKOUT / "scripts"), "--list"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "setup" in done.stdout
    assert "Preparing" not in done.stderr


@pytest.mark.parametrize(
    ("words", "marker", "said"),
    [
        ([], "not network and not proof and not slow", "the quick tests"),
        (["--all"], "not network", "all tests"),
        (["-k", "x"], "not network and not proof and not slow", "the quick tests"),
        (["tests/test_bootstrap.py::test_x"], "not network", ""),
    ],
)
def test_the_slow_tests_are_run_when_all_is_asked_for(
    words: list[str],
    marker: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    started: list[list[str]] = []

    def call(command: list[str], **_options: object) -> int:
        started.append(command)
        return 5

    monkeypatch.setattr(front_door, "passing_signals_on", call)
    assert front_door.run_tests(words) == 5
    [command] = started
    assert command[command.index("-m", 3) + 1] == marker
    assert command[command.index("-m", 3) + 2 :] == [word for word in words if word != "--all"]
    assert said in capsys.readouterr().err


def test_a_run_of_the_tests_announces_what_the_last_one_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(front_door, "TOOK", tmp_path / "cache")
    clock = iter([10.0, 83.0, 90.0, 91.0])
    monkeypatch.setattr(front_door.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(front_door, "passing_signals_on", lambda _command: 0)
    for expected in ("that takes minutes", "the last run here took 73 s"):
        assert front_door.run_tests([]) == 0
        assert expected in capsys.readouterr().err
