"""The front door: ``python -m scripts TASK`` in a fresh clone, ``python CHECKOUT/scripts TASK`` anywhere.

Standard library only, and it parses on Python 3.8, so that an old Python gets a sentence instead of a
traceback. It makes ``.venv`` from ``requirements.lock`` by hash when the environment at hand lacks our
dependencies, and hands over to it. The folder is stamped before anything is put into it, so that we know
it for ours, and counts as made only when the stamp names the lock and the interpreter.
"""

from __future__ import annotations

import contextlib
import hashlib
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
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
STAMP = VENV / ".made-from"
UNFINISHED = "unfinished\n"
NEEDED = (3, 11)
#: Import names that tell whether an environment (a Nox session, uv, `.venv`) can run the tasks.
PROBES = (
    *("invoke", "nox", "requests", "tomlkit", "rich", "pytest", "filelock", "platformdirs"),
    *("pefile", "elftools", "lz4", "zstandard", "isal", "PIL", "psutil", "truststore", "numpy", "jsonschema"),
    *("packaging", "msgspec", "pycxxfilt"),
)
CODE_USAGE, CODE_HOST, CODE_FETCH = 2, 50, 20


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


def fingerprint() -> str:
    """What ``.venv`` must have been made from: the lock's bytes, the Python version, this folder."""
    lock = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    return "%s python-%d.%d %s\n" % (lock, sys.version_info[0], sys.version_info[1], VENV)


def venv_python() -> Path:
    """The interpreter inside ``.venv``."""
    return VENV / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def is_made() -> bool:
    """Whether ``.venv`` was finished from exactly this lock, by this Python, at this place."""
    try:
        return STAMP.read_text(encoding="utf-8") == fingerprint() and venv_python().exists()
    except OSError:
        return False


def inside_own_venv() -> bool:
    """Whether this interpreter is the one of ``.venv``."""
    return os.path.realpath(sys.prefix) == os.path.realpath(str(VENV))


def environment_suffices() -> bool:
    """Whether the tasks can run right here: our own finished ``.venv``, or another complete environment."""
    if inside_own_venv() and STAMP.exists():
        return is_made()
    return all(importlib.util.find_spec(name) is not None for name in PROBES)


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Hold a lock that dies with us, so that two first runs do not build one ``.venv``."""
    with (ROOT / ".venv.lock").open("a+b") as handle:
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


def make_venv() -> None:
    """Make ``.venv`` anew, or repair it in place when we run from it (Windows keeps a running python.exe)."""
    with only_one():
        if is_made():
            return
        say("Preparing .venv from requirements.lock, every package by its hash (once, about a minute) …")
        if not inside_own_venv():
            remove_leftover()
            VENV.mkdir()
            STAMP.write_text(UNFINISHED, encoding="utf-8")
            create_empty()
        else:
            refuse_foreign()
            STAMP.write_text(UNFINISHED, encoding="utf-8")
        install()
        compile_ours()
        STAMP.write_text(fingerprint(), encoding="utf-8")


def refuse_foreign() -> None:
    """Leave alone a ``.venv`` that we did not begin: whatever it is, it is somebody's work."""
    ours = VENV.is_dir() and not VENV.is_symlink() and (STAMP.exists() or not any(VENV.iterdir()))
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
    """Create an environment with pip, by ``venv`` or, where that is missing, by ``virtualenv``."""
    if importlib.util.find_spec("ensurepip") is not None and importlib.util.find_spec("venv") is not None:
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


def install() -> None:
    """Install the locked packages; pip refuses whatever does not match its hash."""
    pip = [str(venv_python()), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    code = subprocess.call([*pip, "--require-hashes", "-r", str(LOCK)], stdout=sys.stderr.fileno())
    if code != 0:
        say("pip could not install requirements.lock; its own message is above. Nothing was run.")
        say("What to do: connect to the package index once (pip's own proxy and mirror settings apply), then")
        say("run the command again: it starts over cleanly.")
        raise SystemExit(CODE_FETCH)


def compile_ours() -> None:
    """Compile our own modules once, as pip does its packages: also where Python may keep no bytecode.

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
    """Run the tests of this checkout; further arguments go to pytest."""
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal", *arguments]
    return subprocess.call(command, cwd=str(ROOT))


def run_task(arguments: list[str]) -> int:
    """Run a task, wherever the caller stands; Invoke reads the line where that needs more than reading it."""
    from scripts.ui.straight import perform_plain  # noqa: PLC0415 - needs the environment made sure of above

    code = perform_plain(sys.argv)
    if code is not None:
        return code
    import tasks  # noqa: PLC0415 - as above, and Invoke is half of a short run's time

    return tasks.main(arguments)


def main(arguments: list[str]) -> int:
    """Make sure of the environment, then run the task."""
    refuse_old_python()
    # `python CHECKOUT/scripts` puts the package's inside on the path, where our names would shadow others'.
    sys.path[:] = [
        str(ROOT),
        *(p for p in sys.path if Path(p or ".").resolve() not in (ROOT, ROOT / "scripts")),
    ]
    if not environment_suffices():
        if not is_made():
            try:
                make_venv()
            except OSError as error:
                say("%s could not be made: %s" % (VENV, error))
                say("What to do: take a checkout of your own, in a folder where you may write.")
                return CODE_HOST
        if not inside_own_venv():
            return hand_over(arguments)
    if arguments[:1] == ["test"]:
        return run_tests(arguments[1:])
    return run_task(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
