"""Installed HIP runtimes: where they are, which version they are, and which libraries they hold.

A folder's name is never believed: the version comes from files inside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.binary.properties import file_version
from scripts.errors import UsageError
from scripts.host.hip_libraries import generation, hip_libraries, libraries_named
from scripts.model import HipRoot, Host, Stack

_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
_HIPRTC = re.compile(r"hiprtc(\d\d)(\d\d)\.dll", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"HIP_PATH_\d+", re.IGNORECASE)
#: HIP 7.15 came with ROCm 10.0: from there on HIP's own number is not the release's.
_LAST_COMMON: Final = (7, 14)
_UNNAMED: Final = ("4", "5")
_PIP_FOLDERS: Final = ("_rocm_sdk_devel", "_rocm_sdk_core")


class HipPlaces(Struct, frozen=True, kw_only=True):
    """Where to look besides the environment. Tests give folders of their own.

    Attributes:
        parents: folders whose sub-folders may be runtimes (``C:/TheRock``), with their name.
        roots: folders that may be one themselves (``/opt/rocm``), with their name.
        site_packages: folders Python packages are installed into.
    """

    parents: tuple[tuple[Path, str], ...] = ()
    roots: tuple[tuple[Path, str], ...] = ()
    site_packages: tuple[Path, ...] = ()


class Found(Struct, frozen=True, kw_only=True):
    """Runtimes in the order they would be used, and a sentence for each place that is none."""

    roots: tuple[HipRoot, ...] = ()
    notes: tuple[str, ...] = ()


def usual_places(environ: Mapping[str, str], platform: str, python_path: Iterable[str]) -> HipPlaces:
    """Return where HIP is installed on this kind of system, and this Python's package folders."""
    site = [Path(entry) for entry in python_path if Path(entry).name in {"site-packages", "dist-packages"}]
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(name):
            site += site_packages(Path(environ[name]))
    if platform != "win32":
        roots = [(Path("/opt/rocm"), "/opt/rocm")]
        roots += [(path, "/opt/rocm-*") for path in sorted(Path("/opt").glob("rocm-*"), reverse=True)]
        return HipPlaces(roots=tuple(roots), site_packages=tuple(site))
    drive = environ.get("SYSTEMDRIVE") or "C:"
    programs = environ.get("PROGRAMW6432") or environ.get("PROGRAMFILES") or rf"{drive}\Program Files"
    parents = (
        (Path(programs) / "AMD" / "ROCm", r"Program Files\AMD\ROCm"),
        (Path(rf"{drive}\ROCm"), r"C:\ROCm"),
        (Path(rf"{drive}\TheRock"), r"C:\TheRock"),
    )
    return HipPlaces(parents=parents, site_packages=tuple(site))


def find_roots(environ: Mapping[str, str], places: HipPlaces, flag: str = "") -> Found:
    """List HIP runtimes: the flag's, the environment's, installed ones, those pip brought.

    The same folder is listed once, under the first name that led to it.

    Raises:
        UsageError: ``flag`` is not a HIP runtime.
    """
    roots: list[HipRoot] = []
    notes: list[str] = []
    seen: set[Path] = set()
    for path, source in _candidates(environ, places, flag):
        place = _real(path)
        if place in seen:
            continue
        seen.add(place)
        reason = why_not(path)
        if reason and source == "flag":
            msg = f"{path} is not a HIP runtime: {reason}"
            raise UsageError(
                "hip-root-unusable", msg, hint="give the folder that holds bin with amdhip64 in it"
            )
        if reason:
            if source in environ:
                notes.append(f"{source} names {path}, which is not a HIP runtime: {reason}.")
            continue
        version, note = root_version(path)
        notes += [note] if note else []
        roots.append(HipRoot(path=path, version=version, source=source, libraries=libraries(path)))
    notes += list(_split_notes(roots))
    return Found(roots=tuple(roots), notes=tuple(notes))


def why_not(path: Path) -> str:
    """Say why a folder cannot be a HIP root, or return an empty string."""
    if not path.is_dir():
        return "there is no such folder"
    if _is_scripts(path):
        return "it is a Python environment's folder of commands"
    if not libraries(path):
        return "it holds no HIP library in bin or lib"
    return ""


def libraries(root: Path) -> tuple[str, ...]:
    """Name the libraries in a root as the lock's ``needs`` does, the runtime also by its generation.

    ``amdhip64_7.dll`` gives ``amdhip64`` and ``amdhip64_7``; ``libhipblaslt.dll`` gives ``hipblaslt``.
    """
    return libraries_named(name for folder in ("bin", "lib", "lib64") for name in _names(root / folder))


def root_version(root: Path) -> tuple[str | None, str]:
    """Return a root's version and, where it is unknown or roundabout, a sentence about it."""
    text = text_of(root / ".info" / "version")
    if match := _VERSION.match(text):
        return match[0], ""
    version = _header_version(root) or _package_version(root)
    return (version, "") if version else _resource_version(root)


def site_packages(environment: Path) -> list[Path]:
    """Return the package folders of a virtual environment that exist."""
    candidates = [environment / "Lib" / "site-packages", *environment.glob("lib/python3*/site-packages")]
    return [path for path in candidates if path.is_dir()]


