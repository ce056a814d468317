"""The front door: ``python -m scripts TASK`` in a fresh clone, ``python CHECKOUT/scripts TASK`` anywhere.

Standard library only, and it parses on Python 3.8, so that an old Python gets a sentence instead of a
traceback. Where the environment at hand lacks our packages it makes ``.venv`` from ``requirements.lock`` by
hash (``own_venv.py``) and hands over to it. ``tasks.py`` comes through here as well, so ``invoke TASK`` does
the same. A signal is answered from the first moment on: by a sentence and 128 plus its number.
"""

from __future__ import annotations

import os
import signal
import sys

#: The signals that ask a process to end.
ENDING = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
]
#: The other signals that end a process unless it answers them: while the tests run, they end those as well.
ENDING_AT_WORK = [
    *ENDING,
    *(
        getattr(signal, name)
        for name in ("SIGUSR1", "SIGUSR2", "SIGABRT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGXCPU")
        if sys.platform != "win32" and hasattr(signal, name)
    ),
]
#: How the line was typed, without the task: what is shown can then be pasted. Kept over a hand-over.
TYPED = "CUDA_AMD_TYPED"


def words_of(number: int) -> str:
    """Say what a signal did."""
    return "Interrupted" if number == signal.SIGINT else "Ended by " + signal.Signals(number).name


def leave(number: int, _frame: object) -> None:
    """End at once, with a sentence and no traceback: the task is not at work."""
    text = words_of(number) + "; no task was at work, so nothing is half done.\n"
    try:
        os.write(2, text.encode())
    finally:
        os._exit(128 + number)


def listen() -> None:
    """Answer signals with a sentence from now on; what is ignored (``nohup``) stays so."""
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, leave)
    if sys.platform != "win32" and TYPED in os.environ:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)  # `hand_over` has blocked them


if __name__ == "__main__":
    listen()  # before anything else is loaded, which takes most of a short run

import contextlib
import gc
import hashlib
import importlib
import importlib.util
import re
import shlex
import subprocess
import time
from pathlib import Path
from typing import Callable, Iterator, NoReturn

ROOT = Path(__file__).resolve().parents[1]
#: Where the environment is made; `nox -s validate` gives each stack a new one.
VENV = Path(os.environ.get("CUDA_AMD_VENV") or ROOT / ".venv").absolute()
NEEDED = (3, 11)
#: Import names that tell whether an environment (a Nox session, uv, `.venv`) can run the tasks.
PROBES = (
    *("invoke", "nox", "requests", "tomlkit", "rich", "msgspec", "filelock", "platformdirs"),
    *("pefile", "elftools", "lz4", "zstandard", "isal", "PIL", "truststore", "numpy", "jsonschema"),
    "cryptography",
    *("packaging", "pycxxfilt"),
)
#: And whether it can run the tests.
TEST_PROBES = (
    "pytest",
    "hypothesis",
    "pytest_httpserver",
    "trustme",
    "xdist",
    "pytest_timeout",
    "axe_core_python",
    "cyclonedx",
)
CODE_USAGE, CODE_HOST, CODE_FETCH = 2, 50, 20
TEST = "test"
#: What may stand before a task: nothing that a shell reads otherwise, whoever set the variable.
FORM = re.compile(r"[^|;&<>$`!%#\x00-\x1f\x7f]*\b(?:invoke|scripts[\"']?)")
#: So many new objects make Python look for garbage. A start makes fewer, and all stay: to look through them
#: thirty times takes a twentieth of a short run.
MANY = 50_000
#: How long whole runs of the tests took here, in seconds; git ignores the folder.
TOOK = ROOT / ".pytest_cache"


class Packages:
    """One set of packages: its lock, the stamp of the ``.venv`` that holds it, what shows it is there."""

    def __init__(self, what: str, lock: str, stamp: str, probes: tuple[str, ...]) -> None:
        """Name all four."""
        self.what = what
        self.lock = ROOT / lock
        self.stamp = VENV / stamp
        self.probes = probes

    def fingerprint(self) -> str:
        """What ``.venv`` must have been made from: the lock's bytes, the Python version, this folder."""
        lock = hashlib.sha256(self.lock.read_bytes()).hexdigest()
        return "%s python-%d.%d %s\n" % (lock, sys.version_info[0], sys.version_info[1], VENV)

    def is_made(self) -> bool:
        """Whether ``.venv`` was finished from exactly this lock, by this Python, at this place."""
        try:
            made = self.stamp.read_text(encoding="utf-8") == self.fingerprint()
        except (OSError, ValueError):  # ValueError: a damaged stamp is not UTF-8
            return False
        return made and venv_python().exists()

    def suffices(self) -> bool:
        """Whether this very interpreter has them: our own finished ``.venv``, or another environment."""
        if inside_own_venv() and TASKS.stamp.exists():
            return self.is_made()
        if "CUDA_AMD_VENV" in os.environ:
            return False
        return all(importlib.util.find_spec(name) is not None for name in self.probes)

    def count(self) -> int:
        """How many packages the lock names."""
        lines = self.lock.read_text(encoding="utf-8").splitlines()
        return sum("==" in line and not line.startswith((" ", "#")) for line in lines)


