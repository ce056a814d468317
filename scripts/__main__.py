"""The front door: ``python -m scripts TASK`` in a fresh clone, ``python CHECKOUT/scripts TASK`` anywhere.

Standard library only, and it parses on Python 3.8, so that an old Python gets a sentence instead of a
traceback. Where the environment at hand lacks our packages it makes ``.venv`` from ``requirements.lock`` by
hash and hands over to it. ``tasks.py`` comes through here as well, so ``invoke TASK`` does the same. The
folder is stamped before anything is put into it, so that we know it for ours, and counts as made only when
the stamp names the lock and the interpreter.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parents[1]
#: Where the environment is made; `nox -s validate` gives each stack a new one.
VENV = Path(os.environ.get("CUDA_AMD_VENV") or ROOT / ".venv").absolute()
UNFINISHED = "unfinished\n"
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
CODE_USAGE, CODE_HOST, CODE_FETCH, CODE_INTERRUPTED = 2, 50, 20, 130
TEST = "test"
#: So many new objects make Python look for garbage. A start makes fewer, and all stay: to look through them
#: thirty times takes a twentieth of a short run.
MANY = 50_000
#: How long whole runs of the tests took here, in seconds; git ignores the folder.
TOOK = ROOT / ".pytest_cache"
#: The first pip that installs into another environment (``--python``).
PIP_NEEDED = (22, 3)


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
        except OSError:
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
    """Print to stderr: stdout belongs to the task and its ``--json``."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def refuse_old_python() -> None:
    """End with a sentence when this Python is too old."""
    if sys.version_info >= NEEDED:
        return
    have = ".".join(map(str, sys.version_info[:3]))
    hint = "py -3.11 -m scripts setup" if sys.platform == "win32" else "python3.11 -m scripts setup"
    say("This workspace needs Python 3.11 or newer; this is Python %s (%s)." % (have, sys.executable))
    say("What to do: install a newer Python beside it, then run: %s" % hint)
    raise SystemExit(CODE_HOST)


def venv_python() -> Path:
    """The interpreter inside ``.venv``."""
    return VENV / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def inside_own_venv() -> bool:
    """Whether this interpreter is the one of ``.venv``."""
    return os.path.realpath(sys.prefix) == os.path.realpath(str(VENV))


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Hold a lock that dies with us, so that two first runs do not build one ``.venv``."""
    with VENV.with_name(VENV.name + ".lock").open("a+b") as handle:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 - exists on one system only

            handle.seek(0)
            tries = 1200  # ten minutes: LK_LOCK itself would give up after ten seconds
            while tries:
                with contextlib.suppress(OSError):
                    msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
                    break
                time.sleep(0.5)
                tries -= 1
            else:
                say("Another run has been making .venv for ten minutes; this one gives up.")
                raise SystemExit(CODE_HOST)
        else:
            import fcntl  # noqa: PLC0415 - exists on one system only

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def make_venv(packages: Packages) -> None:
    """Make ``.venv`` again, add the tests' packages to it, or repair it in place when we run from it.

    (Windows keeps a running python.exe.)
    """
    with only_one():
        if packages.is_made():
            return
        started = time.monotonic()
        say(
            "Preparing %s: %d %s from %s, each by its hash (once) ..."
            % (VENV.name, packages.count(), packages.what, packages.lock.name)
        )
        if inside_own_venv() or (packages is TESTS and TASKS.is_made()):
            refuse_foreign()
        else:
            remove_leftover()
            VENV.mkdir()
            TASKS.stamp.write_text(UNFINISHED, encoding="utf-8")
            create_empty()
        packages.stamp.write_text(UNFINISHED, encoding="utf-8")
        install(packages)
        compile_ours()
        packages.stamp.write_text(packages.fingerprint(), encoding="utf-8")
        if packages is TESTS:  # they hold the tasks' packages as well
            TASKS.stamp.write_text(TASKS.fingerprint(), encoding="utf-8")
        say("Prepared %s in %.0f s." % (VENV.name, time.monotonic() - started))


def refuse_foreign() -> None:
    """Leave alone a ``.venv`` that we did not begin: whatever it is, it is the user's work."""
    stamped = TASKS.stamp.exists()
    ours = VENV.is_dir() and not VENV.is_symlink() and (stamped or not any(VENV.iterdir()))
    if not ours:
        say("%s exists but was not made by this workspace, so it was left alone." % VENV)
        say("What to do: move it away and run the command again, or install our packages into it yourself:")
        say("pip install --require-hashes -r requirements.lock")
        raise SystemExit(CODE_USAGE)


