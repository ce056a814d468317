"""Typing commands into one running Python, where starting one for each costs seconds (Wine).

A command gets its own arguments, folder, environment and standard streams; what it shares with the
command before is the interpreter with its loaded modules. On Linux, and in every test that is about
starting, a process of its own is used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
#: How a stream that takes what a command prints is opened.
WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_BINARY", 0)


class Typist:
    """A Python that waits for commands; it is started anew whenever one of them ended it.

    ``prepare`` names a module whose ``prepare(environ)`` is called before each command.
    """

    def __init__(self, prepare: str = "") -> None:
        """Start nothing yet."""
        self._prepare = prepare
        self._process: subprocess.Popen[bytes] | None = None

    def type(
        self, root: Path, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Type ``words`` in the checkout ``root``.

        Raises:
            subprocess.TimeoutExpired: the command did not end in time; it was killed.
        """
        process = self._started(env)
        with tempfile.TemporaryDirectory() as folder:
            streams = [str(Path(folder) / name) for name in ("out", "err")]
            request = {"root": str(root), "words": list(words), "cwd": str(cwd), "env": dict(env)}
            line = json.dumps({**request, "streams": streams}) + "\n"
            expired = threading.Event()

            def end() -> None:
                expired.set()
                process.kill()

            late = threading.Timer(timeout, end)
            late.start()
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(line.encode())
                process.stdin.flush()
                answer = process.stdout.readline()
            finally:
                late.cancel()
            if expired.is_set():
                raise subprocess.TimeoutExpired(list(words), timeout)
            code = int(answer) if answer.strip() else self._ended()
            out, err = (Path(name).read_bytes().decode("utf-8", errors="replace") for name in streams)
        # As a pipe read in text mode would give them.
        return subprocess.CompletedProcess(
            list(words), code, out.replace("\r\n", "\n"), err.replace("\r\n", "\n")
        )

    def stop(self) -> None:
        """Let it end."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _started(self, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__)), self._prepare],
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        return self._process

    def _ended(self) -> int:
        """Return the exit code of a command that ended the interpreter itself."""
        assert self._process is not None
        code = self._process.wait()
        return code - 2**32 if code >= 2**31 else code


def _serve(requests: IO[bytes], answers: IO[bytes], prepare: str) -> None:
    """Perform one request a line and answer with its exit code."""
    for line in requests:
        request = json.loads(line)
        code = _perform(request, prepare)
        answers.write(f"{code}\n".encode())
        answers.flush()


def _perform(request: Mapping[str, Any], prepare: str) -> int:
    """Perform a command with its own streams."""
    door = import_module("scripts.__main__")
    places = import_module("scripts.app.context").workspace_from_environ
    places.__kwdefaults__["root"] = Path(request["root"])
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    if prepare:
        import_module(prepare).prepare(os.environ)
    sys.argv = [str(Path(request["root"]) / "scripts"), *request["words"]]
    saved = [os.dup(number) for number in (1, 2)]
    for number, name in zip((1, 2), request["streams"], strict=True):
        stream = os.open(name, WRITING)
        os.dup2(stream, number)
        os.close(stream)
    try:
        return int(door.run_task(list(request["words"])))
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code))
    except BaseException:  # noqa: BLE001 - as the interpreter itself would end
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, old in zip((1, 2), saved, strict=True):
            os.dup2(old, number)
            os.close(old)
        os.chdir(ROOT)


def _main() -> None:
    """Keep the pipes to the test for ourselves: children of a command must not hold them."""
    sys.path.insert(0, str(ROOT))
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    _serve(requests, answers, sys.argv[1])


if __name__ == "__main__":
    _main()