TASKS = Packages("packages", "requirements.lock", ".made-from", PROBES)
TESTS = Packages("test packages", "requirements-test.lock", ".made-for-tests", PROBES + TEST_PROBES)


def say(text: str) -> None:
    """Print one line to stderr: stdout belongs to the task and its ``--json``.

    The name of a folder in it does not split it.
    """
    shown = "".join(sign if sign.isprintable() or sign == "\t" else ascii(sign)[1:-1] for sign in text)
    sys.stderr.write(shown + "\n")
    sys.stderr.flush()


def venv_python() -> Path:
    """The interpreter inside ``.venv``."""
    return VENV / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def inside_own_venv() -> bool:
    """Whether this interpreter is the one of ``.venv``."""
    return os.path.realpath(sys.prefix) == os.path.realpath(str(VENV))


class Stopped(BaseException):
    """A signal has ended what was being made."""

    def __init__(self, number: int) -> None:
        """Keep the signal's number."""
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def answered_by(handler: Callable[[int, object], None], numbers: list[int] = ENDING) -> Iterator[None]:
    """Let signals call ``handler`` while the block runs; what is ignored stays so."""
    before = {number: signal.getsignal(number) for number in numbers}
    taken = {number: old for number, old in before.items() if old != signal.SIG_IGN}
    for number in taken:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in taken.items():
            signal.signal(number, old)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Let the first signal stop the work in here by ``Stopped``; cleaning up is not interrupted."""
    stopped: list[int] = []

    def stop(number: int, _frame: object) -> None:
        stopped.append(number)
        if len(stopped) == 1:
            raise Stopped(number)

    with answered_by(stop):
        yield


def refuse_old_python() -> None:
    """End with a sentence when this Python is too old."""
    if sys.version_info >= NEEDED:
        return
    have = ".".join(map(str, sys.version_info[:3]))
    hint = "py -3.11 -m scripts setup" if sys.platform == "win32" else "python3.11 -m scripts setup"
    say("This workspace needs Python 3.11 or newer; this is Python %s (%s)." % (have, sys.executable))
    say("What to do: install a newer Python beside it, then run: %s" % hint)
    raise SystemExit(CODE_HOST)


def hand_over(arguments: list[str]) -> int:
    """Run the same command with the interpreter of ``.venv``, in the caller's folder."""
    from scripts.cli.parse import form  # noqa: PLC0415 - an old Python cannot read it

    command = [str(venv_python()), str(ROOT / "scripts"), *arguments]
    environ = {**os.environ, TYPED: form()}
    try:
        return continue_as(command, environ)
    except OSError as error:
        say("%s cannot be started: %s" % (command[0], error.strerror))
        say("What to do: delete %s and run the command again, which makes a new one." % VENV)
        return CODE_HOST