def _candidates(environ: Mapping[str, str], places: HipPlaces, flag: str) -> Iterator[tuple[Path, str]]:
    """Yield folders to look at with the name that led there, best first."""
    if flag:
        yield Path(flag).absolute(), "flag"
    numbered = sorted((n for n in environ if _NUMBERED.fullmatch(n)), key=_number, reverse=True)
    for name in ("HIP_PATH", *numbered, "ROCM_PATH"):
        if value := environ.get(name, "").strip().strip('"'):
            yield Path(value), name
    for parent, source in places.parents:
        for name in sorted(_names(parent), key=_natural, reverse=True):
            yield parent / name, source
        yield parent, source
    yield from places.roots
    named = [site for name in ("HIP_PATH", "ROCM_PATH") for site in _beside(environ.get(name, ""))]
    for site in dict.fromkeys((*places.site_packages, *named)):
        for name in (*_PIP_FOLDERS, *sorted(n for n in _names(site) if n.startswith("_rocm_sdk_libraries"))):
            if (site / name).is_dir():
                yield site / name, f"pip ({name})"


def _beside(value: str) -> list[Path]:
    """Return the package folders of the Python environment whose commands folder this is."""
    path = Path(value.strip().strip('"'))
    return site_packages(path.parent) if value and _is_scripts(path) else []


def _is_scripts(path: Path) -> bool:
    """Whether a folder is a Python environment's ``Scripts`` or ``bin``."""
    names = {name.lower() for name in _names(path)}
    beside = (path.parent / "pyvenv.cfg").is_file() or (path.parent / "python.exe").is_file()
    return (path.name.lower() in {"scripts", "bin"} and beside) or bool(
        names & {"activate.bat", "activate.ps1", "pip.exe", "activate"}
    )


def _header_version(root: Path) -> str | None:
    """Read HIP's own version file, as far as its numbers are the release's."""
    text = text_of(root / "share" / "hip" / "version") or text_of(root / "bin" / ".hipVersion")
    facts = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    try:
        major, minor = int(facts["HIP_VERSION_MAJOR"]), int(facts["HIP_VERSION_MINOR"])
    except (KeyError, ValueError):
        return None
    if (major, minor) > _LAST_COMMON:
        return None
    patch = facts.get("HIP_VERSION_PATCH", "").strip()
    return f"{major}.{minor}" + (f".{patch}" if patch.isdigit() else "")


def _package_version(root: Path) -> str | None:
    """Read the version of the Python package that owns the folder, from its metadata."""
    if not root.name.startswith("_rocm_sdk"):
        return None
    for info in sorted(root.parent.glob(f"{root.name.lstrip('_')}-*.dist-info")):
        for line in text_of(info / "METADATA").splitlines():
            if line.startswith("Version:"):
                return line.partition(":")[2].strip()
    return None


def _resource_version(root: Path) -> tuple[str | None, str]:
    """Read the version out of the runtime's DLLs.

    A resource counts only where it agrees with the file's generation: the driver's builds of
    ``amdhip64_7.dll`` carry 10.0.x. hiprtc has HIP's number in its file name.
    """
    names = sorted(_names(root / "bin"), reverse=True)
    for name in names:
        number = generation(name)
        version = file_version(root / "bin" / name) if number is not None else None
        # Before the sixth generation the runtime had no number in its name.
        named = (number,) if number else _UNNAMED
        if version and version.split(".")[0] in named:
            return version, ""
    for name in names:
        if (match := _HIPRTC.fullmatch(name)) and (int(match[1]), int(match[2])) <= _LAST_COMMON:
            return f"{int(match[1])}.{int(match[2])}", f"The version of {root} is known from {name} only."
    return None, f"The version of {root} is unknown: no .info/version, and no DLL in it says."


def _split_notes(roots: list[HipRoot]) -> Iterator[str]:
    """Warn where pip left runtime and libraries in two folders: one root must hold both."""
    pip = {root.source for root in roots if root.source.startswith("pip")}
    if pip and "pip (_rocm_sdk_devel)" not in pip:
        yield (
            "ROCm from pip keeps its runtime and its libraries in two folders, "
            "which no single root can name: run `rocm-sdk init` (package rocm-sdk-devel) to get one."
        )


def _number(name: str) -> int:
    """Return 72 for ``HIP_PATH_72``."""
    return int(name.rpartition("_")[2])


def _natural(name: str) -> list[int]:
    """Order folder names by the numbers in them, only to look at newer ones first."""
    return [int(number) for number in re.findall(r"\d+", name)]


def _names(folder: Path) -> tuple[str, ...]:
    """List a folder; empty where it cannot be read."""
    try:
        return tuple(entry.name for entry in folder.iterdir())
    except OSError:
        return ()


def text_of(path: Path) -> str:
    """Read a small text file; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace").strip()
    except OSError:
        return ""


def _real(path: Path) -> Path:
    """Resolve links and 8.3 names, so that one folder is not listed twice."""
    try:
        return path.resolve()
    except OSError:
        return path


def fitting_root(stack: Stack, host: Host) -> HipRoot | None:
    """Return the first HIP root of this machine whose version the stack accepts and that is whole."""
    fitting = (r for r in host.hip_roots if in_range(stack.hip.range, r.version) and not lacking(r))
    return next(fitting, None)


def in_range(version_range: str, version: str | None) -> bool:
    """Whether a root of this version is inside the range; an empty range takes every root."""
    if not version_range:
        return True
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - slow to import, and few runs compare
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - as above

    try:
        return version is not None and SpecifierSet(version_range).contains(
            Version(version), prereleases=True
        )
    except InvalidVersion:
        return False


def lacking(root: HipRoot) -> list[str]:
    """Name what a root lacks to serve any translation layer; nothing where its content is not known.

    Runtime and libraries must lie in one root: layers look into one folder only.
    """
    known = hip_libraries().values() if root.libraries else ()
    return [one.name for one in known if one.whole and one.name not in root.libraries]
