"""Which libraries a program asks for at its start that the system's loader does not find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from scripts.binary.image import Image, read_image
from scripts.binary.imports import WindowsFolders, search_path
from scripts.doctor.program_libraries import Missing, missing_libraries
from scripts.host.windows_registry import system32
from scripts.model import Runtime
from scripts.preflight.libraries import named
from scripts.preflight.loading import MissingCudaLibrary, missing_cuda_library

#: Where Linux looks without being asked; what lies elsewhere is in its cache.
_STANDARD: Final = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
_CACHE: Final = Path("/etc/ld.so.cache")


def missing_at_start(
    program: Path,
    environ: Mapping[str, str],
    platform: str,
    *,
    more: Iterable[Path] = (),
    later: Sequence[Path] = (),
) -> list[Missing]:
    """Name what a program, or a library that it loads later, imports and is nowhere.

    On Linux only libraries of NVIDIA's are named: where else its loader looks is not all known here.

    ``more`` are folders that count besides, ``later`` libraries that it loads while it runs.
    """
    look = _Windows if platform == "win32" else _Linux
    loader = look(program, environ, tuple(more))
    return list(missing_libraries([program, *later], loader.needs, loader.find))


def lacking_cuda(
    program: Path, environ: Mapping[str, str], platform: str, runtime: Runtime
) -> tuple[MissingCudaLibrary, ...]:
    """Name the libraries of NVIDIA's that a program started with a stack lacks, and who brings them."""
    provided = {file.provides for file in runtime.files if file.provides}
    missing = missing_at_start(program, environ, platform)
    found = (missing_cuda_library(one.name, stack=runtime.stack, provided=provided) for one in missing)
    return tuple(one for one in found if one is not None)


class _Windows:
    """The loader looks beside the file that asks, beside the program, in System32, on PATH."""

    def __init__(self, program: Path, environ: Mapping[str, str], more: tuple[Path, ...]) -> None:
        self._program = program
        own32 = system32(environ)
        self._system = own32.parent
        path = (Path(part) for part in environ.get("PATH", "").split(";") if part.strip())
        self._others = (own32, self._system, *more, *path)
        self._folders = WindowsFolders()

    def find(self, asker: Path, name: str) -> Path | None:
        return self._folders.find(name, (asker.parent, self._program.parent, *self._others))

    def needs(self, path: Path) -> Iterator[str]:
        if not path.is_relative_to(self._system):
            image = read_image(path)
            needed = image.needed if isinstance(image, Image) else ()
            yield from (one.library for one in needed if not one.delayed)


class _Linux:
    """The loader looks where DT_RPATH, LD_LIBRARY_PATH and DT_RUNPATH say, then in the standard places."""

    def __init__(self, program: Path, environ: Mapping[str, str], more: tuple[Path, ...]) -> None:
        listed = environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
        image = read_image(program)
        inherited = image.rpath if isinstance(image, Image) else ()
        standard = [Path(folder) for folder in _STANDARD]
        standard += [inner for folder in standard[:2] for inner in sorted(folder.glob("*-linux-gnu*"))]
        paths = [Path(part) for part in listed if part]
        self._others = (*search_path(program, inherited), *paths, *more, *standard)
        self._cached = b""
        with suppress(OSError):
            self._cached = _CACHE.read_bytes()

    def find(self, asker: Path, name: str) -> Path | None:
        image = read_image(asker)
        own = (*image.rpath, *image.runpath) if isinstance(image, Image) else ()
        folders = (*search_path(asker, own), *self._others)
        return next((folder / name for folder in folders if (folder / name).is_file()), None)

    def needs(self, path: Path) -> Iterator[str]:
        image = read_image(path)
        for needed in image.needed if isinstance(image, Image) else ():
            name = needed.library
            known = named(name) is not None and name.encode() + b"\0" not in self._cached
            if known or self.find(path, name) is not None:
                yield name