def continue_as(command: list[str], environ: dict[str, str]) -> int:
    """Become another program; on Windows, which has no such thing, start it and return its exit code."""
    if sys.platform != "win32":
        # A signal in the first moments of the next process waits until that can answer with a sentence.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        os.execve(command[0], command, environ)  # noqa: S606 - our own interpreter, no shell
    # Ctrl-C and Ctrl-Break reach the child as well, since it shares our console: it decides, we wait.
    for name in ("SIGINT", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    code = subprocess.call(command, env=environ)
    return code - 2**32 if code >= 2**31 else code


def run_tests(arguments: list[str]) -> int:
    """Run the tests of this checkout; further arguments go to pytest.

    The slow tests and proofs are left out, unless ``--all`` or the tests themselves are named.
    """
    words = [word for word in arguments if word != "--all"]
    files = [ROOT / word.partition("::")[0] for word in words if not word.startswith("-")]
    named = any(os.path.exists(str(file)) for file in files)  # noqa: PTH110 - an expression may be no path
    everything = named or words != arguments
    took = TOOK / ("took-all" if everything else "took-default")
    if not named:
        what = "all tests" if everything else "the quick tests (--all runs the slow ones, too)"
        say("Running %s; %s." % (what, last_time(took)))
    started = time.monotonic()
    chosen = "not network" if everything else "not network and not proof and not slow"
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal", "-m", chosen, *words]
    code = passing_signals_on(command)
    if code == 0 and not words:
        with contextlib.suppress(OSError):
            TOOK.mkdir(exist_ok=True)
            took.write_text("%.0f" % (time.monotonic() - started), encoding="utf-8")
    return code


def passing_signals_on(command: list[str]) -> int:
    """Run a program that shares our terminal, and let it end in its own way."""
    processes: list[subprocess.Popen[bytes]] = []
    received: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        received.append(number)
        for process in processes:
            if not reaches_both(number):
                process.send_signal(number)

    with answered_by(pass_on, ENDING_AT_WORK):
        process = subprocess.Popen(command, cwd=str(ROOT))
        processes.append(process)
        for number in received:  # those that came while it was being started
            if not reaches_both(number):
                process.send_signal(number)
        code = process.wait()
    return 128 + received[0] if received else code


def reaches_both(number: int) -> bool:
    """Whether a signal is given to the programs that we have started as well.

    A Windows console gives Ctrl-C and Ctrl-Break to all of its processes, a terminal what is typed to those
    in its foreground.
    """
    typed = [getattr(signal, name) for name in ("SIGINT", "SIGQUIT") if hasattr(signal, name)]
    return sys.platform == "win32" or (number in typed and terminal_is_ours())


def terminal_is_ours() -> bool:
    """Whether we stand in the foreground of a terminal."""
    if sys.platform == "win32":
        return False
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:  # noqa: PTH123 - as quick as can be
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def last_time(took: Path) -> str:
    """Say how long a run took here before."""
    try:
        return "the last run here took %d s" % int(took.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "that takes minutes"


def import_msgspec() -> None:
    """Import msgspec without ``typing_extensions``, which it prefers where that is installed.

    On our Pythons the standard library has all that it takes from there; the other module costs a tenth of a
    short run.
    """
    if "typing_extensions" in sys.modules or "msgspec" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # makes its import fail
    try:
        with contextlib.suppress(ImportError):  # then what needs it says so
            importlib.import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]


def run_task(arguments: list[str]) -> int:
    """Perform a line in this interpreter, whose environment is made sure of."""
    gc.set_threshold(MANY)
    from scripts.cli.parse import read_or_answer  # noqa: PLC0415 - an old Python cannot read it

    call = read_or_answer(arguments)
    if isinstance(call, int):
        return call
    import_msgspec()
    from scripts.cli.present import perform  # noqa: PLC0415 - needs the environment

    return perform(call)


def main(arguments: list[str]) -> int:
    """Answer what needs no environment, else make sure of it and perform the line."""
    refuse_old_python()
    # `python CHECKOUT/scripts` puts the package's inside on the path, where our names would shadow others'.
    sys.path[:] = [
        str(ROOT),
        *(p for p in sys.path if Path(os.path.realpath(p)) not in (ROOT, ROOT / "scripts")),
    ]
    from scripts.cli.parse import set_form  # noqa: PLC0415 - an old Python cannot read it

    kept = os.environ.pop(TYPED, "")
    set_form(kept if FORM.fullmatch(kept) else typed_form(arguments))
    packages = TESTS if arguments[:1] == [TEST] else TASKS
    if packages.suffices():
        return perform_here(arguments)
    from scripts.cli.parse import read_or_answer  # noqa: PLC0415 - an old Python cannot read it

    call = read_or_answer(arguments)
    if isinstance(call, int):
        return call
    try:
        with stoppable():
            if not packages.is_made():
                from scripts.own_venv import make_venv  # noqa: PLC0415 - most runs find it made

                make_venv(packages)
    except OSError as error:
        say("%s could not be made: %s" % (VENV, error))
        say("What to do: take a checkout of your own, in a folder where you may write.")
        return CODE_HOST
    except Stopped as stopped:
        say("")
        say("%s: %s is not finished, and the next run starts it over." % (words_of(stopped.number), VENV))
        return 128 + stopped.number
    return perform_here(arguments) if inside_own_venv() else hand_over(arguments)


def perform_here(arguments: list[str]) -> int:
    """Perform a line in this interpreter; the tests are pytest's."""
    if arguments[:1] == [TEST] and arguments[1:] not in (["--help"], ["-h"]):
        return run_tests(arguments[1:])
    return run_task(arguments)


def typed_form(words: list[str]) -> str:
    """Return what was typed before the task."""
    typed = sys.orig_argv[: len(sys.orig_argv) - len(words)]
    name = Path(typed[-1]).stem if typed else ""
    if name in ("invoke", "inv") and typed[-2:-1] != ["-m"]:
        return name
    if sys.platform == "win32":
        return subprocess.list2cmdline(typed)
    return " ".join(map(shlex.quote, typed))


def enter(words: list[str]) -> NoReturn:
    """Perform the line that this process was started with, and end."""
    listen()
    try:
        sys.exit(main(words))
    finally:
        gc.freeze()  # at its end Python would look twice through all that was loaded
        gc.disable()


if __name__ == "__main__":
    enter(sys.argv[1:])
