"""Public Windows packages with real CUDA files, downloaded by name and once for tests marked ``network``."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import platformdirs

CACHE = Path(platformdirs.user_cache_dir("cuda-on-amd-test-wheels", appauthor=False))


def unpacked(name: str, version: str, folder: Path, *, platform: str = "win_amd64") -> Path:
    """Return a folder with a wheel's files, made like a ``site-packages``."""
    stem = f"{name.replace('-', '_')}-{version}-"
    if not any(p.name.startswith(stem) for p in _wheels()):
        CACHE.mkdir(parents=True, exist_ok=True)
        where = ["--platform", platform, "--python-version", "3.11", "--only-binary=:all:"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *where, "-d", str(CACHE)]
        subprocess.run([*command, f"{name}=={version}"], check=True, timeout=600)
    wheel = next(p for p in _wheels() if p.name.startswith(stem))
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def _wheels() -> list[Path]:
    return sorted(CACHE.glob("*.whl")) if CACHE.is_dir() else []
