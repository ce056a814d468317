"""Making ``.venv``: the environment of this checkout, from its locks, by hash.

Standard library only; it parses on Python 3.8. The folder is stamped before anything is put into it, so that
we know it for ours, and counts as made only when the stamp names the lock and the interpreter. Whatever ends
us ends the installers too.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, Iterator

from scripts.__main__ import (
    CODE_FETCH,
    CODE_HOST,
    CODE_USAGE,
    ROOT,
    TASKS,
    TESTS,
    VENV,
    Packages,
    answered_by,
    inside_own_venv,
    say,
    venv_python,
)

UNFINISHED = "unfinished\n"
#: The first pip that installs into another environment (``--python``).
PIP_NEEDED = (22, 3)


def start(
    command: list[str],
    started: list[subprocess.Popen[bytes]],
    **options: Any,  # noqa: ANN401 - those of Popen
) -> subprocess.Popen[bytes]:
    """Start a program of ours with all that it starts in a group that ``end`` can end.

    A signal that comes meanwhile waits until ``started`` holds the program, so that it ends that, too.
    """
    if sys.platform != "win32":
        options["start_new_session"] = True
    noted: list[int] = []
    with answered_by(lambda number, _frame: noted.append(number)):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
        started.append(process)
    if noted:
        signal.raise_signal(noted[0])
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program that ``start`` has started, and what it has started."""
    if sys.platform == "win32":
        tree = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
        subprocess.call(tree, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def ended_with_us() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Yield the list for ``start``; what it holds is ended when a signal or a failure ends the block."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield started
    except BaseException:
        for process in started:
            end(process)
        raise
    finally:
        for process in started:
            if process.stdout is not None:
                process.stdout.close()


def call(command: list[str], **options: Any) -> int:  # noqa: ANN401 - those of Popen
    """Run a program of ours to its end; whatever stops us ends it."""
    with ended_with_us() as started:
        return start(command, started, **options).wait()


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Hold a lock that dies with us, so that two first runs do not build one ``.venv``."""
    if not VENV.name:
        say("%s cannot be the place of the environment." % VENV)
        say("What to do: let CUDA_AMD_VENV name a folder of its own, or unset it.")
        raise SystemExit(CODE_USAGE)
    with VENV.with_name(VENV.name + ".lock").open("a+b") as handle:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 - exists on one system only

            handle.seek(0)
            most = tries = 1200  # ten minutes: LK_LOCK itself would give up after ten seconds
            while tries:
                with contextlib.suppress(OSError):
                    msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
                    break
                if tries == most:
                    say("Another run is making %s; this one waits for it ..." % VENV.name)
                time.sleep(0.5)
                tries -= 1
            else:
                say("Another run has been making .venv for ten minutes; this one gives up.")
                raise SystemExit(CODE_HOST)
        else:
            import fcntl  # noqa: PLC0415 - exists on one system only

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("Another run is making %s; this one waits for it ..." % VENV.name)
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
            "Preparing %s: at most %d %s from %s, each by its hash (once) ..."
            % (VENV.name, packages.count(), packages.what, packages.lock.name)
        )
        if inside_own_venv() or (packages.what == TESTS.what and TASKS.is_made()):
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
        if packages.what == TESTS.what:  # they hold the tasks' packages as well
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


#: How a Python gets the modules that make environments.
GET_VENV = {
    "win32": "run Python's installer again, choose Modify and tick pip; or: winget install astral-sh.uv",
    "darwin": "install Python from python.org, or: brew install uv",
    "linux": "install them (Debian, Ubuntu: apt install python3-venv), or: pip install virtualenv",
}


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
        say("What to do: " + GET_VENV.get(sys.platform, GET_VENV["linux"]))
        raise SystemExit(CODE_HOST)
    if call(command, stdout=sys.stderr.fileno()) != 0:
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
        if call([*own, "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            call([*own, "ensurepip"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
    for line in failed.splitlines()[-20:]:
        say(line)
    say("pip could not install %s; its own message is above. Nothing was run." % packages.lock.name)
    say("What to do: connect to the package index once (pip's own proxy and mirror settings apply), then")
    say("run the command again: it starts over cleanly.")
    raise SystemExit(CODE_FETCH)


def watched(command: list[str], packages: Packages) -> tuple[int, str]:
    """Run an installer and show on a terminal what it is at; return its exit code and what it printed."""
    animate = sys.stderr.isatty()
    total, seen, lines = packages.count(), 0, []
    with ended_with_us() as started:
        process = start(command, started, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for raw in process.stdout or ():
            line = raw.decode("utf-8", "replace").rstrip()
            lines.append(line)
            words = line.split()
            if words[:1] == ["Ignoring"]:  # a package for another system
                total -= 1
            elif words[:1] in (["Collecting"], ["Processing"]) and len(words) > 1:
                seen += 1
                name = words[1].replace("\\", "/").rpartition("/")[2].partition("=")[0].partition("-")[0]
                show_progress("%d of %d for this system: %s" % (seen, total, name), animate=animate)
            elif words[:2] == ["Installing", "collected"]:
                show_progress("unpacking %d packages" % seen, animate=animate)
            elif words[:1] in (["Resolved"], ["Prepared"], ["Installed"]):
                show_progress(line, animate=animate)
        code = process.wait()
    if animate:
        sys.stderr.write("\r\x1b[K")
    return code, "\n".join(lines)


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
    call([str(venv_python()), "-m", "compileall", "-q", *ours], stdout=subprocess.DEVNULL)
