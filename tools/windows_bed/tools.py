"""Wine and the Windows cross compiler: found, or installed where this may be done without asking."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("wine64", "gcc-mingw-w64-x86-64")
COMPILER = "x86_64-w64-mingw32-gcc"
#: Debian and Ubuntu keep wine64 outside PATH (`dpkg -L wine64`); other systems have it on PATH.
WINE_NAMES = ("wine64", "wine")
WINE_FOLDERS = ("/usr/lib/wine", "/usr/lib/wine-stable", "/opt/wine-stable/bin")


class BedError(Exception):
    """The bed cannot be made here; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The programs of the host that the bed is made of."""

    wine: Path
    wineserver: Path
    compiler: Path
    wine_version: str


def find_tools() -> Tools:
    """Return Wine and mingw; install them as root on a Debian-like system.

    Raises:
        BedError: they are missing and cannot be installed here.
    """
    tools = _look()
    if tools is None and _may_install():
        say(f"installing {' and '.join(PACKAGES)} with apt-get")
        _apt_get()
        tools = _look()
    if tools is None:
        msg = (
            "needs 64-bit Wine and the mingw-w64 compiler, and they were not found. "
            f"What to do: sudo apt-get install -y --no-install-recommends {' '.join(PACKAGES)}"
        )
        raise BedError(msg)
    return tools


def _look() -> Tools | None:
    wine = _first(WINE_NAMES)
    server = _first(("wineserver64", "wineserver"))
    compiler = shutil.which(COMPILER)
    if wine is None or server is None or compiler is None:
        return None
    version = subprocess.run([wine, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    return Tools(wine=wine, wineserver=server, compiler=Path(compiler), wine_version=version)


def _first(names: tuple[str, ...]) -> Path | None:
    places = os.pathsep.join((*WINE_FOLDERS, os.defpath, "/usr/local/bin"))
    for name in names:
        found = shutil.which(name, path=places) or shutil.which(name)
        if found is not None:
            return Path(found)
    return None


def _may_install() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0 and shutil.which("apt-get") is not None


def _apt_get() -> None:
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES]
    for command in (["apt-get", "update", "-q"], install):
        run_tool(command, DEBIAN_FRONTEND="noninteractive")


def run_tool(command: list[str], **variables: str) -> None:
    """Run a program of the host.

    Raises:
        BedError: it failed; with the end of what it printed.
    """
    done = subprocess.run(
        command,
        check=False,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        msg = f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stdout[-3000:]}"
        raise BedError(msg)


def say(text: str) -> None:
    """Tell on stderr what takes long; stdout belongs to pytest."""
    sys.stderr.write(f"windows bed: {text}\n")
    sys.stderr.flush()