def remove_leftover() -> None:
    """Remove a half-made or outdated ``.venv`` of ours."""
    if not os.path.lexists(str(VENV)):
        return
    refuse_foreign()
    try:
        shutil.rmtree(str(VENV))
    except OSError as error:
        say("The old .venv is in use: %s" % error)
        say("What to do: close the programs that run from it, then run the command again.")
        raise SystemExit(CODE_USAGE)


def create_empty() -> None:
    """Create an environment by ``venv`` or, where that is missing, by ``virtualenv``.

    It needs no pip of its own where uv or this Python's pip can install into it.
    """
    has_venv = importlib.util.find_spec("venv") is not None
    if has_venv and (uv() or pip_at_hand()):
        command = [sys.executable, "-m", "venv", "--without-pip", str(VENV)]
    elif has_venv and importlib.util.find_spec("ensurepip") is not None:
        command = [sys.executable, "-m", "venv", str(VENV)]
    elif importlib.util.find_spec("virtualenv") is not None:
        command = [sys.executable, "-m", "virtualenv", "--quiet", "--no-periodic-update", str(VENV)]
    else:
        say("This Python comes without the modules that make environments (venv, ensurepip).")
        say("What to do: install them (Debian, Ubuntu: apt install python3-venv), or: pip install virtualenv")
        raise SystemExit(CODE_HOST)
    if subprocess.call(command, stdout=sys.stderr.fileno()) != 0:
        say("Python could not make %s; its own message is above." % VENV)
        raise SystemExit(CODE_HOST)


def uv() -> list[str]:
    """How uv is called here; nothing where it is not installed."""
    found = shutil.which("uv")
    if found:
        return [found]
    return [sys.executable, "-m", "uv"] if importlib.util.find_spec("uv") is not None else []


def pip_at_hand() -> list[str]:
    """How this Python's own pip installs into ``.venv``; nothing where it is missing or too old for that."""
    if importlib.util.find_spec("pip") is None:
        return []
    from importlib.metadata import version  # noqa: PLC0415 - only where an environment is made

    numbers = tuple(int(part) for part in version("pip").split(".")[:2] if part.isdigit())
    return [sys.executable, "-m", "pip", "--python", str(venv_python())] if numbers >= PIP_NEEDED else []


