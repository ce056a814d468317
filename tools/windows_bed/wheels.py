"""The locked packages as Windows wheels, every file by its hash."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from packaging.requirements import Requirement

from tools.windows_bed.tools import run_tool

#: How Windows CPython 3.11.9 answers the questions that markers ask.
WINDOWS = {
    "implementation_name": "cpython",
    "implementation_version": "3.11.9",
    "os_name": "nt",
    "platform_machine": "AMD64",
    "platform_python_implementation": "CPython",
    "platform_release": "10",
    "platform_system": "Windows",
    "platform_version": "10.0.19043",
    "python_full_version": "3.11.9",
    "python_version": "3.11",
    "sys_platform": "win32",
}
FOR_WINDOWS = ("--platform", "win_amd64", "--python-version", "3.11", "--only-binary=:all:", "--no-deps")


def windows_requirements(lock: str) -> dict[str, str]:
    """Return the requirements of ``lock`` that hold on Windows: name → line with version and hashes.

    pip evaluates markers for the Python it runs on, also with ``--platform``; so they are decided here.
    """
    chosen: dict[str, str] = {}
    text = "\n".join(line for line in lock.splitlines() if not line.lstrip().startswith("#"))
    for block in re.split(r"\n(?=\S)", text.replace("\\\n", " ")):
        if not block.strip():
            continue
        head, *hashes = re.split(r"\s+--hash=", block.strip())
        wanted = Requirement(head)
        if wanted.marker is None or wanted.marker.evaluate(WINDOWS):
            chosen[wanted.name] = " ".join(
                (f"{wanted.name}{wanted.specifier}", *(f"--hash={h.strip()}" for h in hashes))
            )
    return chosen


class Pip:
    """A pip of the bed's own: the environment at hand may have none (uv makes them so)."""

    def __init__(self, folder: Path) -> None:
        """Make an environment with the pip and setuptools that the locked virtualenv carries."""
        make = [sys.executable, "-m", "virtualenv", "-q", "--no-periodic-update", "--setuptools", "bundle"]
        run_tool([*make, str(folder)])
        self._pip = [str(folder / "bin" / "python"), "-m", "pip", "-q", "--disable-pip-version-check"]

    def download_wheels(self, requirements: Path, wheels: Path) -> None:
        """Download Windows wheels; what does not match its hash is refused."""
        self._with_hashes("download", *FOR_WINDOWS, "-d", str(wheels), "-r", str(requirements))

    def download_source(self, requirements: Path, folder: Path) -> None:
        """Download source distributions; their metadata is built with the setuptools at hand."""
        options = ("--no-binary=:all:", "--no-deps", "--no-build-isolation")
        self._with_hashes("download", *options, "-d", str(folder), "-r", str(requirements))

    def install(self, requirements: Path, wheels: Path, site_packages: Path) -> None:
        """Install Windows wheels from a folder, without the index."""
        source = ("--no-index", "--find-links", str(wheels), "--no-compile", "--target", str(site_packages))
        self._with_hashes("install", *FOR_WINDOWS, *source, "-r", str(requirements))

    def _with_hashes(self, task: str, *arguments: str) -> None:
        run_tool([*self._pip, task, "--require-hashes", *arguments])
