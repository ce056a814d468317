"""One pytest run on the bed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.native_ptx import engine
from tools.windows_bed.bed import ROOT, Bed

#: What a caller may set for the tests; everything else of the host's environment stays outside.
PASSED_ON = ("PYTEST_", "HYPOTHESIS_", "CUDA_AMD_")
PASSED_ON_NAMES = ("CI", "TERM", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "PY_COLORS")


def run_pytest(
    bed: Bed, programs: Path, cudart: Path, arguments: list[str], environ: Mapping[str, str]
) -> int:
    """Run pytest on Windows Python in this checkout and return its exit code.

    The checkout is seen through drive Z:. Temporary folders, byte code and caches lie on C:, so
    nothing is written beside the sources. Unless the arguments say otherwise, three workers share the
    work: on two cores, since a third of their time is waiting for Wine.
    """
    scratch = Path(tempfile.mkdtemp(prefix="run-", dir=bed.drive_c))
    (scratch / "temp").mkdir()
    command = [str(bed.tools.wine), r"C:\Python311\python.exe", "-m", "pytest"]
    command += [
        "--basetemp",
        rf"C:\{scratch.name}\t",
        "-o",
        r"cache_dir=C:\pytest-cache",
        *_workers(arguments),
    ]
    try:
        return _run([*command, *arguments], _environment(bed, programs, cudart, scratch, environ))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def windows_path(path: Path) -> str:
    """Return the Windows name of a file of the host, through drive Z:."""
    return "Z:" + str(path.absolute()).replace("/", "\\")


def _workers(arguments: list[str]) -> list[str]:
    chosen = any(a == "--pdb" or a.startswith(("-n", "--numprocesses")) for a in arguments)
    named = any("::" in a or a in {"-k", "--lf", "--last-failed"} for a in arguments)
    return [] if chosen or named else ["-n", "3", "--dist", "worksteal"]


def _environment(
    bed: Bed, programs: Path, cudart: Path, scratch: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    passed = {
        name: value
        for name, value in environ.items()
        if name.startswith(PASSED_ON) or name in PASSED_ON_NAMES
    }
    temp = rf"C:\{scratch.name}\temp"
    return {
        **passed,
        **bed.environ(),
        "TEMP": temp,
        "TMP": temp,
        # os.symlink of Wine 8 reports success and makes nothing; virtualenv would believe it.
        "VIRTUALENV_COPIES": "1",
        "VIRTUALENV_SETUPTOOLS": "none",  # half the files to copy, and copying is what is slow here
        "PYTHONPYCACHEPREFIX": r"C:\__pycache__",
        "HYPOTHESIS_STORAGE_DIRECTORY": r"C:\hypothesis",
        "CUDA_AMD_TEST_BIN": windows_path(programs),
        "CUDA_AMD_TEST_CUDART": windows_path(cudart),
        "CUDA_AMD_PTX_LIBRARY": windows_path(programs / engine(windows=True).name),
        "CUDA_AMD_TEST_PYTHON": r"C:\BarePython\python.exe",
    }


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run and show the output as it comes: Windows Python under Wine needs a pipe to start at all."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    # Its own thread: a program left behind (Wine's own desktop is one) may hold the pipe open for ever.
    reader = threading.Thread(target=_copy, args=(process.stdout.fileno(),), daemon=True)
    reader.start()
    try:
        code = process.wait()
    finally:
        process.kill()
    reader.join(timeout=3)
    return code


def _copy(pipe: int) -> None:
    """Pass the output on as UTF-8: Windows Python writes cp1252 into a pipe, our C programs UTF-8."""
    while chunk := os.read(pipe, 65536):
        try:
            text = chunk.decode("utf-8")
        except UnicodeDecodeError:
            text = chunk.decode("cp1252", errors="replace")
        sys.stdout.buffer.write(text.replace("\r\n", "\n").encode())
        sys.stdout.buffer.flush()