def installers() -> Iterator[tuple[str, list[str]]]:
    """Yield the programs that may install, the quickest first, with what they are given before the lock."""
    if uv():
        yield "uv", [*uv(), "pip", "install", "--python", str(venv_python())]
    quiet = ["--disable-pip-version-check", "--no-input"]
    pip = pip_at_hand()
    if not pip:
        own = [str(venv_python()), "-m"]
        if subprocess.call([*own, "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            subprocess.call([*own, "ensurepip"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pip = [*own, "pip"]
    # Modules are compiled when they are first used: compiling all of them takes longer than installing them.
    yield "pip", [*pip, *quiet, "install", "--no-compile"]


def install(packages: Packages) -> None:
    """Install the locked packages; both installers refuse whatever does not match its hash."""
    failed = ""
    for name, command in installers():
        if failed:
            say("uv could not install them, so pip is asked: %s" % failed.strip().splitlines()[-1])
        # The lock is complete: nothing has to be asked about dependencies.
        code, output = watched(
            [*command, "--no-deps", "--require-hashes", "-r", str(packages.lock)], packages
        )
        if code == 0:
            return
        failed = output or name
    say("\n".join(failed.splitlines()[-20:]))
    say("pip could not install %s; its own message is above. Nothing was run." % packages.lock.name)
    say("What to do: connect to the package index once (pip's own proxy and mirror settings apply), then")
    say("run the command again: it starts over cleanly.")
    raise SystemExit(CODE_FETCH)


def watched(command: list[str], packages: Packages) -> tuple[int, str]:
    """Run an installer and show on a terminal what it is at; return its exit code and what it printed."""
    animate = sys.stderr.isatty()
    total, seen, lines = packages.count(), 0, []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
    )
    with process:
        for raw in process.stdout or ():
            line = raw.decode("utf-8", "replace").rstrip()
            lines.append(line)
            words = line.split()
            if words[:1] == ["Ignoring"]:  # a package for another system
                total -= 1
            elif words[:1] in (["Collecting"], ["Processing"]) and len(words) > 1:
                seen += 1
                name = words[1].replace("\\", "/").rpartition("/")[2].partition("=")[0].partition("-")[0]
                show_progress("%d of %d: %s" % (seen, total, name), animate=animate)
            elif words[:2] == ["Installing", "collected"]:
                show_progress("unpacking %d packages" % seen, animate=animate)
            elif words[:1] in (["Resolved"], ["Prepared"], ["Installed"]):
                show_progress(line, animate=animate)
    if animate:
        sys.stderr.write("\r\x1b[K")
    return process.returncode, "\n".join(lines)


def show_progress(text: str, *, animate: bool) -> None:
    """Overwrite the progress line of a terminal; elsewhere the first and the last line say it."""
    if animate:
        width = shutil.get_terminal_size((80, 24)).columns - 1
        sys.stderr.write("\r\x1b[K" + ("  " + text)[:width])
        sys.stderr.flush()


def compile_ours() -> None:
    """Compile our own modules once, also where Python may keep no bytecode.

    Without it every start there compiles all that it loads, which takes longer than all else. That it cannot
    be written is no failure.
    """
    ours = [str(ROOT / "scripts"), str(ROOT / "tasks.py")]
    subprocess.call([str(venv_python()), "-m", "compileall", "-q", *ours], stdout=subprocess.DEVNULL)


def hand_over(arguments: list[str]) -> int:
    """Run the same command with the interpreter of ``.venv``, in the caller's folder."""
    command = [str(venv_python()), str(ROOT / "scripts"), *arguments]
    if sys.platform != "win32":
        os.execv(command[0], command)  # noqa: S606 - our own interpreter, no shell
    # Ctrl-C reaches the child as well, since it shares our console: it decides, we wait.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = subprocess.call(command)
    return code - 2**32 if code >= 2**31 else code


def run_tests(arguments: list[str]) -> int:
    """Run the tests of this checkout; further arguments go to pytest.

    The slow proofs are left out, unless ``--all`` or the tests themselves are named.
    """
    words = [word for word in arguments if word != "--all"]
    named = any((ROOT / word.partition("::")[0]).exists() for word in words if not word.startswith("-"))
    everything = named or words != arguments
    took = TOOK / ("took-all" if everything else "took-default")
    if not named:
        what = "all tests" if everything else "the tests but for the slow proofs (--all runs those, too)"
        say("Running %s; %s." % (what, last_time(took)))
    started = time.monotonic()
    chosen = "not network" if everything else "not network and not proof"
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal", "-m", chosen, *words]
    code = subprocess.call(command, cwd=str(ROOT))
    if code == 0 and not words:
        with contextlib.suppress(OSError):
            TOOK.mkdir(exist_ok=True)
            took.write_text("%.0f" % (time.monotonic() - started), encoding="utf-8")
    return code


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
        *(p for p in sys.path if Path(p or ".").resolve() not in (ROOT, ROOT / "scripts")),
    ]
    packages = TESTS if arguments[:1] == [TEST] else TASKS
    if packages.suffices():
        return perform_here(arguments)
    from scripts.cli.parse import read_or_answer  # noqa: PLC0415 - an old Python cannot read it

    call = read_or_answer(arguments)
    if isinstance(call, int):
        return call
    try:
        if not packages.is_made():
            make_venv(packages)
    except OSError as error:
        say("%s could not be made: %s" % (VENV, error))
        say("What to do: take a checkout of your own, in a folder where you may write.")
        return CODE_HOST
    except KeyboardInterrupt:
        say("\nInterrupted: .venv is not finished, and the next run starts it over.")
        return CODE_INTERRUPTED
    return perform_here(arguments) if inside_own_venv() else hand_over(arguments)


def perform_here(arguments: list[str]) -> int:
    """Perform a line in this interpreter; the tests are pytest's."""
    if arguments[:1] == [TEST] and arguments[1:] not in (["--help"], ["-h"]):
        return run_tests(arguments[1:])
    return run_task(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
