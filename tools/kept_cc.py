"""Stands in for the C compiler in tests: what was compiled before from the same sources is handed out again.

Usage: ``kept_cc.py FOLDER COMPILER --version | -dumpmachine | … -o OUTPUT``

A result is kept in ``FOLDER`` under a digest of the compiler, its options and every file below the current
folder; where sources or headers lie elsewhere, nothing is kept. What was not asked for in a month is removed.
Warnings are errors, so that none is lost.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MONTH = 30 * 24 * 3600
#: What a compiler reads of its environment.
VARIABLES = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX")
STRICT = "-Werror"


def all_here(arguments: list[str]) -> bool:
    """Whether everything that a result depends on lies below the current folder."""
    named = [Path(word) for word in arguments if word.endswith(".c")]
    elsewhere = any(path.is_absolute() or ".." in path.parts for path in named)
    return (
        bool(named) and not elsewhere and not any(word.startswith(("-I", "-include")) for word in arguments)
    )


def key_of(compiler: str, arguments: list[str], output: Path) -> str:
    """Name a result by all that goes into it; where the output lies does not count."""
    found = Path(shutil.which(compiler) or compiler).resolve()
    told = found.stat()
    digest = hashlib.sha256(f"{found} {told.st_size} {told.st_mtime_ns} {output.name}\n".encode())
    options = [word for word in arguments if word != STRICT]
    lines = [word.replace(str(output.parent), "OUT") for word in options]
    lines += [f"{name}={os.environ.get(name)}" for name in VARIABLES]
    digest.update("\0".join(lines).encode())
    for path in sorted(path for path in Path().rglob("*") if path.is_file()):
        digest.update(f"\0{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process make a result while others that want it wait."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def remove_old(folder: Path) -> None:
    """Remove what was not asked for in a month."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process cleans up as well
            if path.stat().st_mtime < time.time() - MONTH:
                path.unlink()


def main(folder: Path, compiler: str, arguments: list[str]) -> int:
    """Answer like the compiler."""
    if "-o" not in arguments or not all_here(arguments):
        os.execvp(compiler, [compiler, *arguments])  # noqa: S606 - it answers in our place
    output = Path(arguments[arguments.index("-o") + 1])
    kept = folder / key_of(compiler, arguments, output)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(kept.with_suffix(".lock")):
        if not kept.exists():
            code = subprocess.call([compiler, STRICT, *arguments])
            if code != 0:
                return code
            shutil.copy2(output, kept.with_suffix(".part"))
            kept.with_suffix(".part").replace(kept)
            remove_old(folder)
            return 0
    os.utime(kept)
    shutil.copy(kept, output)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
